"""Market curves: what a run costs at best on a spot market, for every time that it may be guaranteed."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from planner.spot.policy.backward_induction import TIE_FACTOR, BackwardInduction
from planner.spot.policy.discretisation import CurveRequest, build_chain_for, check_run
from planner.spot.policy.markov_chain import (
    COUNTS,
    DEMAND_HOURS,
    DEMAND_STARTS,
    FINISH,
    FINISH_VARIANCE,
    INTERRUPTIONS,
    MEANS,
    SPOT_HOURS,
    USD,
    USD_VARIANCE,
    VARIANCES,
    MarkovChain,
)

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.run import SpotRun

TICKS, POINTS = 200, 96
"""Of one curve: within half a percent of a grid many times finer (see tests)."""


@dataclass(frozen=True)
class CurvePoint:
    """The best that can be done within `hours`: means over the market, and the spread of the cost."""

    hours: float  # guaranteed
    usd: float
    usd_sd: float
    finish_hours: float  # from the start to the end of the run
    finish_sd: float  # hours
    spot_hours: float  # paid
    on_demand_hours: float  # paid
    spot_share: float  # of the work, 0 to 1
    interruptions: float
    wasted_hours: float  # paid without progress that lasts: restarts, checkpoints, work lost
    waiting_hours: float  # nothing rented


@dataclass(frozen=True)
class Curve:
    """Points of a curve by rising guaranteed hours; arrays of shape (points,). `usd` never rises.

    The first point is all on demand without a pause, which takes the least time that can be guaranteed.
    """

    hours: Floats
    usd: Floats
    usd_sd: Floats
    finish_hours: Floats
    finish_sd: Floats
    spot_hours: Floats
    on_demand_hours: Floats
    spot_share: Floats
    interruptions: Floats
    wasted_hours: Floats
    waiting_hours: Floats

    def points(self, after_hours: float, guaranteed_hours: float) -> list[CurvePoint]:
        """The points that fit into the time and take more than `after_hours`, by rising hours."""
        fits = (self.hours > after_hours) & (self.hours <= guaranteed_hours * (1 + 1e-12))
        columns = [getattr(self, field.name)[fits].tolist() for field in fields(CurvePoint)]
        return [CurvePoint(*values) for values in zip(*columns, strict=True)]

    def at(self, guaranteed_hours: float) -> CurvePoint:
        """The last point that fits into the time: it can be had for sure, and a longer one cannot.

        ValueError where even on-demand machines take longer.
        """
        index = int(np.searchsorted(self.hours, guaranteed_hours * (1 + 1e-12), side="right")) - 1
        if index < 0:
            raise ValueError(f"{guaranteed_hours:g} h are less than the {self.hours[0]:g} h of on-demand machines")
        return CurvePoint(**{field.name: float(getattr(self, field.name)[index]) for field in fields(CurvePoint)})


def market_curve(
    run: SpotRun, states: SpotStates, longest_hours: float, ticks: int = TICKS, points: int = POINTS
) -> Curve:
    """The cost of the best switching policy for every guaranteed time up to `longest_hours`, by one backward pass.

    The run starts with nothing running, at a moment that nobody chose.
    `ticks` of time and `points` of slack: the grid; more ticks are taken where the market is quick.
    ValueError where on-demand machines are not sold or do not make `longest_hours`.
    """
    check_run(run, longest_hours)
    asked = CurveRequest(run, states, longest_hours)
    part = asked.part
    hours, found = [run.work_hours + run.restart_hours], [demand_counts(run)]
    if part.slack_hours > part.run.restart_hours + 1e-6 * part.guaranteed_hours:
        chain = build_chain_for([part], tick_count(part, ticks), points)
        backward = BackwardInduction(chain)
        for number in range(round(part.guaranteed_hours / chain.tick[0])):
            moment = backward.step()
            slack = (number + 1) * chain.tick[0] - part.run.work_hours
            if slack > part.run.restart_hours:
                hours.append((slack + part.run.work_hours) * asked.parts)
                found.append(start_counts(chain, moment.counts, np.array([slack]))[0] * asked.parts)
    return build_curve(run, np.array(hours), np.array(found))


def tick_count(question: CurveRequest, ticks: int) -> int:
    """Ticks of a pass: as asked for, or more where the market is quicker than that."""
    return max(ticks, math.ceil(question.resolving_ticks))


def start_counts(chain: MarkovChain, counts: Floats, slack: Floats) -> Floats:
    """Counts from the start, nothing running, the market as it happens to be; shape (b, COUNTS)."""
    idle = counts[:, : chain.states].copy()
    idle[..., VARIANCES] += np.square(idle[..., MEANS])
    mixed = np.einsum("bm,bmsk->bsk", chain.first, idle)
    mixed[..., VARIANCES] -= np.square(mixed[..., MEANS])
    result = np.empty((len(slack), COUNTS))
    for row, (axis, at) in enumerate(zip(chain.slack, slack, strict=True)):
        low = int(np.clip(np.searchsorted(axis, at, side="right") - 1, 0, len(axis) - 2))
        part = min(1.0, (at - axis[low]) / (axis[low + 1] - axis[low]))
        result[row] = mixed[row, low] + part * (mixed[row, low + 1] - mixed[row, low])
    return result


def demand_counts(run: SpotRun) -> Floats:
    """Counts of a run that starts on demand and stays there: exact."""
    hours = run.work_hours + run.restart_hours
    counts = np.zeros(COUNTS)
    counts[USD] = hours * (run.on_demand_usd_per_hour + run.standing_usd_per_hour)
    counts[[FINISH, DEMAND_HOURS, DEMAND_STARTS]] = hours, hours, 1.0
    return counts


def build_curve(run: SpotRun, hours: Floats, counts: Floats) -> Curve:
    """A curve from counts (points, COUNTS); where more time would cost more, the way of less time is kept."""
    usd = counts[:, USD]
    falls = np.concatenate([[True], usd[1:] < np.minimum.accumulate(usd)[:-1] * TIE_FACTOR])
    kept = counts[np.maximum.accumulate(np.where(falls, np.arange(len(usd)), 0))]
    demand_work = kept[:, DEMAND_HOURS] - run.restart_hours * kept[:, DEMAND_STARTS]
    spot_share = np.clip(1.0 - demand_work / run.work_hours, 0.0, 1.0)
    spot_share[kept[:, SPOT_HOURS] == 0] = 0.0
    paid = kept[:, SPOT_HOURS] + kept[:, DEMAND_HOURS]
    return Curve(
        hours=hours,
        usd=kept[:, USD],
        usd_sd=np.sqrt(np.maximum(kept[:, USD_VARIANCE], 0.0)),
        finish_hours=kept[:, FINISH],
        finish_sd=np.sqrt(np.maximum(kept[:, FINISH_VARIANCE], 0.0)),
        spot_hours=kept[:, SPOT_HOURS],
        on_demand_hours=kept[:, DEMAND_HOURS],
        spot_share=spot_share,
        interruptions=kept[:, INTERRUPTIONS],
        wasted_hours=np.maximum(paid - run.work_hours, 0.0),
        waiting_hours=np.maximum(kept[:, FINISH] - paid, 0.0),
    )
