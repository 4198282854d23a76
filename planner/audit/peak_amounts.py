"""What a plan uses of each limit on one time, a second time: in plain floats, from the machines that the plan names."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.library.schema import Library
from planner.results.plan import Assignment
from planner.scenario.offer import Offer


@dataclass(frozen=True)
class Held:
    """Machines that are held at one time, as a plan names them."""

    offer: Offer | None  # None: the plan names an offer that is none, which is a fault of its own
    machines: float
    gpus: float
    usd_per_hour: float


def amount_of(key: str, held: Held, library: Library) -> float:
    """Return what machines use of the limit of a key, such as `max_gpus`.

    Raises ValueError for a limit that has no second computation here.
    """
    match key:
        case "max_gpus":
            return held.gpus
        case "max_usd_per_hour":
            return held.usd_per_hour
        case "max_kilowatts":
            return _kilowatts(held, library)
        case "outlay_usd":
            return held.machines * price_at_once(held.offer)
    raise ValueError(f"limits.{key} has no second computation")


_WATTS_PER_WATT_OF_GPU = 1.8 * 0.8
"""What a server draws in training: 80 % of its rated power, which is 1.8 times that of its GPUs."""


def _kilowatts(held: Held, library: Library) -> float:
    """Return the power that machines draw: as an own one states it, else from the TDP of the GPUs; inf if unknown."""
    offer = held.offer
    if offer is None or offer.gpu is None:
        return 0.0
    for machine in (offer.own, offer.buy):
        if machine is not None and machine.power_watts is not None:
            return held.machines * machine.power_watts / 1e3
    tdp = library.gpu(offer.gpu).tdp_w
    return math.inf if tdp is None else held.gpus * tdp * _WATTS_PER_WATT_OF_GPU / 1e3


def price_at_once(offer: Offer | None) -> float:
    """Return the price of one machine on the day of its order: bought, asked upfront, or as a block of hours."""
    if offer is None:
        return 0.0
    bought = offer.buy.purchase_usd if offer.buy else 0.0
    upfront = offer.commitment.upfront_usd if offer.commitment else 0.0
    return bought + upfront + (offer.block.usd if offer.block else 0.0)


def gpus_of(job: Assignment) -> int:
    """Return the GPUs that a job holds."""
    return job.gpus * job.runs_at_once


def machines_of(job: Assignment) -> int:
    """Return the machines that a job holds, or its place at a service."""
    return max(1, job.instances) * job.runs_at_once


def held_by(job: Assignment, offer: Offer | None) -> Held:
    """Return what a job holds from start to end; it spends its dollars at the confidence evenly over these hours."""
    rate = job.cost_at_confidence / max(job.held_hours, 1e-6)
    return Held(offer, machines_of(job), gpus_of(job), rate)
