"""The limits that concern one job alone: filters, the spot share cut at the deadline, coarse billing at points."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from planner.candidates import JobCandidates, OfferColumns
from planner.estimates.bill import rounded_hours
from planner.library import Library
from planner.markets import Market
from planner.recipes import allowed
from planner.scenario import AllowForbid, Job, Limits
from planner.table import ON_DEMAND, SPOT, CandidateTable, Flags, Floats, Integers, concatenate

DEFAULT_MAX_HOURS = {"finetune": 720.0, "pretrain": 2160.0}
"""Longest run where the scenario sets none: without a deadline the cheapest machine may take years."""
FOREVER_HOURS = 1e6
"""A longest run that limits nothing."""
COARSE_STEP = 0.05
"""Share of the run above which a billing step is rounded (formulation, row `billing`)."""


@dataclass(frozen=True)
class Screened:
    """The rows that meet the job's own limits, with their shares cut, and why the others do not."""

    table: CandidateTable
    rows: Integers  # row of `table` -> row of the uncut table
    rounded: Flags  # row of `table`: billed in whole steps
    rejected: Counter[str]
    lateness: Floats  # per uncut row: hours over the deadline where that alone rejects it, else 0


def screen(
    candidates: JobCandidates, market: Market, limits: Limits, library: Library, method_filter: bool = True
) -> Screened:
    """Filters that concern one job alone, spot shares cut at the deadline, coarse billing rounded at points.

    `method_filter` false keeps methods that the job's techniques exclude: the ladder prices them too.
    """
    job, table = candidates.job, candidates.table
    reasons: Counter[str] = Counter()
    keep = np.ones(len(table), dtype=bool)

    def reject(where: Flags, reason: str) -> None:
        nonlocal keep
        count = int(np.sum(keep & where))
        if count:
            reasons[reason] += count
        keep &= ~where

    if method_filter:
        ok = np.asarray([allowed(recipe, job) for recipe in candidates.physics.ways.recipes], dtype=bool)
        reject(~ok[table.recipe] if len(ok) else ~keep, "its method is not allowed")
    permitted = np.ones(len(market.offers), dtype=bool)
    for names, field in ((limits.providers, "provider"), (limits.gpus, "gpu"), (limits.regions, "region")):
        if names != AllowForbid():
            permitted &= [names.permits(getattr(offer, field)) for offer in market.offers]
    reject(~permitted[table.offer], "its provider, GPU or region is not allowed")
    reject(_over(table, market, limits), "it needs more GPUs than a limit, quota or stock allows")
    low = np.maximum(table.share_low, limits.spot_share.min)
    high = np.minimum(table.share_high, limits.spot_share.max)
    reject(low > high, "its spot market cannot give the share asked for")
    latest = deadline_hours(job, limits)
    cut = _cut(table, latest, low)
    late = keep & (np.minimum(cut, high) < low - 1e-12)
    lateness = np.where(late, _least_late_hours(table, low, high) - latest, 0.0)
    reject(late, "it ends after the deadline")
    high = np.minimum(high, cut)
    rows = np.flatnonzero(keep)
    cut_table = replace(table.rows(rows), share_low=low[rows], share_high=np.maximum(high[rows], low[rows]))
    run = candidates.running.run_hours[candidates.way[rows]]
    rounded, origin, billed = _billed_in_steps(cut_table, run, candidates.columns)
    return Screened(rounded, rows[origin], billed, reasons, lateness)


def deadline_hours(job: Job, limits: Limits) -> float:
    """The latest end in hours: the deadline, and the longest run that anyone meant."""
    longest = limits.max_hours if limits.max_hours is not None else DEFAULT_MAX_HOURS[job.kind]
    return min(longest, job.deadline_hours) if job.deadline_hours is not None else longest


def _over(table: CandidateTable, market: Market, limits: Limits) -> Flags:
    over = np.zeros(len(table), dtype=bool)
    if limits.max_gpus is not None:
        over |= table.gpus > limits.max_gpus
    quota = np.asarray([limits.quota.get(name, np.inf) for name in table.providers])
    stock = np.asarray([np.inf if o.stock is None else o.stock for o in market.offers])
    return over | (table.gpus > quota[table.provider]) | (table.instances > stock[table.offer])


def _cut(table: CandidateTable, latest: float, low: Floats) -> Floats:
    """Largest spot share whose late hours meet the deadline; -1 where the smallest share does not."""
    slack = latest - table.late_start_h
    on_demand, spot = table.late_h[:, ON_DEMAND], table.late_h[:, SPOT]
    with np.errstate(invalid="ignore", divide="ignore"):
        both = (slack - on_demand) / (spot - on_demand)
    both = np.where(spot <= on_demand, np.where(spot <= slack, 1.0, -1.0), both)
    # A start that outlasts the deadline is late at any share, however long spot would take.
    both = np.where((on_demand > slack) & (spot > on_demand), -1.0, both)
    only_spot = np.where(spot <= slack, 1.0, -1.0)
    only_demand = np.where(on_demand <= slack, 0.0, -1.0)
    cut = np.where(np.isnan(on_demand), only_spot, np.where(np.isnan(spot), only_demand, both))
    return np.clip(cut, -1.0, 1.0)


def _least_late_hours(table: CandidateTable, low: Floats, high: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.fmin(table.late_hours(np.clip(low, 0, 1)), table.late_hours(np.clip(high, 0, 1)))


def _billed_in_steps(
    table: CandidateTable, run: Floats, columns: OfferColumns
) -> tuple[CandidateTable, Integers, Flags]:
    """Rows whose billing step is coarse become points with rounded dollars: share floor, share cut, whole steps.

    Between two points of `whole_step_shares` a larger share is later and no cheaper, so that no share is missed.
    `run` are the hours of all the work on demand. Returns the table, and for each of
    its rows the row that it came from and whether it is rounded.
    """
    everything = np.arange(len(table))
    if not len(table):
        return table, everything, np.zeros(0, dtype=bool)
    step, least = columns.step_hours[table.offer], columns.minimum_hours[table.offer]
    coarse = (step > COARSE_STEP * run) | (least > table.start_h + run)
    if not coarse.any():
        return table, everything, coarse
    smooth, points = np.flatnonzero(~coarse), np.flatnonzero(coarse)
    between = [
        (row, share)
        for row in points
        for share in whole_step_shares(table, int(row), float(step[row]), float(least[row]))
    ]
    two = points[table.share_high[points] > table.share_low[points]]
    inside = np.asarray([row for row, _ in between], dtype=np.int64)
    origin = np.concatenate([smooth, points, inside, two])
    share = np.concatenate(
        [table.share_low[points], np.asarray([share for _, share in between], dtype=float), table.share_high[two]]
    )
    made = table.rows(np.concatenate([points, inside, two]))
    storage = columns.storage_usd_per_hour[made.offer] * made.instances
    usd, late_usd = (
        _rounded_usd(made, share, dollars, hours, start, storage, columns)
        for dollars, hours, start in (
            (made.run_usd, made.run_h, made.start_h),
            (made.late_usd, made.late_h, made.late_start_h),
        )
    )
    made = replace(made, run_usd=usd, late_usd=late_usd, share_low=share, share_high=share)
    return concatenate([table.rows(smooth), made]), origin, np.arange(len(origin)) >= len(smooth)


def whole_step_shares(table: CandidateTable, row: int, step: float, least: float) -> Floats:
    """Spot shares of a row, between its floor and cut, at which the hours on demand are billed to the last minute.

    On demand (1 - x) * run + start hours are billed in whole steps of `step` h, at least `least` h: a share just
    above such an x pays the same on demand, no less on spot, and ends later. Coarse steps are few in a run.
    """
    low, high = float(table.share_low[row]), float(table.share_high[row])
    start, run = float(table.start_h[row]), float(table.run_h[row, ON_DEMAND])
    if high <= low or np.isnan(run) or run <= 0:
        return np.zeros(0)
    fewest, most = max(start + (1 - high) * run, least), start + (1 - low) * run
    whole = np.append(np.arange(np.ceil(fewest / step), np.floor(most / step) + 1) * step, least)
    shares = (start + run - whole) / run
    return np.asarray(shares[(shares > low) & (shares < high)])


def _rounded_usd(
    made: CandidateTable,
    share: Floats,
    dollars: Floats,
    hours: Floats,
    start: Floats,
    storage: Floats,
    columns: OfferColumns,
) -> Floats:
    """Dollars per market such that the mix at `share` equals whole billing steps at the offer's prices."""
    step, least = columns.step_hours[made.offer], columns.minimum_hours[made.offer]
    od_price = np.nan_to_num(columns.on_demand_usd[made.offer]) * made.instances
    spot_price = np.nan_to_num(columns.spot_usd[made.offer]) * made.instances
    switch = np.where(np.isnan(columns.on_demand_usd[made.offer]), 0.0, start)
    paid_usd = np.nan_to_num(dollars[:, SPOT] - storage * (start + hours[:, SPOT])) - od_price * switch
    paid = np.divide(paid_usd, spot_price, out=np.zeros_like(paid_usd), where=spot_price > 0)
    od_hours = (1 - share) * np.nan_to_num(start + hours[:, ON_DEMAND]) + share * switch
    spot_hours = share * paid
    od_usd = rounded_hours(od_hours, step, least) * od_price
    spot_usd = rounded_hours(spot_hours, step, least) * spot_price
    mixed_od = np.where(share < 1, od_usd / np.maximum(1 - share, 1e-300), 0.0)
    # At share 1 the switch hours on demand are part of what spot costs.
    mixed_spot = np.where(share > 0, (spot_usd + np.where(share < 1, 0.0, od_usd)) / np.maximum(share, 1e-300), 0.0)
    result = np.stack(
        [mixed_od + storage * (start + hours[:, ON_DEMAND]), mixed_spot + storage * (start + hours[:, SPOT])],
        axis=1,
    )
    return np.where(np.isnan(dollars), np.nan, result)
