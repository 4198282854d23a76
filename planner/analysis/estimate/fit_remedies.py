"""Changes that make a configuration fit: single changes first, cheap ones first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.analysis.estimate.resolve_configuration import ResolvedConfiguration, resolve_configuration
from planner.configurations.recipe import GpuClass, Recipe, best_attention
from planner.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.library.schema import Architecture, GpuSpec, Library
    from planner.scenario.configuration import Configuration

MAX_FIT_REMEDIES = 4
"""Remedies that are reported."""

MAX_GPUS = 1024
"""Where the search for a number of GPUs ends."""

MEMORY_SAVING_CHANGE = "lora on a 4-bit base, full checkpointing, micro-batch 1"
"""Everything that saves memory at once, in words."""
MEMORY_SAVING_SETTINGS = {
    **{"method": "lora", "weight_bits": 4, "optimizer": "adamw", "micro_batch": 1},
    **{"activation_checkpointing": "full", "attention": None, "sharding": None},
}
"""The same as fields of a `Configuration`."""

MIN_SUGGESTED_SEQUENCE = 128
"""Tokens; a shorter sequence is no remedy."""


def find_fit_remedies(
    asked: Configuration, resolved: ResolvedConfiguration, architecture: Architecture, card: GpuSpec, library: Library
) -> list[tuple[str, float]]:
    """Return changes that make it fit, with the peak in GiB of each; a larger number of GPUs comes last."""

    def attempt(change: str, settings: dict[str, Any]) -> list[tuple[str, float]]:
        """Return the change with its peak if it fits and is allowed; the batch stays unless it is changed."""
        kept = {"micro_batch": resolved.micro_batch, "accumulation_steps": resolved.accumulation, "global_batch": None}
        changed = asked.model_copy(update={**kept, **settings})
        try:
            other = resolve_configuration(changed, architecture, card, library)
        except ScenarioError:
            return []
        need = other.memory_evaluator.need_gib(other.micro_batch, other.accumulation)
        return [(change, need)] if need <= other.memory_evaluator.usable_gib else []

    def more_gpus(change: str, settings: dict[str, Any]) -> list[tuple[str, float]]:
        """Return the fewest GPUs that fit it with a change, by doubling; tensor and pipeline degrees stay."""
        count = resolved.machine.gpus * 2
        while count <= MAX_GPUS:
            more = {**settings, "gpus": count, "instances": None, "sharding": None}
            if found := attempt(f"{count} x {card.name}{change}", more):
                return found
            count *= 2
        return []

    found = list(_smaller_batches(resolved))
    for change, settings in memory_saving_changes(resolved.recipe, card, resolved.machine.gpus, library):
        found += attempt(change, settings)
    if not found:
        found += attempt(MEMORY_SAVING_CHANGE, MEMORY_SAVING_SETTINGS)
    more = more_gpus("", {})
    if not found:
        found += more_gpus(f", {MEMORY_SAVING_CHANGE}", MEMORY_SAVING_SETTINGS)
    return [*found[:MAX_FIT_REMEDIES], *more]


def _smaller_batches(resolved: ResolvedConfiguration) -> Iterator[tuple[str, float]]:
    """Yield a smaller micro-batch and a shorter sequence that fit."""
    evaluator, steps = resolved.memory_evaluator, resolved.accumulation
    most = evaluator.largest_micro_batch(steps)
    if 0 < most < resolved.micro_batch:
        yield f"micro-batch {most} instead of {resolved.micro_batch}", evaluator.need_gib(most, steps)
    if resolved.shape.unit == "tokens":
        longest = evaluator.longest_sequence(resolved.micro_batch, steps)
        if longest >= MIN_SUGGESTED_SEQUENCE:
            change = f"sequences of at most {longest:,} tokens instead of {resolved.shape.sequence:,}"
            yield change, evaluator.need_gib(resolved.micro_batch, steps, longest)


def memory_saving_changes(
    recipe: Recipe, card: GpuSpec, gpus: int, library: Library
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield settings that save memory and differ from those of a recipe, those that change the result last.

    Each has a description, and the fields of a `Configuration` that it sets. This is the one list of such settings,
    for `estimate` as for `explain --why-not`.
    """
    if recipe.activation_checkpointing != "full":
        yield "full checkpointing", {"activation_checkpointing": "full"}
    if recipe.attention == "eager" and best_attention(GpuClass.of(card), recipe.precision, library) != "eager":
        yield "fused attention", {"attention": None}
    if recipe.framework == "hf":
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
