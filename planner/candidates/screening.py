"""The limits that concern one job alone: filters, the spot share cut at the deadline, coarse billing at points."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import ON_DEMAND, SPOT, CandidateTable, concatenate
from planner.candidates.spot_candidates import SearchTarget, SpotChoice, policy_rows
from planner.candidates.spot_search import spot_points
from planner.configurations.recipe import is_allowed
from planner.estimates.billing import round_up_hours
from planner.scenario.limits import AllowForbid, Limits, latest_finish_hours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.arrays import Flags, Floats, Integers
    from planner.candidates.enumeration import JobCandidates
    from planner.candidates.market import Market
    from planner.candidates.offer_columns import OfferColumns
    from planner.candidates.stage_hours import RowHours
    from planner.library.schema import Library

ENDS_AFTER_DEADLINE = "it ends after the deadline"
OUTLASTS_COMMITMENT = "it runs longer than the commitment"
INSUFFICIENT_RAM = "its memory is too small to prepare the data"
COARSE_STEP = 0.05
"""Share of the run above which a billing step is rounded where there is a spot market (formulation, row `billing`)."""
FINE_STEP_HOURS = 1 / 60
"""Billing steps up to a minute are not rounded anywhere."""


@dataclass(frozen=True)
class ScreenedCandidates:
    """The rows that meet the job's own limits, with their shares cut, and why the others do not."""

    table: CandidateTable
    rows: Integers  # row of `table` -> row of the uncut table
    rounded: Flags  # row of `table`: billed in whole steps
    rejected: Counter[str]
    lateness: Floats  # per uncut row: hours over the deadline where that alone rejects it, else 0
    spot: Mapping[int, SpotChoice] = field(default_factory=dict)  # row of `table` that follows a policy -> it

    def select(self, which: Flags) -> ScreenedCandidates:
        """The rows that a mask (n,) names."""
        kept = np.flatnonzero(which).tolist()
        spot = {number: self.spot[row] for number, row in enumerate(kept) if row in self.spot}
        return replace(
            self, table=self.table.rows(which), rows=self.rows[which], rounded=self.rounded[which], spot=spot
        )


def screen(
    candidates: JobCandidates,
    market: Market,
    limits: Limits,
    library: Library,
    method_filter: bool = True,
    waiting_usd: float | None = None,
    whole: bool = False,
    every_place: bool = False,
) -> ScreenedCandidates:
    """Filters that concern one job alone, spot shares cut at the deadline, coarse billing rounded at points.

    `method_filter` false keeps methods that the job's techniques exclude: the ladder prices them too.
    `waiting_usd`: dollars that an hour of waiting is worth where cost is minimised; candidates on spot then follow
    their best policies. None keeps the shares of two markets. `whole`: every point of their curves, for a frontier;
    `every_place`: the best of every card and provider, not of those alone that a plan names.
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
        ok = np.asarray([is_allowed(recipe, job) for recipe in candidates.recipes], dtype=bool)
        reject(~ok[table.recipe] if len(ok) else ~keep, "its method is not allowed")
    if any(lists != AllowForbid() for lists in (limits.providers, limits.gpus, limits.regions, limits.tiers)):
        permitted = np.asarray([limits.permits(offer) for offer in market.offers], dtype=bool)
        reject(~permitted[table.offer], "its provider, GPU, region or tier is not allowed")
    reject(_exceeds_limits(table, market, limits), "it needs more GPUs than a limit, quota or stock allows")
    reject(candidates.lacks_ram(), INSUFFICIENT_RAM)
    columns = candidates.columns
    reject(candidates.hours_rented() > columns.term_hours[table.offer], OUTLASTS_COMMITMENT)
    reject(table.rented_h > columns.committed_hours[table.offer], "it needs more of the hours paid for than are left")
    low = np.maximum(table.share_low, limits.spot_share.min)
    high = np.minimum(table.share_high, limits.spot_share.max)
    reject(low > high, "its spot market cannot give the share asked for")
    latest = latest_finish_hours(job, limits)
    cut = _max_spot_share(table, latest)
    follows = np.zeros(len(table), dtype=bool)
    if waiting_usd is not None:
        # A policy has on-demand machines to fall back on, so that it promises no share of its own: under a cap, or
        # where all must be on spot, the mix of two markets stands.
        follows = policy_rows(candidates, table, np.arange(len(table))) & (high >= 1) & (low < 1)
    # A policy has its on-demand machines to end in time with.
    late = keep & (np.minimum(cut, high) < np.where(follows, 0.0, low) - 1e-12)
    lateness = np.where(late, _least_late_hours(table, low, high) - latest, 0.0)
    reject(late, ENDS_AFTER_DEADLINE)
    high = np.minimum(high, cut)
    rows = np.flatnonzero(keep)
    cut_table = replace(table.rows(rows), share_low=low[rows], share_high=np.maximum(high[rows], low[rows]))
    coarse = _has_coarse_billing(cut_table, candidates.hours.rows(rows), candidates.columns)
    spot: dict[int, SpotChoice] = {}
    added, came = cut_table.rows(np.zeros(0, dtype=np.int64)), np.zeros(0, dtype=np.int64)
    if waiting_usd is not None:
        able = follows[rows] & ~coarse
        shared = limits.budget_usd is not None or len(table.jobs) > 1
        bounds = (limits.spot_share.min, limits.spot_share.max)
        aim = SearchTarget(latest, *bounds, waiting_usd, shared, frozenset(limits.quota))
        added, came, spot = spot_points(
            candidates, cut_table, rows, able, aim, market, library, whole, not method_filter, every_place
        )
        # What follows a policy replaces the mix of two markets; on demand alone stays where it is allowed.
        # Where a floor asks for more spot than any policy takes, a mix may still reach it.
        reached = (cut[rows] >= low[rows] - 1e-12) & (len(added) == 0)
        alone = ~able | (low[rows] <= 0) | reached
        replaced = able & (low[rows] <= 0)
        cut_table = replace(cut_table, share_high=np.where(replaced, cut_table.share_low, cut_table.share_high))
        cut_table, rows_kept = cut_table.rows(alone), np.flatnonzero(alone)
    else:
        rows_kept = np.arange(len(rows))
    hours = candidates.hours.rows(rows[rows_kept])
    rounded, origin, billed = _apply_billing_steps(cut_table, hours, candidates.columns)
    plain = len(rounded)
    if len(added):
        rounded = concatenate([rounded, added])
        billed = np.concatenate([billed, np.zeros(len(added), dtype=bool)])
    origin = np.concatenate([rows_kept[origin], came])
    spot = {plain + number: choice for number, choice in spot.items()}
    return ScreenedCandidates(rounded, rows[origin], billed, reasons, lateness, spot)


def _exceeds_limits(table: CandidateTable, market: Market, limits: Limits) -> Flags:
    over = np.zeros(len(table), dtype=bool)
    if limits.max_gpus is not None:
        over |= table.gpus > limits.max_gpus
    quota = np.asarray([limits.quota.get(name, np.inf) for name in table.providers])
    stock = np.asarray([np.inf if o.stock is None else o.stock for o in market.offers])
    return over | (table.gpus > quota[table.provider]) | (table.instances > stock[table.offer])


def _max_spot_share(table: CandidateTable, latest: float) -> Floats:
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


def _apply_billing_steps(
    table: CandidateTable, hours: RowHours, columns: OfferColumns
) -> tuple[CandidateTable, Integers, Flags]:
    """Rows whose billing step is coarse become points with rounded dollars: share floor, share cut, whole steps.

    Between two points of `whole_step_shares` a larger share is later and no cheaper, so that no share is missed.
    Returns the table, and for each of its rows the row that it came from and whether it is rounded.
    """
    everything = np.arange(len(table))
    if not len(table):
        return table, everything, np.zeros(0, dtype=bool)
    step, least = columns.step_hours[table.offer], columns.minimum_hours[table.offer]
    coarse = _has_coarse_billing(table, hours, columns)
    if not coarse.any():
        return table, everything, coarse
    smooth, points = np.flatnonzero(~coarse), np.flatnonzero(coarse)
    between = [
        (row, share)
        for row in points
        for share in whole_step_shares(table, hours, int(row), float(step[row]), float(least[row]))
    ]
    two = points[table.share_high[points] > table.share_low[points]]
    inside = np.asarray([row for row, _ in between], dtype=np.int64)
    origin = np.concatenate([smooth, points, inside, two])
    share = np.concatenate(
        [table.share_low[points], np.asarray([share for _, share in between], dtype=float), table.share_high[two]]
    )
    which = np.concatenate([points, inside, two])
    made, at = table.rows(which), hours.rows(which)
    none = np.ones(len(made))
    made = replace(
        made,
        run_usd=made.run_usd + _rounding_usd(made, at, share, none, none, columns),
        late_usd=made.late_usd + _rounding_usd(made, at, share, at.late, at.stretch, columns),
        share_low=share,
        share_high=share,
    )
    return concatenate([table.rows(smooth), made]), origin, np.arange(len(origin)) >= len(smooth)


def _has_coarse_billing(table: CandidateTable, hours: RowHours, columns: OfferColumns) -> Flags:
    """Rows whose billing step or minimum is too much of their hours to be left out."""
    step, least = columns.step_hours[table.offer], columns.minimum_hours[table.offer]
    # Without a spot market there is one point, and rounding it costs nothing but the arithmetic.
    smallest = np.where(np.isnan(columns.spot_usd[table.offer]), FINE_STEP_HOURS, COARSE_STEP * hours.run)
    return np.asarray((step > smallest) | (least > hours.once + hours.run), dtype=bool)


def whole_step_shares(table: CandidateTable, hours: RowHours, row: int, step: float, least: float) -> Floats:
    """Spot shares of a row, between its floor and cut, at which the hours on demand are billed to the last minute.

    On demand (1 - x) * (once + run) + x * switch hours of a gang are billed in whole steps of `step` h, at least
    `least` h: a share just above such an x pays the same on demand, no less on spot, and ends later.
    Coarse steps are few in a run.
    """
    low, high = float(table.share_low[row]), float(table.share_high[row])
    if high <= low or np.isnan(table.run_h[row, ON_DEMAND]):
        return np.zeros(0)
    one = hours.rows(np.asarray([row]))
    everything, none, most, fewest = (float(one.billed(share)[0][0][0]) for share in (0.0, 1.0, low, high))
    if everything <= none:
        return np.zeros(0)
    fewest = max(fewest, least)
    whole = np.append(np.arange(np.ceil(fewest / step), np.floor(most / step) + 1) * step, least)
    shares = (everything - whole) / (everything - none)
    return np.asarray(shares[(shares > low) & (shares < high)])


def _rounding_usd(
    made: CandidateTable, hours: RowHours, share: Floats, late: Floats, stretch: Floats, columns: OfferColumns
) -> Floats:
    """What whole billing steps add to the dollars per market, such that the mix at `share` is what is billed."""
    step, least = columns.step_hours[made.offer], columns.minimum_hours[made.offer]
    prices = (columns.on_demand_usd[made.offer], columns.spot_usd[made.offer])
    added = sum(
        (round_up_hours(one, step, least) - one) * np.nan_to_num(price) * (made.instances // made.node_groups)
        for gang in hours.billed(share, late, stretch)
        for one, price in zip(gang, prices, strict=True)
    )
    return np.asarray(added)[:, None]
