"""The result of `simulate`: cost and hours of a plan over many markets.

Dollars are those of the bill of the whole job; hours are wall hours from its start to its end.
"""

from __future__ import annotations

from pydantic import Field

from planner.results.plan import Plan, Status
from planner.results.plan_parts import Infeasible, Part, dollars, html_table
from planner.results.result_tables import Result, infeasible_html
from planner.results.service_results import ServiceReplay

PLANNED = "planned"
ON_DEMAND_ONLY = "on demand only"
GREEDY = "greedy with safety net"
UNIFORM = "uniform progress"
OPTIMUM = "all-knowing optimum"


class Distribution(Part):
    """Mean and quantiles over the runs."""

    mean: float
    p05: float
    p50: float
    p95: float


class Histogram(Part):
    """Runs per bin: `counts[i]` lie between `edges[i]` and `edges[i + 1]`; the first and last bin take the tails."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


class ReplayFigures(Part):
    """Figures of the runs under one policy; None if unknown, such as the hours of the offline optimum."""

    cost_usd: Distribution | None = None
    hours: Distribution | None = None
    deadline_hit_rate: float | None = None
    """Share of runs done by the deadline; None without one."""
    spot_share: float | None = None
    """Of the work, 0 to 1."""
    interruptions: float | None = None
    wasted_hours: float | None = None
    """Paid hours without lasting progress: starts, checkpoints, lost work."""
    waiting_hours: float | None = None
    """Hours in which nothing is rented."""


class PolicyFigures(ReplayFigures):
    """One policy on the same markets at the same speeds."""

    usd_over_optimum: float | None
    """Mean above the offline optimum, in the objective of the plan: dollars, and the value of hours."""
    share_over_optimum: float | None
    """The same as a share of the offline optimum."""


class PlanPrediction(Part):
    """Figures of the plan."""

    cost_usd: float
    hours: float
    deadline_probability: float | None
    at_least: bool
    """Whether the probability is a lower bound for the worst market."""
    spot_share: float
    interruptions: float | None
    wasted_hours: float | None
    waiting_hours: float | None


class ReplayMarket(Part):
    """The market of the replays of one job; hours are those of all machines of one run together."""

    source: str
    """`states`: up-times and outages sampled from the market of the plan; `traces`: windows of recorded ones."""
    instances: int
    availability: float
    """Of the states, or of the windows of recorded markets."""
    mean_up_hours: float | None
    """None if there are no interruptions, or for recorded markets."""
    mean_outage_hours: float | None
    tick_hours: float | None
    """Interval of the decisions of the policy, which also decides at every interruption; None where nothing is decided.
    """
    traces: tuple[str, ...] = ()
    windows: int | None = None
    """Number of different windows in the traces."""


class TimelineSegment(Part):
    """A part of one replay without a change of market and machines; hours count from the first order."""

    from_hours: float
    to_hours: float
    market_up: bool
    running: str
    """`nothing`, `spot` or `on demand`."""
    zone: str = ""
    """In which spot machines ran, where several were recorded."""


class ZoneTimes(Part):
    """When one zone of a group had machines during a replay."""

    zone: str
    up: tuple[tuple[float, float], ...]
    """Begin and end in hours from the first order."""


class Timeline(Part):
    """The run with the cost nearest to the median, from its first order of machines to its end."""

    stretches: tuple[TimelineSegment, ...]
    progress: tuple[tuple[float, float], ...]
    """(hour, share of the work done); falls at interruptions that lose work since the last checkpoint."""
    ends_by_hours: float
    """The guaranteed end at the speed of this run."""
    guard: tuple[tuple[float, float], tuple[float, float]] | None
    """Two points (hour, share) of the guard line: waiting is allowed to its left."""
    usd: float
    interruptions: int
    speed: float
    """Speed of the run over the expected speed."""
    zones: tuple[ZoneTimes, ...] = ()
    """Of recorded zones among which the run moved."""


class StepReplays(Part):
    """Steps of a job of reinforcement learning, over all runs."""

    step_seconds: Distribution
    """Of a run after its start, over its steps, at the expected speed; waits for lost engines are in it."""
    planned_step_seconds: float
    """The same by the plan."""
    rollout_seconds: Distribution
    """From one finished batch of drawn answers to the next, with engines that are always there."""
    planned_rollout_seconds: float
    """The same by the formula of the plan."""
    within_hours: float
    """Share of runs that end within the hours of the plan at its confidence."""
    planned_within: float
    """That confidence."""


class JobReplays(ReplayFigures):
    """One job over all runs."""

    name: str
    gpu: str
    gpus: int
    provider: str
    kind: str
    """`policy`, `mix` (spot until a moment, then on demand), `spot only`, `on demand`, `service` or `rl`."""
    deadline_hours: float | None
    predicted: PlanPrediction
    policies: dict[str, PolicyFigures]
    market: ReplayMarket | None
    start_at_hours: Distribution | None = None
    """Of a timetable, as the next two: hours from the start of the plan. `hours` are those of the job by itself."""
    end_at_hours: Distribution | None = None
    outlasts_machines: float | None = None
    """Share of runs in which the window or the reservation of its machines ends before it."""
    unfinished: float
    """Share of runs unfinished at the end of their path; 0 if on demand is available."""
    told: Timeline | None
    steps: StepReplays | None = Field(default=None, exclude_if=lambda steps: steps is None)
    """Of reinforcement learning alone."""


class Simulation(Result):
    """The result of `planner simulate`: the whole plan, then its jobs."""

    schema_version: int = 3
    scenario: str
    status: Status
    runs: int
    seed: int
    exact_speed: bool
    cost_usd: Distribution | None = None
    hours: Distribution | None = None
    """Until the end of the last job."""
    deadline_hit_rate: float | None = None
    """Share of runs in which every job met its deadline; None if no job has one."""
    budget_usd: float | None = None
    budget_hit_rate: float | None = None
    spot_share: float | None = None
    """Of the work of all jobs, weighted by planned GPU hours."""
    interruptions: float | None = None
    wasted_hours: float | None = None
    waiting_hours: float | None = None
    policies: dict[str, PolicyFigures] = Field(default_factory=dict)
    predicted: PlanPrediction | None = None
    jobs: tuple[JobReplays, ...] = ()
    services: tuple[ServiceReplay, ...] = ()
    """Services next to the jobs, of which all other figures are; `runs` are the requests of each distinct hour, too."""
    services_usd: float | None = None
    """Dollars of the services, which are no part of the other figures; None without services."""
    cost_histogram: Histogram | None = None
    hours_histogram: Histogram | None = None
    seconds: float
    runs_per_second: float | None = None
    """Replays of the planned policy, sampling included, per second of one core."""
    as_of: str
    infeasible: Infeasible | None = None
    notes: tuple[str, ...] = ()
    fixed: tuple[str, ...] = Field(default=(), exclude_if=lambda lines: not lines)
    """What the scenario leaves open and is fixed here, as `solve` chose it."""
    plan: Plan = Field(repr=False)
    """The plan that was replayed."""

    @property
    def next_to_jobs_usd(self) -> float | None:
        """Dollars of what is planned next to the jobs, part of no other figure; None where nothing is."""
        return self.services_usd

    @property
    def subject(self) -> str | None:
        """Services and steps of reinforcement learning add their own replays."""
        return "serve" if self.services else "rl" if any(job.steps for job in self.jobs) else None

    def _repr_html_(self) -> str:
        """Return a table for notebooks: a row per policy; without a plan why there is none."""
        if not self.jobs:
            return infeasible_html(self.scenario, self.status, self.infeasible)
        header = ("policy", "cost", "over optimum", "deadline met", "spot share")
        rows = [
            (
                name,
                dollars(figures.cost_usd.mean) if figures.cost_usd else "",
                dollars(figures.usd_over_optimum),
                f"{figures.deadline_hit_rate:.1%}" if figures.deadline_hit_rate is not None else "",
                f"{figures.spot_share:.0%}" if figures.spot_share is not None else "",
            )
            for name, figures in self.policies.items()
        ]
        return html_table(f"{self.scenario}: {self.status}, {self.runs:,} runs", header, rows)
