"""Limits on what all jobs and services use at one time: each is an object, over which every part of a plan iterates.

One of them is on what is bought (`stays`): it counts what is used at any time, jobs that take turns together once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from planner.library.schema import GpuSpec, Library
from planner.scenario.limits import Limits
from planner.scenario.offer import Offer
from planner.scenario.own_machines import WATTS_PER_KILOWATT, default_power_watts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PEAK_TOLERANCE = 1e-9
"""Relative, by which sums of what is used may differ by rounding."""


@dataclass(frozen=True)
class PeakLimit:
    """A limit under `limits` on what is used at one time, over all jobs and services.

    A job uses its part from start to end: what one machine of its offer uses, times its machines; or the dollars that
    it spends per hour. Its limit is a resource of a timetable, and one of jobs side by side is a row of the program,
    but for dollars per hour, which always make a timetable.

    What a plan uses is computed a second time, from the plan's own figures, in `planner.audit.peak_amounts`.
    """

    key: str  # under `limits`
    of_machine: Callable[[Offer, GpuSpec | None], float] | None
    """What one machine of an offer uses, nan where nobody states it; the GPU is None at a managed service.

    None stands for the dollars that a run spends per hour: they depend on the run."""
    parts: int  # whole units of a timetable in one unit of the limit
    step: float | None  # its smallest relaxation is a multiple of this; None: found to one percent
    unit: str = ""
    exceeded: str = ""  # why one candidate alone is none
    lacking: str = ""  # what the nearest candidate does where a limit leaves none
    excludes: str = ""  # why an alternative is infeasible; `new` is what it needs, `old` the limit
    used: str = ""  # what a lower limit changes; `used` is what the plan uses
    unknown: str = ""  # why an offer is left out of which nobody states what its machines use
    counts_quota: bool = False  # whether a quota of a provider limits the same
    stays: bool = False  # whether what is used once is used to the end: of each offer the most machines at one time
    worth: Literal["gpu", "dollar", "choice"] = "choice"  # what more of it gives, in explanations

    @property
    def path(self) -> str:
        """The path of a setting."""
        return f"limits.{self.key}"

    @property
    def name(self) -> str:
        """What is limited, as rows and checks name it: `gpus`."""
        return self.key.removeprefix("max_")

    @property
    def is_of_dollars(self) -> bool:
        """Whether the limit is one on dollars per hour, which are known of a run alone."""
        return self.of_machine is None

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers are meant."""
        return self.step == 1.0 and not self.stays

    def value(self, limits: Limits) -> float | None:
        """Return what the limits of a scenario allow; None for any amount."""
        found: float | None = getattr(limits, self.key)
        return found

    def rounded_up(self, value: float) -> float:
        """Return the least value that a user can type and that allows so much, up to the tolerance of solvers."""
        step = self.step or 1.0
        return round(math.ceil(value / step - 1e-6) * step, 6)

    def capacity(self, value: float) -> int:
        """Return a value of the limit in whole units of a timetable, rounded down."""
        return math.floor(self.parts * value + 1e-6)

    def need(self, amount: float) -> int:
        """Return what is used in whole units of a timetable, rounded up."""
        return math.ceil(self.parts * amount - 1e-6)


def machine_kilowatts(offer: Offer, gpu: GpuSpec | None) -> float:
    """Return the kilowatts that one machine draws in training, host included; nan where the TDP is not published.

    Of an own machine they are its `power_watts`, of a rented one 1.44 times the TDP of its GPUs, as for an own machine
    whose power is not stated. A managed service and a machine without GPUs draw nothing that is counted.

    8 GPUs of 700 W: 8 * 0.7 * 1.44 = 8.064 kW.
    """
    if not offer.rents_gpus or gpu is None:
        return 0.0
    own = offer.own or offer.buy
    if own is not None and own.power_watts is not None:
        return own.power_watts / WATTS_PER_KILOWATT
    return math.nan if gpu.tdp_w is None else default_power_watts(gpu.tdp_w, offer.gpus) / WATTS_PER_KILOWATT


PEAK_LIMITS = (
    PeakLimit(
        "max_gpus",
        of_machine=lambda offer, _: float(offer.gpus if offer.rents_gpus else 0),
        parts=1,
        step=1.0,
        unit="GPUs",
        exceeded="it needs more GPUs than a limit, quota or stock allows",
        lacking="needs more GPUs than a limit allows",
        excludes="it needs {new:,.0f} GPUs; at most {old:,.0f} may be used",
        used="max_gpus under {used:.0f} would change it: the plan rents that many",
        counts_quota=True,
        worth="gpu",
    ),
    PeakLimit("max_usd_per_hour", of_machine=None, parts=100, step=None),
    PeakLimit(
        "max_kilowatts",
        of_machine=machine_kilowatts,
        parts=100_000,  # 1.44 times a TDP in whole watts is a whole number of these
        step=0.01,
        unit="kW",
        exceeded="its machines draw more than limits.max_kilowatts",
        lacking="draws more power than a limit allows",
        excludes="its machines draw {new:.4g} kW; at most {old:.4g} kW may be drawn",
        used="max_kilowatts under {used:.6g} would change it: the machines of the plan draw that",
        unknown="the power of its GPU is not published",
    ),
    PeakLimit(
        "outlay_usd",
        of_machine=lambda offer, _: offer.outlay_usd,
        parts=100,
        step=1.0,
        unit="usd",
        exceeded="what is paid at once exceeds limits.outlay_usd",
        lacking="is paid at once for more than limits.outlay_usd",
        excludes="${new:,.2f} are paid at once; at most ${old:,.2f} may be",
        used="outlay_usd under ${used:,.2f} would change it: the plan pays that at once",
        stays=True,
        worth="dollar",
    ),
)
"""Every limit of this kind."""


def given_peaks(limits: Limits) -> Iterator[tuple[PeakLimit, float]]:
    """Yield the limits of this kind that a scenario gives, with their values."""
    for limit in PEAK_LIMITS:
        if (value := limit.value(limits)) is not None:
            yield limit, value


def keeps_peaks(offer: Offer, limits: Limits, gpu: GpuSpec | None) -> bool:
    """Return whether one machine of an offer alone keeps every limit of this kind but that on dollars."""
    given = ((use, most) for limit, most in given_peaks(limits) if (use := limit.of_machine) is not None)
    return all(use(offer, gpu) <= most * (1.0 + PEAK_TOLERANCE) for use, most in given)  # nan keeps none


def unknown_notes(offers: Iterable[Offer], limits: Limits, library: Library) -> tuple[str, ...]:
    """Return a note for each limit with the GPUs that are left out, because nobody states what their machines use."""
    found, rented = [], [offer for offer in offers if offer.rents_gpus and limits.permits(offer)]
    for limit, _ in given_peaks(limits):
        if (use := limit.of_machine) is not None:
            unknown = (offer.card for offer in rented if math.isnan(use(offer, library.gpu(offer.card))))
            if names := ", ".join(dict.fromkeys(unknown)):
                found.append(f"left out for {limit.path}: {names} ({limit.unknown})")
    return tuple(found)


def limits_spending(limits: Limits) -> bool:
    """Return whether the dollars that runs spend per hour are limited: only a timetable knows them."""
    return any(limit.is_of_dollars for limit, _ in given_peaks(limits))


def peak_limit_at(path: str) -> PeakLimit | None:
    """Return the limit of a path such as `limits.max_gpus`; None for any other path."""
    return next((limit for limit in PEAK_LIMITS if limit.path == path), None)
