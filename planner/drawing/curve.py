"""A chart of cost against time: lines where the cost is known, dots at breakpoints, names next to the dots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.drawing.axis import (
    WIDE_RATIO,
    Axis,
    Box,
    Name,
    along,
    axis_data,
    draw_across,
    draw_legend,
    draw_up,
    fit_axis,
    money,
    place_names,
    plain,
    room_of_ticks,
)
from planner.drawing.bars import BESIDE
from planner.drawing.scene import NONE, Caption, Dot, Line, Scene, Shape, Text
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STROKES = 12
"""Straight strokes of a slope, which is a curve on a logarithmic axis."""
MANY, DOT_RADIUS, SMALL_DOT = 60, 4.0, 2.5
"""Breakpoints from which on only named ones have a dot; its radius, and where several curves are drawn."""
HIGH, LOW = 380.0, 300.0
"""Height of a wide and of a narrow chart."""


@record(frozen=True)
class Breakpoint:
    """A breakpoint of the curve with its words; an empty `label` draws none."""

    hours: float
    usd: float
    label: str = ""
    words: str = ""
    is_hollow: bool = False
    is_marked: bool = False


Run = tuple[float, float, float, float]
"""Hours and dollars of the left and of the right end of a line."""


@record(frozen=True)
class Branch:
    """A curve next to others, named at one of its breakpoints or in the legend."""

    name: str
    role: str
    points: tuple[Breakpoint, ...]
    runs: tuple[Run, ...]
    width: float = 2.0
    has_dots: bool = True


def curve(
    points: Sequence[Breakpoint], runs: Sequence[Run], deadline: float | None, caption: Caption, width: float,
    branches: Sequence[Branch] = (), below: Sequence[Branch] = (),
) -> Scene:  # fmt: skip
    """Return the chart; both axes are logarithmic where the figures range widely.

    Parameters
    ----------
    points, runs
        The curve; next to branches it is a thick line without names, which they lie on.
    deadline
        Marked as a line where it lies within the chart.
    branches
        Curves with names at their breakpoints.
    below
        Curves behind the others, named in the legend.

    Raises
    ------
    ValueError
        There are no points.
    """
    height = LOW if width < BESIDE else HIGH
    every = [*points, *(point for branch in (*branches, *below) for point in branch.points)]
    across, up = _axes(every, deadline, height, width)
    left = across.start
    heading = Text(0, 12, "expected cost", "muted")
    shapes: list[Shape] = [heading]
    shapes += draw_up(up, left, width - 12, money) + draw_across(across, 22, height - 46, caption.axis, plain)
    if deadline is not None and across.low <= deadline <= across.high:
        at = across.at(deadline)
        shapes.append(Line(((at, 22), (at, height - 46)), "accent", 1.5, dashed=True))
    main = Branch("", "c0", tuple(points), tuple(runs))
    if branches:
        main = Branch("frontier of all allowed", "soft", (), tuple(runs), 7.0, has_dots=False)
    named = [*points, *(point for branch in branches for point in branch.points)]
    taken = [(across.at(point.hours), up.at(point.usd)) for point in named]
    for branch in (*below, main, *branches):
        lines = list(_joined(_lines(sorted(branch.runs, key=lambda run: (run[2], run[0])), across, up)))
        shapes += [Line(line, branch.role, branch.width) for line, is_step in lines if not is_step]
        shapes += [Line(line, branch.role, min(1.0, branch.width), dashed=True) for line, is_step in lines if is_step]
        if branch.has_dots:
            taken += [place for line, _ in lines for place in along(line)]
            shapes += _dots(branch, DOT_RADIUS if branch is main else SMALL_DOT, across, up)
    shapes += [
        Dot(across.at(point.hours), up.at(point.usd), DOT_RADIUS + 4, "accent", NONE, "best value")
        for point in points
        if point.is_marked
    ]
    area = (left, 22.0, width, height - 46.0)
    marks, boxes = _deadline(deadline, across, area)
    names = [_name_of(branch, across, up) for branch in branches] if branches else _names(points, across, up)
    shown, left_out = place_names(names, taken, area, [heading.box, *boxes])
    entries = [(branch.name, branch.role, "") for branch in (*below, main) if branch.name]
    entries += [(name.text, name.role, "") for name in left_out] if branches else []
    legend, lower = draw_legend(entries, height - 2, width) if entries else ([], height)
    shapes += [*marks, *shown, *legend]
    return Scene(width, lower, caption.title, caption.description, tuple(shapes), axis_data(across, up))


def _axes(points: Sequence[Breakpoint], deadline: float | None, height: float, width: float) -> tuple[Axis, Axis]:
    """Return the axes of hours, up to a deadline that is not far off, and of dollars, from zero where they can be."""
    hours, usd = [point.hours for point in points], [point.usd for point in points]
    most = max([*hours, *([deadline] if deadline is not None and deadline < 8 * max(hours) else [])])
    up = fit_axis(min(usd), max(usd), height - 46.0, 22.0, from_zero=max(usd) <= WIDE_RATIO * min(usd))
    return fit_axis(min(hours), most, room_of_ticks(up, money), width - 12.0), up


def _dots(branch: Branch, radius: float, across: Axis, up: Axis) -> Iterator[Shape]:
    """Yield the dots of a curve: of hundreds of breakpoints only those with a name, the others would be one band."""
    many = len(branch.points) > MANY and radius == DOT_RADIUS
    for point in branch.points:
        if not many or point.label or point.is_marked or point.is_hollow:
            fill = "paper" if point.is_hollow else branch.role
            yield Dot(across.at(point.hours), up.at(point.usd), radius, branch.role, fill, point.words)


def _lines(runs: Sequence[Run], across: Axis, up: Axis) -> Iterator[tuple[tuple[tuple[float, float], ...], bool]]:
    """Yield lines in pixels, and whether the cost falls there in one step; levels reach up to the next run."""
    before: tuple[float, float] | None = None
    for h0, u0, h1, u1 in runs:
        if before is not None:
            level = (across.at(before[0]), up.at(before[1])), (across.at(h0), up.at(before[1]))
            if h0 > before[0]:
                yield level, False
            if u0 < before[1] * (1 - 1e-9):
                yield ((level[1]), (across.at(h0), up.at(u0))), True
        if h1 > h0:
            shares = [k / STROKES for k in range(STROKES + 1)]
            straight = not (across.is_log or up.is_log) or len(runs) > 60
            shares = [0.0, 1.0] if straight else shares
            yield tuple((across.at(h0 + s * (h1 - h0)), up.at(u0 + s * (u1 - u0))) for s in shares), False
        before = h1, u1
    if before is not None:
        yield ((across.at(before[0]), up.at(before[1])), (across.end, up.at(before[1]))), False


def _joined(
    lines: Iterator[tuple[tuple[tuple[float, float], ...], bool]],
) -> Iterator[tuple[tuple[tuple[float, float], ...], bool]]:
    """Yield the lines, those that continue each other as one."""
    whole: list[tuple[float, float]] = []
    for line, is_step in lines:
        if is_step or (whole and whole[-1] != line[0]):
            if whole:
                yield tuple(whole), False
            whole = []
        if is_step:
            yield line, True
        else:
            whole += line[1:] if whole else line
    if whole:
        yield tuple(whole), False


def _deadline(deadline: float | None, across: Axis, area: Box) -> tuple[list[Text], list[Box]]:
    """Return the name of the deadline, and the boxes of it and of its line."""
    if deadline is None or not across.low <= deadline <= across.high:
        return [], []
    at = across.at(deadline)
    on_left = at + 70 > area[2]
    text = Text(at - 5 if on_left else at + 5, 34, "deadline", "accent", "end" if on_left else "start")
    return [text], [text.box, (at - 2, area[1], at + 2, area[3])]


def _names(points: Sequence[Breakpoint], across: Axis, up: Axis) -> list[Name]:
    """Return the names of breakpoints, the most important first: the marked one, and both ends."""
    order = sorted(range(len(points)), key=lambda i: (not points[i].is_marked, i not in (0, len(points) - 1), i))
    return [
        Name(point.label, "accent" if point.is_marked else "ink", ((across.at(point.hours), up.at(point.usd)),))
        for point in (points[index] for index in order)
        if point.label
    ]


def _name_of(branch: Branch, across: Axis, up: Axis) -> Name:
    """Return the name of a curve, with the places that it can have: the ends and between them."""
    points = branch.points
    chosen = [points[0], points[-1], *(points[len(points) * part // 4] for part in (1, 2, 3))]
    return Name(branch.name, branch.role, tuple((across.at(point.hours), up.at(point.usd)) for point in chosen))
