"""What a plan says of a job of reinforcement learning: its pools of GPUs, a step by phase, dollars, other ways."""

from typing import ClassVar, Literal

from pydantic import Field

from planner.results.plan_parts import BillItem, Hours, Part, Spread

Placement = Literal["colocated", "one machine", "apart"]
"""All GPUs do both in turn; one machine whose GPUs are divided; two pools of machines."""

RL_PHASE_NAMES = {
    "rollout": "rollout",
    "log_probabilities": "log-probabilities",
    "training": "training",
    "new_weights": "new weights to engines",
    "fixed": "rewards and the rest",
}
"""Phases of a step in their order, and how they are called."""


class PhaseMemory(Part):
    """GiB of one GPU in one phase; `parts` sum to `peak`."""

    phase: Literal["rollout", "training"]
    gpu: str
    peak: float
    usable: float
    parts: dict[str, float]
    fits: bool


class RlPool(Part):
    """Machines of one offer, and what they do in a step."""

    role: Literal["training and rollout", "training", "rollout"]
    """What they do in a step."""
    provider: str
    region: str
    instance: str
    offer: str
    market: Literal["on demand", "spot"]
    tier: str
    gpu: str
    gpus_per_instance: int
    instances: int
    usd_per_hour: float
    """Of all its machines while they are there."""
    start_hours: float
    """From the order to a loaded model."""
    availability: float = 1.0
    """Share of the time that its machines are there."""

    @property
    def gpus(self) -> int:
        """GPUs of all its machines."""
        return self.gpus_per_instance * self.instances


class RlAlternative(Part):
    """Another way to run the job: the best of its kind within the limits."""

    label: str
    machines: str
    usd_per_hour: float
    """Of all its machines while they are there."""
    cost_usd: float
    hours_at_confidence: float
    step_seconds: float
    how: str
    """Method of the trainer, and whether sides overlap."""


class RlRun(Part):
    """A job of reinforcement learning as a plan runs it."""

    subject: ClassVar[str | None] = "rl"

    name: str
    kind: Literal["rl"] = "rl"
    architecture: str
    algorithm: str
    """Of the updates, such as `grpo`."""
    placement: Placement
    """How the GPUs are divided between training and rollout."""
    method: str
    weight_bits: int
    sharding: str
    activation_checkpointing: str
    optimizer: str
    micro_batch: int
    """Of the longest answers that the memory holds; of shorter ones as many tokens."""
    lora_rank: int
    training_gpus: int
    """GPUs that train."""
    rollout_gpus: int
    """GPUs with engines; where colocated those that train, too."""
    offloads: bool
    """Whether the states of the trainer lie in host memory while the engines sample."""
    overlapped: bool
    """Whether answers of the next step are sampled while the trainer works."""
    staleness: int
    """Most steps that answers are behind the policy."""
    engine: str
    engines: int
    """Engines that sample side by side."""
    gpus_per_engine: int
    """GPUs that hold the model of an engine together."""
    seats: int
    """Answers that one engine works on at a time."""
    pools: tuple[RlPool, ...]
    """Machines that are rented, those of the trainer first."""
    sequences: int
    """Answers that a step trains on."""
    sampled: int
    """Answers that a step samples."""
    input_tokens: float
    output_tokens: float
    longest_output: int
    """Tokens at which an answer is cut."""
    steps: int
    step_seconds: float
    phases: dict[str, float]
    """Seconds of each phase by itself: where they overlap, the step is shorter than their sum."""
    tail_seconds: float
    """Of the rollout: from the first free seat to the last answer."""
    tail_ended_share: float
    """Mean share of the answers that an engine began with and that have ended in that time."""
    idle: str
    """The side that waits; empty where none does."""
    idle_share: float
    """Of a step."""
    memory: tuple[PhaseMemory, ...]
    host_gb: float
    """What lies in the host memory of a machine while the engines sample."""
    hours: Hours
    deadline_hours: float | None
    cost: Spread
    cost_usd: float
    cost_at_confidence: float
    usd_per_100_steps: float
    """Of all dollars, starts included."""
    bill: tuple[BillItem, ...]
    bound_usd: float
    """Below which no way of those that were compared costs."""
    price_date: str
    price_age_days: int | None
    price_source: str
    ways: tuple[RlAlternative, ...] = ()
    """The plan and the best way of each other kind, the cheapest first."""
    changes: dict[str, float | None] = Field(default_factory=dict)
    """Dollars of 100 steps on the same machines with one change of the work; nothing where it does not fit on them."""
    sigma: float
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def gpu(self) -> str:
        """The GPU that trains."""
        return self.pools[0].gpu

    @property
    def rented(self) -> tuple[RlPool, ...]:
        """Its machines by kind."""
        return self.pools

    @property
    def machines_named(self) -> set[tuple[str, str]]:
        """Providers with their GPUs, as a job names them."""
        return {(pool.provider, pool.gpu) for pool in self.pools}

    @property
    def gpus_named(self) -> list[tuple[str, str]]:
        """GPUs of its machines, each with its key in the JSON of a part."""
        return [(f"pools.{index}.gpu", pool.gpu) for index, pool in enumerate(self.pools)]

    @property
    def engines_named(self) -> list[tuple[str, str]]:
        """The engine that samples, with its key."""
        return [("engine", self.engine)]

    @property
    def offers_named(self) -> set[str]:
        """Labels of the offers that its machines are."""
        return {pool.offer for pool in self.pools}
