"""Cost curves: the least mean cost of a run on a spot market, for every time within which it is guaranteed to end."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from planner.records import record
from planner.spot.policy.backward_induction import TIE_FACTOR, BackwardInduction
from planner.spot.policy.discretisation import CurveRequest, Grid, build_chain_for
from planner.spot.policy.markov_chain import (
    ALL_COUNTS,
    COUNTS,
    DEMAND_HOURS,
    DEMAND_STARTS,
    FIGURES,
    FINISH,
    FINISH_VARIANCE,
    INTERRUPTIONS,
    MEANS,
    SPOT_HOURS,
    USD,
    USD_VARIANCE,
    VARIANCES,
)
from planner.spot.policy.start_table import StartRecord, StartTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Floats
    from planner.spot.policy.run import SpotRun


@record(frozen=True)
class CurvePoint:
    """The best policy that guarantees `hours`: means over the market, and the spread of the cost.

    Spreads and interruptions are nan where only the figures that candidates are compared by were computed.
    """

    hours: float  # guaranteed
    usd: float
    usd_sd: float
    finish_hours: float  # from the start to the end of the run
    finish_sd: float  # hours
    spot_hours: float  # paid
    on_demand_hours: float  # paid
    spot_share: float  # of the work, 0 to 1
    interruptions: float
    wasted_hours: float  # paid without lasting progress: restarts, checkpoints, lost work
    waiting_hours: float  # nothing rented


@record(frozen=True)
class Curve:
    """Points of a curve by rising guaranteed hours; arrays of shape (points,). `usd` never rises.

    The first point is on demand without a pause, which takes the least time that can be guaranteed.
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

    def points(self) -> list[CurvePoint]:
        """Return the points by rising hours."""
        columns = [getattr(self, field.name).tolist() for field in fields(CurvePoint)]
        return [CurvePoint(*values) for values in zip(*columns, strict=True)]

    def at(self, guaranteed_hours: float) -> CurvePoint:
        """Return the last point that fits into the time; ValueError where even on-demand machines take longer.

        A point between two of the curve is not interpolated: the earlier one is guaranteed, the later one is not.
        """
        index = int(np.searchsorted(self.hours, guaranteed_hours * (1 + 1e-12), side="right")) - 1
        if index < 0:
            raise ValueError(f"{guaranteed_hours:g} h are less than the {self.hours[0]:g} h of on-demand machines")
        return CurvePoint(**{field.name: float(getattr(self, field.name)[index]) for field in fields(CurvePoint)})


def count_tables(requests: Sequence[CurveRequest], grid: Grid) -> list[StartTable]:
    """Return all counts (ticks, slack, COUNTS) of the best policy of each run, by one backward pass for all of them."""
    return _tables(requests, grid, ALL_COUNTS)


def figure_tables(requests: Sequence[CurveRequest], grid: Grid) -> list[StartTable]:
    """Return the `FIGURES` among the counts, in less time; shapes (ticks, slack, figures)."""
    return _tables(requests, grid, FIGURES)


def _tables(requests: Sequence[CurveRequest], grid: Grid, counts: slice) -> list[StartTable]:
    chain = build_chain_for([request.part for request in requests], grid)
    record = StartRecord(requests, chain, grid.ticks)
    backward = BackwardInduction(chain, record.width, counts)
    for _ in range(grid.ticks):
        record.add(backward.step().counts)
    idle = record.values
    if counts == ALL_COUNTS:
        idle[:, VARIANCES] += np.square(idle[:, MEANS])
    mixed = np.einsum("bm,tkbms->kbts", chain.first, idle)
    if counts == ALL_COUNTS:
        mixed[VARIANCES] -= np.square(mixed[MEANS])
    return record.tables(np.moveaxis(mixed, 0, -1))


def best_point(table: StartTable, hours: float) -> CurvePoint:
    """Return the best policy that guarantees `hours`, on demand alone where nothing is cheaper."""
    return curve_at(table, np.array([hours])).at(hours)


def curve_at(table: StartTable, hours: Floats) -> Curve:
    """Return on demand, and the best policy for each of some guaranteed times."""
    run = table.request.run
    enough = hours[hours > run.work_hours + run.restart_hours * (1 + 1e-9)]
    figures = table.at(enough)
    counts = np.full((len(enough) + 1, COUNTS), np.nan)
    counts[0], counts[1:, : figures.shape[1]] = demand_counts(run), figures
    return build_curve(run, np.append(run.work_hours + run.restart_hours, enough), counts)


def demand_counts(run: SpotRun) -> Floats:
    """Return the exact counts of a run that starts on demand and stays there."""
    hours = run.work_hours + run.restart_hours
    counts = np.zeros(COUNTS)
    counts[USD] = hours * (run.on_demand_usd_per_hour + run.standing_usd_per_hour)
    counts[[FINISH, DEMAND_HOURS, DEMAND_STARTS]] = hours, hours, 1.0
    return counts


def build_curve(run: SpotRun, hours: Floats, counts: Floats) -> Curve:
    """Return the curve of counts (points, COUNTS); where more time costs more, the point of less time is kept."""
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
