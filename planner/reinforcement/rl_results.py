"""What the estimate of a step of reinforcement learning says: phases, memory of each, ways to divide the GPUs."""

from __future__ import annotations

from pydantic import Field

from planner.results.plan_parts import EvidenceWord, Part, Spread
from planner.results.result_tables import Result
from planner.results.subject_runs import PhaseMemory


class RlWay(Part):
    """One way to divide the GPUs between training and rollout."""

    training_gpus: int
    rollout_gpus: int
    """0: all GPUs do both in turn."""
    overlapped: bool
    """Whether answers of the next step are sampled while the trainer works, one step off the policy."""
    step_seconds: float
    idle: str
    """The side that waits; empty where none does."""
    idle_share: float
    """Of a step."""
    usd_per_100_steps: float | None


class RlEstimate(Result):
    """Seconds, memory and dollars of the steps of reinforcement learning on stated GPUs."""

    schema_version: int = 3
    architecture: str
    algorithm: str
    method: str
    gpu: str
    training_gpus: int
    rollout_gpu: str
    rollout_gpus: int
    """0: the training GPUs do both in turn."""
    overlapped: bool
    engine: str
    engines: int
    gpus_per_engine: int
    rollout_weight_bits: int = 16
    """Of the engines; 8 is fp8."""
    sequences: int
    """Answers that a step trains on."""
    sampled: int
    """Answers that a step samples, those that are filtered out included."""
    seats: int
    """Answers that one engine works on at a time."""
    input_tokens: float
    output_tokens: float
    longest_output: int
    step_seconds: Spread
    """From one step to the next, with its 80 % interval."""
    phases: dict[str, float]
    """Seconds of each phase by itself: where they overlap, the step is shorter than their sum."""
    reward_model: str = Field(default="", exclude_if=lambda name: not name)
    """The model that scores answers; empty: rewards are by rule."""
    reward_gpus: int = Field(default=0, exclude_if=lambda gpus: not gpus)
    """GPUs that only score; 0: those that train do."""
    tail_seconds: float
    """Of the rollout: from the first free seat to the last answer."""
    tail_ended_share: float
    """Mean share of the answers that an engine began with and that have ended in that time."""
    idle: str
    idle_share: float
    steps: int
    hours: Spread
    """Of all steps."""
    usd_per_100_steps: Spread | None
    price_basis: str
    changes: dict[str, float]
    """Seconds of a step with one thing changed, such as twice the answers."""
    memory: tuple[PhaseMemory, ...]
    ways: tuple[RlWay, ...]
    """Other ways to divide as many GPUs, that of least seconds first: all in turn, or a quarter, a half or three
    quarters for the rollout. Those that do not fit, or whose machines cannot be divided so, are left out."""
    evidence: EvidenceWord
    sigma: float
    """Standard deviation of ln(seconds of a step)."""
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether every phase fits."""
        return all(phase.fits for phase in self.memory)


class PreferenceEstimate(Result):
    """Memory, hours and dollars of preference tuning on stated GPUs."""

    schema_version: int = 3
    architecture: str
    objective: str
    method: str
    gpu: str
    gpus: int
    reference: str
    """What is compared with: `none`, or a value of `techniques.reference`."""
    pairs: int
    pairs_at_once: int
    """Examples on one GPU in one pass."""
    sequences_per_pair: int
    """Answers of an example that are trained on."""
    input_tokens: float
    output_tokens: float
    longest_output: int
    packing: str
    peak_gib: float
    """Of one GPU with the longest answers, the reference included."""
    usable_gib: float
    reference_gib: float
    """Of a copy of the model; 0 where there is none."""
    fits: bool
    parts: dict[str, float]
    """GiB of the peak without the reference."""
    hours: Spread
    """Of all pairs, with the 80 % interval."""
    shares: dict[str, float]
    """Of the hours: training, and passes forward of the reference and of what estimates a divergence."""
    usd: Spread | None
    price_basis: str
    evidence: EvidenceWord
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
