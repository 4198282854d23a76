"""A plan replayed: what it costs and when it is done, over many markets; the JSON of `planner simulate`, typed.

Dollars are those of the whole job, as its bill has them; hours are wall hours from the start to the end of the job.
"""

from __future__ import annotations

from pydantic import Field

from planner.results.html import html_table
from planner.results.plan import Infeasible, Part, Plan, Status

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
    """What came of the runs under one policy; None where it is not known, as the hours of an all-knowing renter are."""

    cost_usd: Distribution | None
    hours: Distribution | None
    deadline_hit_rate: float | None
    """Share of runs done by the deadline; None without one."""
    spot_share: float | None
    """Of the work, 0 to 1."""
    interruptions: float | None
    wasted_hours: float | None
    """Paid without progress that lasts: starts, checkpoints, work lost."""
    waiting_hours: float | None
    """Nothing is rented."""


class PolicyFigures(ReplayFigures):
    """One policy on the same markets at the same speeds."""

    usd_over_optimum: float | None
    """Mean, over what an all-knowing renter pays, in what the plan minimises: dollars, and what hours are worth."""
    share_over_optimum: float | None
    """The same as a share of what the all-knowing renter pays."""


class PlanPrediction(Part):
    """What the plan says."""

    cost_usd: float
    hours: float
    deadline_probability: float | None
    at_least: bool
    """Whether the chance is a promise for the worst market, so that more than it should come true."""
    spot_share: float
    interruptions: float | None
    wasted_hours: float | None
    waiting_hours: float | None


class ReplayMarket(Part):
    """What the replays of one job drew their market from; hours, of all machines of one run together."""

    source: str
    """`states`: up-times and outages drawn from the plan's market; `traces`: windows of recorded ones."""
    instances: int
    availability: float
    """Of the states; of the windows where the market is recorded."""
    mean_up_hours: float | None
    """None where machines are never taken, or recorded."""
    mean_outage_hours: float | None
    tick_hours: float
    """How often the policy is asked, besides whenever machines are taken."""
    traces: tuple[str, ...] = ()
    windows: int | None = None
    """Starts of different windows that the traces have room for."""


class TimelineSegment(Part):
    """A part of one replay in which the market and what runs stay as they are; hours from the first order on."""

    from_hours: float
    to_hours: float
    market_up: bool
    running: str
    """`nothing`, `spot` or `on demand`."""


class Timeline(Part):
    """One run, told from its first order of machines to its end: that with the cost nearest to the median."""

    stretches: tuple[TimelineSegment, ...]
    progress: tuple[tuple[float, float], ...]
    """(hour, share of the work that is done); falls where machines were lost with work that no checkpoint held."""
    ends_by_hours: float
    """When it must be done: what is guaranteed, at the speed of this run."""
    guard: tuple[tuple[float, float], tuple[float, float]] | None
    """Two (hour, share) of the line left of which the work must stay for waiting to be allowed."""
    usd: float
    interruptions: int
    speed: float
    """Of the run over the speed expected."""


class JobReplays(ReplayFigures):
    """One job over all runs."""

    name: str
    gpu: str
    gpus: int
    provider: str
    kind: str
    """`policy`, `mix` (spot until a moment, then on demand), `spot only`, `on demand` or `service`."""
    deadline_hours: float | None
    predicted: PlanPrediction
    policies: dict[str, PolicyFigures]
    market: ReplayMarket | None
    unfinished: float
    """Share of runs that were not done when their path ended; 0 wherever on demand can be had."""
    told: Timeline | None


class Simulation(Part):
    """What `planner simulate` found: the plan as a whole, then its jobs."""

    schema_version: int = 1
    scenario: str
    status: Status
    runs: int
    seed: int
    exact_speed: bool
    cost_usd: Distribution | None = None
    hours: Distribution | None = None
    """Until the last job is done."""
    deadline_hit_rate: float | None = None
    """Share of runs in which every job met its deadline; None where none has one."""
    budget_usd: float | None = None
    budget_hit_rate: float | None = None
    spot_share: float | None = None
    """Of the work of all jobs, weighted by the GPU hours planned."""
    interruptions: float | None = None
    wasted_hours: float | None = None
    waiting_hours: float | None = None
    policies: dict[str, PolicyFigures] = Field(default_factory=dict)
    predicted: PlanPrediction | None = None
    jobs: tuple[JobReplays, ...] = ()
    cost_histogram: Histogram | None = None
    hours_histogram: Histogram | None = None
    seconds: float
    runs_per_second: float | None = None
    """Replays of the planned policy, markets drawn, per second of one core."""
    as_of: str
    infeasible: Infeasible | None = None
    notes: tuple[str, ...] = ()
    plan: Plan = Field(exclude=True, repr=False)
    """What was replayed."""

    def _repr_html_(self) -> str:
        """How a notebook shows it: a line per policy."""
        header = ("policy", "cost", "over optimum", "deadline met", "spot share")
        rows = [
            (
                name,
                f"${one.cost_usd.mean:,.2f}" if one.cost_usd else "",
                f"${one.usd_over_optimum:,.2f}" if one.usd_over_optimum is not None else "",
                f"{one.deadline_hit_rate:.1%}" if one.deadline_hit_rate is not None else "",
                f"{one.spot_share:.0%}" if one.spot_share is not None else "",
            )
            for name, one in self.policies.items()
        ]
        return html_table(f"{self.scenario}: {self.status}, {self.runs:,} runs", header, rows)
