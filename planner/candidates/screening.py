"""Candidates of one job within its limits: filters, the spot share cut at the deadline, whole billing steps, scores."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import ON_DEMAND, SPOT, CandidateTable, Flags, Floats, Integers, concatenate, distinct_names
from planner.candidates.job_candidates import JobCandidates, OfferColumns
from planner.candidates.market import Market
from planner.candidates.run_hours import RowHours, least_late_hours, max_spot_share
from planner.candidates.spot_candidates import (
    ScreenedCandidates,
    SearchTarget,
    SpotCandidates,
    _rounding_usd,
    has_coarse_billing,
    policy_rows,
)
from planner.candidates.spot_search import (
    DEFAULT_SCOPE,
    FixedShares,
    SearchScope,
    WantedShares,
    find_policies,
    on_both_markets,
    with_spot_only_odds,
)
from planner.configurations.recipe import is_allowed
from planner.library.schema import Library
from planner.scenario.limits import PEAK_TOLERANCE, AllowForbid, Limits, given_peaks, latest_finish_hours, max_run_hours
from planner.scenario.scenario import Scenario
from planner.watch import keep_going

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDS_AFTER_DEADLINE = "it ends after the deadline"
METHOD_NOT_ALLOWED = "its method is not allowed"
OUTLASTS_MACHINE = "it runs longer than the block, or than the horizon of a purchase"
OUTDATED_PRICE = "its price is too old"
MORE_THAN_THERE_IS = "it needs more GPUs than a limit, quota or stock allows"
LITTLE_STOCK = "its provider lists too little stock"
INSUFFICIENT_RAM = "its memory is too small to prepare the data"
LACKS_EXPORT_MEMORY = "its memory is too small to merge or quantise the result"
SHARE_TOLERANCE = 1e-12


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

    def reject_rows(self, rows: Integers, reason: str) -> None:
        """Reject rows by their places."""
        where = np.zeros(len(self.keep), dtype=bool)
        where[rows] = True
        self.reject(where, reason)


def screen(
    candidates: JobCandidates,
    market: Market,
    limits: Limits,
    library: Library,
    method_filter: bool | Flags = True,
    waiting_usd: float | None = None,
    scope: SearchScope = DEFAULT_SCOPE,
) -> ScreenedCandidates:
    """Return the candidates that meet the limits of one job, with spot shares cut at the deadline and bills rounded.

    Parameters
    ----------
    method_filter
        True keeps the recipes that the job allows, False keeps all, flags (r,) keep the recipes that are True.
    waiting_usd
        Value of an hour in dollars where cost is minimised: candidates on spot then follow their best policies.
        None keeps the shares of two markets.
    scope
        Which policies are searched for.
    """
    keep_going()
    table, rejections = candidates.table, _apply_filters(candidates, market, limits, method_filter)
    low = np.maximum(table.share_low, limits.spot_share.min)
    high = np.minimum(table.share_high, limits.spot_share.max)
    if limits.tools:
        from planner.candidates.tool_support import keeps_spot

        high = np.where(keeps_spot(table, market, limits.tools), high, 0.0)
    rejections.reject(low > high, "its spot market cannot give the share asked for")
    rows = np.flatnonzero(rejections.keep)  # few of all: methods that the job does not use are in the table, too
    latest, by_row = _latest_hours(candidates, limits, rows)
    table = with_spot_only_odds(candidates, rows, by_row, market, library)
    bounded = replace(table, share_low=low, share_high=high)
    shares = _bound_shares(candidates, bounded, limits, rows, by_row, waiting_usd, scope)
    low, high, cut, follows = shares.low, shares.high, shares.cut, shares.follows
    late = np.minimum(cut, high) < np.where(follows, 0.0, low) - SHARE_TOLERANCE
    lateness = np.zeros(len(table))
    lateness[rows[late]] = least_late_hours(table.rows(rows[late]), low[late], high[late]) - by_row[late]
    rejections.reject_rows(rows[late], ENDS_AFTER_DEADLINE)
    in_time = rows[~late]
    high = np.maximum(np.minimum(high, cut), low)[~late]
    kept_table = replace(table.rows(in_time), share_low=low[~late], share_high=high)
    hours, policies = candidates.hours.rows(in_time), None
    able = follows[~late] & ~has_coarse_billing(kept_table, hours, candidates.columns)
    if able.any():
        target = _search_target(limits, latest, waiting_usd or 0.0, scope, len(table.jobs))
        policies = find_policies(SpotCandidates(candidates, kept_table, in_time, target, market, library), able, scope)
    kept = _Kept(in_time, kept_table, hours, able, by_row[~late], shares.select(~late))
    between = scope.whole_curves or waiting_usd is None or len(table.jobs) > 1 or _limits_rates(limits)
    only_hours = waiting_usd is None and not (_limits_rates(limits) or limits.quota)
    budget_usd = math.inf if limits.budget_usd is None else limits.budget_usd
    is_fine = not (only_hours or len(table.jobs) > 1 or _limits_rates(limits))
    wanted = WantedShares(between, is_fine, only_hours, scope.every_place, budget_usd)
    screened, too_late = _mix_markets(candidates, kept, wanted, market, library)
    for row, hours_late in too_late.items():
        lateness[row] = hours_late
        rejections.reasons[ENDS_AFTER_DEADLINE] += 1
    screened = replace(screened, rejected=rejections.reasons, lateness=lateness)
    return screened if policies is None else screened.with_policies(policies, in_time[policies.origin])


class _Shares(NamedTuple):
    """Bounds on the spot share of rows, and how it is found; arrays (n,)."""

    low: Floats
    high: Floats
    cut: Floats  # the largest that may keep the deadline; -1 where none does
    likely: Floats  # the largest that keeps it by the means
    follows: Flags  # a policy
    drawn: Flags  # fixed shares, whose figures are those of drawn runs

    def select(self, which: Flags) -> _Shares:
        """Return the rows that a mask (n,) selects."""
        low, high, cut, likely, follows, drawn = self
        return _Shares(low[which], high[which], cut[which], likely[which], follows[which], drawn[which])


def _bound_shares(
    candidates: JobCandidates,
    table: CandidateTable,
    limits: Limits,
    rows: Integers,
    latest: Floats,
    waiting_usd: float | None,
    scope: SearchScope,
) -> _Shares:
    """Return the spot shares of rows (n,) of the uncut table within its bounds, that may end by `latest` (n,)."""
    low, high, likely = table.share_low[rows], table.share_high[rows], max_spot_share(table, latest, rows)
    follows, both = np.zeros(len(rows), dtype=bool), on_both_markets(candidates, rows)
    if waiting_usd is not None:
        # A policy falls back on on-demand machines, so it promises no spot share: the mix of two markets is kept where
        # the share has an upper limit, or all work must be on spot.
        follows = policy_rows(candidates, rows) & (high >= 1) & (low < 1)
    elif not (scope.mean_shares or _limits_rates(limits) or limits.budget_usd is not None):
        high = np.where(both & (low <= 0), 0.0, high)  # spot saves dollars and no hours
    drawn = both & (high > 0) & (~follows | (low > 0)) & (not scope.mean_shares)
    # Any share may be in time where all work on demand is: which ones are is found by the runs that are drawn.
    cut = np.where(drawn, np.where(table.late_hours(0.0)[rows] <= latest, high, -1.0), likely)
    return _Shares(low, high, cut, likely, follows, drawn)


def _beaten_on_demand(table: CandidateTable, may_beat: Flags, budget_usd: float) -> Flags:
    """Return the rows (n,) whose fixed shares save nothing where hours count and a budget is kept.

    Their hours at the confidence are no less than those on demand, nor than the mean of the share from which the mean
    dollars are within the budget. All work on demand of a row that `may_beat` (n,) others takes no longer, on no more
    GPUs, and costs no more at the confidence than the budget; where the budget is that of several jobs, no more than
    the mean of the share that costs least.
    """
    high = table.share_high
    first, last = table.cost_usd(0.0), table.cost_usd(high)
    with np.errstate(invalid="ignore", divide="ignore"):
        within = np.clip(high * (first - budget_usd) / (first - last), 0.0, high)
    hours = table.late_hours(0.0)
    least = np.fmax(hours, table.hours(np.where(first > budget_usd, np.nan_to_num(within), 0.0)))
    usd = np.full(len(table), budget_usd) if len(table.jobs) == 1 else np.fmin(first, last)
    paid, is_beaten = table.late_cost_usd(0.0), np.zeros(len(table), dtype=bool)
    for gpus in np.unique(table.gpus).tolist():
        mine = np.flatnonzero(table.gpus == gpus)
        others = np.flatnonzero(may_beat & (table.gpus <= gpus) & np.isfinite(hours))
        if len(others):
            order = others[np.argsort(hours[others], kind="stable")]
            lowest = np.minimum.accumulate(paid[order])
            place = np.searchsorted(hours[order], least[mine], side="right") - 1
            is_beaten[mine] = (place >= 0) & (lowest[np.maximum(place, 0)] <= usd[mine])
    return is_beaten


class _Kept(NamedTuple):
    """Rows that may end in time, with their bounds on the spot share; arrays (n,)."""

    rows: Integers  # of the uncut table
    table: CandidateTable
    hours: RowHours
    able: Flags  # to follow a policy
    latest: Floats  # hours
    shares: _Shares


def _mix_markets(
    candidates: JobCandidates, kept: _Kept, wanted: WantedShares, market: Market, library: Library
) -> tuple[ScreenedCandidates, dict[int, float]]:
    """Return the candidates on fixed shares of two markets, and the rows that end too late by so many hours.

    A policy replaces the mixes of two markets, all but that of the least share: on demand alone where none is asked
    for, else a mix that may reach it within a time in which no policy does, and may still be taken within more. With
    more on spot a mix would only be cheaper because its deadline holds at the confidence, and not on every path.
    """
    share_high = np.where(kept.able, kept.table.share_low, kept.table.share_high)
    mixed, hours = replace(kept.table, share_high=share_high), kept.hours
    mixes = np.flatnonzero(~kept.able | (kept.shares.cut >= kept.shares.low - SHARE_TOLERANCE))
    if len(mixes) < len(kept.rows):  # mostly all of them: selecting copies every column
        mixed, hours = mixed.rows(mixes), hours.rows(mixes)
    drawn, late = kept.shares.drawn[mixes] & (mixed.share_high > 0), dict[int, float]()
    if drawn.any():
        is_coarse = has_coarse_billing(mixed, hours, candidates.columns)
        if wanted.only_hours:
            free = np.asarray([offer.stock is None and offer.committed_hours is None for offer in market.offers])
            beaten = (
                _beaten_on_demand(mixed, free[mixed.offer] & ~is_coarse, wanted.budget_usd)
                & drawn
                & (mixed.share_low <= 0)
            )
            mixed, drawn = replace(mixed, share_high=np.where(beaten, 0.0, mixed.share_high)), drawn & ~beaten
        coarse = np.flatnonzero(drawn & is_coarse)
        steps = [column.tolist() for column in whole_step_shares(mixed, hours, coarse, candidates.columns)]
        whole: dict[int, list[float]] = {row: [] for row in coarse.tolist()}
        for row, share in zip(*steps, strict=True):
            whole[row].append(share)
        shares = FixedShares(candidates, kept.rows[mixes], market, library)
        points = shares.draw(mixed, drawn, kept.latest[mixes], kept.shares.likely[mixes], whole, wanted)
        late = {int(kept.rows[mixes[at]]): hours for at, hours in points.late.items() if not kept.able[mixes[at]]}
        mixed, hours, mixes = points.table, hours.rows(points.origin), mixes[points.origin]
        hours = replace(hours, switch=np.where(mixed.share_low >= 1, 0.0, hours.switch))  # on spot for good
    rounded, origin, billed = apply_billing_steps(mixed, hours, candidates.columns)
    return ScreenedCandidates(rounded, kept.rows[mixes[origin]], billed, Counter(), np.zeros(0)), late


def _limits_rates(limits: Limits) -> bool:
    """Return whether any limit is on dollars at some time."""
    return bool(limits.budgets) or limits.max_usd_per_hour is not None


def _search_target(limits: Limits, latest: float, waiting_usd: float, scope: SearchScope, jobs: int) -> SearchTarget:
    """Return what the policies of a job are searched for."""
    jobs = 1 if (is_one_of_several := scope.alone and jobs > 1) else jobs
    has_budget, share = limits.budget_usd is not None and not is_one_of_several, limits.spot_share
    # A frontier is of dollars on the bill.
    waiting_limit = 0.0 if scope.whole_curves else limits.waiting_usd_per_hour or 0.0
    quota = frozenset(limits.quota)
    is_drawn = has_budget and not scope.mean_markets
    peaks = tuple(limit for limit, _ in given_peaks(limits) if not limit.is_of_dollars) if jobs > 1 else ()
    is_alone = jobs == 1 and has_budget and not _limits_rates(limits)
    only_budget_usd = limits.budget_usd if is_alone and limits.budget_usd is not None else -math.inf
    return SearchTarget(
        *(latest, share.min, share.max, waiting_usd, waiting_limit, has_budget or jobs > 1, quota, is_drawn, peaks),
        jobs > 1 and any(True for _ in given_peaks(limits)),
        only_budget_usd,
    )


def _latest_hours(candidates: JobCandidates, limits: Limits, rows: Integers) -> tuple[float, Floats]:
    """Return the latest end of a run whose machine is there at once, and that of each of some rows (n,).

    The time until a machine is there counts against the deadline, and not against the longest run.
    """
    lead = candidates.columns.lead_hours[candidates.table.offer[rows]]
    latest = latest_finish_hours(candidates.job, limits)
    if not lead.any():
        return latest, np.full(len(rows), latest)
    deadline = candidates.job.planned_deadline_hours
    longest = max_run_hours(candidates.job, limits) + lead
    return latest, np.asarray(longest if deadline is None else np.minimum(longest, deadline), dtype=float)


def _apply_filters(
    candidates: JobCandidates, market: Market, limits: Limits, method_filter: bool | Flags
) -> _Rejections:
    """Return what the filters reject that depend on neither the spot share nor the deadline."""
    job, table, columns = candidates.job, candidates.table, candidates.columns
    rejections = _Rejections(len(table))
    if method_filter is not False and candidates.recipes:
        allowed = method_filter
        if allowed is True:
            allowed = np.asarray([is_allowed(recipe, job) for recipe in candidates.recipes], dtype=bool)
        rejections.reject(~allowed[table.recipe], METHOD_NOT_ALLOWED)
    if any(lists != AllowForbid() for lists in (limits.providers, limits.gpus, limits.regions, limits.tiers)):
        rejections.reject(~market.permitted(limits)[table.offer], "its provider, GPU, region or tier is not allowed")
    for reason, refused in _refused_by_tools(candidates, market, limits):
        rejections.reject(refused, reason)
    if market.is_outdated.any() and limits.max_price_age_hours is not None:
        rejections.reject(market.is_outdated[table.offer], OUTDATED_PRICE)
    for reason, configurations in _chip_refusals(candidates, market, limits).items():
        rejections.reject(np.append(configurations, False)[candidates.configuration], reason)
    if any(offer.stock_status for offer in market.offers):
        stocked = np.asarray([limits.has_stock(offer) for offer in market.offers], dtype=bool)
        rejections.reject(~stocked[table.offer], LITTLE_STOCK)
    _reject_peaks(rejections, table, market, limits)
    rejections.reject(_exceeds_quota_or_stock(table, market, limits), MORE_THAN_THERE_IS)
    rejections.reject(candidates.lacks_ram(), INSUFFICIENT_RAM)
    rejections.reject(candidates.lacks_export_memory(), LACKS_EXPORT_MEMORY)
    if np.isfinite(columns.use_hours).any():
        rejections.reject(candidates.hours_rented() > columns.use_hours[table.offer], OUTLASTS_MACHINE)
    if np.isfinite(columns.committed_hours).any():
        left = columns.committed_hours[table.offer]
        rejections.reject(table.rented_h > left, "it needs more of the hours paid for than are left")
    return rejections


def _reject_peaks(rejections: _Rejections, table: CandidateTable, market: Market, limits: Limits) -> None:
    """Reject the rows that alone use more at one time than a limit allows, or of which nobody states what they use."""
    for limit, most in given_peaks(limits):
        if not limit.is_of_dollars:
            used = market.use_of(limit)[table.offer] * table.instances
            rejections.reject(np.isnan(used), limit.unknown)
            rejections.reject(used > most * (1.0 + PEAK_TOLERANCE), limit.exceeded)


def _refused_by_tools(candidates: JobCandidates, market: Market, limits: Limits) -> Iterator[tuple[str, Flags]]:
    """Yield why the tools that a plan is for cannot carry some rows (n,) of the table."""
    if limits.tools:
        from planner.candidates.tool_support import tool_refusals  # reads the maps of exports, which few plans need

        yield from tool_refusals(candidates, market, limits.tools)


def _chip_refusals(candidates: JobCandidates, market: Market, limits: Limits) -> dict[str, Flags]:
    """Return why no plan may rest on a chip other than NVIDIA's, with the configurations (c,) that it concerns.

    What the user has observed is measured. Of a chip that answers prompts its engines say what was measured.
    """
    chips = {card.name: card.chip for card in market.cards if card is not None and card.chip is not None}
    ways, may_be = candidates.physics.ways, limits.unmeasured or not candidates.job.trains
    methods, of_recipe = distinct_names([recipe.method for recipe in ways.recipes])
    refused: dict[str, Flags] = {}  # (machines, methods)
    for index, machine in enumerate(ways.machines):
        if (chip := chips.get(machine.gpu)) is None:
            continue
        for method, name in enumerate(methods):
            if (reason := chip.refusal(name, machine.gpus, may_be)) is not None:
                shape = len(ways.machines), len(methods)
                refused.setdefault(f"{machine.gpu}: {reason}", np.zeros(shape, dtype=bool))[index, method] = True
    estimated = ~candidates.run_hours.observed
    return {name: cells[ways.machine, of_recipe[ways.recipe]] & estimated for name, cells in refused.items()}


def _exceeds_quota_or_stock(table: CandidateTable, market: Market, limits: Limits) -> Flags:
    """Return the rows (n,) with more GPUs or instances than a quota or the stock allows."""
    quota = np.asarray([limits.quota.get(name, np.inf) for name in table.providers])
    stock = np.asarray([np.inf if o.stock is None else o.stock for o in market.offers])
    return np.asarray((table.gpus > quota[table.provider]) | (table.instances > stock[table.offer]))


def apply_billing_steps(
    table: CandidateTable, hours: RowHours, columns: OfferColumns
) -> tuple[CandidateTable, Integers, Flags]:
    """Return the table with coarsely billed rows as points, the row that each came from, and which are rounded.

    A point has a fixed spot share and rounded dollars. Steps add to drawn dollars what they add to the expected hours,
    whatever the confidence: so dollars never fall as the confidence rises. The points of a row are its bounds on the
    share and those of `whole_step_shares`: between two of them a larger share is later and not cheaper, so no better
    share is missed.
    """
    everything = np.arange(len(table))
    if not len(table):
        return table, everything, np.zeros(0, dtype=bool)
    coarse = has_coarse_billing(table, hours, columns)
    if not coarse.any():
        return table, everything, coarse
    smooth, points = np.flatnonzero(~coarse), np.flatnonzero(coarse)
    inside, between = whole_step_shares(table, hours, points, columns)
    two = points[table.share_high[points] > table.share_low[points]]
    origin = np.concatenate([smooth, points, inside, two])
    share = np.concatenate([table.share_low[points], between, table.share_high[two]])
    which = np.concatenate([points, inside, two])
    made, at = table.rows(which), hours.rows(which)
    none, drawn = np.ones(len(made)), share > 0
    late, stretch = np.where(drawn, 1.0, at.budget), np.where(drawn, 1.0, at.stretch)
    made = replace(
        made,
        run_usd=made.run_usd + _rounding_usd(made, at, share, none, none, columns),
        late_usd=made.late_usd + _rounding_usd(made, at, share, late, stretch, columns),
        share_low=share,
        share_high=share,
    )
    return concatenate([table.rows(smooth), made]), origin, np.arange(len(origin)) >= len(smooth)


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


# The objective of a scenario for single candidates: dollars with penalties and the value of time, or hours.


MIN_GAIN_USD, MIN_GAIN_SHARE = 0.01, 0.001
"""A plan is better if it saves a cent and a thousandth of the objective: less is not worth a decision."""


MIN_GAIN_HOURS = 0.05
"""A plan is faster if it saves what rounds to a tenth of an hour."""


BUDGET_TOLERANCE = 1e-9
"""Relative, at the spot share at which a budget is spent."""


@dataclass(frozen=True)
class CandidateObjective:
    """What a scenario minimises, as a value of each candidate and in words.

    The dollars are expected dollars with penalties and the value of time, the hours those at the requested
    confidence; `by_time` says which. The scenario's own `objective` is only the user's choice between the two.
    """

    by_time: bool = False
    usd_per_hour: float = 0.0
    has_penalties: bool = False
    budget_usd: float = math.inf  # at the requested confidence; infinite if several jobs share it

    @classmethod
    def of(cls, scenario: Scenario) -> CandidateObjective:
        """Return the objective of a scenario."""
        budget = scenario.limits.budget_usd
        return cls(
            by_time=scenario.objective_kind == "time",
            usd_per_hour=scenario.value_of_time_usd_per_hour,
            has_penalties=any(any(job.techniques.penalty_usd.values()) for job in scenario.jobs),
            budget_usd=math.inf if budget is None or len(scenario.jobs) > 1 else budget,
        )

    @property
    def waiting_usd(self) -> float | None:
        """Dollars that an hour of waiting is worth; None if hours are minimised, as spot saves none."""
        return None if self.by_time else self.usd_per_hour

    def values(self, table: CandidateTable, share: Floats | float) -> Floats:
        """Return the objective (n,) of every candidate at a spot share."""
        if self.by_time:
            return table.late_hours(share)
        return table.cost_usd(share) + table.penalty_usd + self.usd_per_hour * table.hours(share)

    def best(self, table: CandidateTable) -> tuple[Floats, Floats]:
        """Return the least objective (n,) of each candidate over its spot shares, and the share (n,) that has it.

        The objective is linear in the share, so that one of three points has its minimum: the floor, the cap, and
        the share at which the budget is spent. It is infinite if no share keeps the budget.
        """
        best = np.full(len(table), np.inf)
        share = table.share_low.copy()
        ends = [table.share_low, table.share_high]
        if not math.isinf(self.budget_usd):
            ends.append(self._share_at_budget(table))
        for end in ends:
            is_affordable = table.late_cost_usd(end) <= self.budget_usd * (1 + BUDGET_TOLERANCE)
            value = np.where(is_affordable, self.values(table, end), np.inf)
            share = np.where(value < best, end, share)
            best = np.minimum(best, value)
        return best, share

    def _share_at_budget(self, table: CandidateTable) -> Floats:
        """Return the spot share (n,) at which the budget is spent, the floor if there is none."""
        on_demand_usd = table.fixed_usd + table.late_usd[:, ON_DEMAND]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = (self.budget_usd - on_demand_usd) / (table.late_usd[:, SPOT] - table.late_usd[:, ON_DEMAND])
        return np.clip(np.where(np.isfinite(share), share, table.share_low), table.share_low, table.share_high)

    def min_gain(self, objective: float) -> float:
        """Return by how much a plan must be better than this objective to be reported."""
        return max(MIN_GAIN_HOURS if self.by_time else MIN_GAIN_USD, MIN_GAIN_SHARE * abs(objective))

    @property
    def formula(self) -> str:
        """Such as `cost + $0.50 per hour + penalties`; empty if plans are compared by plain dollars or hours."""
        if self.by_time or not (self.usd_per_hour or self.has_penalties):
            return ""
        hours = f" + ${self.usd_per_hour:,.2f} per hour" if self.usd_per_hour else ""
        return f"cost{hours}{' + penalties' if self.has_penalties else ''}"

    @property
    def comparatives(self) -> tuple[str, str, str]:
        """The words for less, for more, and for many times as much."""
        if self.by_time:
            return "faster", "slower", "the hours"
        return ("better", "worse", "the objective") if self.formula else ("cheaper", "more expensive", "the cost")

    def describe_saving(self, amount: float) -> str:
        """Return such as `$0.40 less`, `$1.45 better` if more than dollars counts, or `3 min earlier`."""
        if self.by_time:
            return f"{amount * 60:.0f} min earlier" if amount < 0.1 else f"{amount:,.1f} h earlier"
        return f"${amount:,.{0 if amount >= 10_000 else 2}f} {'better' if self.formula else 'less'}"


def promising_rows(candidates: JobCandidates, objective: CandidateObjective, goal: float) -> Integers:
    """Return the rows whose objective may lie below a goal if limits are lifted.

    Limits only cut spot shares and billing steps only add dollars: a candidate that is no better without both (and
    without the budget) cannot become the best when a limit is lifted.
    """
    without_budget = replace(objective, budget_usd=math.inf)
    lower_bound = np.fmin(without_budget.best(candidates.table)[0], _spot_lower_bound(candidates, objective))
    return np.flatnonzero(lower_bound < goal)


def _spot_lower_bound(candidates: JobCandidates, objective: CandidateObjective) -> Floats:
    """Return an objective (n,) that no switching policy on spot beats: all work at the spot price, nothing lost.

    It is nan where no policy is followed, because hours are minimised.
    """
    if objective.waiting_usd is None:
        return np.full(len(candidates.table), np.nan)
    table, hours = candidates.table, candidates.hours
    price = candidates.columns.spot_usd[table.offer] * table.instances / hours.node_groups
    return np.asarray(
        table.fixed_usd + table.penalty_usd + price * hours.group_run + objective.usd_per_hour * hours.run
    )
