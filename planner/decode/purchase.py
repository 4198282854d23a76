"""What buying the machines of a job would cost, and from how many hours of such use it pays.

Buying n machines for P dollars each, of which a share r is left, pays from

    n*P*(1 - r) / (rent - n*running)

hours of use, where `rent` is what the plan pays for an hour of work, and `running` is power*PUE*price and the monthly
costs over the hours of a month. Two RTX 3090 at $2,500, half of it left, rented at $0.22 an hour each, with 504 W at
$0.18 per kWh: 2,500 / (0.44 - 0.18144) = 9,669 hours.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.results.plan_parts import Purchase
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.plan import Assignment
    from planner.scenario.offer import Offer

RENTED = ("secure", "community")
"""Tiers whose hours are rented one by one."""
NO_WORK = ("lost on spot", "move to on demand", "starts on demand", "starts and losses", "rounded up")
"""Lines of the bill for hours that an own machine would not need."""


def compare_purchase(job: Assignment, for_sale: Sequence[Offer]) -> Purchase | None:
    """Return the purchase of as many equal machines as a job rents; None where none is for sale, or nothing is rented.

    `for_sale` is searched in its order for a machine with as many of the same GPUs.
    """
    offer = next((one for one in for_sale if (one.gpu, one.gpus) == (job.gpu, job.gpus_per_instance)), None)
    if offer is None or offer.buy is None or job.tier not in RENTED:
        return None
    machines = job.instances * job.runs_at_once
    lines = [line for line in job.bill if line.unit == "h" and " at " not in line.item]
    hours = math.fsum(line.quantity or 0.0 for line in lines if line.item not in NO_WORK) / machines
    if job.spot is not None:  # the starts of a policy are on lines of their own, of which one is needed
        hours += job.start_hours
    usd = math.fsum(line.usd for line in lines)
    if hours <= 0 or usd <= 0:
        return None
    rent, buy = usd / hours, offer.buy
    running = machines * (buy.power_usd_per_hour + buy.idle_usd_per_month / MONTH_HOURS)
    low, high = buy.purchase_range_usd or (buy.purchase_usd, buy.purchase_usd)
    pays = [machines * lost / (rent - running) if rent > running else None for lost in buy.lost_usd]
    return Purchase(
        offer=offer.label,
        machines=machines,
        usd=machines * buy.purchase_usd,
        low_usd=machines * low,
        high_usd=machines * high,
        date=offer.date_text,
        source=offer.source,
        rent_usd_per_hour=rent,
        running_usd_per_hour=running,
        pays_from_hours=pays[0],
        pays_from_hours_low=pays[1],
        pays_from_hours_high=pays[2],
        hours=hours,
    )
