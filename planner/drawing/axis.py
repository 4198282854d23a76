"""What charts share: axes from figures to pixels with round ticks, legends, and places for names."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from planner.drawing.scene import Line, Rect, Shape, Text, clip, overlaps, text_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

WIDE_RATIO = 8.0
"""Ratio of the largest to the smallest figure from which an axis is logarithmic."""


@dataclass(frozen=True)
class Axis:
    """Figures `low` to `high` at the pixels `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a figure."""
        if self.is_log:
            share = math.log(max(value, self.low / 10) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Return at most `most` round figures on the axis: 1, 2 and 5 times powers of ten."""
        return _log_ticks(self.low, self.high, most) if self.is_log else _ticks(self.low, self.high, most)


def fit_axis(low: float, high: float, start: float, end: float, from_zero: bool = False) -> Axis:
    """Return an axis for figures between two values, with a little room; logarithmic for a wide range."""
    if low > 0 and high > WIDE_RATIO * low and not from_zero:
        return Axis(low / 1.12, high * 1.25, start, end, is_log=True)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return Axis(0.0 if from_zero else max(0.0, low - room) if low >= 0 else low - room, high + room, start, end)


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Return the figures of the finest step with few enough; of a finer one where that would leave one alone."""
    power = 10.0 ** math.floor(math.log10((high - low) / max(1, most)))
    ticks: list[float] = []
    for step in (factor * power for factor in (1, 2, 5, 10, 20, 50)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        before, ticks = ticks, [round(number * step, 10) for number in range(first, last + 1)]
        if len(ticks) <= most:
            return ticks if len(ticks) > 1 or len(before) > most + 2 else before or ticks
    return ticks


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [m * 10.0**power for power in powers for m in factors if low <= m * 10.0**power <= high]
        if len(found) <= most:
            return found or _ticks(low, high, most)
    every = math.ceil(len(found) / most)
    return found[::every]


def plain(value: float) -> str:
    """Return the label of a tick without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.4g}"


def money(value: float) -> str:
    """Return the label of a tick in dollars."""
    return f"${plain(value)}" if value >= 0 else f"-${plain(-value)}"


def draw_across(
    axis: Axis, top: float, bottom: float, title: str, text: Callable[[float], str] = plain, size: float = 12.0
) -> list[Shape]:
    """Return grid lines, ticks and the title of a horizontal axis whose line is at `bottom`."""
    widest = max((text_width(text(value), size) for value in axis.ticks(8)), default=0.0)
    ticks = axis.ticks(max(2, int((axis.end - axis.start) / max(42.0, widest + 20))))
    labels = [text(value) for value in ticks]
    if all(label.endswith(".00") for label in labels):  # whole dollars
        labels = [label.removesuffix(".00") for label in labels]
    shapes: list[Shape] = []
    for value, label in zip(ticks, labels, strict=True):
        at, half = axis.at(value), text_width(label, size) / 2
        shapes.append(Line(((at, top), (at, bottom)), "grid"))
        place = min(max(at, half), axis.end + 12 - half)
        shapes.append(Text(place, bottom + size + 4, label, "muted", "middle", size))
    return [*shapes, *([Text(axis.end, bottom + 2 * size + 10, title, "muted", "end", size)] if title else [])]


def draw_up(
    axis: Axis, left: float, right: float, text: Callable[[float], str] = plain, whole: bool = False
) -> list[Shape]:
    """Return grid lines and ticks of a vertical axis at `left`; `whole`: at whole figures alone."""
    shapes: list[Shape] = []
    for value in axis.ticks(max(3, int(abs(axis.end - axis.start) / 28))):
        if whole and value != int(value):
            continue
        at = axis.at(value)
        shapes += [Line(((left, at), (right, at)), "grid"), Text(left - 6, at + 4, text(value), "muted", "end")]
    return shapes


def room_of_ticks(axis: Axis, text: Callable[[float], str] = plain) -> float:
    """Return the pixels that the ticks of a vertical axis need to its left."""
    return max(text_width(text(value)) for value in axis.ticks(8)) + 12


def axis_data(across: Axis, up: Axis) -> dict[str, float]:
    """Return the ends of both axes in pixels and figures, for a script that moves a mark on the chart."""
    return {
        **{"x0": across.start, "x1": across.end, "h0": across.low, "h1": across.high, "hlog": float(across.is_log)},
        **{"y0": up.start, "y1": up.end, "u0": up.low, "u1": up.high, "ulog": float(up.is_log)},
    }


def draw_moments(
    moments: Sequence[tuple[float, str, str]], axis: Axis, bottom: float, width: float, below: int = 0
) -> list[Shape]:
    """Return lines at figures of a horizontal axis, each named in a row of its own above the chart.

    `moments` are figure, name and role, `below` is the number of rows of other names above. Names are drawn last and
    on paper, so that no line crosses them.
    """
    lines: list[Shape] = []
    names: list[Shape] = []
    for index, (value, name, role) in enumerate(sorted(moments), start=below):
        at, base = axis.at(value), 14.0 + 18.0 * index
        lines.append(Line(((at, base - 10), (at, bottom)), role, 1.5, dashed=True))
        is_left = at + 8 + text_width(name) > width
        text = Text(at - 5 if is_left else at + 5, base, name, role, "end" if is_left else "start")
        left, top, right, under = text.box
        names += [Rect(left, top, right - left, under - top, "paper"), text]
    return [*lines, *names]


def draw_swatch(role: str, x: float, y: float) -> list[Shape]:
    """Return a square of a colour next to the base line of its name."""
    return [Rect(x, y - 10, 11, 11, role)]


def draw_legend(
    entries: Sequence[tuple[str, str, str]], top: float, width: float,
    swatch: Callable[[str, float, float], list[Shape]] = draw_swatch,
) -> tuple[list[Shape], float]:  # fmt: skip
    """Return swatches with names and figures, as many in a line as fit, and the lower edge.

    `entries` are name, role and figure; `swatch` returns what stands before the name of a role.
    """
    shapes: list[Shape] = []
    x, y = 0.0, top + 12
    for name, role, figure in entries:
        words = clip(f"{name} {figure}".strip(), width - 20)
        long = text_width(words) + 18
        if x > 0 and x + long > width:
            x, y = 0.0, y + 20
        shapes += [*swatch(role, x, y), Text(x + 17, y, words)]
        x += long + 16
    return shapes, y + 8


Box = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels."""
NAME_PLACES: tuple[tuple[float, float, Literal["start", "end"]], ...] = (
    (8, -8, "start"),
    (8, 16, "start"),
    (-8, 16, "end"),
    (8, -24, "start"),
    (-8, -8, "end"),
    (8, -40, "start"),
)
"""Where a name may stand next to its dot, tried in this order: up and right is usually free."""


@dataclass(frozen=True)
class Name:
    """A name of what is drawn at some places, in pixels: it may stand at any of them."""

    text: str
    role: str
    places: tuple[tuple[float, float], ...]


def place_names(
    names: Sequence[Name], taken: Sequence[tuple[float, float]], area: Box, boxes: Sequence[Box] = ()
) -> tuple[list[Text], list[Name]]:
    """Return the names at free places, the first names first, and those for which there is none.

    Parameters
    ----------
    taken
        Places along what is drawn, which no name may cover.
    area
        What names may not leave.
    boxes
        Boxes of texts and marks, which no name may cover.
    """
    used, shown, left_out = list(boxes), list[Text](), list[Name]()
    for name in names:
        label = clip(name.text, 0.6 * (area[2] - area[0]))
        for (x, y), (dx, dy, anchor) in itertools.product(name.places, NAME_PLACES):
            text = Text(x + dx, y + dy, label, name.role, anchor)
            left, top, right, bottom = text.box
            inside = left >= area[0] and right <= area[2] and top >= area[1] - 8 and bottom <= area[3]
            is_free = not any(left - 3 < px < right + 3 and top - 3 < py < bottom + 3 for px, py in taken)
            if inside and is_free and not any(overlaps(text.box, box, 2.0) for box in used):
                used.append(text.box)
                shown.append(text)
                break
        else:
            left_out.append(name)
    return shown, left_out


def along(line: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield places along a line, so close that no name fits between them."""
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        steps = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / 8))
        yield from ((x0 + (x1 - x0) * k / steps, y0 + (y1 - y0) * k / steps) for k in range(steps + 1))
