"""A chart of cost against time: lines where the cost is known, dots at breakpoints, names next to the dots."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from planner.records import record
from planner.results.report.axis import Axis, draw_across, draw_up, fit_axis, money, plain
from planner.results.report.bars import BESIDE
from planner.results.report.scene import NONE, Caption, Dot, Line, Scene, Shape, Text, clip, overlaps, text_width

STROKES = 12
"""Straight strokes of a slope, which is a curve on a logarithmic axis."""
MANY, DOT_RADIUS = 60, 4.0
"""Breakpoints from which on only named ones have a dot, and its radius."""
HIGH, LOW = 380.0, 300.0
"""Height of a wide and of a narrow chart."""
LABEL_PLACES = (
    (8, -8, "start"),
    (8, 16, "start"),
    (-8, 16, "end"),
    (8, -24, "start"),
    (-8, -8, "end"),
    (8, -40, "start"),
)
"""Where a name may stand next to its dot, tried in this order: up and right is usually free."""


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


def curve(
    points: Sequence[Breakpoint], runs: Sequence[Run], deadline: float | None, caption: Caption, width: float
) -> Scene:
    """Return the chart; both axes are logarithmic where the figures range widely.

    Raises ValueError without points.
    """
    height = LOW if width < BESIDE else HIGH
    hours, usd = [point.hours for point in points], [point.usd for point in points]
    most = max([*hours, *([deadline] if deadline is not None and deadline < 8 * max(hours) else [])])
    up = fit_axis(min(usd), max(usd), height - 46.0, 22.0)
    left = max(text_width(money(value)) for value in up.ticks(8)) + 12
    across = fit_axis(min(hours), most, left, width - 12.0)
    shapes: list[Shape] = [Text(0, 12, "expected cost", "muted")]
    shapes += draw_up(up, left, width - 12, money) + draw_across(across, 22, height - 46, caption.axis, plain)
    if deadline is not None and across.low <= deadline <= across.high:
        at = across.at(deadline)
        shapes.append(Line(((at, 22), (at, height - 46)), "accent", 1.5, dashed=True))
    lines = list(_joined(_lines(sorted(runs, key=lambda run: (run[2], run[0])), across, up)))
    shapes += [Line(line, "c0", 2.0) for line, is_step in lines if not is_step]
    shapes += [Line(line, "c0", 1.0, dashed=True) for line, is_step in lines if is_step]
    many = len(points) > MANY
    dots = [(across.at(point.hours), up.at(point.usd)) for point in points]
    for point, (x, y) in zip(points, dots, strict=True):
        if many and not (point.label or point.is_marked or point.is_hollow):
            continue  # on a curve of hundreds of breakpoints the dots of most would be one band
        fill = "paper" if point.is_hollow else "c0"
        shapes.append(Dot(x, y, DOT_RADIUS, "c0", fill, point.words))
        if point.is_marked:
            shapes.append(Dot(x, y, DOT_RADIUS + 4, "accent", NONE))
    drawn = [place for line, _ in lines for place in _dense(line)]
    shapes += _labels(points, dots, [*dots, *drawn], (left, 22.0, width, height - 46.0), deadline, across)
    data = {
        **{"x0": across.start, "x1": across.end, "h0": across.low, "h1": across.high, "hlog": float(across.is_log)},
        **{"y0": up.start, "y1": up.end, "u0": up.low, "u1": up.high, "ulog": float(up.is_log)},
    }
    return Scene(width, height, caption.title, caption.description, tuple(shapes), data)


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


def _dense(line: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield places along a line, so close that no name fits between them."""
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        steps = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / 8))
        yield from ((x0 + (x1 - x0) * k / steps, y0 + (y1 - y0) * k / steps) for k in range(steps + 1))


def _labels(
    points: Sequence[Breakpoint], dots: Sequence[tuple[float, float]], taken: Sequence[tuple[float, float]],
    area: tuple[float, float, float, float], deadline: float | None, across: Axis,
) -> Iterator[Shape]:  # fmt: skip
    """Yield the names that find a free place: marked points first, then both ends, then the others."""
    boxes: list[tuple[float, float, float, float]] = []
    if deadline is not None and across.low <= deadline <= across.high:
        at = across.at(deadline)
        on_left = at + 70 > area[2]
        text = Text(at - 5 if on_left else at + 5, 34, "deadline", "accent", "end" if on_left else "start")
        boxes.append(text.box)
        yield text
        boxes.append((at - 2, area[1], at + 2, area[3]))
    order = sorted(range(len(points)), key=lambda i: (not points[i].is_marked, i not in (0, len(points) - 1), i))
    for index in order:
        point, (x, y) = points[index], dots[index]
        if not point.label:
            continue
        for dx, dy, anchor in LABEL_PLACES:
            label = clip(point.label, 0.6 * (area[2] - area[0]))
            text = Text(x + dx, y + dy, label, "accent" if point.is_marked else "ink", anchor)  # type: ignore[arg-type]
            left, top, right, bottom = text.box
            inside = left >= area[0] and right <= area[2] and top >= area[1] - 8 and bottom <= area[3]
            is_free = not any(left - 3 < px < right + 3 and top - 3 < py < bottom + 3 for px, py in taken)
            if inside and is_free and not any(overlaps(text.box, box, 2.0) for box in boxes):
                boxes.append(text.box)
                yield text
                break
