"""Results of `explain`: what binds, relaxations, alternatives and how two configurations differ, why not X.

Dollars are expected US dollars and hours expected wall hours of the job that takes longest, unless a name says
otherwise; None means that there is no plan.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import Field

from planner.results.plan import Assignment, DataPath, Status
from planner.results.plan_parts import CutSamples, NearMiss, Part, Relaxation, Techniques, Vram, dollars, html_table
from planner.results.result_tables import Result
from planner.results.subject_runs import RlRun
from planner.units import count_text


class Binding(Part):
    """A limit without which the plan would be better; each is lifted alone, all others kept."""

    limit: str
    current: float | str
    saving: float = 0.0
    """Of the objective: dollars with penalties and the value of time (`compared_by`), or hours at the confidence."""
    saving_usd: float | None
    """None of a timetable with the objective `time`: its least dollars without the limit are not computed."""
    saving_hours: float


class LimitSensitivity(Part):
    """The smallest relaxation of one limit at which another plan is better.

    `worth` names what the limit gives more of: an hour, a dollar, a GPU, a GiB, or another choice (a list, a share).
    `change_to` is None where nothing is gained at any value, and `note` says so. `cost_usd`, `hours` and `plan`
    are those at the new value, verified by solving; the deltas are against the present plan. Next to a service those
    of a job's or service's own limit are of its part, those of `limits` of both together.
    """

    worth: Literal["hour", "dollar", "gpu", "gib", "choice"]
    limit: str
    change_from: float | str | None = Field(default=None, alias="from")
    change_to: float | str | None = Field(default=None, alias="to")
    plan: str = ""
    cost_usd: float | None = None
    hours: float | None = None
    delta_usd: float | None = None
    delta_hours: float | None = None
    gain: float | None = None
    """Of the objective, as `saving` of a binding limit."""
    setting: str = ""
    note: str = ""


class Alternative(Part):
    """The best candidate of one provider, GPU or method within all other limits; other jobs stay as planned."""

    by: Literal["provider", "gpu", "method", "market"]
    job: str
    name: str
    plan: str
    gpu: str = ""
    gpus: int = 0
    runs_at_once: int = 1
    """Runs on node groups in parallel: `gpus` are those of one."""
    provider: str = ""
    method: str = ""
    cost_usd: float | None = None
    hours: float | None = None
    hours_at_confidence: float | None = None
    """Hours that it keeps at the confidence of the job."""
    usd_per_hour: float | None = None
    """Rent of all its machines; None where they are not rented by the hour."""
    tier: str = ""
    spot_share: float = 0.0
    difference: float | None = None
    """The objective against the plan's (dollars with penalties and the value of time, or hours): 0.63 is 63 % more."""
    verdict: str = ""
    chosen: bool = False
    allowed: bool = True


class Remedy(Part):
    """A change of the scenario that makes X feasible, with the plan that it gives."""

    change: str
    setting: str = ""
    also: tuple[str, ...] = ()
    """Settings that go with it: what the job's techniques must admit for X."""
    plan: str = ""
    cost_usd: float | None = None
    hours: float | None = None


class WhyNot(Part):
    """The answer to "why not X": what X would cost, or what excludes it and the smallest change that admits it.

    `cost_usd` and `hours` are those of the best plan with X: within the limits where the status is `possible`,
    under `relax` where it is `beyond` a limit; None where it is `impossible` at any limits.
    """

    asked: str
    status: Literal["chosen", "possible", "beyond", "impossible"]
    plan: str = ""
    cost_usd: float | None = None
    hours: float | None = None
    hours_at_confidence: float | None = None
    """Hours that it keeps at the confidence of the jobs."""
    usd_per_hour: float | None = None
    """Rent of all machines of the job with X; None where they are not rented by the hour."""
    times: float | None = None
    """Cost with X over the cost of the plan."""
    verdict: str = Field(default="", exclude_if=lambda text: not text)
    reasons: tuple[str, ...] = ()
    memory: Vram | None = None
    relax: tuple[Relaxation, ...] = ()
    remedies: tuple[Remedy, ...] = ()


class PastCost(Part):
    """What the plan's machines would have cost for the same jobs at earlier prices of the price book."""

    days_ago: int
    date: datetime.date
    """Day of the prices: that many days ago, or the last one before for which prices are stored."""
    cost_usd: float


class Finding(Part):
    """What published work found, in which setting."""

    finding: str
    setting: str
    source: str


class TechniqueAnswer(Result):
    """The answer of `planner explain --technique`: what was found, and whether the program decides it."""

    schema_version: int = 3
    scenario: str
    technique: str
    decides: str
    """`yes`, `no`, or for what kind of job."""
    why: str
    where: str
    """Key of a scenario that decides it; empty where there is none."""
    found: tuple[Finding, ...]
    data_paths: dict[str, DataPath] = Field(default_factory=dict)
    """Of caching and prefetching: what each job of the plan reads, by name."""
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row for each finding."""
        rows = [(fact.finding, fact.setting, fact.source) for fact in self.found]
        return html_table(f"{self.technique}: decided: {self.decides}", ("found", "setting", "source"), rows)


class KindLimit(Part):
    """What holds the capacity of one kind of a fleet."""

    machine: str
    """Such as `2 x H100-80GB at nebius, spot`."""
    engine: str
    weight_format: str
    binds: Literal["TPOT", "TTFT", "KV", "compute"]
    capacity: float
    """Of one machine, in the unit of the load."""
    usd_per_capacity: float
    """Dollars of an hour for a unit of load, at full use."""


class ServiceReasons(Part):
    """Why the fleet of a service is as it is; dollars of a month."""

    usd_per_month: float
    gap: float
    unit: str
    kinds: tuple[KindLimit, ...]
    """Those with most dollars first."""


class Explanation(Result):
    """The answer of `planner explain`."""

    schema_version: int = 3
    scenario: str
    status: Status
    objective: Literal["cost", "time"] = "cost"
    compared_by: str = ""
    """Such as `cost + $0.50 per hour + penalties`; empty where plans are compared by plain dollars or hours."""
    plan: str = ""
    cost_usd: float | None = None
    hours: float | None = None
    hours_at_confidence: float | None = None
    """Hours that the plan keeps at the confidence of its jobs."""
    notes: tuple[str, ...] = ()
    """Remarks on the figures of the plan."""
    binding: tuple[Binding, ...] = ()
    next_steps: tuple[LimitSensitivity, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    past_costs: tuple[PastCost, ...] = ()
    why_not: WhyNot | None = None
    service: ServiceReasons | None = None
    """Where the plan is that of a service; `cost_usd` are those of all hours, as in its plan."""
    parts: tuple[Explanation, ...] = Field(default=(), exclude_if=lambda parts: not parts)
    """Of jobs next to a service: the explanation of the jobs and that of the service, each under its own name."""
    relax: tuple[Relaxation, ...] = ()
    nearest: tuple[NearMiss, ...] = ()
    fixed: tuple[str, ...] = Field(default=(), exclude_if=lambda lines: not lines)
    """What the scenario leaves open and is fixed here, as `solve` chose it."""
    cut: tuple[CutSamples, ...] = ()
    """Jobs whose samples are longer than their sequences."""
    seconds: float = 0.0

    @property
    def subject(self) -> str | None:
        """Services explain themselves, and the jobs next to them."""
        return "serve" if self.parts or self.service is not None else None

    def _repr_html_(self) -> str:
        """Return a table for notebooks: relaxations that pay, or those that give a plan if there is none."""
        if self.status == "infeasible":
            rows = [
                (f"{relaxation.way}", relaxation.limit, f"{relaxation.change_to}", relaxation.then, relaxation.setting)
                for relaxation in self.relax
            ]
            caption = f"{self.scenario}: infeasible; limits to move, those with one number together"
            return html_table(caption, ("way", "limit", "to", "then", "setting"), rows)
        caption = f"{self.scenario}: {self.plan}"
        if self.cost_usd is not None:
            binds = ", ".join(binding.limit for binding in self.binding) or "none"
            caption += f", {dollars(self.cost_usd)}; binding limits: {binds}"
        steps = [
            (
                step.worth,
                step.limit,
                step.note if step.change_to is None else f"{step.change_to}",
                step.plan,
                dollars(step.cost_usd),
            )
            for step in self.next_steps
        ]
        return html_table(caption, ("worth", "limit", "at", "plan", "cost"), steps)


CHIPS = ("TPU", "Gaudi", "Trainium")
"""Beginnings of the names of accelerators that are no GPUs."""


def device_noun(gpu: str, count: int = 1) -> str:
    """Return `GPU` or `GPUs`, and `chip` or `chips` of TPUs and other accelerators."""
    noun = "chip" if gpu.startswith(CHIPS) else "GPU"
    return noun if count == 1 else f"{noun}s"


MAX_DIFFERENCES = 2
"""Differences that `describe_differences` names."""

SERVICE = "managed"
"""The GPU name of a service, which states none."""

SHOWN_SHARE = 0.005
"""Spot shares closer than this read as the same percentage."""

FEATURES: tuple[tuple[str, Callable[[Assignment], str]], ...] = (
    ("model", lambda job: job.model.architecture if job.model else ""),
    ("tokens", lambda job: count_text(job.model.tokens) if job.model else ""),
    ("sequences", lambda job: f"{job.model.batch.sequences:,}" if job.model and job.model.batch else ""),
    ("method", lambda job: method_name(job.techniques)),
    ("card", lambda job: job.gpu),
    ("GPUs", lambda job: f"{job.gpus:,}"),
    ("provider", lambda job: job.provider),
    ("spot share", lambda job: spot_percent(job.spot_share)),
    ("region", lambda job: job.region),
    ("instance", lambda job: job.instance),
    ("precision", lambda job: job.techniques.precision),
    ("checkpointing", lambda job: job.techniques.activation_checkpointing),
    ("sharding", lambda job: job.techniques.sharding),
    ("optimizer", lambda job: job.techniques.optimizer),
    ("offload", lambda job: job.techniques.offload),
    ("tensor parallel", lambda job: str(job.techniques.tensor_parallel)),
    ("pipeline parallel", lambda job: str(job.techniques.pipeline_parallel)),
    ("context parallel", lambda job: str(job.techniques.context_parallel)),
    ("expert parallel", lambda job: str(job.techniques.expert_parallel)),
    ("batch", lambda job: f"{job.techniques.micro_batch} x {job.techniques.accumulation_steps}"),
    ("attention", lambda job: job.techniques.attention),
    ("quantisation", lambda job: job.techniques.quant),
    ("machines", lambda job: f"{job.instances:,} of {_devices(job)} ({job.interconnect})"),
)
"""What may differ, most important first, and how each side of it reads."""


def _devices(job: Assignment) -> str:
    return f"{job.gpus_per_instance:,} {device_noun(job.gpu, 2)}"


_HARDWARE_FEATURES = ("card", "GPUs", "provider")
IMPLIED_BY = {
    "region": _HARDWARE_FEATURES,
    "instance": _HARDWARE_FEATURES,
    "machines": _HARDWARE_FEATURES,
    "sharding": ("GPUs",),
    "batch": ("method", "card", "GPUs", "checkpointing", "sharding"),
    "attention": ("method", "card"),
    "quantisation": ("method",),
}
"""Differences that follow from others: they are left out if one of these is named."""


class Difference(Part):
    """One difference: its name in `FEATURES`, and how it reads on either side."""

    what: str
    before: str
    after: str


def compare(before: Assignment, after: Assignment) -> tuple[Difference, ...]:
    """Return every difference in machines and techniques, most important first; empty for equal configurations."""
    return tuple(
        Difference(what=name, before=old, after=new)
        for name, describe in FEATURES
        if (old := describe(before)) != (new := describe(after))
    )


def describe_differences(differences: tuple[Difference, ...], most: int = MAX_DIFFERENCES) -> str:
    """Return the most important differences in a few words, such as `4-bit, other GPU`; empty without any."""
    differs = {difference.what for difference in differences}
    cards = [difference for difference in differences if difference.what == "card"]
    if any(SERVICE in (card.before, card.after) for card in cards):
        # A service states neither its GPUs nor its techniques.
        stated = ("card", "method", "provider")
        differences = tuple(difference for difference in differences if difference.what in stated)
    important = [difference for difference in differences if not differs & set(IMPLIED_BY.get(difference.what, ()))]
    machines = [difference.after for difference in differences if difference.what == "machines"]
    has_chips = any(f" {device_noun(CHIPS[0], 2)} " in after for after in machines)
    return ", ".join(_format_difference(difference, "chip" if has_chips else "GPU") for difference in important[:most])


def describe_job_differences(before: Sequence[Assignment | RlRun], after: Sequence[Assignment | RlRun]) -> str:
    """Return the differences in words; of several jobs the most important of each: `chat, code: other GPU`."""
    if len(after) == 1 and isinstance(run := after[0], RlRun):
        earlier = next((part for part in before if isinstance(part, RlRun)), None)
        return ", ".join(run.differences_from(earlier)[:MAX_DIFFERENCES]) if earlier else ""
    if len(after) == 1 and isinstance(job := after[0], Assignment):
        old = next((part for part in before if not isinstance(part, RlRun)), None)
        if old is None:
            return ""
        return ", ".join(filter(None, (_describe_chosen(old, job), describe_differences(compare(old, job)))))
    jobs_by_words: dict[str, list[str]] = {}
    for one_before, one_after in zip(before, after, strict=False):
        if words := _main_difference(one_before, one_after):
            jobs_by_words.setdefault(words, []).append(one_after.name)
    return "; ".join(f"{', '.join(names)}: {words}" for words, names in jobs_by_words.items())


def _main_difference(before: Assignment | RlRun, after: Assignment | RlRun) -> str:
    """Return the most important difference of a job in words."""
    if isinstance(before, RlRun) or isinstance(after, RlRun):
        assert isinstance(before, RlRun) and isinstance(after, RlRun)
        return next(iter(after.differences_from(before)), "")
    return describe_differences(compare(before, after), 1)


def _describe_chosen(before: Assignment, after: Assignment) -> str:
    """Return what of an open job is another model or batch: `512 sequences per step instead of 128`."""
    chosen = []
    if before.architecture != after.architecture:
        chosen.append(f"{after.architecture} instead of {before.architecture}")
    if before.global_batch != after.global_batch:
        chosen.append(f"{after.global_batch:,} sequences per step instead of {before.global_batch:,}")
    return ", ".join(chosen)


def method_name(how: Techniques) -> str:
    """Return `full`, `LoRA` (on 16-bit weights), `LoRA 8-bit` or `QLoRA` (4-bit); of generation engine and bits."""
    if how.method == "generate":
        return f"{how.framework} {how.weight_bits}-bit"
    if how.method != "lora":
        return how.method
    return {16: "LoRA", 4: "QLoRA"}.get(how.weight_bits, f"LoRA {how.weight_bits}-bit")


def spot_percent(share: float) -> str:
    """Return a share as whole percent; a positive one is never 0 %, a part never 100 %."""
    if share <= 0 or share >= 1:
        return f"{share:.0%}".replace("%", " %")
    if share < SHOWN_SHARE:
        return "under 1 %"
    return "over 99 %" if share >= 1 - SHOWN_SHARE else f"{share * 100:.0f} %"


def _format_difference(change: Difference, device: str) -> str:
    """Return a difference in words; `device` is what the later configuration runs on, GPU or chip."""
    before, after = change.before, change.after
    if change.what == "method":
        return _method_words(before, after)
    if change.what in ("model", "tokens", "sequences"):
        return _open_words(change)
    if change.what == "spot share":
        if before == "0 %":
            return "spot begins"
        return "all on demand" if after == "0 %" else f"spot {before} to {after}"
    if change.what == "GPUs":
        return f"{after} {device}{'' if after == '1' else 's'} instead of {before}"
    if change.what == "card" and SERVICE in (before, after):
        return "by a service" if after == SERVICE else "on machines"
    if change.what in ("card", "provider", "region", "instance", "batch", "attention", "machines"):
        return f"other {device if change.what == 'card' else change.what}"
    if change.what == "checkpointing":
        return "no checkpointing" if after == "none" else f"{after} checkpointing"
    if change.what == "sharding":
        return "no sharding" if after == "none" else after
    return f"{change.what} {after}" if change.what.endswith("parallel") else after


def _open_words(change: Difference) -> str:
    """Return what is trained in place of what; a side that leaves nothing open has no words."""
    unit = {"model": "", "tokens": " tokens", "sequences": " sequences a step"}[change.what]
    if not change.before or not change.after:
        return f"{change.what} left open" if change.after else f"{change.what} given"
    return f"{change.after}{unit} instead of {change.before}"


def _method_words(before: str, after: str) -> str:
    """Return the bits if both methods are variants of LoRA, else the new method."""
    bits = {"QLoRA": "4-bit", "LoRA": "16-bit", "LoRA 8-bit": "8-bit"}
    if after == "full":
        return "full training"
    return bits.get(after, after) if before in bits else after
