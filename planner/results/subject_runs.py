"""Runs beyond training as stated: the model that was chosen, reinforcement learning by phase, preference tuning."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from planner.results.plan_parts import BillItem, EvidenceWord, Hours, Part, Spread, html_table
from planner.results.result_tables import Result, Table, TabledResult, flattened

LAST_DIGIT = 0.0005
"""Nats from which on the last digit of a loss that is shown changes."""
WASTED_TOKENS, REPEATED_DATA = "tokens are wasted", "passes over the same"
"""Words of the notes that a choice is beyond what the law has seen: steps too large, data repeated too often."""
OTHER_DATA = "losses of other data lie higher or lower"
"""Words of the note on what a loss costs where the level of the data differs."""
END_OF_SIZES = "the best model is the"
"""Words of the note that a choice is the largest or the smallest that is allowed."""


class LossRange(Part):
    """Loss in nats per token, with the range that laws and data sets leave."""

    value: float
    low: float
    high: float


class ModelOption(Part):
    """Another model at its own best, or as cheap as it gets."""

    architecture: str
    parameters: int
    tokens: int
    loss: float | None
    usd: float


class MoreMoney(Part):
    """What another half of the budget buys."""

    budget_usd: float
    architecture: str
    tokens: int
    loss: float


class BatchChoice(Part):
    """The batch of a plan, and what it costs in tokens against the smallest one of the range."""

    sequences: int
    tokens: int
    reference_sequences: int
    critical_tokens: float
    critical_tokens_low: float
    critical_tokens_high: float
    token_factor: float
    step_factor: float
    learning_rate_factor: float
    sigma: float


class ServingCost(Part):
    """What serving the trained model over its life costs; part of no bill, and of no budget."""

    tokens: int
    """Tokens that are read and written over the life of the model."""
    usd_per_million_tokens: float
    """Dollars of a million of them."""
    usd: float
    """Dollars of all of them."""
    source: str
    """Where the dollars of a token are from, and what they assume."""


class ModelChoice(Part):
    """What was left open and is decided: `tokens` are those of the run, at its batch."""

    architecture: str
    parameters: int
    law_parameters: int
    tokens: int
    tokens_at_reference: int
    loss: LossRange | None = None
    law: str | None = None
    unique_tokens: int | None = None
    as_good: tuple[ModelOption, ...] = ()
    more_money: MoreMoney | None = None
    batch: BatchChoice | None = None
    compared: int
    """Models times batches that were compared, each by solving it."""
    above_least: float | None = None
    """Next to other jobs: nats by which the sum of all losses may be above the least one; None for a job alone."""
    serving: ServingCost | None = Field(default=None, exclude_if=lambda cost: cost is None)
    """What serving the model costs, where that enters the choice of its size."""


class ModelSummary(Part):
    """The choice of a plan in short; without a plan only its status."""

    status: str
    architecture: str | None = None
    tokens: int | None = None
    loss: LossRange | None = None
    cost_usd: float | None = None


class LossCalibration(Result):
    """A law of loss fitted to runs of one's own, and with a scenario the choice without and with it."""

    schema_version: int = 3
    runs: int
    """Number of runs."""
    fitted: str
    """What of the law was fitted; its exponents never are."""
    off_before: float
    """Mean distance of the runs from the law that the fit starts from, in nats per token."""
    off_after: float
    """Mean distance from the fitted law."""
    loss_law: dict[str, float]
    """The entry `loss_law` of the job; `spread` are the nats by which a loss may be off."""
    scenario: str | None = None
    job: str | None = None
    before: ModelSummary | None = None
    """The choice with the law that the scenario has; `after` is that with the fitted one."""
    after: ModelSummary | None = None

    @property
    def block(self) -> str:
        """Return the entry as YAML, to paste into the job."""
        return "loss_law: {" + ", ".join(f"{key}: {value:g}" for key, value in self.loss_law.items()) + "}\n"


class LossPoint(Part):
    """The least loss that costs no more: `budget_usd` is what keeps it at the confidence of the budget."""

    budget_usd: float
    loss: float
    architecture: str
    parameters: int
    tokens: int
    hours: float
    plan: str


class LossFrontier(TabledResult):
    """Loss against dollars, cheapest first; no point is both cheaper and better than another."""

    schema_version: int = 3
    scenario: str
    status: Literal["optimal", "infeasible"]
    points: tuple[LossPoint, ...] = ()
    law: str
    compared: int
    solved: int
    seconds: float
    as_of: str
    notes: tuple[str, ...] = ()

    def table(self) -> Table:
        """Return a row per budget, cheapest first; `loss` is in nats per token."""
        return Table([flattened(point) for point in self.points], f"{self.scenario}: loss against dollars", str(self))

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row per point."""
        rows = [
            (f"${point.budget_usd:,.2f}", f"{point.loss:.3f}", point.architecture, f"{point.tokens:.3g}", point.plan)
            for point in self.points
        ]
        return html_table(f"{self.scenario}: {self.status}", ("dollars", "loss", "model", "tokens", "plan"), rows)


Placement = Literal["colocated", "one machine", "apart"]
"""All GPUs do both in turn; one machine whose GPUs are divided; two pools of machines."""

RL_PHASE_NAMES = {
    "rollout": "rollout",
    "own_reward": "reward model, own GPUs",
    "reward": "reward model",
    "log_probabilities": "log-probabilities",
    "training": "training",
    "new_weights": "new weights to engines",
    "fixed": "rewards and the rest",
}
"""Phases of a step in their order, and how they are called."""
SAMPLING_PHASES, TRAINER_PHASES = ("rollout", "own_reward"), ("reward", "log_probabilities", "training")
"""Phases of the engines' side, and those of the GPUs that train."""
SPEED_RISK = "speed is a prior: published steps differ from the formulas by 18 % in the median, others may by more"
NETWORK_RISK = "weights cross a network that no offer states"
"""Notes of a run that may change the decision begin with one of these."""


def machines_words(
    placement: Placement, trainer: tuple[int, str, str], rollout: tuple[int, str, str], is_spot: bool
) -> str:
    """Return GPUs with their place: `8 x H100-80GB vast`, `6 + 2 x H100-80GB vast`; of each side GPUs, kind, provider.

    On one machine the GPUs of the trainer are those that are left to it.
    """
    (gpus, gpu, provider), (more, other_gpu, other_provider) = trainer, rollout
    spot = " spot" if is_spot else ""
    if placement == "colocated":
        return f"{gpus} x {gpu} {provider}"
    if (gpu, provider) == (other_gpu, other_provider):
        return f"{gpus} + {more}{spot} x {gpu} {provider}"
    if provider == other_provider:
        return f"{gpus} x {gpu} + {more} x {other_gpu}{spot} {provider}"
    return f"{gpus} x {gpu} {provider} + {more} x {other_gpu} {other_provider}{spot}"


class PhaseMemory(Part):
    """GiB of one GPU in one phase; `parts` sum to `peak`."""

    phase: Literal["rollout", "training", "rewards"]
    gpu: str
    peak: float
    usable: float
    parts: dict[str, float]
    fits: bool


def rollout_words(bits: int, engine: str = "vllm") -> str:
    """Return what is to be said of engines whose weights have so many bits: of 16 and vLLM nothing."""
    return (", fp8 rollout" if bits < 16 else "") + ("" if engine == "vllm" else f", {engine}")


def reward_gpus_words(gpus: int) -> str:
    """Return what is to be said of GPUs that a reward model has for itself: of none nothing."""
    return f", {gpus} for rewards" if gpus else ""


_LAYOUT = {f"{what}_parallel": f"{what} parallel" for what in ("tensor", "pipeline", "context", "expert")}
"""How a trainer divides the model, the sequences and the experts among its GPUs."""


def layout_words(trainer: Any) -> list[str]:
    """Return a trainer that is not the usual one, and by how many GPUs it divides what; else nothing.

    `trainer` has `framework` and the degrees, as a run and a configuration do.
    """
    degrees = {words: getattr(trainer, name) for name, words in _LAYOUT.items()}
    name = [] if trainer.framework == _USUAL["framework"] else [trainer.framework]
    return [*name, *(f"{words} {count}" for words, count in degrees.items() if count > 1)]


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


SECURE = "secure"
"""Label of the best way without machines of private persons."""


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
    """Method of the trainer, whether sides overlap, and engines of fewer bits."""


_USUAL = {
    **{"start_at_hours": 0.0, "steps_before": 0, "rollout_weight_bits": 16, "framework": "fsdp"},
    **{"reward_model": "", "reward_gpus": 0, "reward_offloads": False},
    **dict.fromkeys(("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"), 1),
}
"""Values that a plan leaves out."""


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
    framework: str = "fsdp"
    """The trainer."""
    tensor_parallel: int = 1
    """GPUs of the trainer that share each layer."""
    pipeline_parallel: int = 1
    """GPUs of the trainer that share the stack of layers."""
    context_parallel: int = 1
    """GPUs of the trainer that share a sequence."""
    expert_parallel: int = 1
    """GPUs of the trainer that share the experts of a mixture."""
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
    rollout_weight_bits: int = 16
    """Of the engines; 8 is fp8."""
    reward_model: str = ""
    """The model that scores answers, if any does."""
    reward_gpus: int = 0
    """GPUs of the trainer's machines that it has for itself; 0: it shares those that train."""
    reward_offloads: bool = False
    """Whether its weights lie in host memory between its passes."""
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
    steps_before: int = 0
    """Steps that were done before the plan began."""
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
    """`expected` is the median over the error of the speed; the average is longer, as a note says."""
    deadline_hours: float | None
    cost: Spread
    """`expected` is the median over the error of the speed; the average is more, as a note says."""
    cost_usd: float
    """The median, `expected` of `cost`."""
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
    start_at_hours: float = 0.0
    """When it starts, from the start of the plan: after jobs that it waits for."""

    @model_serializer(mode="wrap")
    def _without_what_is_usual(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the data; a run that waits for nothing has no start, engines of 16 bits no bits."""
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if key not in _USUAL or value != _USUAL[key]}

    @property
    def training_ranks(self) -> int:
        """Groups of training GPUs that work on answers of their own."""
        return self.training_gpus // self.gpus_per_copy

    @property
    def gpus_per_copy(self) -> int:
        """GPUs of the trainer that work on the same answers."""
        return self.tensor_parallel * self.pipeline_parallel * self.context_parallel

    @property
    def expert_tensor_parallel(self) -> int | None:
        """GPUs that share each expert, of a mixture: as many as share a layer, or one where that divides no stage."""
        if self.expert_parallel == 1:
            return None
        shared = self.training_gpus // self.pipeline_parallel % (self.tensor_parallel * self.expert_parallel) == 0
        return self.tensor_parallel if shared else 1

    @property
    def gpu(self) -> str:
        """The GPU that trains."""
        return self.pools[0].gpu

    @property
    def described(self) -> str:
        """Its GPUs with their place: `6 + 2 x H100-80GB vast`."""
        first, last = self.pools[0], self.pools[-1]
        own = last.market == "spot" and len(self.pools) > 1
        sides = [
            (gpus, pool.gpu, pool.provider) for gpus, pool in ((self.training_gpus, first), (self.rollout_gpus, last))
        ]
        return machines_words(self.placement, sides[0], sides[1], own) + reward_gpus_words(self.reward_gpus)

    @property
    def gpus(self) -> int:
        """GPUs that are rented in all."""
        return sum(pool.gpus for pool in self.pools)

    @property
    def delay_hours(self) -> float:
        """Hours before its start."""
        return self.start_at_hours

    @property
    def finish_hours(self) -> float:
        """Hours from the start of the plan until it ends, at its confidence."""
        return self.start_at_hours + self.hours.at_confidence

    @property
    def held(self) -> tuple[tuple[str, str, int], ...]:
        """Provider, model and number of the GPUs that it holds, of each pool."""
        return tuple((pool.provider, pool.gpu, pool.gpus) for pool in self.pools)

    @property
    def runs_at_once(self) -> int:
        """One: it has no node groups of its own."""
        return 1

    @property
    def method_name(self) -> str:
        """`full`, `LoRA` (on 16-bit weights) or `QLoRA`."""
        return "full" if self.method == "full" else "QLoRA" if self.weight_bits == 4 else "LoRA"

    @property
    def engine_weights(self) -> str:
        """Weights of the engines in a word."""
        return "fp8" if self.rollout_weight_bits < 16 else "16-bit"

    @property
    def hardware(self) -> tuple[str, ...]:
        """How the GPUs are divided, their kinds and the method, without numbers."""
        return (self.placement, *dict.fromkeys(pool.gpu for pool in self.pools), self.method_name)

    def differences_from(self, before: RlRun) -> tuple[str, ...]:
        """Return in a few words what is other than in an earlier run of the job, most important first."""
        kinds, places = (
            [[getattr(pool, key) for pool in (run.pools[0], run.pools[-1])] for run in (before, self)]
            for key in ("gpu", "provider")
        )
        on_spot = [run.pools[-1].market == "spot" for run in (before, self)]
        others = {
            self.placement: self.placement != before.placement,
            f"trained with {self.framework}": self.framework != before.framework,
            "other layout": self.framework == before.framework and layout_words(self) != layout_words(before),
            "other method": (self.method, self.weight_bits) != (before.method, before.weight_bits),
            f"engine {self.engine}": self.engine != before.engine,
            f"{self.engine_weights} rollout": self.rollout_weight_bits != before.rollout_weight_bits,
            "other GPU": kinds[0] != kinds[1],
            "other provider": places[0] != places[1],
            "spot rollout" if on_spot[1] else "all on demand": on_spot[0] != on_spot[1],
            f"{self.training_gpus} train": self.training_gpus != before.training_gpus,
            "own rewards" if self.reward_gpus else "shared rewards": bool(self.reward_gpus) != bool(before.reward_gpus),
            f"{self.rollout_gpus} sample": self.placement != "colocated" and self.rollout_gpus != before.rollout_gpus,
        }
        differing = tuple(what for what, differs in others.items() if differs)
        return differing or (() if self.described == before.described else ("other machines",))

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


# Estimates of a step of reinforcement learning, and of preference tuning.


class RlWay(Part):
    """One way to divide the GPUs between training and rollout."""

    training_gpus: int
    """GPUs that train."""
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
    """Expected dollars of the machines for 100 steps; None without a price."""


class RlEstimate(Result):
    """Seconds, memory and dollars of the steps of reinforcement learning on stated GPUs."""

    schema_version: int = 3
    architecture: str
    algorithm: str
    """Such as `grpo`."""
    method: str
    gpu: str
    training_gpus: int
    """GPUs that train."""
    rollout_gpu: str
    """Model of the GPUs that sample answers."""
    rollout_gpus: int
    """0: the training GPUs do both in turn."""
    overlapped: bool
    """Whether answers of the next step are sampled while the trainer works, one step off the policy."""
    engine: str
    engines: int
    """Copies of the model that sample answers."""
    gpus_per_engine: int
    """Over which the weights of one engine are divided."""
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
    """Tokens of the longest answer."""
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
    """The side that waits; empty where none does."""
    idle_share: float
    """Of a step."""
    steps: int
    hours: Spread
    """Of all steps."""
    usd_per_100_steps: Spread | None
    """Dollars of the machines for 100 steps, with the 80 % interval; None without a price."""
    price_basis: str
    """Where the price of a GPU-hour comes from; empty without one."""
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
    """Examples that the run trains on."""
    pairs_at_once: int
    """Examples on one GPU in one pass."""
    sequences_per_pair: int
    """Answers of an example that are trained on."""
    input_tokens: float
    output_tokens: float
    longest_output: int
    """Tokens of the longest answer."""
    packing: str
    peak_gib: float
    """Of one GPU with the longest answers, the reference included."""
    usable_gib: float
    """Of one GPU, after what the driver takes."""
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
    """Where the price of a GPU-hour comes from; empty without one."""
    evidence: EvidenceWord
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
