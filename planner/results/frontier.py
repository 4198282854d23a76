"""The answer of `frontier`: cost against time, typed as its JSON is written.

The time axis is hours at the confidence asked for, which is what a deadline is compared with; the cost axis
is expected US dollars, penalties and the value of time left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal

from planner.errors import NoPlanError
from planner.results.differences import method_name, spot_percent
from planner.results.html import html_table
from planner.results.plan import (
    Assignment,
    CandidateCounts,
    Hours,
    Infeasible,
    Part,
    Plan,
    Spread,
    Status,
    describe_machines,
)

SPOT_ONLY = " (spot only: nothing is guaranteed)"

GroupBy = Literal["method", "gpu", "provider"]


class SegmentJob(Part):
    """How one job is run along a segment, in the few words that tell the ways apart."""

    name: str
    provider: str
    offer: str
    gpu: str
    gpus: int
    method: str
    spot_share_from: float
    spot_share_to: float


class Segment(Part):
    """A stretch along which waiting longer pays at a constant rate; both ends are equal for a single point.

    `saved_per_hour` is that rate in dollars, 0 for a point.

    An end that is not included costs no less than another point of the frontier that is reached no later.
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
        """Dollars that each hour of waiting saves along the stretch; 0 for a point."""
        hours = self.hours_to - self.hours_from
        return (self.cost_from_usd - self.cost_to_usd) / hours if hours > 0 else 0.0


class Point(Part):
    """A breakpoint of the frontier that nothing undercuts.

    `before` are the plans on the left side, where pieces of two ways meet; `change` says what differs from the
    point (or the plans) before. `bound` is proven: nothing done within these hours costs less.
    """

    hours: float
    expected_hours: float
    cost_usd: float
    jobs: tuple[Assignment, ...]
    before: tuple[Assignment, ...] = ()
    change: str = ""
    bound: float
    gap: float
    budget_probability: float | None = None
    floor_usd: float | None = None
    """Where jobs get in each other's way: nothing done before the next point costs less; None where all is exact."""
    separate_usd: float | None = None
    """Where jobs get in each other's way: what each alone would cost, in all; None where they do not."""
    knee: str = ""
    mostly_start_up: bool = False
    """Whether more than half of the expected hours of the job that ends last go into starting."""
    spot_only: bool = False
    """Whether some job runs on an offer that has no price on demand to fall back on: nothing is guaranteed then."""


def hidden_usd(points: Sequence[Point], segments: Sequence[Segment]) -> float:
    """The most dollars that a plan between two points could save, by their lower bounds; 0 where all is known.

    Along a slope nothing is hidden: its line is the frontier.
    """
    slopes = [one for one in segments if one.saved_per_hour > 0]
    return max(
        (
            left.cost_usd - left.floor_usd
            for left, right in itertools.pairwise(points)
            if left.floor_usd is not None
            and not any(one.hours_from <= left.hours and right.hours <= one.hours_to for one in slopes)
        ),
        default=0.0,
    )


class Curve(Part):
    """The frontier of one method, card or provider alone; without points where it has no way within the limits."""

    label: str
    allowed: bool = True
    exact: bool = True
    points: tuple[Point, ...] = ()
    segments: tuple[Segment, ...] = ()
    knee: int | None = None

    @property
    def hidden_usd(self) -> float:
        """As of a frontier: what may be saved between two of its points."""
        return hidden_usd(self.points, self.segments)


class HiddenByLimit(Part):
    """What a limit on hours keeps out of sight: the cheapest way of a job without it."""

    limit: str
    limit_hours: float
    cost_usd: float
    hours: float
    setting: str
    """What `--set` takes to see it."""


class Frontier(Part):
    """Cost against time: breakpoints sorted by hours, none dominated, and the segments between them."""

    schema_version: int = 1
    scenario: str
    status: Status
    exact: bool
    confidence: float | None
    """Chance to be done within the hours; None where the jobs ask for different ones."""
    points: tuple[Point, ...] = ()
    segments: tuple[Segment, ...] = ()
    knee: int | None = None
    by: GroupBy | None = None
    separate: tuple[Segment, ...] = ()
    """Where not exact: the lower bound for every time, what the jobs would cost without each other (without legs)."""
    curves: tuple[Curve, ...] = ()
    beyond: tuple[HiddenByLimit, ...] = ()
    candidates: CandidateCounts
    solver: str
    seconds: float
    as_of: str
    budget_usd: float | None = None
    infeasible: Infeasible | None = None
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """How a notebook shows the frontier: a line per breakpoint."""
        header = ("hours", "expected hours", "cost", "what", "change", "knee")
        rows = [
            (
                f"{one.hours:.1f}",
                f"{one.expected_hours:.1f}",
                f"${one.cost_usd:,.2f}",
                "; ".join(describe_assignment(job) for job in one.jobs) + (SPOT_ONLY if one.spot_only else ""),
                one.change,
                one.knee,
            )
            for one in self.points
        ]
        return html_table(f"{self.scenario}: {self.status}, {'exact' if self.exact else 'solved'}", header, rows)

    @property
    def hidden_usd(self) -> float:
        """The most dollars that a plan between two points, which was not looked for, could save; 0 if exact."""
        return hidden_usd(self.points, self.segments)

    def plan(self, index: int = 0) -> Plan:
        """A point as the plan that `solve` gives for its hours as deadline; without points, a Plan without jobs.

        Raises NoPlanError where there is no such point.
        """
        if not self.points and self.status in ("infeasible", "no_plan"):
            return self._plan(self.status, None)
        if not -len(self.points) <= index < len(self.points):
            raise NoPlanError(f"the frontier has {len(self.points)} points, there is no number {index}")
        return self._plan("optimal" if self.points[index].gap <= 1e-6 else "feasible", self.points[index])

    def _plan(self, status: Status, point: Point | None) -> Plan:
        jobs = point.jobs if point else ()
        return Plan(
            scenario=self.scenario,
            status=status,
            objective=point.cost_usd if point else None,
            bound=point.bound if point else None,
            gap=point.gap if point else None,
            solver=self.solver,
            seconds=self.seconds,
            as_of=self.as_of,
            candidates=self.candidates,
            cost_usd=Spread(
                expected=math.fsum(job.cost.expected for job in jobs),
                low=math.fsum(job.cost.low for job in jobs),
                high=math.fsum(job.cost.high for job in jobs),
            )
            if point
            else None,
            cost_at_confidence=math.fsum(job.cost_at_confidence for job in jobs) if point else None,
            budget_usd=self.budget_usd if point else None,
            budget_probability=point.budget_probability if point else None,
            hours=Hours(
                expected=max(job.hours.expected for job in jobs),
                low=max(job.hours.low for job in jobs),
                high=max(job.hours.high for job in jobs),
                at_confidence=max(job.hours.at_confidence for job in jobs),
            )
            if point
            else None,
            jobs=jobs,
            infeasible=self.infeasible,
            warnings=tuple(dict.fromkeys(note for job in jobs for note in job.notes)),
        )


def describe_assignment(job: Assignment) -> str:
    """A way in one line: `4 x H100-80GB, nebius, LoRA, spot 40 %`."""
    spot = "" if job.spot_share <= 0 else ", spot" if job.spot_share >= 1 else f", spot {spot_percent(job.spot_share)}"
    return (
        f"{describe_machines(job.gpus, job.gpu, job.runs_at_once)}, {job.provider}, {method_name(job.techniques)}{spot}"
    )


NEAR = 0.01
"""Points closer than this in dollars are told as one, unless one of them is more than that."""


def select_points(points: Sequence[Point], most: int) -> list[int]:
    """Indices of the points to show where there is no room for all: at most so many (at least 3).

    Always the first, the last and the knee. Points within 1 % of the dollars of the one before go first, unless the
    card or the method changes there, then those that save the smallest part.
    """
    always = {0, len(points) - 1} | {i for i, one in enumerate(points) if one.knee}
    kept: list[int] = []
    for i, one in enumerate(points):
        near = bool(kept) and one.cost_usd > points[kept[-1]].cost_usd * (1 - NEAR)
        if i in always or not near or _cards(one) != _cards(points[kept[-1]]):
            kept.append(i)
    while len(kept) > most:
        saved = [
            (1 - points[here].cost_usd / max(points[left].cost_usd, 1e-9), here)
            for left, here in itertools.pairwise(kept)
            if here not in always
        ]
        kept.remove(min(saved)[1])
    return kept


def _cards(point: Point) -> tuple[tuple[str, str], ...]:
    return tuple((job.gpu, method_name(job.techniques)) for job in point.jobs)
