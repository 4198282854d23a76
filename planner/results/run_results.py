"""Results about runs: `estimate`, `calibrate` and its `measured:` entry, `track` against a plan, probes.

Memory is GiB per GPU, time is seconds of one optimizer step.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from planner.results.plan import Plan
from planner.results.plan_parts import CutSamples, HostMemory, Hours, Part, Spread, Techniques, Vram, html_table
from planner.results.result_tables import Result

# The result of `calibrate`: the `measured:` entry of a run, and its effect on a plan.


SettingValue = bool | str | int | float


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


class PhaseSeconds(Part):
    """Seconds of one phase of a step of reinforcement learning, planned and measured."""

    phase: str
    """Its key in the phases of a plan."""
    planned: float | None
    """By the plan, or by the estimate of the run; None without a scenario."""
    measured: float | None
    """Mean of the steps without the first; None where the log does not have it."""
    factor: float | None
    """What the estimate of the phase is multiplied by; of phases that were not measured from the rest of the step."""


class MeasuredAnswers(Part):
    """Tokens of the answers of a run of reinforcement learning, planned and measured."""

    mean: float
    """Of the steps without the first."""
    longest: float | None
    """Of all steps; None where the log does not have it."""
    planned_mean: float | None
    """None without a scenario."""
    planned_longest: float | None
    """At which answers are cut; None where nothing says so."""


def _without(data: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return data without the named parts that are empty: those that only some kinds of runs have."""
    return {name: value for name, value in data.items() if value or name not in names}


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
    phases: tuple[PhaseSeconds, ...] = ()
    """Of a run of reinforcement learning."""
    answers: MeasuredAnswers | None = None
    """Of a run of reinforcement learning."""
    before: PlanSummary | None = None
    """The plan of the job without the run; `after` is that with it."""
    after: PlanSummary | None = None
    notes: tuple[str, ...] = ()

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the data of a training run without the parts that only other runs have."""
        return _without(handler(self), "generation", "phases", "answers")

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
    if isinstance(value, bool):
        return str(value).lower()
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


class KeptDeadline(Part):
    """The deadline of one job of a chain."""

    job: str
    """Name of the job that has it."""
    deadline_hours: float
    """From the start of the plan."""
    probability: float
    """With which it is kept."""
    confidence: float
    """With which the job asks for it."""


class ChainEnd(Part):
    """All jobs of a chain, of which one is tracked: hours from the start of the plan, dollars of all jobs.

    Those before it cost what was planned. Those after it are late with it, and none starts before its planned start.
    """

    hours: Hours
    """Until the last job ends; at the confidence of that job."""
    cost: Spread
    """Dollars of all jobs."""
    cost_at_confidence: float
    """At the confidence of the budget."""
    budget_confidence: float
    """With which the budget is asked to hold."""
    budget_usd: float | None
    """The budget of all jobs."""
    budget_probability: float | None
    """With which it is kept; None without one."""
    deadlines: tuple[KeptDeadline, ...]
    """Those of the tracked run and of jobs after it."""


class Choice(Part):
    """One way to do what is left; dollars and hours of what is left alone."""

    what: str
    """`stay`, `move`, or `restart` on the same machines; of a chain also `stay, others move`: the jobs after it."""
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
    phases: tuple[PhaseSeconds, ...] = ()
    """Of a run of reinforcement learning."""
    answers: MeasuredAnswers | None = None
    """Of a run of reinforcement learning."""
    chain: ChainEnd | None = None
    """Of a run of reinforcement learning with other jobs before or after it: what becomes of all of them."""

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the data without the parts that only runs of reinforcement learning have."""
        return _without(handler(self), "phases", "answers", "chain")

    @property
    def is_on_time(self) -> bool:
        """Whether each deadline is kept with the confidence that its job asks for; true without a deadline."""
        chance, chain = self.projected.deadline_probability, () if self.chain is None else self.chain.deadlines
        others = all(job.probability >= job.confidence for job in chain)
        return others and (chance is None or chance >= self.planned.confidence)

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
        rows = [(choice.what, choice.change or choice.machines, f"${choice.cost_usd:,.2f}") for choice in self.choices]
        return html_table(f"{self.job}: {self.verdict}", ("what", "how", "cost"), rows)


class Capacity(Vram):
    """Memory needed and usable on one GPU; `parts` sum to `allocated`, with `set_aside` to `peak`."""

    fits: bool
    reserved: float
    """Memory of the allocator: live tensors, its cache and fragmentation."""
    device_used: float
    """Memory that nvidia-smi shows: reserved, context and communicators."""
    set_aside: dict[str, float]
    """Parts of the fit rule: the margin, the counted share of fragmentation, and the context."""


class StepSeconds(Part):
    """Seconds of one optimizer step; `parts` exclude overlapped work and sum to `total`."""

    total: float
    parts: dict[str, float]


class Remedy(Part):
    """One change that makes a configuration fit, and the peak with it."""

    change: str
    peak: float


class Estimate(Result):
    """Memory and speed of one configuration."""

    schema_version: int = 3
    architecture: str
    parameters: int
    trainable_parameters: int
    gpu: str
    gpus: int
    gpus_per_instance: int
    instances: int
    interconnect: str
    network_gbps: float | None
    techniques: Techniques
    unit: Literal["tokens", "images", "videos"]
    sequence_length: int
    """Tokens; for a diffusion model the tokens per image."""
    resolution: int | None
    """Pixels per side, for a diffusion model."""
    frames: int | None = None
    """Frames of a sample, for a diffusion model that makes videos."""
    global_batch: int
    packing: str
    vram_gib: Capacity
    host_memory: HostMemory | None = None
    """None where no states lie in host memory."""
    tokens_per_second: float
    """Real tokens (images) over all GPUs, without padding and unfilled positions."""
    tokens_per_second_low: float
    tokens_per_second_high: float
    """The 80 % interval."""
    processed_tokens_per_second: float
    """All positions that the GPUs process, filled or not, as most training logs count them."""
    step_seconds: StepSeconds
    profile: str
    profiled: bool
    """Whether the memory of the profile is calibrated on measured peaks."""
    sigma: float
    """Standard deviation of ln(speed), for the interval."""
    sigma_in_tails: float
    """Standard deviation of ln(speed) in the tails."""
    largest_micro_batch: int | None = None
    """0 if not even one sequence fits; None if not requested."""
    largest_resolution: int | None = None
    """Pixels per side of the largest image or video that fits at micro-batch 1; 0 if none, None for language models."""
    longest_sequence: int | None = None
    """Tokens at the micro-batch of this estimate; 0 if none fits, None if not requested."""
    remedies: tuple[Remedy, ...] = ()
    """Changes that make it fit; empty if it fits."""
    conversion: str | None = None
    """What of the weights a user must make, or what frameworks make of the release; None where they are taken as is."""
    assumed: tuple[str, ...] = ()
    """Settings that were not given."""
    notes: tuple[str, ...] = ()
    cut: CutSamples | None = None
    """Where samples are longer than the sequences."""

    @property
    def short_gib(self) -> float:
        """Return the missing GiB; 0 if it fits."""
        return max(0.0, self.vram_gib.peak - self.vram_gib.usable)

    def _repr_html_(self) -> str:
        """Return summary, memory and step as tables for notebooks."""
        vram, step = self.vram_gib, self.step_seconds
        summary = f"{self.architecture} on {self.gpus} x {self.gpu}: {'fits' if vram.fits else 'does not fit'}"
        low, high = self.tokens_per_second_low, self.tokens_per_second_high
        rate = f"{self.tokens_per_second:,.3g} ({low:,.3g} to {high:,.3g})"
        facts = [
            ("GiB per GPU", f"{vram.peak:.1f} of {vram.usable:.1f}"),
            ("probability to fit", f"{vram.fit_probability:.2f}"),
            ("peak in", vram.phase),
            (f"{self.unit} per second", rate),
            ("seconds per step", f"{step.total:.3g}"),
            ("profile", f"{self.profile}, {'profiled' if self.profiled else 'not profiled'}"),
        ]
        memory = {**vram.parts, **vram.set_aside}
        return (
            html_table(summary, ("", ""), facts)
            + html_table("memory", ("part", "GiB"), [(name, f"{size:.2f}") for name, size in memory.items() if size])
            + html_table("step", ("part", "seconds"), [(name, f"{s:.3g}") for name, s in step.parts.items() if s])
        )
