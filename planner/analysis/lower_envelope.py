"""The lower-left envelope of line segments in (hours, $), and the sum of such envelopes over jobs."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import CandidateTable, Flags, Floats, Integers
from planner.results.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# The lower-left envelope of line segments in (hours, $): the exact least cost for every time, without sampling.
#
# A row of a table is a segment: its late hours and its dollars are linear in the spot share, from the share's
# floor to its cap. `f(T)`, the least cost of any point of any segment with hours <= T, falls along pieces of
# segments, is level between them, and jumps where a segment starts lower.
#
# The sweep goes from left to right with one current segment, or none after its cheap end, where f is level. The next
# event is the earliest time at which another segment lies below the current line: at its start (a jump), where it
# crosses the line, or, while f is level, where it falls below that level. One vectorised expression over all segments
# finds it (`_Sweep.next_below`), so a sweep costs O(pieces x segments) after dominated segments are pruned; segments
# number thousands and pieces dozens. Of segments equal within rounding the steepest is followed, then that of least
# rank, because the steepest is the cheapest right after.


TOLERANCE = 1e-9
"""Relative difference of dollars, or of dollars per hour, that counts as rounding."""


@dataclass(frozen=True)
class Segments:
    """Columns (n,): from the fast end of each segment to the slow end, which is the cheaper one.

    `row` is the row of the table; of two equal segments the one of lower `rank` is preferred.
    """

    row: Integers
    share_from: Floats
    share_to: Floats
    hours_from: Floats
    hours_to: Floats
    usd_from: Floats
    usd_to: Floats
    rank: Integers

    def __len__(self) -> int:
        return len(self.row)

    def select(self, which: Integers | Flags) -> Segments:
        """Return the segments of a mask or an index array, in that order."""
        return Segments(**{name: values[which] for name, values in vars(self).items()})

    @property
    def slope(self) -> Floats:
        """Dollars per hour along each segment (n,), at most 0; 0 for a point."""
        hours, usd = self.hours_to - self.hours_from, self.usd_to - self.usd_from
        return np.divide(usd, hours, out=np.zeros(len(self)), where=hours > 0)


class EnvelopePiece(NamedTuple):
    """The part of one row's segment that is the envelope; `hours_to == hours_from` for a point.

    An end that is not included is undercut there by a jump; a start that is not included costs as much as
    an earlier piece.
    """

    row: int
    share_from: float
    share_to: float
    hours_from: float
    hours_to: float
    usd_from: float
    usd_to: float
    from_included: bool = True
    to_included: bool = True

    def at(self, hours: float) -> tuple[float, float]:
        """Return spot share and dollars at hours on the piece; beyond its end those of the end."""
        if hours >= self.hours_to:
            return self.share_to, self.usd_to
        part = (hours - self.hours_from) / (self.hours_to - self.hours_from)
        return (
            self.share_from + part * (self.share_to - self.share_from),
            self.usd_from + part * (self.usd_to - self.usd_from),
        )


def build_segments(table: CandidateTable, budget_usd: float | None = None) -> Segments:
    """Return the rows of a table as segments (n,), without shares whose late dollars exceed the budget.

    The axis is late hours and expected dollars, penalties left out. Where the slow end is no cheaper, the fast
    end alone remains. Ties go by the order of `planner.candidates.market`, then more free VRAM, the offer's label
    and the recipe.
    """
    rows, inside = clip_to_caps(table, budget_usd)
    ends = [
        np.stack([share, inside.late_hours(share), inside.cost_usd(share)])
        for share in (inside.share_low, inside.share_high)
    ]
    (_, hours, usd), (_, hours_high, usd_high) = ends
    swap = (hours_high < hours) | ((hours_high == hours) & (usd_high < usd))
    fast, slow = np.where(swap, ends[1], ends[0]), np.where(swap, ends[0], ends[1])
    slow = np.where(slow[2] < fast[2], slow, fast)
    label = np.argsort(np.argsort(np.asarray(inside.offers), kind="stable"), kind="stable")
    by_name = rows, inside.recipe, label[inside.offer]
    order = np.lexsort((*by_name, inside.fit_gib - inside.usable_gib, inside.instances, inside.preference))
    return Segments(rows, fast[0], slow[0], fast[1], slow[1], fast[2], slow[2], rank=np.argsort(order))


def clip_to_caps(
    table: CandidateTable, budget_usd: float | None = None, hours: float | None = None
) -> tuple[Integers, CandidateTable]:
    """Return the rows that can keep late dollars and late hours within caps, their shares cut to where they do.

    The result is the row numbers and the table of those rows.
    """
    keep, low, high = np.ones(len(table), dtype=bool), table.share_low, table.share_high
    for cap, measure in ((budget_usd, table.late_cost_usd), (hours, table.late_hours)):
        if cap is None:
            continue
        slack = TOLERANCE * max(1.0, abs(cap))
        first, last = measure(low), measure(high)
        keep &= np.minimum(first, last) <= cap + slack
        with np.errstate(invalid="ignore", divide="ignore"):
            crossing = low + np.clip((cap - first) / (last - first), 0.0, 1.0) * (high - low)
        low, high = (
            np.where((first > cap + slack) & (last < first), crossing, low),
            np.where((last > cap + slack) & (first < last), crossing, high),
        )
    rows = np.flatnonzero(keep)
    return rows, replace(table.rows(rows), share_low=low[rows], share_high=np.maximum(low, high)[rows])


def lower_envelope(segments: Segments) -> tuple[EnvelopePiece, ...]:
    """Return the pieces of f from left to right; none for no segments."""
    if not len(segments):
        return ()
    segments = _prune(segments)
    sweep = _Sweep(segments)
    pieces: list[EnvelopePiece] = []
    now = float(segments.hours_from.min())
    current: int | None = sweep.best(now)
    begun, included, level = now, True, 0.0
    while True:
        if current is None:
            event = sweep.next_below(now, level, 0.0, np.inf)
            if event is None:
                return tuple(pieces)
            now, included = event
            current, begun = sweep.best(now), now
            continue
        level, end = float(sweep.usd_at(now)[current]), float(segments.hours_to[current])
        event = sweep.next_below(now, level, float(sweep.slope[current]), end)
        if event is None:
            pieces.append(sweep.piece(current, begun, end, included, True))
            now, level, current = end, float(segments.usd_to[current]), None
            continue
        now, jump = event
        if now > begun:
            pieces.append(sweep.piece(current, begun, now, included, not jump))
            included = True
        current, begun = sweep.best(now), now


def _prune(segments: Segments) -> Segments:
    """Return the segments whose cheapest point no end point undercuts before they start."""
    hours = np.concatenate([segments.hours_from, segments.hours_to])
    usd = np.concatenate([segments.usd_from, segments.usd_to])
    order = np.argsort(hours, kind="stable")
    least = np.minimum.accumulate(usd[order])
    before = np.searchsorted(hours[order], segments.hours_from, side="right") - 1
    reached = least[before]
    return segments.select(segments.usd_to <= reached + TOLERANCE * np.maximum(1.0, np.abs(reached)))


class _Sweep:
    """Events of segments relative to the line that is the envelope at a time."""

    def __init__(self, segments: Segments) -> None:
        self.segments, self.slope = segments, segments.slope
        self.tolerance = TOLERANCE * max(1.0, float(np.abs(segments.usd_from).max()))

    def usd_at(self, hours: Floats | float) -> Floats:
        """Return the dollars (n,) of the line of each segment at a time."""
        return self.segments.usd_from + self.slope * (hours - self.segments.hours_from)

    def best(self, hours: float) -> int:
        """Return the segment to follow from a time on: cheapest there, then steepest, then of least rank.

        One that ends there is level from there on.
        """
        segments = self.segments
        usd = np.where((segments.hours_from <= hours) & (segments.hours_to >= hours), self.usd_at(hours), np.inf)
        level = np.flatnonzero(usd <= usd.min() + self.tolerance)
        slope = np.where(segments.hours_to[level] > hours, self.slope[level], 0.0)
        steepest = slope.min()
        level = level[slope <= steepest + TOLERANCE * abs(steepest)]
        return int(level[np.argmin(segments.rank[level])])

    def next_below(self, now: float, level: float, slope: float, end: float) -> tuple[float, bool] | None:
        """Return when another segment first undercuts the line from (now, level) to `end`, and whether by a jump."""
        segments = self.segments
        start = np.maximum(segments.hours_from, now)
        above = self.usd_at(start) - (level + slope * (np.minimum(start, end) - now))
        alive = (start <= end) & (segments.hours_to >= start)
        jumps = alive & (above < -self.tolerance)
        until = np.minimum(segments.hours_to, end)
        closing = slope - self.slope
        through = above - closing * (until - start) < -self.tolerance
        crosses = alive & ~jumps & (closing > TOLERANCE * abs(slope)) & through
        when = np.full(len(segments), np.inf)
        when[jumps] = start[jumps]
        when[crosses] = start[crosses] + np.maximum(above[crosses], 0.0) / closing[crosses]
        first = int(np.argmin(when))
        if not np.isfinite(when[first]):
            return None
        return float(when[first]), bool(np.any(jumps & (when == when[first])))

    def piece(self, index: int, begun: float, ended: float, included: bool, closed: bool) -> EnvelopePiece:
        """Return the piece of one segment between two times."""
        columns = {name: values[index].item() for name, values in vars(self.segments).items() if name != "rank"}
        whole = EnvelopePiece(**columns)
        (share_from, usd_from), (share_to, usd_to) = whole.at(begun), whole.at(ended)
        return EnvelopePiece(whole.row, share_from, share_to, begun, ended, usd_from, usd_to, included, closed)


def convex_hull(hours: Floats, usd: Floats) -> list[int]:
    """Return the indices of the vertices of the lower convex hull of points sorted by hours, ends included."""
    hull: list[int] = []
    straight = TOLERANCE * float(np.ptp(hours) * np.ptp(usd)) if len(hours) else 0.0
    for i in range(len(hours)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            turn = (hours[b] - hours[a]) * (usd[i] - usd[a]) - (usd[b] - usd[a]) * (hours[i] - hours[a])
            if turn > straight:
                break
            hull.pop()
        hull.append(i)
    return hull


class Knee(NamedTuple):
    """The point where waiting stops paying more per hour than on average over the whole range."""

    vertex: int
    saved_before: float
    """Dollars that an hour saves on average from the fastest point to the knee."""
    saved_after: float
    """The most dollars per hour that any wait beyond the knee saves."""


def find_knee(hours: Floats, usd: Floats) -> Knee | None:
    """Return the vertex of the lower convex hull farthest from the chord between its ends; None with under three.

    Distance is measured in dollars: which vertex is farthest does not depend on the scale of either axis.
    """
    hull = convex_hull(hours, usd)
    if len(hull) < 3:
        return None
    h, c = hours[hull], usd[hull]
    below = c[0] + (c[-1] - c[0]) * (h - h[0]) / (h[-1] - h[0]) - c
    k = 1 + int(np.argmax(below[1:-1]))
    return Knee(hull[k], float((c[0] - c[k]) / (h[k] - h[0])), float((c[k] - c[k + 1]) / (h[k + 1] - h[k])))


# The sum of the jobs' envelopes, `F(T) = sum_j f_j(T)`, with the candidate of each job that attains it.
#
# An envelope ends at its job's deadline and keeps its last cost from there on, so `f_j(min(T, deadline_j))` is
# `f_j(T)`. One job is the case of one term. F is piecewise linear: it can only change slope, or jump, where some
# envelope has an end of a piece, so it is evaluated at these times and on the intervals between them.


class RowChoice(NamedTuple):
    """A row of the job's table at a spot share."""

    row: int
    share: float


@dataclass(frozen=True)
class Breakpoint:
    """A breakpoint of the frontier with its lower bound, which is its cost where it is one of F itself.

    No plan that ends before the next point costs less than `floor_usd`; None where no bound was computed. A breakpoint
    of jobs in turn has a plan in place of choices.
    """

    hours: float
    usd: float
    choices: tuple[RowChoice, ...]  # one for each job
    bound: float
    gap: float = 0.0
    before: tuple[RowChoice, ...] = ()  # where pieces of F meet, the choices on the left side
    separate_usd: float | None = None  # the sum of the separate optima, where it differs
    floor_usd: float | None = None
    plan: Plan | None = None


class LinearPiece(NamedTuple):
    """A linear part of F on which waiting pays, with the choices at either end; a point where both are equal."""

    hours_from: float
    hours_to: float
    usd_from: float
    usd_to: float
    choices_from: tuple[RowChoice, ...]
    choices_to: tuple[RowChoice, ...]
    from_included: bool = True
    to_included: bool = True


class _JobState(NamedTuple):
    """The choice, dollars and envelope piece of one job at a time."""

    choice: RowChoice
    usd: float
    piece: EnvelopePiece


def sum_envelopes(
    envelopes: Sequence[Sequence[EnvelopePiece]],
) -> tuple[tuple[Breakpoint, ...], tuple[LinearPiece, ...]]:
    """Return the breakpoints and linear pieces of F from left to right; none where a job has no envelope."""
    if not envelopes or not all(envelopes):
        return (), ()
    first = max(pieces[0].hours_from for pieces in envelopes)
    ends = {hours for pieces in envelopes for piece in pieces for hours in (piece.hours_from, piece.hours_to)}
    times = sorted(hours for hours in ends if hours >= first)
    tolerance = TOLERANCE * max(1.0, sum(pieces[0].usd_from for pieces in envelopes))
    breakpoints: dict[float, Breakpoint] = {}
    for hours in times:
        here = [_at(pieces, hours) for pieces in envelopes]
        left = [_before(pieces, hours) for pieces in envelopes] if hours > first else []
        usd = sum(state.usd for state in here)
        falls = any(state.piece.hours_from < hours <= state.piece.hours_to for state in left)
        jumps = not left or sum(state.usd for state in left) > usd + tolerance
        if falls or jumps:
            choices = tuple(state.choice for state in here)
            breakpoints[hours] = Breakpoint(hours, usd, choices, bound=usd, before=_left_choices(left, here, hours))
    linear_pieces = []
    for begun, ended in itertools.pairwise(times):
        running = [pieces[_index_after(pieces, begun)] for pieces in envelopes]
        if any(piece.hours_to > begun for piece in running):
            linear_pieces.append(_linear_piece(running, begun, ended, breakpoints, tolerance))
    touched = {linear_piece.hours_from for linear_piece in linear_pieces if linear_piece.from_included}
    touched |= {linear_piece.hours_to for linear_piece in linear_pieces if linear_piece.to_included}
    points = [
        LinearPiece(point.hours, point.hours, point.usd, point.usd, point.choices, point.choices)
        for point in breakpoints.values()
        if point.hours not in touched
    ]
    return tuple(breakpoints.values()), tuple(
        sorted([*linear_pieces, *points], key=lambda piece: (piece.hours_to, piece.hours_from))
    )


def evaluate_envelope(envelope: Sequence[EnvelopePiece], hours: float) -> float:
    """Return f(hours) in dollars; infinite before the envelope begins."""
    if not envelope or hours < envelope[0].hours_from:
        return float("inf")
    return _at(envelope, hours).usd


def _on(piece: EnvelopePiece, hours: float) -> _JobState:
    share, usd = piece.at(hours)
    return _JobState(RowChoice(piece.row, share), usd, piece)


def _index_after(pieces: Sequence[EnvelopePiece], hours: float) -> int:
    """Return the number of the piece that holds right after `hours`."""
    return bisect_right(pieces, hours, key=attrgetter("hours_from")) - 1


def _at(pieces: Sequence[EnvelopePiece], hours: float) -> _JobState:
    index = _index_after(pieces, hours)
    if index and pieces[index].hours_from == hours and not pieces[index].from_included:
        index -= 1
    return _on(pieces[index], hours)


def _before(pieces: Sequence[EnvelopePiece], hours: float) -> _JobState:
    """Return the limit from the left, which a jump at `hours` undercuts; at the start of the envelope, its start."""
    return _on(pieces[max(0, bisect_left(pieces, hours, key=attrgetter("hours_from")) - 1)], hours)


def _left_choices(left: Sequence[_JobState], here: Sequence[_JobState], hours: float) -> tuple[RowChoice, ...]:
    """Return the choices on the left where pieces meet; nothing lies left of the start."""
    meets = any(
        old.choice.row != new.choice.row and old.piece.hours_from < old.piece.hours_to == hours
        for old, new in zip(left, here, strict=False)
    )
    return tuple(state.choice for state in left) if meets else ()


def _linear_piece(
    running: Sequence[EnvelopePiece],
    begun: float,
    ended: float,
    breakpoints: Mapping[float, Breakpoint],
    tolerance: float,
) -> LinearPiece:
    start, end = ([_on(piece, max(hours, piece.hours_from)) for piece in running] for hours in (begun, ended))
    usd_from, usd_to = (sum(state.usd for state in states) for states in (start, end))
    return LinearPiece(
        begun,
        ended,
        usd_from,
        usd_to,
        tuple(state.choice for state in start),
        tuple(state.choice for state in end),
        begun in breakpoints and usd_from <= breakpoints[begun].usd + tolerance,
        ended in breakpoints and usd_to <= breakpoints[ended].usd + tolerance,
    )
