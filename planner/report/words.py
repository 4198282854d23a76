"""Figures, intervals and lines as text: no more digits than are known, 60 to 160 columns."""

from __future__ import annotations

import math
import re
import textwrap
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import zip_longest
from typing import TYPE_CHECKING

from planner.errors import printable
from planner.results.plan_parts import Hours, Option, describe_machines
from planner.scenario.job import MAX_CONFIDENCE
from planner.units import DAY_HOURS, round_up
from planner.units import significant as significant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

WIDTH, LEAST_WIDTH, MOST_WIDTH = 80, 60, 160
"""Columns of the text output: where nothing else is known, at least, and at most."""
UNWRAPPED = 10_000
"""Columns of text that another program breaks."""

_columns: ContextVar[int] = ContextVar("columns", default=WIDTH)
_is_whole: ContextVar[bool] = ContextVar("whole", default=False)

_has_blocks: ContextVar[bool] = ContextVar("blocks", default=True)

LABEL = 11
"""Columns of the margin that holds the section labels."""


NO_BREAK = "\x1f"
"""A space at which no line may break; it never occurs in the text itself."""

FIRST_IN_DAYS = 2 * DAY_HOURS
"""Hours from which on a duration is given in days."""
LEAST_PLAIN = 0.001
"""Figure below which zeros after the point say less than a power of ten."""
SAME_LEVEL = 1e-9
BLOCKS, TENTHS = "▁▂▃▄▅▆▇█", "123456789#"
"""Levels of a load in an hour, the last is the peak; the second for an encoding without the first."""
BAR = 20
"""Characters of the memory bar."""


def width() -> int:
    """Return the columns of the text output."""
    return _columns.get()


def line_room() -> int:
    """Return the columns of a line inside a section."""
    return width() - LABEL


@contextmanager
def unwrapped() -> Iterator[None]:
    """Write text whose lines are as long as they need to be: a page breaks them itself."""
    before = _columns.set(UNWRAPPED)
    try:
        yield
    finally:
        _columns.reset(before)


@contextmanager
def whole() -> Iterator[None]:
    """Write text in which nothing is counted away: every note, every row."""
    before = _is_whole.set(True)
    try:
        yield
    finally:
        _is_whole.reset(before)


def most(count: int) -> int:
    """Return how many of a kind a text shows: all of them where it is written whole."""
    return UNWRAPPED if _is_whole.get() else count


@contextmanager
def text_width(count: int) -> Iterator[None]:
    """Write text that is so many columns wide, between 60 and 160."""
    before = _columns.set(min(max(count, LEAST_WIDTH), MOST_WIDTH))
    try:
        yield
    finally:
        _columns.reset(before)


def usd(amount: float) -> str:
    """Return dollars with two decimals, such as `$1,234.50`; without cents from 10,000 on."""
    text = f"{abs(amount):,.{0 if abs(amount) >= 10_000 else 2}f}"
    return f"-${text}" if amount < 0 and text != "0.00" else f"${text}"


def rate(price: float, more: int = 0) -> str:
    """Return a unit price: two decimals from a dollar on, three digits below, such as `$0.127`, and `more` digits."""
    if price >= 1 or price == 0:
        return f"${price:,.{2 + more}f}" if more else usd(price)
    text = significant(price, 3 + more)
    decimals = len(text.partition(".")[2])
    return f"${text}" + "0" * max(0, 2 - decimals)


def hours(value: float, more: int = 0) -> str:
    """Return hours with one decimal, none from 1,000 on; minutes below 0.1 h; all with `more` decimals."""
    if 0 < value < 0.1:
        minutes = value * 60 if more else max(1, round(value * 60))
        return f"{minutes:,.{more}f} min"
    return f"{_hours(value, more)} h"


def likely(value: float) -> str:
    """Return expected hours: one of the two times of a plan."""
    return f"likely {hours(value)}"


def by(value: float) -> str:
    """Return the hours that hold at the confidence asked for: the other time of a plan."""
    return f"by {hours_by(value)}"


def hours_by(value: float) -> str:
    """Return the hours at the confidence as `hours` does, but rounded up: as a deadline, they keep the same plan."""
    return hours(shown_by(value))


def shown_by(value: float) -> float:
    """Return hours at the confidence rounded up to the last digit, or the minute, that is shown of them."""
    if 0 < value < 0.1:
        return max(1.0, round_up(value * 60, 0)) / 60
    return round_up(value, 0 if value >= 1000 else 1)


def likely_and_by(both: Hours) -> str:
    """Return the two times of a plan, such as `likely 5.3 h, by 6.3 h`."""
    return f"{likely(both.expected)}, {by(both.at_confidence)}"


def _hours(value: float, more: int = 0) -> str:
    return f"{value:,.{more + (0 if value >= 1000 else 1)}f}"


def duration(value: float) -> str:
    """Return hours as days from two days on, such as `30 days`; below as `hours` does."""
    return f"{value / DAY_HOURS:,.4g} days" if value >= FIRST_IN_DAYS else hours(value)


MOST_IN_MINUTES = 2.0
"""Hours from which on the end of an interval is not shown in minutes."""


def between(low: float, high: float) -> str:
    """Return an interval of hours in one unit, such as `17.0 to 27.1 h`, or `4 to 8 min` where hours are coarse."""
    if low < 0.1 and high < MOST_IN_MINUTES:
        least, most = (max(1, round(value * 60)) if value > 0 else 0 for value in (low, high))
        return f"{least} to {most} min"
    return f"{_hours(low)} to {_hours(high)} h"


def hours_between(spread: Hours) -> str:
    """Return the range of the hours of a plan; an end that is the *by* is rounded up as that is."""
    is_late = hours(spread.high) == hours(spread.at_confidence)
    return between(spread.low, shown_by(spread.high) if is_late else spread.high)


def usd_between(low: float, high: float) -> str:
    """Return an interval of dollars, such as `$2.30 to 3.60`."""
    return f"{usd(low)} to {usd(high).replace('$', '')}"


def plain_number(value: float) -> str:
    """Return a figure that a user chose: at most one decimal, none if it is zero."""
    return f"{value:,.1f}".removesuffix(".0")


def given_hours(value: float) -> str:
    """Return the number of hours that a user chose as a limit with its digits, at most two decimals."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def rounded_to_total(amounts: Sequence[float], total: float, decimals: int) -> list[str]:
    """Return amounts with so many decimals that add up to the total as it is shown; each alone if they do not make it.

    Those whose rounding is coarsest are rounded the other way: 1.24, 1.24 and 1.24 of 3.7 are 1.3, 1.2 and 1.2.
    """
    unit = 10.0**-decimals
    places = [round(amount / unit) for amount in amounts]
    missing = round(total / unit) - sum(places)
    if abs(math.fsum(amounts) - total) <= unit * max(1, len(places)) and abs(missing) <= len(places):
        side = 1 if missing > 0 else -1
        coarsest = sorted(range(len(places)), key=lambda at: side * (places[at] - amounts[at] / unit))
        for at in coarsest[: abs(missing)]:
            places[at] += side
    return [f"{place * unit:,.{decimals}f}" for place in places]


def gib(value: float) -> str:
    """Return GiB with one decimal, without the unit."""
    return f"{value:,.1f}"


def gib_text(value: float) -> str:
    """Return GiB with one decimal and the unit."""
    return f"{gib(value)} GiB"


def brief(value: float, digits: int = 3) -> str:
    """Return a figure as `significant` does, with a power of ten below 0.001, such as `4e-11`."""
    return f"{value:.{digits}g}" if 0 < abs(value) < LEAST_PLAIN else significant(value, digits)


def percent(share: float) -> str:
    """Return a share as a percentage of one decimal, such as `3.1 %`; a positive share is at least `0.1 %`."""
    text = f"{share * 100:.1f}"
    return f"{'0.1' if text == '0.0' and share > 0 else text} %"


def probability_text(probability: float, at_least: bool = False) -> str:
    """Return a probability in whole percent, rounded down, such as `79 %` or `over 99 %`.

    Parameters
    ----------
    probability
        0 to 1; near certainty is not shown as certain.
    at_least
        The probability is a lower bound: `at least 97 %`.
    """
    least = "at least " if at_least else ""
    if probability >= 0.995:
        return f"{least or 'over '}99 %"
    if probability < 0.01:
        return "under 1 %"
    return f"{least}{math.floor(probability * 100 + 1e-9)} %"


def chance_text(probability: float, at_least: bool = False) -> str:
    """Return the probability of keeping a deadline or budget: the data say nothing beyond `MAX_CONFIDENCE`."""
    return probability_text(probability, at_least or probability == MAX_CONFIDENCE)


def bar(share: float) -> str:
    """Return a bar of `BAR` characters, filled by the share."""
    filled = min(BAR, max(0, round(share * BAR)))
    return "#" * filled + "." * (BAR - filled)


@contextmanager
def without_blocks() -> Iterator[None]:
    """Write text for an encoding without block characters."""
    before = _has_blocks.set(False)
    try:
        yield
    finally:
        _has_blocks.reset(before)


def level(share: float) -> str:
    """Return a character for a share of the peak: a block, or a tenth where the encoding has none."""
    levels = BLOCKS if _has_blocks.get() else TENTHS
    return levels[min(len(levels), max(1, math.ceil(share * len(levels) - SAME_LEVEL))) - 1]


PART_COLUMNS, FIGURE_COLUMNS = 22, 7
"""Columns of the name and of the figure before a bar."""
BAR_WIDTH = WIDTH - LABEL - PART_COLUMNS - FIGURE_COLUMNS - 2


def draw_bar(name: str, size: float, scale: float, figure: Callable[[float], str], mark: str) -> str:
    """Return one part of a whole as name, figure and bar."""
    room = min(BAR_WIDTH, line_room() - PART_COLUMNS - FIGURE_COLUMNS - 2)
    length = max(1, round(size / scale * room))
    return f"{name.replace('_', ' '):<{PART_COLUMNS}}{figure(size):>{FIGURE_COLUMNS}}  {mark * length}"


def gpus(count: int, gpu: str, runs_at_once: int = 1) -> str:
    """Return the machines, such as `4 x H100-80GB`, or `2 x (4 x H100-80GB)` for two runs in parallel."""
    return describe_machines(count, gpu, runs_at_once)


def pays_from(amount: float | None, unit: str, machines: Option | None) -> list[str]:
    """Return from which amount of work own machines cost less than a service, and which; empty where none is known."""
    if amount is None:
        return []
    if not amount or machines is None:
        return [f"own machines are cheaper at any number of {unit}"]
    which = f"{gpus(machines.gpus, machines.gpu, machines.runs_at_once)} at {sanitise(machines.provider)}"
    return [f"own machines are cheaper from {significant(amount)} {unit} ({which})"]


def sanitise(text: str) -> str:
    """Return text of unknown origin on one line, without control characters."""
    return printable(" ".join(text.split()))


def shorten(text: str, width: int) -> str:
    """Return the text cut to a width, three dots after its last whole word if it was cut."""
    if len(text) <= width:
        return text
    cut = text[: max(0, width - 3)]
    whole = cut if text[len(cut)] == " " else cut.rpartition(" ")[0]
    # Only a word that takes half of the width is cut itself: a name or a setting.
    return f"{(whole if 2 * len(whole) >= width else cut).rstrip(' ,;:(')}..."


def first_fitting(name: str, *texts: str) -> str:
    """Return `name: text` with the first text that fits; if none fits, cut the name and then the last text."""
    name, forms = sanitise(name), [sanitise(text) for text in texts]
    for form in forms:
        if len(name) + 2 + len(form) <= width():
            return f"{name}: {form}"
    return shorten(f"{shorten(name, max(12, width() - len(forms[-1]) - 2))}: {forms[-1]}", width())


def lines_for(most: int) -> int:
    """Return as many lines as hold what `most` hold at 80 columns, where the output is narrower."""
    return most if width() >= WIDTH else math.ceil(most * (WIDTH - LABEL) / line_room())


def wrap_lines(text: str, width: int, most: int) -> list[str]:
    """Return the text in at most `most` lines (more in less than 80 columns), three dots at its end if it was cut."""
    most = lines_for(most)
    # A figure and its percent sign stay on one line, and so do an option and its value, to be copied.
    glued = sanitise(text).replace(" %", f"{NO_BREAK}%").replace("--set ", f"--set{NO_BREAK}")
    lines = textwrap.wrap(glued, width, break_long_words=True, break_on_hyphens=False) or [""]
    lines = [line.replace(NO_BREAK, " ") for line in lines]
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], shorten(" ".join(lines[most - 1 :]), width)]


def wrap_clauses(text: str, end: str, width: int, most: int) -> list[str]:
    """Return the text and an end in at most `most` lines; what does not fit is left out from the end of a clause on.

    A clause ends before `;` or ` (`, or after a full stop; at `,` or `:` only where none of these fits: what follows
    may be what it is about. Only a first clause that is too long is cut.
    """
    text, room = sanitise(text), lines_for(most)
    if len(wrap_lines(f"{text}{end}", width, UNWRAPPED)) <= room:
        return wrap_lines(f"{text}{end}", width, most)
    ends = [match.start() for match in re.finditer(r"[;:,](?= )| \(|(?<=\w\w)\.(?= )", text)]
    for place in sorted(ends, key=lambda place: (text[place] not in ",:", place), reverse=True):
        clause = text[:place]
        if clause.count("(") == clause.count(")") and len(wrap_lines(clause + end, width, UNWRAPPED)) <= room:
            return wrap_lines(clause + end, width, most)
    return wrap_lines(shorten(text, room * width - len(end) - room * LABEL) + end, width, most)


def wrap_with_commands(text: str, columns: int) -> list[str]:
    """Return the text in lines that end where a clause does, the later ones indented: what is typed stays on one line.

    A clause that is longer than a line stays whole, too.
    """
    lines = [""]
    for clause in re.split(r"(?<=[,;:]) (?!do |done\b)", sanitise(text)):
        if lines[-1].strip() and len(lines[-1]) + 1 + len(clause) > columns:
            lines.append(f"  {clause}")
        else:
            lines[-1] += f" {clause}" if lines[-1] else clause
    return lines


def second_lines(text: str | None) -> list[str]:
    """Return what stands right below the first line of an answer, indented, in at most two lines; none without text."""
    return [f"  {line}" for line in wrap_lines(text, width() - 2, 2)] if text else []


def lines_below_first(texts: Iterable[str]) -> list[str]:
    """Return several texts right below the first line of an answer, as `second_lines`."""
    return [line for text in texts for line in second_lines(text)]


def wrap_all(texts: Iterable[str], width: int, most: int) -> list[str]:
    """Return every text in at most `most` lines."""
    return [line for text in texts for line in wrap_lines(text, width, most)]


def wrap_hanging(text: str, most: int) -> list[str]:
    """Return the text in at most `most` indented lines, the later ones indented further."""
    lines = wrap_lines(text, width() - 4, most)
    return [f"  {line}" if i == 0 else f"    {line}" for i, line in enumerate(lines)]


def join_parts(parts: Iterable[str], gap: str, width: int, most: int) -> list[str]:
    """Join parts in at most `most` lines (more in less than 80 columns), broken only between parts.

    Dots at the end are for those left out; a part that is longer than a line goes on in the next.
    """
    most, lines = lines_for(most), list[list[str]]()
    for part in map(sanitise, parts):
        if lines and len(gap.join([*lines[-1], part])) <= width:
            lines[-1].append(part)
        elif len(lines) < most:
            lines.append([part])
        else:
            while len(lines[-1]) > 1 and len(gap.join([*lines[-1], "..."])) > width:
                lines[-1].pop()
            lines[-1].append("...")
            break
    made = map(gap.join, lines)
    return [part for line in made for part in ([line] if len(line) <= width else wrap_lines(line, width, 1))]


def section(label: str, lines: Sequence[str]) -> list[str]:
    """Return the lines with the label in the margin of the first; a label that does not fit widens it."""
    return hang(f"  {label:<{max(LABEL - 2, len(label) + 1)}}", lines)


def hang(start: str, lines: Sequence[str]) -> list[str]:
    """Return the lines with `start` before the first, and as many blanks before the others."""
    return [f"{' ' * len(start) if i else start}{line}".rstrip() for i, line in enumerate(lines)]


def columns(left: Sequence[str], right: Sequence[str], width: int) -> list[str]:
    """Return two cells of several lines side by side, the left one `width` columns wide."""
    return [f"{old:<{width}}{new}" for old, new in zip_longest(left, right, fillvalue="")]


LEAST_CELL, LEAST_LAST = (28, 20), (16, 12)
"""Columns below which the cells of a table are not narrowed: those of `cut`, and those of the last column; the second
figures count where the table is still too wide. Where it is too wide for them, the last column joins that of `cut`."""
LEAST_JOINED = 16
"""Columns below which that of `cut` is not narrowed once the last one has joined it."""
CELL_LINES = 4
"""Lines of a cell that is narrowed."""


def table(
    rows: Sequence[Sequence[str]], right: Sequence[int] = (), cut: int = 0, marked: int | None = None, margin: int = 2
) -> list[str]:
    """Return rows, the head first, in columns as wide as their widest cell.

    Parameters
    ----------
    rows
        The cells of each row.
    right
        Columns whose cells end at the right: figures.
    cut
        The column that is narrowed first where the width is too small for all, then the last one: their cells go on
        in a second line, so that no row loses what it differs by.
    marked
        The row that has a `>` before it: the plan among others.
    margin
        Blanks before each row, at least four where one is marked.
    """
    cells = [[sanitise(cell) for cell in row] for row in rows]
    margin, last = max(4, margin) if marked is not None else margin, len(cells[0]) - 1
    texts = (cut, last) if last not in (cut, *right) else (cut,)
    wide = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]

    gap = 2

    def over() -> int:
        return max(0, margin + sum(wide) + gap * (len(wide) - 1) - width())

    if 0 < over() < len(wide):  # one blank between columns is better than a second line in the rows
        gap = 1

    for leasts in zip(LEAST_CELL, LEAST_LAST, strict=True):
        for column, least in zip(texts, leasts, strict=False):
            wide[column] = max(min(least, wide[column]), wide[column] - over())
    if over() and last in texts:
        for row in cells:
            row[cut] = "; ".join(filter(None, (row[cut], row.pop())))
        texts, wide = (cut,), wide[:-1]
        wide[cut] = max(len(row[cut]) for row in cells)
    wide[cut] = max(min(LEAST_JOINED, wide[cut]), wide[cut] - over())
    lines = []
    for number, row in enumerate(cells):
        wrapped = [
            wrap_lines(cell, max(1, wide[column]), CELL_LINES) if column in texts else [cell]
            for column, cell in enumerate(row)
        ]
        for part in range(max(map(len, wrapped))):
            shown = [cell[part] if part < len(cell) else "" for cell in wrapped]
            parts = [f"{cell:>{size}}" if column in right else f"{cell:<{size}}"
                     for column, (cell, size) in enumerate(zip(shown, wide, strict=True))]  # fmt: skip
            start = "  > " if number == marked and not part else " " * margin
            lines.append(shorten((start + (" " * gap).join(parts)).rstrip(), width()))
    return lines


def share_text(share: float) -> str:
    """Return a share as it was asked for, such as `95 %` or `99.99 %`: it is never rounded up to all."""
    return f"{share * 100.0:.10g} %"
