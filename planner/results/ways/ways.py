"""Parts of a plan that name other ways: the purchase of its machine, and further ways if it cannot be had."""

from typing import Any

from planner.results.plan_parts import Part, Reservation


class Purchase(Part, defer_build=True):
    """What buying the machines of a job would cost, and from how many hours of such use it pays.

    Dollars are of all machines that the job holds at one time, hours are those in which all of them work.
    """

    offer: str
    machines: int
    usd: float
    low_usd: float
    high_usd: float
    """The ends of published prices."""
    date: str
    source: str
    rent_usd_per_hour: float
    """What the plan pays for an hour of work: starts, losses on spot and rounding are in it."""
    running_usd_per_hour: float
    """Power and place of the bought machines where they work day and night."""
    pays_from_hours: float | None
    """None: an hour of them costs as much as the rent already, so that they never pay."""
    pays_from_hours_low: float | None
    pays_from_hours_high: float | None
    hours: float
    """Hours of such use that the job has."""


class FurtherWay(Part, defer_build=True):
    """A plan of the same scenario without the providers and cards of the plan, and of the ways before this one."""

    provider: str
    gpu: str
    gpus: int
    runs_at_once: int = 1
    cost_usd: float
    """Expected dollars of the job."""
    hours: float
    """Expected hours until the job ends."""
    more_usd: float
    """Expected dollars of all jobs beyond those of the plan."""
    jobs: tuple[dict[str, Any], ...]
    """All jobs of that plan, in the form of `jobs`."""
    reservations: tuple[Reservation, ...] = ()
