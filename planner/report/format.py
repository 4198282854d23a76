"""Figures as words: never more digits than are known, and lines that keep their width."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from planner.results.plan import describe_machines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDTH = 80
"""Columns of the text output."""

LABEL = 11
"""Columns of the margin that holds the section labels."""

NO_BREAK = "\x1f"
"""Stands for a space where no line may break; no text that is shown holds it."""

BAR = 20
"""Characters of the memory bar."""


def usd(amount: float) -> str:
    """Dollars with two decimals, such as `$1,234.50`; without cents from 10,000 on."""
    text = f"{abs(amount):,.{0 if abs(amount) >= 10_000 else 2}f}"
    return f"-${text}" if amount < 0 and text != "0.00" else f"${text}"


def rate(price: float) -> str:
    """A unit price: two decimals from a dollar on, three digits below, such as `$0.127` or `$0.08`."""
    if price >= 1 or price == 0:
        return usd(price)
    text = significant(price)
    decimals = len(text.partition(".")[2])
    return f"${text}" + "0" * max(0, 2 - decimals)


def hours(value: float) -> str:
    """Hours with one decimal, none from 1,000 on; minutes where that would say nothing."""
    if 0 < value < 0.1:
        return f"{max(1, round(value * 60))} min"
    return f"{_hours(value)} h"


def _hours(value: float) -> str:
    return f"{value:,.{0 if value >= 1000 else 1}f}"


def between(low: float, high: float) -> str:
    """An interval of hours, such as `17.0 to 27.1 h`; `4 min to 0.1 h` where it begins with minutes."""
    if low < 0.1:
        return f"{hours(low)} to {hours(high)}"
    return f"{_hours(low)} to {_hours(high)} h"


def usd_between(low: float, high: float) -> str:
    """An interval of dollars, such as `$2.30 to 3.60`."""
    return f"{usd(low)} to {usd(high).replace('$', '')}"


def plain_number(value: float) -> str:
    """A figure that a person chose: one decimal at most, none where it is zero."""
    return f"{value:,.1f}".removesuffix(".0")


def gib(value: float) -> str:
    """GiB with one decimal, without the unit."""
    return f"{value:,.1f}"


def significant(value: float, digits: int = 3) -> str:
    """A figure rounded to so many digits, such as `1,190` or `0.53`."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def percent(share: float) -> str:
    """A share as a percentage of one decimal, such as `3.1 %`; a positive one never reads as nothing."""
    text = f"{share * 100:.1f}"
    return f"{'0.1' if text == '0.0' and share > 0 else text} %"


def probability_text(probability: float) -> str:
    """A probability as a person would say it; near certainty is not called certain."""
    if probability >= 0.995:
        return "over 99 of 100 cases"
    if probability < 0.01:
        return "under 1 of 100 cases"
    return f"{math.floor(probability * 100 + 1e-9)} of 100 cases"


def bar(share: float) -> str:
    """A bar of `BAR` characters, filled by the share."""
    filled = min(BAR, max(0, round(share * BAR)))
    return "#" * filled + "." * (BAR - filled)


def gpus(count: int, gpu: str, runs_at_once: int = 1) -> str:
    """Such as `4 x H100-80GB`, `2 x (4 x H100-80GB)` of runs side by side; a service is just that."""
    return describe_machines(count, gpu, runs_at_once)


def sanitise(text: str) -> str:
    """A text of unknown origin on one line, without characters that steer a terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def shorten(text: str, width: int) -> str:
    """The text, its end replaced by three dots where it is wider."""
    return text if len(text) <= width else f"{text[: max(0, width - 3)].rstrip()}..."


def first_fitting(name: str, *said: str, width: int = WIDTH) -> str:
    """`name: said` in the first form that fits; where none does, the name gives way to the last one."""
    name, forms = sanitise(name), [sanitise(form) for form in said]
    for form in forms:
        if len(name) + 2 + len(form) <= width:
            return f"{name}: {form}"
    return shorten(f"{shorten(name, max(12, width - len(forms[-1]) - 2))}: {forms[-1]}", width)


def wrap_lines(text: str, width: int, most: int) -> list[str]:
    """The text in at most `most` lines; what is left out is marked by three dots."""
    # A figure and its per cent belong on one line.
    glued = sanitise(text).replace(" %", f"{NO_BREAK}%")
    lines = textwrap.wrap(glued, width, break_long_words=True, break_on_hyphens=False) or [""]
    lines = [line.replace(NO_BREAK, " ") for line in lines]
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], shorten(" ".join(lines[most - 1 :]), width)]


def join_parts(parts: Iterable[str], gap: str, width: int, most: int) -> list[str]:
    """Parts in at most `most` lines, broken only between parts; the last line ends in dots if cut."""
    lines: list[str] = []
    for part in map(sanitise, parts):
        if lines and len(lines[-1]) + len(gap) + len(part) <= width:
            lines[-1] += gap + part
        elif len(lines) < most:
            lines.append(shorten(part, width))
        else:
            lines[-1] = shorten(f"{lines[-1]}{gap}...", width)
            break
    return lines


def section(label: str, lines: Sequence[str]) -> list[str]:
    """Lines with the label in the margin of the first."""
    margin = f"  {label:<{LABEL - 2}}"
    return [f"{margin if i == 0 else ' ' * LABEL}{line}".rstrip() for i, line in enumerate(lines)]
