"""Limits of one job: filters, the spot share cut at the deadline, and bills rounded to whole billing steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import ON_DEMAND, CandidateTable, concatenate
from planner.candidates.deadline import least_late_hours, max_spot_share
from planner.candidates.spot_candidates import SearchTarget, SpotCandidates, policy_rows
from planner.candidates.spot_search import DEFAULT_SCOPE, FoundPolicies, SearchScope, find_policies
from planner.configurations.recipe import is_allowed
from planner.estimates.billing import round_up_hours
from planner.scenario.limits import AllowForbid, Limits, latest_finish_hours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.arrays import Flags, Floats, Integers
    from planner.candidates.job_candidates import JobCandidates, SpotChoice, SpotPiece
    from planner.candidates.market import Market
    from planner.candidates.offer_columns import OfferColumns
    from planner.candidates.stage_hours import RowHours
    from planner.library.schema import Library

ENDS_AFTER_DEADLINE = "it ends after the deadline"
OUTLASTS_COMMITMENT = "it runs longer than the commitment"
OUTDATED_PRICE = "its price is too old"
INSUFFICIENT_RAM = "its memory is too small to prepare the data"
COARSE_STEP = 0.05
"""Share of the run above which a billing step is rounded where there is a spot market."""
FINE_STEP_HOURS = 1 / 60
"""Billing steps up to a minute are never rounded."""
SHARE_TOLERANCE = 1e-12


@dataclass(frozen=True)
class ScreenedCandidates:
    """The rows that meet the limits of the job, with their spot shares cut, and why the others do not."""

    table: CandidateTable
    rows: Integers  # row of `table` -> row of the uncut table
    rounded: Flags  # row of `table`: billed in whole steps
    rejected: Counter[str]
    lateness: Floats  # per uncut row: hours over the deadline where that alone rejects it, else 0
    spot: Mapping[int, SpotChoice] = field(default_factory=dict)  # row of `table` that follows a policy -> it
    pieces: Mapping[int, SpotPiece] = field(default_factory=dict)  # the same of rows that are pieces of a curve

    def select(self, which: Flags) -> ScreenedCandidates:
        """Return the rows that a mask (n,) selects."""
        kept = np.flatnonzero(which).tolist()
        return replace(
            self,
            table=self.table.rows(which),
            rows=self.rows[which],
            rounded=self.rounded[which],
            spot={number: self.spot[row] for number, row in enumerate(kept) if row in self.spot},
            pieces={number: self.pieces[row] for number, row in enumerate(kept) if row in self.pieces},
        )

    def curves(self) -> Integers:
        """Return for rows that are pieces of a curve the row of the uncut table that it belongs to; -1 for others."""
        found = np.full(len(self.rows), -1)
        pieces = list(self.pieces)
        found[pieces] = self.rows[pieces]
        return found

    def with_policies(self, found: FoundPolicies, rows: Integers) -> ScreenedCandidates:
        """Return these candidates and those that follow policies, which come from `rows` of the uncut table."""
        first = len(self.rows)
        return replace(
            self,
            table=concatenate([self.table, found.table]),
            rows=np.append(self.rows, rows),
            rounded=np.append(self.rounded, np.zeros(len(rows), dtype=bool)),
            spot={first + number: choice for number, choice in found.choices.items()},
            pieces={first + number: piece for number, piece in found.pieces.items()},
        )


class _Rejections:
    """Rows (n,) that no limit has rejected yet, and how many each reason has rejected."""

    def __init__(self, count: int) -> None:
        self.keep = np.ones(count, dtype=bool)
        self.reasons: Counter[str] = Counter()

    def reject(self, where: Flags, reason: str) -> None:
        """Reject rows; each counts for the first reason only."""
        if count := int(np.sum(self.keep & where)):
            self.reasons[reason] += count
        self.keep &= ~where


def screen(
    candidates: JobCandidates,
    market: Market,
    limits: Limits,
    library: Library,
    method_filter: bool = True,
    waiting_usd: float | None = None,
    scope: SearchScope = DEFAULT_SCOPE,
) -> ScreenedCandidates:
    """Return the candidates that meet the limits of one job, with spot shares cut at the deadline and bills rounded.

    Parameters
    ----------
    method_filter
        False keeps the methods that the techniques of the job exclude, whose prices a plan compares.
    waiting_usd
        Value of an hour in dollars where cost is minimised: candidates on spot then follow their best policies.
        None keeps the shares of two markets.
    scope
        Which policies are searched for.
    """
    table, latest = candidates.table, latest_finish_hours(candidates.job, limits)
    rejections = _apply_filters(candidates, market, limits, method_filter)
    low = np.maximum(table.share_low, limits.spot_share.min)
    high = np.minimum(table.share_high, limits.spot_share.max)
    rejections.reject(low > high, "its spot market cannot give the share asked for")
    cut = max_spot_share(table, latest)
    follows = np.zeros(len(table), dtype=bool)
    if waiting_usd is not None:
        # A policy falls back on on-demand machines, so it promises no spot share: the mix of two markets is kept where
        # the share has an upper limit, or all work must be on spot.
        follows = policy_rows(candidates, table, np.arange(len(table))) & (high >= 1) & (low < 1)
    late = rejections.keep & (np.minimum(cut, high) < np.where(follows, 0.0, low) - SHARE_TOLERANCE)
    lateness = np.where(late, least_late_hours(table, low, high) - latest, 0.0)
    rejections.reject(late, ENDS_AFTER_DEADLINE)
    rows = np.flatnonzero(rejections.keep)
    kept_table = replace(
        table.rows(rows), share_low=low[rows], share_high=np.maximum(np.minimum(high, cut)[rows], low[rows])
    )
    able, policies = follows[rows], None
    if able.any():
        able &= ~_has_coarse_billing(kept_table, candidates.hours.rows(rows), candidates.columns)
    if able.any():
        shared, share = limits.budget_usd is not None or len(table.jobs) > 1, limits.spot_share
        target = SearchTarget(
            *(latest, share.min, share.max, waiting_usd or 0.0),
            0.0 if scope.whole_curves else limits.waiting_usd_per_hour or 0.0,  # a frontier is of dollars on the bill
            *(shared, frozenset(limits.quota)),
        )
        policies = find_policies(SpotCandidates(candidates, kept_table, rows, target, market, library), able, scope)
    # A policy replaces the mix of two markets; on demand alone is kept where it is allowed. Where no policy has the
    # least spot share that the limits ask for, a mix may still reach it.
    reached = (cut[rows] >= low[rows] - SHARE_TOLERANCE) & (policies is None or len(policies.origin) == 0)
    share_high = np.where(able & (low[rows] <= 0), kept_table.share_low, kept_table.share_high)
    mixes = np.flatnonzero(~able | (low[rows] <= 0) | reached)
    rounded, origin, billed = _apply_billing_steps(
        replace(kept_table, share_high=share_high).rows(mixes), candidates.hours.rows(rows[mixes]), candidates.columns
    )
    found = ScreenedCandidates(rounded, rows[mixes[origin]], billed, rejections.reasons, lateness)
    return found if policies is None else found.with_policies(policies, rows[policies.origin])


def _apply_filters(candidates: JobCandidates, market: Market, limits: Limits, method_filter: bool) -> _Rejections:
    """Return what the filters reject that depend on neither the spot share nor the deadline."""
    job, table, columns = candidates.job, candidates.table, candidates.columns
    found = _Rejections(len(table))
    if method_filter and candidates.recipes:
        allowed = np.asarray([is_allowed(recipe, job) for recipe in candidates.recipes], dtype=bool)
        found.reject(~allowed[table.recipe], "its method is not allowed")
    if any(lists != AllowForbid() for lists in (limits.providers, limits.gpus, limits.regions, limits.tiers)):
        permitted = np.asarray([limits.permits(offer) for offer in market.offers], dtype=bool)
        found.reject(~permitted[table.offer], "its provider, GPU, region or tier is not allowed")
    if market.is_outdated.any() and limits.max_price_age_hours is not None:
        found.reject(market.is_outdated[table.offer], OUTDATED_PRICE)
    found.reject(_exceeds_limits(table, market, limits), "it needs more GPUs than a limit, quota or stock allows")
    found.reject(candidates.lacks_ram(), INSUFFICIENT_RAM)
    found.reject(candidates.hours_rented() > columns.term_hours[table.offer], OUTLASTS_COMMITMENT)
    found.reject(
        table.rented_h > columns.committed_hours[table.offer], "it needs more of the hours paid for than are left"
    )
    return found


def _exceeds_limits(table: CandidateTable, market: Market, limits: Limits) -> Flags:
    """Return the rows (n,) with more GPUs or instances than a limit, a quota or the stock allows."""
    over = np.zeros(len(table), dtype=bool)
    if limits.max_gpus is not None:
        over |= table.gpus > limits.max_gpus
    quota = np.asarray([limits.quota.get(name, np.inf) for name in table.providers])
    stock = np.asarray([np.inf if o.stock is None else o.stock for o in market.offers])
    return over | (table.gpus > quota[table.provider]) | (table.instances > stock[table.offer])


def _apply_billing_steps(
    table: CandidateTable, hours: RowHours, columns: OfferColumns
) -> tuple[CandidateTable, Integers, Flags]:
    """Return the table with coarsely billed rows as points, the row that each came from, and which are rounded.

    A point has a fixed spot share and rounded dollars. The points of a row are its bounds on the share and those of
    `whole_step_shares`: between two of them a larger share is later and not cheaper, so no better share is missed.
    """
    everything = np.arange(len(table))
    if not len(table):
        return table, everything, np.zeros(0, dtype=bool)
    coarse = _has_coarse_billing(table, hours, columns)
    if not coarse.any():
        return table, everything, coarse
    smooth, points = np.flatnonzero(~coarse), np.flatnonzero(coarse)
    inside, between = whole_step_shares(table, hours, points, columns)
    two = points[table.share_high[points] > table.share_low[points]]
    origin = np.concatenate([smooth, points, inside, two])
    share = np.concatenate([table.share_low[points], between, table.share_high[two]])
    which = np.concatenate([points, inside, two])
    made, at = table.rows(which), hours.rows(which)
    none = np.ones(len(made))
    made = replace(
        made,
        run_usd=made.run_usd + _rounding_usd(made, at, share, none, none, columns),
        late_usd=made.late_usd + _rounding_usd(made, at, share, at.budget, at.stretch, columns),
        share_low=share,
        share_high=share,
    )
    return concatenate([table.rows(smooth), made]), origin, np.arange(len(origin)) >= len(smooth)


def _has_coarse_billing(table: CandidateTable, hours: RowHours, columns: OfferColumns) -> Flags:
    """Return the rows (n,) whose billing step or minimum is too large a part of their hours to be ignored."""
    step, least = columns.step_hours[table.offer], columns.minimum_hours[table.offer]
    # Without a spot market there is one point, and rounding it costs nothing but the arithmetic.
    smallest = np.where(np.isnan(columns.spot_usd[table.offer]), FINE_STEP_HOURS, COARSE_STEP * hours.run)
    return np.asarray((step > smallest) | (least > hours.once + hours.run), dtype=bool)


def whole_step_shares(
    table: CandidateTable, hours: RowHours, rows: Integers, columns: OfferColumns
) -> tuple[Integers, Floats]:
    """Return rows and spot shares, inside the bounds of the row, at which all billed hours on demand are used.

    (1 - x) * (once + run) + x * switch hours of a node group on demand are billed in whole steps of `step` h, at least
    `least` h: a share just above such an x pays the same on demand and no less on spot, and ends later.
    A run has few coarse steps.
    """
    rows = rows[(table.share_high[rows] > table.share_low[rows]) & ~np.isnan(table.run_h[rows, ON_DEMAND])]
    low, high, of_row = table.share_low[rows], table.share_high[rows], hours.rows(rows)
    step, least = columns.step_hours[table.offer[rows]], columns.minimum_hours[table.offer[rows]]
    everything, none, most, fewest = (of_row.billed(share)[0][0] for share in (0.0, 1.0, low, high))
    first = np.ceil(np.maximum(fewest, least) / step)
    count = np.maximum(np.floor(most / step) - first + 1, 0).astype(np.int64)
    # The whole steps of each row, then its minimum.
    at = np.repeat(np.arange(len(rows)), count + 1)
    number = np.arange(len(at)) - np.repeat(np.cumsum(count + 1) - (count + 1), count + 1)
    whole = np.where(number < count[at], (first[at] + number) * step[at], least[at])
    saved = everything - none
    shares = (everything[at] - whole) / np.where(saved > 0, saved, np.nan)[at]
    inside = (shares > low[at]) & (shares < high[at])
    return rows[at[inside]], shares[inside]


def _rounding_usd(
    made: CandidateTable, hours: RowHours, share: Floats, late: Floats, stretch: Floats, columns: OfferColumns
) -> Floats:
    """Return what whole billing steps add to the dollars per market (n, 1), so that the mix at `share` is the bill."""
    step, least = columns.step_hours[made.offer], columns.minimum_hours[made.offer]
    prices = (columns.on_demand_usd[made.offer], columns.spot_usd[made.offer])
    added = sum(
        (round_up_hours(one, step, least) - one) * np.nan_to_num(price) * (made.instances // made.node_groups)
        for group in hours.billed(share, late, stretch)
        for one, price in zip(group, prices, strict=True)
    )
    return np.asarray(added)[:, None]
