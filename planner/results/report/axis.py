"""Axes of charts: from figures to pixels, and round figures for the ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from planner.records import record
from planner.results.report.scene import Line, Rect, Shape, Text, text_width

WIDE_RATIO = 8.0
"""Ratio of the largest to the smallest figure from which an axis is logarithmic."""


@record(frozen=True)
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
    span = (high - low) / max(1, most - 1)
    power = 10.0 ** math.floor(math.log10(span))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= span * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


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
    most = max(2, int((axis.end - axis.start) / 70))
    shapes: list[Shape] = []
    for value in axis.ticks(most):
        at = axis.at(value)
        label = text(value)
        half = text_width(label, size) / 2
        shapes.append(Line(((at, top), (at, bottom)), "grid"))
        place = min(max(at, half), axis.end + 12 - half)
        shapes.append(Text(place, bottom + size + 4, label, "muted", "middle", size))
    shapes.append(Text(axis.end, bottom + 2 * size + 10, title, "muted", "end", size))
    return shapes


def draw_up(axis: Axis, left: float, right: float, text: Callable[[float], str] = plain) -> list[Shape]:
    """Return grid lines and ticks of a vertical axis at `left`."""
    shapes: list[Shape] = []
    for value in axis.ticks(max(3, int(abs(axis.end - axis.start) / 44))):
        at = axis.at(value)
        shapes += [Line(((left, at), (right, at)), "grid"), Text(left - 6, at + 4, text(value), "muted", "end")]
    return shapes


def draw_moments(moments: Sequence[tuple[float, str, str]], axis: Axis, bottom: float, width: float) -> list[Shape]:
    """Return lines at figures of a horizontal axis, each named in a row of its own above the chart.

    `moments` are figure, name and role. Names are drawn last and on paper, so that no line crosses them.
    """
    lines: list[Shape] = []
    names: list[Shape] = []
    for index, (value, name, role) in enumerate(sorted(moments)):
        at, base = axis.at(value), 14.0 + 18.0 * index
        lines.append(Line(((at, base - 10), (at, bottom)), role, 1.5, dashed=True))
        is_left = at + 8 + text_width(name) > width
        text = Text(at - 5 if is_left else at + 5, base, name, role, "end" if is_left else "start")
        left, top, right, under = text.box
        names += [Rect(left, top, right - left, under - top, "paper"), text]
    return [*lines, *names]
