"""Results of `explain`: binding limits, relaxations that pay, alternatives, why not X, why infeasible.

Dollars are expected US dollars and hours expected wall hours of the job that takes longest, unless a name says
otherwise; None means that there is no plan.
"""

from __future__ import annotations

import datetime
from typing import Literal

from pydantic import Field

from planner.results.plan import DataPath, Status
from planner.results.plan_parts import CutSamples, NearMiss, Part, Relaxation, Vram, dollars, html_table
from planner.results.result_tables import Result


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
    times: float | None = None
    """Cost with X over the cost of the plan."""
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
