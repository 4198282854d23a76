"""Results of `calibrate` and `track`: the `measured:` entry of a run, and a running job against its plan."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from planner.results.plan import Plan
from planner.results.plan_parts import Hours, Part, Spread, Techniques, html_table
from planner.results.result_tables import Result

# The result of `calibrate`: the `measured:` entry of a run, and its effect on a plan.


SettingValue = str | int | float


class StepTimes(Part):
    """Seconds per optimizer step of a log."""

    seconds: float
    """The median; the mean if only the whole run was timed."""
    spread: float | None
    """Normal-equivalent median deviation over the median; None if only the whole run was timed."""
    steps: int
    dropped: int
    """First steps that were excluded as warm-up."""


class Comparison(Part):
    """The run compared with the estimate of the same configuration."""

    techniques: Techniques
    assumed: tuple[str, ...]
    """Settings that were not given: the fastest that the job allows are assumed."""
    tokens_per_second: float | None
    predicted_tokens_per_second: float
    peak_vram_gib: float | None
    predicted_peak_vram_gib: float | None
    speed_factor: float
    """Factor on the estimated speed of all configurations of the job, from all of its observed runs."""
    memory_factor: float
    """Factor on the bytes that grow with the batch at the setting of the run."""


class GenerationComparison(Part):
    """A measurement of one replica compared with the estimate; its speed corrects the engine on the GPU."""

    engine: str
    gpu: str
    weight_format: str
    output_tokens_per_second: float
    predicted_output_tokens_per_second: float
    ttft_seconds: float | None
    predicted_ttft_seconds: float
    tpot_seconds: float | None
    predicted_tpot_seconds: float


class PlanSummary(Part):
    """A plan in short; without a plan only its status."""

    status: str
    gpu: str | None = None
    gpus: int | None = None
    provider: str | None = None
    method: str | None = None
    hours: float | None = None
    hours_low: float | None = None
    hours_high: float | None = None
    cost_usd: float | None = None
    tokens_per_second: float | None = None


class CalibrationResult(Result):
    """The result of `planner calibrate` for the logs of one run."""

    schema_version: int = 3
    logs: tuple[str, ...]
    """Each with its format."""
    step_times: StepTimes | None
    measured: dict[str, SettingValue]
    """The entry for the job's list `measured`."""
    unit: str
    scenario: str | None = None
    job: str | None = None
    compared: Comparison | None = None
    generation: GenerationComparison | None = None
    """Of a measurement of generation."""
    before: PlanSummary | None = None
    """The plan of the job without the run; `after` is that with it."""
    after: PlanSummary | None = None
    notes: tuple[str, ...] = ()

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the data of a training run without the part that only generation has."""
        data: dict[str, Any] = handler(self)
        if self.generation is None:
            data.pop("generation", None)
        return data

    @property
    def block(self) -> str:
        """Return the entry as YAML, to paste into the job."""
        return _entry_block(self.measured)

    def _repr_html_(self) -> str:
        """Return the observed and predicted figures as a table for notebooks."""
        rows = [(key.replace("_", " "), _scalar(value)) for key, value in self.measured.items()]
        if self.compared is not None:
            rows.append(("predicted tokens per second", f"{self.compared.predicted_tokens_per_second:,.0f}"))
            rows.append(("factor on estimated speed", f"x {self.compared.speed_factor:.2f}"))
        return html_table("calibration", ("what", "figure"), rows)


def _entry_block(entry: dict[str, Any]) -> str:
    text = ", ".join(f"{key}: {_scalar(value)}" for key, value in entry.items())
    return f"measured:\n  - {{{text}}}\n"


def _scalar(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(str, value))}]"
    return f"{value:g}" if isinstance(value, float) and value < 1e6 else str(value)


# The result of `track`: a running job against its plan, what it will take, and what could be done about it.


class ObservedProgress(Part):
    """What the logs of a run say; hours count from the order of its machines."""

    steps: int
    share_done: float
    step_seconds: float | None
    """Mean without warm-up and standstills; None where the logs time nothing."""
    step_spread: float | None
    """Spread of single steps, or of logging intervals, as a share; None where only the whole run is timed."""
    timed_steps: int
    warm_up_steps: int
    tokens_per_second: float | None
    """In the unit of the plan, tokens or images, by wall time: evaluation and checkpoints are in it."""
    elapsed_hours: float
    standing_hours: float
    """In which nothing advanced: between attempts, and where the clock of the log jumps."""
    restarts: int
    repeated_steps: int
    peak_vram_gib: float | None
    peak_kind: str | None
    free_vram_gib: float | None
    """Usable memory of one GPU minus the peak."""
    gpu_utilisation: float | None
    """Mean share of time in which the GPUs computed."""
    last_loss: float | None
    spent_usd: float
    spent_is_given: bool
    """Whether the dollars were given; else they follow from the prices of the plan."""


class PlannedProgress(Part):
    """The same figures of the plan."""

    steps: int
    step_seconds: float
    tokens_per_second: float
    unit: str
    hours: Hours
    cost: Spread
    peak_vram_gib: float
    usable_vram_gib: float
    deadline_hours: float | None
    deadline_probability: float | None
    confidence: float
    budget_usd: float | None


class ProjectedEnd(Part):
    """Hours and dollars of the whole job, from the order of its machines."""

    hours: Spread
    cost: Spread
    deadline_probability: float | None
    left_hours: float


class Cause(Part):
    """A part of the difference between the projected and the planned hours."""

    what: str
    hours: float


class Choice(Part):
    """One way to do what is left; dollars and hours of what is left alone."""

    what: str
    """`stay`, `move`, or `restart` on the same machines."""
    machines: str
    provider: str
    cost_usd: float
    hours: Spread
    deadline_probability: float | None


class Tracking(Result):
    """The result of `planner track` for one job."""

    schema_version: int = 3
    scenario: str
    job: str
    logs: tuple[str, ...]
    """Each with its format."""
    observed: ObservedProgress
    planned: PlannedProgress
    projected: ProjectedEnd
    causes: tuple[Cause, ...]
    """They add up to the difference of the hours."""
    notes: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    """What could be done now, the best first; empty unless it was asked."""
    replan: Plan | None = None
    """The plan of what is left, of the first choice."""

    @property
    def is_on_time(self) -> bool:
        """Whether the deadline is kept with the confidence that the job asks for; true without a deadline."""
        chance = self.projected.deadline_probability
        return chance is None or chance >= self.planned.confidence

    def _repr_html_(self) -> str:
        """Return the observed and planned figures as a table for notebooks."""
        seen, plan, end = self.observed, self.planned, self.projected
        rows = [
            ("seconds per step", f"{seen.step_seconds or 0:.3g}", f"{plan.step_seconds:.3g}"),
            ("hours", f"{end.hours.expected:.1f}", f"{plan.hours.expected:.1f}"),
            ("cost", f"${end.cost.expected:,.2f}", f"${plan.cost.expected:,.2f}"),
        ]
        return html_table(f"{self.job}: {100 * seen.share_done:.0f} % done", ("what", "projected", "planned"), rows)


# The result of `calibrate` for a probe: whether to keep the machine that was rented, and what it costs.


class ProbedStep(Part):
    """Seconds of one optimizer step, planned and measured."""

    planned: float
    """By the plan."""
    low: float
    """Lower end of the 80 % interval of the plan."""
    high: float
    """Upper end of the 80 % interval of the plan."""
    measured: float | None
    """Median without the first steps; None where memory ran out."""


class ProbedMemory(Part):
    """Memory of one GPU in GiB, planned and measured."""

    allocated_planned: float
    """What tensors take, by the estimate."""
    allocated: float | None
    """Highest memory in live tensors; None where the probe does not know it."""
    reserved: float | None
    """What the allocator of PyTorch holds."""
    driver: float | None
    """All that the driver shows, which is what must be on the GPU."""
    usable: float
    """What a process can have there, by the plan."""


class ProbeChoice(Part):
    """One way to go on: dollars and hours of the whole job, as estimated with the measurement."""

    what: Literal["keep", "change", "give back"]
    """The run as it is, another run on the same machine, or other machines."""
    change: str
    """What becomes another: `micro-batch 4`, or the machines to rent instead; empty where nothing does."""
    machines: str
    provider: str
    cost_usd: float
    """Expected dollars of the whole job."""
    hours: Hours
    """Wall hours of the whole job, from its own start."""
    deadline_probability: float | None
    """Probability that the deadline holds; None without a deadline, and where speeds are scaled by the measurement."""
    meets_limits: bool
    """Whether it keeps the limits of the scenario: deadline, budget, memory."""


class ProbeVerdict(Result):
    """The result of `planner calibrate` for a probe of a plan."""

    schema_version: int = 3
    scenario: str
    job: str
    verdict: Literal["keep", "change", "give back"]
    """What to do with the machine; `give back` also where nothing meets the limits."""
    reason: str
    """Why, in a few words."""
    planned_usd: float
    """Dollars of the plan that was probed."""
    status: Literal["ok", "oom"]
    """Whether steps were measured, or memory ran out."""
    gpu_name: str | None
    """GPU as its driver calls it."""
    step_seconds: ProbedStep
    memory: ProbedMemory
    """Memory of one GPU."""
    timed_steps: int
    choices: tuple[ProbeChoice, ...]
    """What was compared, the best first."""
    measured: dict[str, Any]
    """The entry for the job's list `measured`; empty where memory ran out."""
    plan: Plan | None
    """The plan to go on with; None where no other meets the limits, and for a smaller micro-batch of this one."""
    notes: tuple[str, ...] = ()

    @property
    def block(self) -> str:
        """Return the observed run as YAML, to paste into the job; empty where memory ran out."""
        return _entry_block(self.measured) if self.measured else ""

    @property
    def is_kept(self) -> bool:
        """Whether the machine runs the plan as it is."""
        return self.verdict == "keep"

    def _repr_html_(self) -> str:
        """Return the ways to go on as a table for notebooks."""
        rows = [(one.what, one.change or one.machines, f"${one.cost_usd:,.2f}") for one in self.choices]
        return html_table(f"{self.job}: {self.verdict}", ("what", "how", "cost"), rows)
