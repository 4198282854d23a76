"""What would make a configuration fit: single changes first, cheap ones first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.analysis.estimate.resolve_configuration import ResolvedConfiguration, resolve_configuration
from planner.configurations.recipe import GpuClass, Recipe
from planner.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.library.schema import Architecture, GpuSpec, Library
    from planner.scenario.configuration import Configuration

MAX_REMEDIES = 4
"""Remedies that are told."""

MAX_GPUS = 1024
"""Where the search for a number of cards ends."""

MEMORY_SAVING_CHANGE = "lora on a 4-bit base, full checkpointing, micro-batch 1"
"""Everything that saves memory at once, in words."""

MIN_SUGGESTED_SEQUENCE = 128
"""Tokens; a shorter sequence is no remedy."""


def find_fit_remedies(
    asked: Configuration, setup: ResolvedConfiguration, architecture: Architecture, card: GpuSpec, library: Library
) -> list[tuple[str, float]]:
    """Changes that make it fit, with the peak in GiB of each; a larger number of GPUs comes last."""
    found = list(_smaller_batches(setup))
    for change, settings in memory_saving_changes(setup.recipe, setup.job.framework, card, setup.machine.gpus):
        found += _try_change(change, settings, asked, setup, architecture, card, library)
    saving = _memory_saving_settings(asked)
    if not found:
        found += _try_change(MEMORY_SAVING_CHANGE, saving, asked, setup, architecture, card, library)
    more = _more_gpus("", {}, asked, setup, architecture, card, library)
    if not found:
        found += _more_gpus(f", {MEMORY_SAVING_CHANGE}", saving, asked, setup, architecture, card, library)
    return [*found[:MAX_REMEDIES], *more]


def _smaller_batches(setup: ResolvedConfiguration) -> Iterator[tuple[str, float]]:
    """A smaller micro-batch, a shorter sequence."""
    probe, steps = setup.memory_evaluator, setup.accumulation
    most = probe.largest_micro_batch(steps)
    if 0 < most < setup.micro_batch:
        yield f"micro-batch {most} instead of {setup.micro_batch}", probe.need_gib(most, steps)
    if setup.shape.unit == "tokens":
        longest = probe.longest_sequence(setup.micro_batch, steps)
        if longest >= MIN_SUGGESTED_SEQUENCE:
            change = f"sequences of at most {longest:,} tokens instead of {setup.shape.sequence:,}"
            yield change, probe.need_gib(setup.micro_batch, steps, longest)


def memory_saving_changes(
    recipe: Recipe, framework: str, card: GpuSpec, gpus: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield settings that save memory and differ from those of a recipe, those that change the result last.

    Each has a description, and the fields of a `Configuration` that it sets. This is the one list of such settings,
    for `estimate` as for `explain --why-not`.
    """
    if recipe.activation_checkpointing != "full":
        yield "full checkpointing", {"activation_checkpointing": "full"}
    if recipe.attention == "eager" and card.generation not in ("Kepler", "Pascal"):
        yield "fused attention", {"attention": None}
    if framework == "hf":
        yield "a fused loss kernel (framework hf-fused)", {"framework": "hf-fused"}
    if gpus > 1 and recipe.zero_stage < 3:
        yield "zero3: every state sharded", {"sharding": "zero3"}
    if recipe.method == "full":
        yield "the 8-bit optimizer", {"optimizer": "adamw_8bit"}
        if recipe.precision != "bf16" and GpuClass.of(card).bf16:
            yield "pure bf16 without fp32 master weights", {"precision": "bf16"}
        yield "lora instead of full", {"method": "lora"}
    if recipe.weight_bits == 16:
        yield "lora on a 4-bit base", {"method": "lora", "weight_bits": 4, "optimizer": "adamw"}


def _memory_saving_settings(asked: Configuration) -> dict[str, Any]:
    """The settings of `SAVING`."""
    return {
        "method": "lora",
        "weight_bits": 4,
        "quant": asked.quant,
        "optimizer": "adamw",
        "activation_checkpointing": "full",
        "attention": None,
        "micro_batch": 1,
        "sharding": None,
    }


def _more_gpus(
    change: str,
    settings: dict[str, Any],
    asked: Configuration,
    setup: ResolvedConfiguration,
    architecture: Architecture,
    card: GpuSpec,
    library: Library,
) -> list[tuple[str, float]]:
    """The fewest of these cards that hold it with a change, doubling their number; tensor and pipeline degrees stay."""
    count = setup.machine.gpus * 2
    while count <= MAX_GPUS:
        more = {**settings, "gpus": count, "instances": None, "sharding": None}
        found = _try_change(f"{count} x {card.name}{change}", more, asked, setup, architecture, card, library)
        if found:
            return found
        count *= 2
    return []


def _try_change(
    change: str,
    settings: dict[str, Any],
    asked: Configuration,
    setup: ResolvedConfiguration,
    architecture: Architecture,
    card: GpuSpec,
    library: Library,
) -> list[tuple[str, float]]:
    """The change with its peak if it fits and is allowed; the batch stays as it was unless it is changed."""
    kept = {"micro_batch": setup.micro_batch, "accumulation_steps": setup.accumulation, "global_batch": None}
    changed = asked.model_copy(update={**kept, **settings})
    try:
        other = resolve_configuration(changed, architecture, card, library)
    except ScenarioError:
        return []
    need = other.memory_evaluator.need_gib(other.micro_batch, other.accumulation)
    return [(change, need)] if need <= other.memory_evaluator.usable_gib else []
