"""Dollars of several jobs together: their speeds err alike, their spot markets are lucky each by itself.

Jobs on the same card of one provider in one region have one market: the unlucky runs of one are those of the others.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from planner.hazards import LUCKS, SPEED_RANK_BOUNDS, SPEEDS

if TYPE_CHECKING:
    from collections.abc import Sequence


class PaidJob(Protocol):
    """The dollars of a job: expected, at the confidence, and in equally likely runs at each rank of speed, if drawn."""

    @property
    def provider(self) -> str:
        """Whose machines it rents."""

    @property
    def region(self) -> str:
        """Where they are."""

    @property
    def gpu(self) -> str:
        """Their card."""

    @property
    def cost_usd(self) -> float:
        """Expected dollars."""

    @property
    def cost_at_confidence(self) -> float:
        """Dollars that hold with the confidence."""

    @property
    def usd_of_runs(self) -> Sequence[Sequence[float]]:
        """Dollars of runs by the rank of speed; empty where none were drawn."""


def joint_usd(jobs: Sequence[PaidJob], confidence: float, fixed_usd: float = 0.0) -> list[float]:
    """Return dollars of all jobs in equally likely cases, by rising dollars; `fixed_usd` is paid beside them.

    `confidence` is that of the `cost_at_confidence` of the jobs. At each speed all sums of two markets are equally
    likely; a sum of many is kept as the means of as many groups. Jobs without luck vary within a speed, too, by the
    ranks that it covers: the slowest eighth of runs of theirs spreads as far as an unlucky market.
    """
    cases: list[float] = []
    for speed in range(SPEEDS):
        sums, markets = [fixed_usd], dict[tuple[str, str, str], list[float]]()
        for job in jobs:
            together = markets.setdefault(_market_of(job) if job.usd_of_runs else _NO_MARKET, [0.0] * LUCKS)
            for luck, usd in enumerate(job.usd_of_runs[speed] if job.usd_of_runs else _usd_at(job, speed, confidence)):
                together[luck] += usd
        for _, lucks in sorted(markets.items()):  # means of groups depend on the order, which jobs must not decide
            every = sorted(total + other for total in sums for other in lucks)
            size = max(1, len(every) // LUCKS)
            sums = [math.fsum(every[at : at + size]) / size for at in range(0, len(every), size)]
        cases += [sums[number * len(sums) // LUCKS] for number in range(LUCKS)]
    return sorted(cases)


def joint_late_usd(jobs: Sequence[PaidJob], confidence: float, fixed_usd: float = 0.0) -> float:
    """Return the dollars that all jobs together stay within with this probability; `fixed_usd` is paid beside them.

    Where all luck is that of one market, what the jobs need each by itself is enough for all: they need it in the same
    runs. It was found among more runs than the cases tell, so that the lesser of the two counts.
    """
    added = fixed_usd + math.fsum(job.cost_at_confidence for job in jobs)
    markets = {_market_of(job) for job in jobs if job.usd_of_runs}
    if len(jobs) < 2 or not markets:
        return added
    found = share_within(joint_usd(jobs, confidence, fixed_usd), confidence)
    return min(added, found) if len(markets) == 1 else found


def joint_probability(jobs: Sequence[PaidJob], confidence: float, limit_usd: float, fixed_usd: float = 0.0) -> float:
    """Return the probability that all jobs together stay within dollars: the inverse of `joint_late_usd`."""
    found = probability_of(joint_usd(jobs, confidence, fixed_usd), limit_usd)
    return max(found, confidence if joint_late_usd(jobs, confidence, fixed_usd) <= limit_usd else 0.0)


_NO_MARKET = ("", "", "")
"""What jobs without luck have in common: their speeds err alike."""


def _market_of(job: PaidJob) -> tuple[str, str, str]:
    """Return what jobs on one spot market have in common."""
    return job.provider, job.region, job.gpu


def share_within(cases: Sequence[float], probability: float) -> float:
    """Return the figure that this share of equally likely cases stays within, between two cases in proportion."""
    place = min(max(probability * len(cases) - 0.5, 0.0), len(cases) - 1.0)
    low = min(int(place), len(cases) - 2)
    return cases[low] + (place - low) * (cases[low + 1] - cases[low])


def probability_of(cases: Sequence[float], limit: float) -> float:
    """Return the share of equally likely cases that stay within a limit: the inverse of `share_within`."""
    below = sum(case <= limit for case in cases)
    if below in (0, len(cases)):
        return below / len(cases)
    low, high = cases[below - 1], cases[below]
    return (below - 0.5 + (limit - low) / (high - low)) / len(cases)


def _usd_at(job: PaidJob, speed: int, confidence: float) -> list[float]:
    """Return the dollars of a job without luck at the ranks of a speed, by size: exp(scale * t), Student's t.

    The data say nothing beyond `SPEED_RANK_BOUNDS`.
    """
    if confidence == 0.5 or not job.cost_at_confidence > job.cost_usd > 0:
        return [job.cost_at_confidence] * LUCKS
    ranks = ((speed + (number + 0.5) / LUCKS) / SPEEDS for number in range(LUCKS))
    least, most = SPEED_RANK_BOUNDS
    known = (min(max(rank, least), most) for rank in ranks)
    ratio, asked = job.cost_at_confidence / job.cost_usd, _student(confidence)
    return [float(job.cost_usd * ratio ** (_student(rank) / asked)) for rank in known]


def _student(probability: float) -> float:
    """Return the quantile of Student's t with 2 degrees of freedom."""
    return (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))
