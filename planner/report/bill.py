"""The bill of a plan as text: items, what is not included, total."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from planner.report import format as words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.plan import Assignment
    from planner.results.plan_parts import BillItem

NOT_INCLUDED = "not included"
"""Part of the basis of a bill item whose price is unknown."""

ITEM_NAMES = {"starts and losses": "restarts, lost work", "moves between regions": "moves of region"}
"""Names on the screen that differ from those of the data."""


def bill(job: Assignment, room: int) -> list[str]:
    """Return items that cost something, what is not included, and the total, in at most `room` (>= 3) lines.

    Items are shown in whole cents; a line of rounding makes them add up to the total.
    """
    unknown = [item.item for item in job.bill if NOT_INCLUDED in item.basis]
    free = ("gpu committed", "tokens trained", "training runs")  # shown although they cost nothing
    known = [item for item in job.bill if NOT_INCLUDED not in item.basis]
    paid = [item for item in known if round(item.usd, 2) != 0 or item.item in free]
    tail = words.join_parts([f"not included: {', '.join(unknown)}"], "", words.line_room(), 1) if unknown else []
    certain = words.usd(job.cost.low) == words.usd(job.cost.high)
    spread = "" if certain else f"({words.usd_between(job.cost.low, job.cost.high)})"
    total = job.cost.expected
    tail.append(_amount("total", spread, total))
    space = room - len(tail)
    rest = rounding([item.usd for item in paid], total)
    if len(paid) + bool(rest) > space:
        # Keep the order of the bill and drop its smallest items.
        kept = sorted(range(len(paid)), key=lambda i: -paid[i].usd)[: max(1, space - 1)]  # the largest is always shown
        rest = rounding([paid[i].usd for i in kept], total)
        left = [one for i, one in enumerate(paid) if i not in kept]
        names = f"{len(left)} smaller items", "--json lists them"
        others = _amount(*(names if len(left) > 1 else (item_name(left[0].item, job.gpu), "and rounding")), rest)
        return [*(bill_line(paid[i], job.gpu) for i in sorted(kept)), others, *tail]
    lines = [bill_line(item, job.gpu) for item in paid]
    return [*lines, *([_amount("rounding", "", rest)] if rest else []), *tail]


def rounding(amounts: Sequence[float], total: float) -> float:
    """Return what amounts, each shown as `words.usd` shows it, lack of their total as it is shown."""
    return round(_shown(total) - math.fsum(_shown(one) for one in amounts), 2)


def _shown(amount: float) -> float:
    return float(words.usd(amount).replace("$", "").replace(",", ""))


def bill_line(item: BillItem, gpu: str = "") -> str:
    """Return an item as quantity x rate if both are known, with the basis of an assumed price; `gpu` is the card."""
    how = ""
    single = item.quantity == 1 and item.unit != "h"  # its rate is the amount
    if item.quantity is not None and item.rate_usd is not None and not single:
        how = product(item.quantity, item.unit, item.rate_usd, item.usd)
    elif item.quantity is not None and item.unit:
        how = quantity(item.quantity, item.unit)
    what, at, place = item_name(item.item, gpu).partition(" at ")  # a stage on a separate machine
    how = f"{how}, {item.basis}".removeprefix(", ") if item.basis else how
    return _amount(what, f"{how}{at}{place}", item.usd)


def item_name(item: str, gpu: str = "") -> str:
    """Return an item of a bill in the words of the screen: the hours of a TPU are not called those of a GPU."""
    card = "TPU" if gpu.startswith("TPU") else "GPU"
    return ITEM_NAMES.get(item, item).replace("gpu ", f"{card} ")


def product(amount: float, unit: str, rate_usd: float, usd: float) -> str:
    """Return `quantity x rate` with the fewest digits whose product is the dollars as they are shown."""
    for in_rate, in_amount in sorted(itertools.product(range(4), range(6)), key=lambda more: (sum(more), more)):
        factors = quantity(amount, unit, in_amount), words.rate(rate_usd, in_rate)
        of_unit = 60.0 if factors[0].endswith(" min") else 1.0
        shown = [float(one.split()[0].strip("$").replace(",", "")) for one in factors]
        if words.usd(shown[0] * shown[1] / of_unit) == words.usd(usd):
            return " x ".join(factors)
    return quantity(amount, unit)


def quantity(amount: float, unit: str, more: int = 0) -> str:
    """Return an amount with its unit, `more` digits than usual; hours of any kind have one decimal."""
    if unit == "h":
        return words.hours(amount, more)
    figure = f"{amount:,.{1 + more}f}" if "hour" in unit else words.significant(amount, 3 + more)
    unit = unit.removesuffix("s") if amount == 1 and " " not in unit else unit
    unit = unit.replace("machine for", "machines for") if amount != 1 else unit
    return f"{figure} {unit}".rstrip()


def _amount(item: str, how: str, amount: float) -> str:
    """Return one row of the bill: 21 columns item, 35 basis, 12 dollars."""
    what, how = words.shorten(words.sanitise(item), 20), words.shorten(words.sanitise(how), 34)
    return f"{what:<21}{how:<35}{words.usd(amount).replace('$', ''):>12}"
