"""The sum of the jobs' envelopes, `F(T) = sum_j f_j(T)`, with the candidate of each job that attains it.

An envelope ends at its job's deadline and keeps its last cost from there on, so `f_j(min(T, deadline_j))` is `f_j(T)`.
One job is the case of one term. F is piecewise linear: it can only change slope, or jump, where some envelope has an
end of a piece, so it is evaluated at these times and on the intervals between them.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from planner.analysis.frontier.lower_envelope import TOLERANCE, EnvelopePiece
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.results.plan import Plan


class RowChoice(NamedTuple):
    """A row of the job's table at a spot share."""

    row: int
    share: float


@record(frozen=True)
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
        usd = sum(one.usd for one in here)
        falls = any(one.piece.hours_from < hours <= one.piece.hours_to for one in left)
        jumps = not left or sum(one.usd for one in left) > usd + tolerance
        if falls or jumps:
            choices = tuple(one.choice for one in here)
            breakpoints[hours] = Breakpoint(hours, usd, choices, bound=usd, before=_left_choices(left, here, hours))
    linear_pieces = []
    for begun, ended in itertools.pairwise(times):
        running = [pieces[_index_after(pieces, begun)] for pieces in envelopes]
        if any(piece.hours_to > begun for piece in running):
            linear_pieces.append(_linear_piece(running, begun, ended, breakpoints, tolerance))
    touched = {one.hours_from for one in linear_pieces if one.from_included}
    touched |= {one.hours_to for one in linear_pieces if one.to_included}
    points = [
        LinearPiece(point.hours, point.hours, point.usd, point.usd, point.choices, point.choices)
        for point in breakpoints.values()
        if point.hours not in touched
    ]
    return tuple(breakpoints.values()), tuple(
        sorted([*linear_pieces, *points], key=lambda one: (one.hours_to, one.hours_from))
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
    return tuple(one.choice for one in left) if meets else ()


def _linear_piece(
    running: Sequence[EnvelopePiece],
    begun: float,
    ended: float,
    breakpoints: Mapping[float, Breakpoint],
    tolerance: float,
) -> LinearPiece:
    start, end = ([_on(piece, max(hours, piece.hours_from)) for piece in running] for hours in (begun, ended))
    usd_from, usd_to = (sum(one.usd for one in states) for states in (start, end))
    return LinearPiece(
        begun,
        ended,
        usd_from,
        usd_to,
        tuple(one.choice for one in start),
        tuple(one.choice for one in end),
        begun in breakpoints and usd_from <= breakpoints[begun].usd + tolerance,
        ended in breakpoints and usd_to <= breakpoints[ended].usd + tolerance,
    )
