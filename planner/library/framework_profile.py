"""Rows of `models/techniques/frameworks.yaml`: what each training framework implies, and whether it takes part."""

from typing import Literal

from pydantic import Field

from planner.library.technique_rows import Row

LEAST_RUNS = 15
"""Published runs that a framework's profile rests on at least, where it takes part without being named."""


class FrameworkProfile(Row):
    """What a training framework implies for memory and speed; the keys are explained in `frameworks.yaml`."""

    loss: str
    norm_units: float
    adapters: str
    fused_step: bool
    kernels: str
    sharding: tuple[str, ...]
    allowed: tuple[str, ...]
    parallel: bool
    profiled: bool
    basis: Literal["peaks", "fits", "shared", "documented", "none"]
    label: str
    kernel_set: str
    runs: int
    maintained: bool
    kinds: tuple[str, ...] = ("finetune", "pretrain")
    families: tuple[str, ...] | None = None  # of architectures; None: all
    vendors: tuple[str, ...] = ("NVIDIA", "AMD")  # of the GPUs that it runs on
    compiles_graphs: bool = False  # the whole step, before every start
    facts: str
    unknown: bool = False
    prepared: bool = True
    masters: str | None = None
    deepspeed_masters: dict[str, str] = Field(default_factory=dict)  # by precision, in place of `masters`
    deepspeed_zero3: bool = False
    megatron: bool = False
    compiled: bool = False
    sequence_parallel: bool = False
    fused_rope: bool = False
    fused_swiglu: bool = False
    reduces_at_end: bool = False
    offloaded_checkpoints: bool = False
    selective: Literal["operators", "attention", "scores"] = "operators"
    fsdp_adapters_keep_gradients: bool = False
    frozen_quantised_factor: bool = True
    load_whole: bool = False
    no_sync: bool = False
    resumes_adapters: bool = True
    working_factor: float = 0.0
    context_parallel: Literal["", "gather", "ring"] = ""
    expert_parallel: bool = False
    grouped_experts: Literal["", "plain", "all"] = ""
    stores: dict[str, str] = Field(default_factory=dict)

    @property
    def compiles(self) -> Literal["", "torch", "graphs"]:
        """What is compiled before every start: layers by torch.compile, or the whole step for a chip."""
        return "graphs" if self.compiles_graphs else "torch" if self.compiled else ""

    @property
    def takes_part(self) -> bool:
        """Whether it is tried where a job names no framework: an untested profile must not win by being optimistic.

        On chips that no profile with measured memory runs on, measured speed is enough.
        """
        others_chips = "NVIDIA" not in self.vendors
        return self.maintained and (self.profiled or others_chips) and self.runs >= LEAST_RUNS

    def trains(self, kind: str, family: str) -> bool:
        """Return whether it trains such a job and family of architectures at all."""
        return kind in self.kinds and (self.families is None or family in self.families)


class Frameworks(Row):
    """`frameworks.yaml`: profiles by name."""

    source: str
    frameworks: dict[str, FrameworkProfile]
