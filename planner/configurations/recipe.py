"""Recipes: bundles of techniques that a job may be trained with, and which of them work on which card.

Micro-batch and accumulation are no part of a recipe: they follow from the memory of the hardware.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.library.schema import GpuSpec, Library
    from planner.scenario.scenario import Job

MIXED_PRECISIONS = ("bf16_mixed", "fp16_mixed", "bf16")
DEFAULT_METHODS = ("full", "lora")
DEFAULT_BITS = (16, 8, 4)
DEFAULT_CHECKPOINTING = ("none", "selective", "full")
TENSOR_DEGREES = (1, 2, 4, 8)
PIPELINE_DEGREES = (1, 2, 4, 8, 16)
HYBRID_ABOVE_GPUS = 16
"""Hybrid sharding is offered where a plain group would span more GPUs than this: across nodes gathering is dear."""


@dataclass(frozen=True)
class Recipe:
    """One technique signature; the values are those of the scenario file's `techniques`."""

    method: str
    weight_bits: int
    quant: str  # "none" for 16 bit, "int8" for 8 bit
    precision: str
    activation_checkpointing: str
    sharding: str
    attention: str
    optimizer: str
    tensor_parallel: int = 1
    pipeline_parallel: int = 1

    @property
    def zero_stage(self) -> int:
        return {"zero1": 1, "zero2": 2, "zero3": 3, "hsdp": 3}.get(self.sharding, 0)

    @property
    def method_label(self) -> str:
        """The rung of the ladder: full, LoRA 16-bit, LoRA 8-bit, QLoRA."""
        if self.method == "full":
            return "full"
        return {16: "LoRA", 8: "LoRA 8-bit", 4: "QLoRA"}[self.weight_bits]

    def uses(self, accumulates: bool) -> tuple[bool, ...]:
        """The 0/1 techniques in the order of `planner.candidate_table.TECHNIQUES`."""
        return (
            self.method == "lora",
            self.weight_bits == 4,
            self.weight_bits == 8,
            self.precision in MIXED_PRECISIONS,
            accumulates,
            self.activation_checkpointing != "none",
            self.zero_stage > 0,
            self.optimizer == "adamw_8bit",
        )


@dataclass(frozen=True)
class GpuClass:
    """What of a card decides whether a recipe works on it."""

    generation: str
    vendor: str
    bf16: bool

    @classmethod
    def of(cls, gpu: GpuSpec) -> GpuClass:
        return cls(gpu.generation, gpu.vendor, gpu.bf16)


def framework_of(library: Library, name: str) -> Mapping[str, Any]:
    """The row of `models/techniques/frameworks.yaml`; KeyError names the known ones."""
    known = library.tables["frameworks"]["frameworks"]
    if name not in known:
        raise KeyError(f"no framework {name!r}; known: {', '.join(sorted(known))}")
    row: Mapping[str, Any] = known[name]
    return row


def enumerate_recipes(job: Job, card: GpuClass, multi_gpu: bool, library: Library) -> list[Recipe]:
    """Every recipe that makes sense for the job on this class of card, whether the job allows it or not.

    Methods that `techniques` excludes are made too, because the plan prices each rung of the ladder;
    `allowed` tells them apart. `multi_gpu` false gives only unsharded recipes.
    """
    asked = job.techniques
    framework = framework_of(library, job.framework)
    methods: Sequence[str] = ("full",) if job.kind == "pretrain" else DEFAULT_METHODS
    precisions = asked.precision or (("bf16_mixed",) if card.bf16 else ("fp16_mixed",))
    attentions = asked.attention or (best_attention(card),)
    wanted: tuple[str, ...] = asked.sharding or tuple(framework["sharding"])
    shardings = _shardings(wanted, tuple(framework["allowed"]), multi_gpu, asked.sharding is None)
    checkpointing = _checkpointing(asked.activation_checkpointing, framework)
    tensor, pipeline = asked.tensor_parallel or (1,), asked.pipeline_parallel or (1,)
    found = []
    for method in methods:
        bits_options = (16,) if method == "full" else tuple(dict.fromkeys((*DEFAULT_BITS, *(asked.weight_bits or ()))))
        optimizers = asked.optimizer or (("adamw", "adamw_8bit") if method == "full" else ("adamw",))
        for bits, precision, ckpt, sharding, attention, optimizer, tp, pp in itertools.product(
            bits_options, precisions, checkpointing, shardings, attentions, optimizers, tensor, pipeline
        ):
            for quant in _quants(bits, asked.quant):
                found.append(Recipe(method, bits, quant, precision, ckpt, sharding, attention, optimizer, tp, pp))
    return found


def best_attention(card: GpuClass) -> str:
    """The fastest attention that the card has a kernel for."""
    if card.generation in ("Kepler", "Pascal"):
        return "eager"
    return "mem_efficient" if card.generation in ("Volta", "Turing") else "flash"


def find_incompatibility(recipe: Recipe, card: GpuClass, framework: str, library: Library) -> str | None:
    """Why this pair does not work, from `models/techniques/rules.yaml`; None where nothing speaks against it."""
    facts = {**vars(recipe), **vars(card), "framework": framework}
    for rule in library.tables["rules"]["rules"]:
        if all(
            facts[key] in (wanted if isinstance(wanted, list) else [wanted]) for key, wanted in rule["when"].items()
        ):
            return str(rule["reason"])
    return None


def is_allowed(recipe: Recipe, job: Job) -> bool:
    """Whether the job's `techniques` permit the recipe's method and weight bits (all else is not enumerated)."""
    asked = job.techniques
    return (asked.method is None or recipe.method in asked.method) and (
        asked.weight_bits is None
        or recipe.weight_bits in asked.weight_bits
        # Full training keeps 16-bit weights whatever was said of a LoRA base.
        or (recipe.method == "full" and asked.method is not None)
    )


def with_parallel_degrees(recipe: Recipe, tensor: int, pipeline: int) -> Recipe:
    """The recipe with tensor and pipeline parallel degrees opened."""
    return replace(recipe, tensor_parallel=tensor, pipeline_parallel=pipeline)


def expand_parallel_degrees(job: Job, recipes: Sequence[Recipe], library: Library) -> list[Recipe]:
    """The recipes at every degree of both parallelisms; none where degrees are asked for or the framework has none."""
    asked = job.techniques.tensor_parallel or job.techniques.pipeline_parallel
    if asked or not framework_of(library, job.framework)["parallel"]:
        return []
    return [
        with_parallel_degrees(recipe, tensor, pipeline)
        for recipe in recipes
        for tensor in TENSOR_DEGREES
        for pipeline in PIPELINE_DEGREES
        if tensor * pipeline > 1 and recipe.sharding != "hsdp"
    ]


def _shardings(asked: Sequence[str], allowed_here: Sequence[str], multi_gpu: bool, by_default: bool) -> tuple[str, ...]:
    if not multi_gpu:
        return ("none",)
    known = tuple(s for s in asked if s in allowed_here and s != "none")
    if by_default and "zero3" in known and "hsdp" in allowed_here and "hsdp" not in known:
        known += ("hsdp",)
    return known


def _checkpointing(asked: Sequence[str] | None, framework: Mapping[str, Any]) -> tuple[str, ...]:
    options = tuple(asked or DEFAULT_CHECKPOINTING)
    if framework.get("offloaded_checkpoints"):
        return tuple(o for o in options if o != "selective")
    return options


def _quants(bits: int, asked: Sequence[str] | None) -> tuple[str, ...]:
    if bits == 16:
        return ("none",)
    return ("int8",) if bits == 8 else tuple(asked or ("nf4",))
