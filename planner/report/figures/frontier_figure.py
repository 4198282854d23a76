"""The frontier of cost against time: its picture, the table, and the figures behind the slider of a page."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

from planner.drawing.curve import Branch, Breakpoint, Run, curve
from planner.drawing.scene import SERIES, Caption, Scene, roles_of
from planner.report import words
from planner.report.figures.plan_figures import NARROW, Figure, Table, item_name
from planner.report.frontier_text import (
    BEST_VALUE,
    best_value,
    format_hours,
    format_notes,
    format_optimality,
    format_summary,
)
from planner.report.plan_sections import batch, format_place, kernels, techniques
from planner.results.differences import describe_job_differences, method_name
from planner.results.frontier import Curve, Frontier, Point, Segment, SegmentJob, describe_assignment, select_points
from planner.results.plan import Assignment

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NAMED, MAX_NAMED_NARROW = 10, 4
"""Most breakpoints with a name in a wide and in a narrow picture."""
MOST_ROWS = 60
"""Most rows of the table; the data block has every breakpoint."""
BEST_LABEL = f"{BEST_VALUE}: "
NO_BILL = -1
"""In place of the bill of an end that is no breakpoint."""
NEAR = 1e-9
"""Relative difference of hours below which two moments are one."""


def frontier_figure(found: Frontier, deadline: float | None) -> Figure:
    """Return the frontier as a figure; `deadline` is that of the plan, if all of its jobs share one."""
    confidence = f" ({words.probability_text(found.confidence)})" if found.confidence is not None else ""
    value = f"{best_value(found)}: {found.points[found.knee].knee}." if found.knee is not None else ""
    lead = f"{words.sanitise(format_summary(found))}. {value}".strip()
    shown = select_points(found.points, MOST_ROWS) if len(found.points) > 2 else list(range(len(found.points)))
    rows = []
    for above, here in zip([None, *shown], shown, strict=False):
        point = found.points[here]
        change = (
            words.sanitise(describe_job_differences(found.points[above].jobs, point.jobs)) if above is not None else ""
        )
        rows.append((f"{format_hours(point.hours)} h", words.usd(point.cost_usd), _plan(point), change))
    hidden = len(found.points) - len(shown)
    every = [*found.points, *(point for line in found.curves for point in line.points)]
    hollow = "; hollow: spot only, no guarantee" if any(point.spot_only for point in every) else ""
    # The lead has the best value.
    notes = [format_optimality(found), *(note for note in format_notes(found) if not note.startswith(BEST_VALUE))]
    notes += [f"{hidden} similar breakpoints are not in the table: planner frontier --all"] if hidden else []
    return Figure(
        "frontier",
        "Cost against time",
        lead,
        functools.partial(
            _draw, found, deadline, Caption("Cost against time", lead, f"ends by{confidence}, hours{hollow}")
        ),
        Table((f"ends by{confidence}", "expected cost", "plan", "change"), tuple(rows)),
        tuple(map(words.sanitise, notes)),
    )


def _plan(point: Point) -> str:
    alone = " (spot only: no guarantee)" if point.spot_only else ""
    return words.sanitise("; ".join(map(describe_assignment, point.jobs))) + alone


def _draw(found: Frontier, deadline: float | None, caption: Caption, width: float) -> Scene:
    most = MAX_NAMED_NARROW if width <= NARROW else MAX_NAMED
    named = set(select_points(found.points, most)) if len(found.points) > 2 else set(range(len(found.points)))
    texts = {index: _label(found.points[index], index == found.knee) for index in sorted(named)}
    # A machine is named where it first appears: a name repeated along the line says nothing.
    repeated = [
        here for last, here in itertools.pairwise(sorted(named)) if texts[here] == texts[last].removeprefix(BEST_LABEL)
    ]
    points = [
        Breakpoint(
            point.hours,
            point.cost_usd,
            texts[index] if index in named and index not in repeated else "",
            f"by {format_hours(point.hours)} h, {words.usd(point.cost_usd)}: {_plan(point)}",
            point.spot_only,
            index == found.knee,
        )
        for index, point in enumerate(found.points)
    ]
    branches, below = _branches(found)
    runs = runs_of(found.segments, found.points)
    return curve(points, runs, deadline, caption, width, branches, below)


def _branches(found: Frontier) -> tuple[list[Branch], list[Branch]]:
    """Return the curves that have a name, and those behind them: further curves, or the bound of an inexact frontier.

    One curve has a name for each colour: those that make up the frontier first, then the cheapest.
    """
    curves = [each for each in found.curves if each.points]
    legs = {getattr(job, found.by or "method") for segment in found.segments for job in segment.jobs}
    cheapest = sorted(curves, key=lambda each: (each.label not in legs, each.points[-1].cost_usd))
    chosen = [each for each in curves if each in cheapest[: len(SERIES)]]
    branches = [
        _branch(each, role, words.sanitise(each.label) + ("" if each.allowed else " (excluded)"))
        for role, each in zip(roles_of([each.label for each in chosen]), chosen, strict=True)
    ]
    others = cheapest[len(SERIES) :]
    below = [_branch(each, "c6", "" if at else f"{len(others)} others", 0.7) for at, each in enumerate(others)]
    if found.separate and not curves:
        bound = tuple(runs_of(found.separate, ()))
        below.append(Branch("lower bound: each job alone", "muted", (), bound, 1.0, has_dots=False))
    return branches, below


def _branch(found_curve: Curve, role: str, name: str, width: float = 2.0) -> Branch:
    points = tuple(
        Breakpoint(
            point.hours, point.cost_usd, "",
            f"{found_curve.label}: by {format_hours(point.hours)} h, {words.usd(point.cost_usd)}", point.spot_only,
        )
        for point in found_curve.points
    )  # fmt: skip
    return Branch(
        name, role, points, tuple(runs_of(found_curve.segments, found_curve.points)), width, has_dots=width > 1
    )


def _label(point: Point, is_knee: bool) -> str:
    machines = ", ".join(words.gpus(job.gpus, job.gpu, job.runs_at_once) for job in point.jobs[:2])
    text = f"{machines}, {method_name(point.jobs[0].techniques)}" if len(point.jobs) == 1 else machines
    return words.sanitise(f"{BEST_LABEL}{text}" if is_knee else text)


def runs_of(segments: Sequence[Segment], points: Sequence[Point]) -> list[Run]:
    """Return segments, and the points that lie on none of them, as hours and dollars of both ends."""
    runs = [(segment.hours_from, segment.cost_from_usd, segment.hours_to, segment.cost_to_usd) for segment in segments]
    ends = {hours for run in runs for hours in (run[0], run[2])}
    return runs + [
        (point.hours, point.cost_usd, point.hours, point.cost_usd) for point in points if point.hours not in ends
    ]


def frontier_data(found: Frontier) -> dict[str, Any]:
    """Return what the slider needs: breakpoints, slopes, and the plans and bills behind them, each stored once.

    The cost within h hours is the least over all runs that begin by then: of a run that has ended, the cost at its
    end, else that on its line. A slope has the bills of both of its ends, between which the bill is linear too.
    """
    plans: dict[str, int] = {}
    items: dict[str, int] = {}
    texts: list[dict[str, Any]] = []
    bills: dict[tuple[float, ...], int] = {}

    def plan_of(jobs: Sequence[Assignment]) -> int:
        return _store(plans, texts, [{"name": words.sanitise(job.name), "facts": _facts(job)} for job in jobs])

    def bill_of(jobs: Sequence[Assignment], reserved: float) -> int:
        sums: dict[str, float] = {"reserved": reserved} if reserved else {}
        for job in jobs:
            for line in job.bill:
                name = item_name(line, job.gpu)
                sums[name] = sums.get(name, 0.0) + line.usd
        places = [(items.setdefault(name, len(items)), usd) for name, usd in sums.items() if round(usd, 2)]
        bill = tuple(figure for place, usd in places for figure in (place, round(usd, 3)))
        return bills.setdefault(bill, len(bills))

    points = []
    for point in found.points:
        reserved = sum(reservation.usd for reservation in point.reservations)
        points.append(
            {
                "h": round(point.hours, 6),
                "e": round(point.expected_hours, 4),
                "u": round(point.cost_usd, 6),
                "p": plan_of(point.jobs),
                "b": bill_of(point.jobs, reserved),
                "s": [round(job.spot_share, 3) for job in point.jobs],
            }
        )
    slopes = [
        [
            *(
                round(figure, 6)
                for figure in (slope.hours_from, slope.cost_from_usd, slope.hours_to, slope.cost_to_usd)
            ),
            plan_of(left or right)
            if left or right
            else _store(plans, texts, [_short_facts(job) for job in slope.jobs]),
            bill_of(left, 0.0) if left else NO_BILL,
            bill_of(right, 0.0) if right else NO_BILL,
            [[round(job.spot_share_from, 3), round(job.spot_share_to, 3)] for job in slope.jobs],
        ]
        for slope, left, right in _slopes(found)
    ]
    return {"points": points, "slopes": slopes, "plans": texts, "items": list(items), "bills": list(bills)}


def _store(plans: dict[str, int], texts: list[dict[str, Any]], jobs: list[dict[str, Any]]) -> int:
    """Return the place of a plan among the stored ones; a new one is added."""
    key = repr(jobs)
    if key not in plans:
        plans[key] = len(texts)
        texts.append({"jobs": jobs})
    return plans[key]


def _slopes(found: Frontier) -> list[tuple[Segment, Sequence[Assignment], Sequence[Assignment]]]:
    """Return the segments on which cost falls over time, with the jobs at their left and at their right end.

    An end that another plan beats is no breakpoint: its jobs are not known, and empty here.
    """
    at = {round(point.hours, 9): point for point in found.points}
    slopes: list[tuple[Segment, Sequence[Assignment], Sequence[Assignment]]] = []
    for segment in found.segments:
        if segment.hours_to > segment.hours_from * (1 + NEAR):
            left, right = at.get(round(segment.hours_from, 9)), at.get(round(segment.hours_to, 9))
            begins = left.jobs if left and segment.from_included else ()
            ends = (right.before or right.jobs) if right and segment.to_included else ()
            slopes.append((segment, begins, ends))
    return slopes


def _short_facts(job: SegmentJob) -> dict[str, Any]:
    """Return what a segment itself says of a job."""
    machines = f"{words.gpus(job.gpus, job.gpu)} at {job.provider}"
    return {"name": words.sanitise(job.name), "facts": [("machines", words.sanitise(machines)), ("method", job.method)]}


def _facts(job: Assignment) -> list[tuple[str, str]]:
    """Return what of a configuration does not change along a slope."""
    vram = job.vram_gib
    facts = [
        ("machines", f"{format_place(job)}, {job.interconnect}" if job.gpus > 1 else format_place(job)),
        ("training" if job.inference is None else "serving", techniques(job)),
        ("batch", batch(job)),
        ("framework", kernels(job)),
        ("memory", f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB" if job.gpus else ""),
    ]
    return [(name, words.sanitise(text)) for name, text in facts if text]
