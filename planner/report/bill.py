"""The bill of a plan as text: items, what is not included, total."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from planner.report import format as words

if TYPE_CHECKING:
    from planner.results.plan import Assignment
    from planner.results.plan_parts import BillItem

NOT_INCLUDED = "not included"
"""Part of the basis of a bill item whose price is unknown."""

ITEM_NAMES = {"starts and losses": "restarts, lost work"}
"""Names on the screen that differ from those of the data."""


def bill(job: Assignment, room: int) -> list[str]:
    """Return items that cost something, what is not included, and the total, in at most `room` (>= 3) lines."""
    unknown = [item.item for item in job.bill if NOT_INCLUDED in item.basis]
    free = ("gpu committed", "tokens trained", "training runs")  # shown although they cost nothing
    known = [item for item in job.bill if NOT_INCLUDED not in item.basis]
    paid = [item for item in known if round(item.usd, 2) != 0 or item.item in free]
    tail = words.join_parts([f"not included: {', '.join(unknown)}"], "", words.line_room(), 1) if unknown else []
    certain = words.usd(job.cost.low) == words.usd(job.cost.high)
    spread = "" if certain else f"({words.usd_between(job.cost.low, job.cost.high)})"
    tail.append(_amount("total", spread, job.cost.expected))
    space = room - len(tail)
    if len(paid) > space:
        # Keep the order of the bill and drop its smallest items.
        kept = sorted(range(len(paid)), key=lambda i: -paid[i].usd)[: space - 1]
        others = f"and {len(paid) - len(kept)} smaller items (--json lists them)"
        return [bill_line(paid[i]) for i in sorted(kept)] + [others, *tail]
    return [bill_line(item) for item in paid] + tail


def bill_line(item: BillItem) -> str:
    """Return an item as quantity x rate if both are known, with the basis of an assumed price."""
    how = ""
    single = item.quantity == 1 and item.unit != "h"  # its rate is the amount
    if item.quantity is not None and item.rate_usd is not None and not single:
        how = product(item.quantity, item.unit, item.rate_usd, item.usd)
    elif item.quantity is not None:
        how = quantity(item.quantity, item.unit)
    what, at, place = ITEM_NAMES.get(item.item, item.item).partition(" at ")  # a stage on a separate machine
    if at and item.rate_usd is None:
        how = f"{how} and transfers"
    how = f"{how}, {item.basis}".removeprefix(", ") if item.basis else how
    return _amount(what.replace("gpu ", "GPU "), f"{how}{at}{place}", item.usd)


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
