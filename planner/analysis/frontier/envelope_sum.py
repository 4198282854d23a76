"""The sum of the jobs' envelopes, `F(T) = sum_j f_j(T)`, with the candidate of each job that attains it.

An envelope ends at its job's deadline and keeps its last cost from there on, so `f_j(min(T, deadline_j))` is `f_j(T)`.
One job is the case of one term. F is piecewise linear: it can only change slope, or jump, where some envelope has an
end of a piece, so it is evaluated at these times and on the intervals between them.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from planner.analysis.frontier.lower_envelope import TOLERANCE, EnvelopePiece

if TYPE_CHECKING:
    from collections.abc import Sequence


class RowChoice(NamedTuple):
    """A row of the job's table at a spot share."""

    row: int
    share: float


class Breakpoint(NamedTuple):
    """A breakpoint of F that nothing undercuts: the choice of each job, and the choices that end there."""

    hours: float
    usd: float
    choices: tuple[RowChoice, ...]
    before: tuple[RowChoice, ...]
    """Where pieces meet: the choices on the left side; empty where they are the same or end earlier."""


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
    piece: int


def sum_envelopes(
    envelopes: Sequence[Sequence[EnvelopePiece]],
) -> tuple[tuple[Breakpoint, ...], tuple[LinearPiece, ...]]:
    """Return the breakpoints and linear pieces of F from left to right; none where a job has no envelope."""
    if not envelopes or not all(envelopes):
        return (), ()
    starts = [[piece.hours_from for piece in pieces] for pieces in envelopes]
    first = max(one[0] for one in starts)
    marks = {hours for pieces in envelopes for piece in pieces for hours in (piece.hours_from, piece.hours_to)}
    times = sorted(hours for hours in marks if hours >= first)
    tolerance = TOLERANCE * max(1.0, sum(pieces[0].usd_from for pieces in envelopes))
    breakpoints: dict[float, Breakpoint] = {}
    for hours in times:
        here = [_at(p, s, hours) for p, s in zip(envelopes, starts, strict=True)]
        left = None if hours == first else [_before(p, s, hours) for p, s in zip(envelopes, starts, strict=True)]
        usd = sum(one.usd for one in here)
        if left is None or _pays(envelopes, left, hours) or sum(one.usd for one in left) > usd + tolerance:
            choices = tuple(one.choice for one in here)
            breakpoints[hours] = Breakpoint(hours, usd, choices, _left_choices(envelopes, left, here, hours))
    linear_pieces = []
    for begun, ended in itertools.pairwise(times):
        running = [_after(each, begun) for each in starts]
        if any(p[one].hours_to > begun for p, one in zip(envelopes, running, strict=True)):
            linear_pieces.append(_linear_piece(envelopes, running, begun, ended, breakpoints, tolerance))
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
    return _at(envelope, [piece.hours_from for piece in envelope], hours).usd


def _on(pieces: Sequence[EnvelopePiece], index: int, hours: float) -> _JobState:
    share, usd = pieces[index].at(hours)
    return _JobState(RowChoice(pieces[index].row, share), usd, index)


def _at(pieces: Sequence[EnvelopePiece], starts: list[float], hours: float) -> _JobState:
    index = bisect_right(starts, hours) - 1
    if index and pieces[index].hours_from == hours and not pieces[index].from_included:
        index -= 1
    return _on(pieces, index, hours)


def _before(pieces: Sequence[EnvelopePiece], starts: list[float], hours: float) -> _JobState:
    """Return the limit from the left, which a jump at `hours` undercuts; at the start of the envelope, its start."""
    return _on(pieces, max(0, bisect_left(starts, hours) - 1), hours)


def _after(starts: list[float], hours: float) -> int:
    """Return the number of the piece that holds right after `hours`."""
    return bisect_right(starts, hours) - 1


def _pays(envelopes: Sequence[Sequence[EnvelopePiece]], left: Sequence[_JobState], hours: float) -> bool:
    """Return whether some job's cost still falls as `hours` are reached."""
    return any(p[one.piece].hours_from < hours <= p[one.piece].hours_to for p, one in zip(envelopes, left, strict=True))


def _left_choices(
    envelopes: Sequence[Sequence[EnvelopePiece]],
    left: Sequence[_JobState] | None,
    here: Sequence[_JobState],
    hours: float,
) -> tuple[RowChoice, ...]:
    if left is None:
        return ()
    meets = any(
        old.choice.row != new.choice.row and p[old.piece].hours_from < p[old.piece].hours_to == hours
        for p, old, new in zip(envelopes, left, here, strict=True)
    )
    return tuple(one.choice for one in left) if meets else ()


def _linear_piece(
    envelopes: Sequence[Sequence[EnvelopePiece]],
    running: Sequence[int],
    begun: float,
    ended: float,
    breakpoints: dict[float, Breakpoint],
    tolerance: float,
) -> LinearPiece:
    def usd_at(hours: float) -> tuple[float, tuple[RowChoice, ...]]:
        ends = [
            _on(pieces, index, max(hours, pieces[index].hours_from))
            for pieces, index in zip(envelopes, running, strict=True)
        ]
        return sum(one.usd for one in ends), tuple(one.choice for one in ends)

    (usd_from, choices_from), (usd_to, choices_to) = usd_at(begun), usd_at(ended)
    return LinearPiece(
        begun,
        ended,
        usd_from,
        usd_to,
        choices_from,
        choices_to,
        begun in breakpoints and usd_from <= breakpoints[begun].usd + tolerance,
        ended in breakpoints and usd_to <= breakpoints[ended].usd + tolerance,
    )
