"""The result of `frontier`: cost against time.

The time axis is hours at the requested confidence, which are compared with a deadline; the cost axis is expected
US dollars, without penalties and the value of time.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from planner.errors import NoPlanError
from planner.results.explanation import method_name, spot_percent
from planner.results.plan import Assignment, Plan, Status, plan_figures
from planner.results.plan_parts import (
    CandidateCounts,
    CutSamples,
    Infeasible,
    Part,
    Reservation,
    describe_machines,
    html_table,
)
from planner.results.result_tables import Row, Table, TabledResult, infeasible_html
from planner.results.subject_runs import RlRun, rollout_words
from planner.units import round_up

_NO_GUARANTEE = " (spot only: no guarantee)"

GroupBy = Literal["method", "gpu", "provider"]

DEFAULT_POINTS = 20
"""Most points of a frontier that are solved, but of services, each of whose points is a fleet of its own."""

MINIMISES_END = "the objective is time: `solve` takes the earliest end, not the least cost"
DOLLARS_PAID = "the cost is dollars paid"
"""Notes on an objective: hours, and dollars that a frontier leaves out (penalties, the value of time)."""


class SegmentJob(Part):
    """The configuration of one job along a segment."""

    name: str
    provider: str
    offer: str
    gpu: str
    gpus: int
    method: str
    spot_share_from: float
    spot_share_to: float


class Segment(Part):
    """A line segment of the frontier; both ends are equal for a single point.

    An end is excluded if another point of the frontier is no later and no more expensive.
    """

    hours_from: float
    hours_to: float
    cost_from_usd: float
    cost_to_usd: float
    from_included: bool = True
    to_included: bool = True
    jobs: tuple[SegmentJob, ...]

    @property
    def saved_per_hour(self) -> float:
        """Return the dollars saved per hour of waiting; 0 for a point."""
        hours = self.hours_to - self.hours_from
        return (self.cost_from_usd - self.cost_to_usd) / hours if hours > 0 else 0.0


class PlannedPoint(Part):
    """A plan as a point of cost against time."""

    hours: float
    expected_hours: float
    cost_usd: float
    jobs: tuple[Assignment, ...]
    reservations: tuple[Reservation, ...] = ()
    reinforcement: tuple[RlRun, ...] = Field(default=(), exclude_if=lambda runs: not runs)
    """Jobs of reinforcement learning."""

    @classmethod
    def of(cls, plan: Plan) -> PlannedPoint:
        """Return the point of the jobs of a plan that end."""
        figures = plan_figures(plan.jobs, plan.reservations, runs=plan.reinforcement)
        return cls(
            hours=figures["hours"].at_confidence, expected_hours=figures["hours"].expected,
            cost_usd=figures["cost"].expected, jobs=plan.jobs, reservations=plan.reservations,
            reinforcement=plan.reinforcement,
        )  # fmt: skip

    @property
    def planned(self) -> tuple[Assignment | RlRun, ...]:
        """Whatever runs: jobs of training and generation, jobs of reinforcement learning."""
        return (*self.jobs, *self.reinforcement)


class Point(PlannedPoint):
    """A breakpoint of the frontier; no plan is both earlier and cheaper.

    `before` are the plans on the left side, if two configurations meet here; `change` names the differences from
    the previous point (or plans). `bound` is a lower bound of the cost within these hours.
    """

    before: tuple[Assignment, ...] = ()
    change: str = ""
    bound: float
    gap: float
    budget_probability: float | None = None
    floor_usd: float | None = None
    """If jobs compete for shared limits: lower bound of the cost before the next point; None if exact."""
    separate_usd: float | None = None
    """If jobs compete for shared limits: cost of each job alone, summed; None if they do not."""
    knee: str = ""
    mostly_start_up: bool = False
    """Whether more than half of the expected hours of the last job are machine start."""
    spot_only: bool = False
    """Whether a job runs on an offer without on-demand price: without fallback there is no guarantee."""


def hidden_usd(points: Sequence[Point], segments: Sequence[Segment]) -> float:
    """Return the most dollars that an unknown plan between two points can save, by their lower bounds; 0 if exact.

    Along a slope nothing is unknown: its line is the frontier.
    """
    slopes = [segment for segment in segments if segment.saved_per_hour > 0]
    return max(
        (
            left.cost_usd - left.floor_usd
            for left, right in itertools.pairwise(points)
            if left.floor_usd is not None
            and not any(slope.hours_from <= left.hours and right.hours <= slope.hours_to for slope in slopes)
        ),
        default=0.0,
    )


class Curve(Part):
    """The frontier of one method, GPU or provider; without points if it is infeasible within the limits."""

    label: str
    allowed: bool = True
    exact: bool = True
    points: tuple[Point, ...] = ()
    segments: tuple[Segment, ...] = ()
    knee: int | None = None

    @property
    def hidden_usd(self) -> float:
        """Return the most dollars that an unknown plan between two points can save."""
        return hidden_usd(self.points, self.segments)


class HiddenByLimit(Part):
    """A plan of a job that costs less and that a limit on hours excludes; of the only job what `setting` gives."""

    limit: str
    limit_hours: float
    cost_usd: float
    hours: float
    setting: str
    """PATH=VALUE for `--set` that removes the limit."""


class Frontier(TabledResult):
    """Cost against time: breakpoints sorted by hours, none dominated, and the segments between them."""

    schema_version: int = 3
    scenario: str
    status: Status
    exact: bool
    confidence: float | None
    """Probability to finish within the hours; None if the jobs have different ones."""
    points: tuple[Point, ...] = ()
    segments: tuple[Segment, ...] = ()
    knee: int | None = None
    solved: PlannedPoint | None = None
    """The plan that `solve` gives: on the frontier, or above it as a near tie or where more than dollars counts."""
    by: GroupBy | None = None
    separate: tuple[Segment, ...] = ()
    """If not exact: lower bound for every time, the cost of each job alone, summed (segments without jobs)."""
    curves: tuple[Curve, ...] = ()
    beyond: tuple[HiddenByLimit, ...] = ()
    candidates: CandidateCounts
    solver: str
    seconds: float
    as_of: str
    budget_usd: float | None = None
    """Next to a service what it leaves of the budget."""
    services_usd: float | None = None
    """Of the services next to the jobs, the same at every point and part of none; None without services."""
    infeasible: Infeasible | None = None
    notes: tuple[str, ...] = ()
    keeps_typical_stock: bool = True
    """Whether training jobs rent no more side by side than `limits.typical_stock`; False: no plan was found that does.
    """
    fixed: tuple[str, ...] = Field(default=(), exclude_if=lambda lines: not lines)
    """What the scenario leaves open: chosen again at each point, or fixed here as `solve` chose it."""
    cut: tuple[CutSamples, ...] = ()
    """Jobs whose samples are longer than their sequences."""

    def table(self) -> Table:
        """Return a row per breakpoint, earliest first; with `by` those of every curve, by the name of the curve.

        `hours` are those at the confidence, `saves_usd_per_hour` what an hour of waiting saves from this point on.
        """
        curves = self.curves or (None,)
        rows = [row for curve in curves for row in self._rows(curve)]
        return Table(rows, f"{self.scenario}: cost against time", str(self))

    def _rows(self, curve: Curve | None) -> list[Row]:
        points, segments = (self.points, self.segments) if curve is None else (curve.points, curve.segments)
        knee = self.knee if curve is None else curve.knee
        slopes = {segment.hours_from: segment.saved_per_hour for segment in segments}
        label: Row = {} if curve is None else {f"{self.by}": curve.label}
        return [
            {
                **label,
                "hours": point.hours,
                "expected_hours": point.expected_hours,
                "cost_usd": point.cost_usd,
                "bound_usd": point.bound,
                "saves_usd_per_hour": slopes.get(point.hours, 0.0),
                "plan": "; ".join(map(describe_assignment, point.planned)),
                "gpus": sum(job.gpus * job.runs_at_once for job in point.planned),
                "guaranteed": not point.spot_only,
                "knee": index == knee,
                "change": point.change,
            }
            for index, point in enumerate(points)
        ]

    def _repr_html_(self) -> str:
        """Return a picture, and a table with a row per breakpoint, for notebooks; without points why there are none."""
        if not self.points and not self.curves:
            return infeasible_html(self.scenario, self.status, self.infeasible)
        from planner.drawing.charts import Breakpoint, frontier_sketch

        header = ("by", "likely", "cost", "plan", "change", "best value")
        rows = [
            (
                f"{round_up(point.hours, 1):.1f}",
                f"{point.expected_hours:.1f}",
                f"${point.cost_usd:,.2f}",
                "; ".join(map(describe_assignment, point.planned)) + (_NO_GUARANTEE if point.spot_only else ""),
                point.change,
                point.knee,
            )
            for point in self.points
        ]
        marked = [(point.hours, point.cost_usd, index == self.knee) for index, point in enumerate(self.points)]
        points = [Breakpoint(hours, usd, "best value" if knee else "", is_marked=knee) for hours, usd, knee in marked]
        runs = [
            (segment.hours_from, segment.cost_from_usd, segment.hours_to, segment.cost_to_usd)
            for segment in self.segments
        ]
        ends = {hours for run in runs for hours in (run[0], run[2])}
        runs += [(point.hours, point.usd, point.hours, point.usd) for point in points if point.hours not in ends]
        own = self.solved
        if own is not None:
            points.append(Breakpoint(own.hours, own.cost_usd, "your plan", is_plan=True))
            points.sort(key=lambda point: point.hours)
        picture = frontier_sketch(points, runs, self.confidence)
        caption = f"{self.scenario}: {self.status}, {'exact' if self.exact else 'solved'}"
        return picture + html_table(caption, header, rows)

    @property
    def hidden_usd(self) -> float:
        """Return the most dollars that an unknown plan between two points can save; 0 if exact."""
        return hidden_usd(self.points, self.segments)

    def with_plan(self, plan: Plan) -> Frontier:
        """Return the frontier with the plan of `solve`; itself without points, or where that plan has no jobs."""
        if not self.points or not plan.parts_that_end:
            return self
        return self.model_copy(update={"solved": PlannedPoint.of(plan)})

    def plan(self, index: int = 0) -> Plan:
        """Return a point as the plan that `solve` finds for its hours as deadline; without points, a plan without jobs.

        Raises NoPlanError if there is no such point.
        """
        if not self.points and self.status in ("infeasible", "no_plan"):
            return self._plan(self.status, None)
        if not -len(self.points) <= index < len(self.points):
            raise NoPlanError(f"the frontier has {len(self.points)} points, none has index {index}")
        return self._plan("optimal" if self.points[index].gap <= 1e-6 else "feasible", self.points[index])

    def _plan(self, status: Status, point: Point | None) -> Plan:
        figures: dict[str, Any] = dict.fromkeys(("objective", "bound", "gap", "cost", "hours"))
        if point:
            figures = {
                "objective": point.cost_usd,
                "bound": point.bound,
                "gap": point.gap,
                "least_cost_usd": point.cost_usd,
                "budget_usd": self.budget_usd,
                "budget_probability": point.budget_probability,
                "warnings": tuple(dict.fromkeys(note for job in point.planned for note in job.notes)),
                "keeps_typical_stock": self.keeps_typical_stock,
                **plan_figures(point.jobs, point.reservations, runs=point.reinforcement),
            }
        same = ("scenario", "solver", "seconds", "as_of", "candidates", "infeasible", "cut")
        return Plan(status=status, **{key: getattr(self, key) for key in same}, **figures)


def describe_assignment(job: Assignment | RlRun) -> str:
    """Return a configuration in one line: `4 x H100-80GB, nebius, LoRA, spot 40 %`."""
    if isinstance(job, RlRun):
        return f"{job.described}{rollout_words(job.rollout_weight_bits)}, {job.method_name}"
    spot = "" if job.spot_share <= 0 else ", spot" if job.spot_share >= 1 else f", spot {spot_percent(job.spot_share)}"
    machines = describe_machines(job.gpus, job.gpu, job.runs_at_once)
    return f"{machines}, {job.provider}, {method_name(job.techniques)}{spot}"


MIN_SAVING = 0.01
"""Points that save less than this share of the cost are shown as one, unless hardware or method changes."""


def select_points(points: Sequence[Point], most: int) -> list[int]:
    """Return the indices of at most `most` (>= 3) points to show: always the first, the last and the knee.

    First the points within 1 % of the cost of the previous one are dropped, unless GPU or method changes there, then
    those that save the smallest share.
    """
    always = {0, len(points) - 1} | {i for i, point in enumerate(points) if point.knee}
    kept: list[int] = []
    for i, point in enumerate(points):
        near = bool(kept) and point.cost_usd > points[kept[-1]].cost_usd * (1 - MIN_SAVING)
        if i in always or not near or _hardware(point) != _hardware(points[kept[-1]]):
            kept.append(i)
    while len(kept) > most:
        saved = [
            (1 - points[here].cost_usd / max(points[left].cost_usd, 1e-9), here)
            for left, here in itertools.pairwise(kept)
            if here not in always
        ]
        kept.remove(min(saved)[1])
    return kept


def _hardware(point: Point) -> tuple[tuple[str, ...], ...]:
    return tuple(
        job.hardware if isinstance(job, RlRun) else (job.gpu, method_name(job.techniques)) for job in point.planned
    )
