"""Search for the candidates whose policies a plan may use: a bound leaves few, and what the search is for."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from planner.arrays import Flags, Floats, Integers, distinct, distinct_names
from planner.candidate_table import ON_DEMAND
from planner.candidates.deadline import policy_guarantee_hours, policy_late_hours
from planner.candidates.spot_candidates import (
    MIN_HOURS,
    FoundPolicies,
    SpotCandidates,
    SpotChoice,
    SpotPiece,
    on_demand_rounding_usd,
    only_dollars,
    rows_of,
)
from planner.configurations.recipe import is_allowed
from planner.spot.policy_cache import Span
from planner.spot.switching_policy import LeastCost
from planner.watch import keep_going

if TYPE_CHECKING:
    from collections.abc import Sequence


# The policy that costs least at the confidence of the budget, of all candidates of a job: a search of one row.
#
# Whoever compares models and tokens needs no more: neither the best of each method, nor what else a plan names.


FIRST, MOST = 2, 8
"""Policies that are computed first, and at most, before bounds are compared with the least again."""


def find_least_late(work: SpotCandidates, able: Flags) -> dict[int, float]:
    """Return the row of the policy of least dollars at the confidence of the budget, with the value of the policy.

    None where on demand costs no more. Rows are looked at by rising bounds, up to the least dollars that are known.
    """
    able = able & (work.guarantee > work.work + work.hours.restart) & (work.work > MIN_HOURS)
    bounds = np.where(able, work.late_usd(work.bound()), np.inf)
    on_demand = np.where(able, work.table.late_cost_usd(0.0), np.inf)
    least, found = float(on_demand.min(initial=np.inf)), dict[int, float]()
    done: dict[tuple[object, ...], list[int]] = {}
    left, size = np.argsort(bounds, kind="stable").tolist(), FIRST
    while left and bounds[left[0]] < least:
        keep_going()
        waiting: list[int] = []
        while left and len(waiting) < size and bounds[left[0]] < least:
            row = left.pop(0)
            alike = done.setdefault(work.kind(row), [])
            better = next(
                (other_row for other_row in alike if bool(np.all(work.sizes[other_row] <= work.sizes[row]))), None
            )
            if better is None:  # else another that is priced costs no more
                close = np.asarray([work.close_bound(row)])
                if float(work.late_usd(close, np.asarray([row]))[0]) < least:
                    alike.append(row)
                    waiting.append(row)
        rows = np.asarray(waiting, dtype=np.int64)
        values = work.least_values(waiting)
        usd = work.late_usd(values, rows)
        if len(rows) and usd.min() < least:
            best = int(np.argmin(usd))
            least, found = float(usd[best]), {waiting[best]: float(values[best])}
        size = min(2 * size, MOST)
    return found


# Which policies a search for candidates on spot is for.


@dataclass(frozen=True)
class SearchScope:
    """Which policies are searched for."""

    whole_curves: bool = False  # every point that may matter at some time up to the latest, for a frontier
    by_method: bool = True  # of whole curves: for each method, else for the job
    only_dollars: bool = False  # of the policies for one deadline: nothing but what they cost
    every_place: bool = False  # for each card and provider, not only for those that a plan names
    least_late: bool = False  # of those dollars, the least at the confidence of the budget alone
    mean_markets: bool = False  # of those dollars, without the luck of the market
    mean_shares: bool = False  # fixed shares by their means, any between two bounds: for what is verified by solving
    # For one deadline; `places`: those a plan names, too; `needed`: those alone that several jobs may need; `names`: of
    # each method, and among allowed methods of each GPU and of each provider, as an explanation lists them.
    best_of: Literal["places", "methods", "frameworks", "all", "needed", "names"] = "places"
    alone: bool = False  # of one of several jobs what is best by itself, whatever jobs share
    below: float = math.inf  # for one deadline: candidates whose objective is no less than this are of no use


DEFAULT_SCOPE = SearchScope()
"""The policies that a plan may use or name as alternatives."""
BEST, BEST_OF_METHODS = SearchScope(best_of="all", alone=True), SearchScope(best_of="methods", alone=True)
BEST_OF_FRAMEWORKS = SearchScope(best_of="frameworks", alone=True)
NEEDED_BY_JOBS = SearchScope(best_of="needed")
MEAN_SHARES = SearchScope(mean_shares=True)
BEST_OF_NAMES = SearchScope(every_place=True, best_of="names")
LEAST_DOLLARS = SearchScope(best_of="all", only_dollars=True, mean_markets=True)
"""The policy of the best candidate alone, of that of each method or framework, those that several jobs may need, and
what the best candidate costs."""


BATCH_SIZE = 12
"""Candidates whose policies are priced at a time, at most."""
FIRST_BATCH = 2
"""Those of a method priced first where only the best is wanted, then twice as many: dollars spare most others."""
MAX_RUNNERS_UP = 2
"""Other GPUs or providers that a plan names as alternatives: their spot plans must be known too."""
MAX_TRIED_PER_METHOD = 2
"""Candidates of a GPU at a provider whose policies are priced to name an alternative: those of least bound."""
MAX_TESTS = 48
"""Times at which bounds are compared with the least cost known, at most."""
KEPT_USD, SAME_USD = 0.01, 1e-6
"""Policies this close to the best are kept: hours decide between plans of one cost. Relative: what rounding moves."""


def find_policies(work: SpotCandidates, able: Flags, scope: SearchScope) -> FoundPolicies:
    """Return candidates on their best policies.

    Of the rows `able` (n,) are those computed that may be the best of their method, or among the best of another card
    or provider: no plan names the others, unless the scope asks for every place.
    """
    if scope.whole_curves:
        pieces = _Frontier(work, able, scope).search().pieces()
        return FoundPolicies(*rows_of(work, pieces), {}, dict(enumerate(piece for _, piece in pieces)))
    if scope.least_late and not (work.target.low > 0 or work.target.usd_per_hour or work.target.waiting):
        return only_dollars(work, find_least_late(work, able))
    search = _Best(work, able, scope).search()
    if scope.only_dollars and work.target.low <= 0:
        return only_dollars(work, {row: search.values[row] for row in search.kept_rows()})
    found = search.choices()
    if search.misses_share(found):
        found = _Best(work, able, scope, checks_share=True).search().choices()
    return FoundPolicies(*rows_of(work, found), dict(enumerate(choice for _, choice in found)), {})


class _Search:
    """Rows in the order of their bounds; each is priced unless it cannot matter or one of its kind dominates it."""

    def __init__(self, work: SpotCandidates, able: Flags, scope: SearchScope) -> None:
        self.work = work
        by_framework = scope.best_of == "frameworks"
        self.names, code = distinct_names(
            [recipe.framework if by_framework else recipe.method_label for recipe in work.candidates.recipes]
        )
        self.method: Integers = code[work.table.recipe]
        self.able = np.flatnonzero(able & (work.guarantee > work.work + work.hours.restart) & (work.work > MIN_HOURS))
        self.bounds = work.bound()
        self.batch, table = BATCH_SIZE, work.table
        on_demand = table.cost_usd(0.0) + table.penalty_usd + work.target.usd_per_hour * table.hours(0.0)
        sold = ~np.isnan(table.run_h[:, ON_DEMAND]) & (table.share_low <= 0)
        # What is billed in coarse steps costs more than its hours: before that it would rule out what is cheaper.
        on_demand = on_demand + on_demand_rounding_usd(table, work.hours, work.candidates.columns)
        self.on_demand: Floats = np.where(sold, on_demand, np.inf)

    def search(self) -> Self:
        """Price all rows that matter."""
        done: dict[tuple[object, ...], list[Floats]] = {}
        left = self.able[np.lexsort((self.work.table.lossiness[self.able], self.bounds[self.able]))]
        while len(left := left[self.may_matter(left)]):  # what is known changes with each batch alone
            keep_going()
            # Of every method, or framework, so many: one pass prices all of them.
            room, waiting, later = dict.fromkeys(self.method[left].tolist(), self.batch), list[int](), list[int]()
            for row in left.tolist():
                method = int(self.method[row])
                if not room[method]:
                    later.append(row)
                    continue
                key, size = (*self.work.kind(row), method), self.work.sizes[row]
                if any(bool(np.all(other <= size)) for other in done.get(key, ())) or not self.may_still_matter(row):
                    continue
                done.setdefault(key, []).append(size)
                waiting.append(row)
                room[method] -= 1
                if len(waiting) == BATCH_SIZE or not any(room.values()):
                    break
            self.price(waiting)
            rest = left[np.flatnonzero(left == row)[0] + 1 :]
            left = np.concatenate([np.asarray(later, dtype=np.int64), rest])
            self.batch = min(2 * self.batch, BATCH_SIZE)
        return self

    def may_matter(self, rows: Integers) -> Flags:
        """Return which rows (n,) may still matter."""
        raise NotImplementedError

    def may_still_matter(self, row: int) -> bool:
        """Return whether a row that may matter still may by a closer bound."""
        del row
        return True

    def price(self, which: Sequence[int]) -> None:
        """Compute the dollars of rows, and remember them for the rows that follow."""
        raise NotImplementedError


class _Best(_Search):
    """For one deadline: the best of each method, and of the GPUs and providers that come next.

    Where limits are shared, also rows that no cheaper row with as few GPUs on an unlimited offer replaces.
    `checks_share`: values are those of policies with the least spot share asked for, which the best mostly have.
    """

    def __init__(self, work: SpotCandidates, able: Flags, scope: SearchScope, checks_share: bool = False) -> None:
        super().__init__(work, able, scope)
        self.every_place, self.checks_share = scope.every_place, checks_share
        # A shared limit may bar the best.
        self.best_of = "places" if work.target.shared and scope.best_of != "needed" else scope.best_of
        self.batch = BATCH_SIZE if self.best_of == "places" else FIRST_BATCH
        self.place, count = work.places()
        if self.best_of in ("all", "needed"):  # as if all were of one method
            self.names, self.method = self.names[:1], np.zeros_like(self.method)
        is_objective = work.target.low <= 0 and not work.target.waiting  # what is minimised here
        self.only_budget_usd = work.target.only_budget_usd if is_objective else -np.inf
        most = scope.below * (1 + SAME_USD) + KEPT_USD if is_objective else np.inf
        self.of_method, self.of_place = np.full(len(self.names), most), np.full(count, most)
        np.minimum.at(self.of_method, self.method, self.on_demand)
        np.minimum.at(self.of_place, self.place, self.on_demand)
        nothing: tuple[Flags, tuple[tuple[Integers, Floats], ...]] = (np.empty(0, dtype=bool), ())
        self.is_listed, self.of_names = self._names() if self.best_of == "names" else nothing
        self.next_best = self._runner_up()
        self.tried = np.zeros((count, len(self.names)), dtype=np.int64)
        self.of_both = np.full(self.tried.shape, np.inf)
        self.values: dict[int, float] = {}
        self.free = work.unlimited[work.table.offer]
        self.size = self._sizes()
        self.within = np.full([int(size.max(initial=0)) + 1 for size in self.size], most)
        feasible = np.flatnonzero(np.isfinite(self.on_demand) & self.free)
        beyond = work.table.late_cost_usd(0.0) - work.table.cost_usd(0.0)
        np.minimum.at(self.within, tuple(size[feasible] for size in self.size), (self.on_demand + beyond)[feasible])
        if not work.target.shared:  # the least that is known only falls: what is no less now never matters
            known = self.of_method[self.method]
            if self.best_of == "places":
                known = np.maximum(known, np.minimum(self.next_best, self.of_place[self.place]))
            for names, least in self.of_names:
                known = np.where(self.is_listed, np.maximum(known, least[names] + KEPT_USD), known)
            self.able = self.able[(self.bounds < known)[self.able]]

    def _names(self) -> tuple[Flags, tuple[tuple[Integers, Floats], ...]]:
        """Return which rows (n,) may be listed; then GPU and provider of each, and the least value known of them."""
        work = self.work
        is_allowed_recipe = [is_allowed(recipe, work.candidates.job) for recipe in work.candidates.recipes]
        listed = np.asarray(is_allowed_recipe, dtype=bool)[work.table.recipe]
        found = []
        for of_offers in (work.market.gpus, [offer.provider for offer in work.market.offers]):
            known, code = distinct_names(list(of_offers))
            names, least = code[work.table.offer], np.full(len(known), np.inf)
            np.minimum.at(least, names[listed], self.on_demand[listed])
            found.append((names, least))
        return listed, tuple(found)

    def _sizes(self) -> list[Integers]:
        """Return the rank (n,) of each row by GPUs, and by what else jobs share at one time; zeros where nothing is."""
        table = self.work.table
        if not self.work.target.at_one_time:  # more GPUs bar no other job
            return [np.zeros(len(table), dtype=np.int64)]
        found = [distinct(table.gpus)[1]]
        for limit in self.work.target.peaks:
            used = self.work.market.use_of(limit)[table.offer] * table.instances
            if not np.array_equal(used, table.gpus):
                found.append(np.unique(used, return_inverse=True)[1].reshape(-1))
        return found

    def _least_within(self, rows: int | Integers) -> Floats:
        """Return the least dollars of an unlimited row that uses no more of anything than each of some rows."""
        least = self.within
        for axis in range(least.ndim):
            least = np.minimum.accumulate(least, axis=axis)
        return np.asarray(least[tuple(size[rows] for size in self.size)])

    def _runner_up(self) -> float:
        """Return the value of the best third place: a plan names nothing more expensive."""
        named = [] if self.every_place else heapq.nsmallest(MAX_RUNNERS_UP + 1, self.of_place.tolist())
        return named[-1] if len(named) > MAX_RUNNERS_UP else np.inf

    def may_matter(self, rows: Integers) -> Flags:
        """Return which rows (n,) a plan may use or name."""
        return np.asarray(self._matters(rows, self.bounds[rows]))

    def may_still_matter(self, row: int) -> bool:
        """Return whether the row may matter by a closer bound, too; where tried rows are counted, `price` asks that."""
        return self.best_of == "places" or bool(self._matters(row, self.work.close_bound(row) - KEPT_USD))

    def _matters(self, rows: int | Integers, bound: float | Floats, may_be_enough: bool = True) -> Flags:
        """Return whether a plan may use or name a row, or rows (n,), of at least this value.

        Of a place few rows are tried.
        """
        place, method = self.place[rows], self.method[rows]
        matters = np.asarray(bound < self.of_method[method], dtype=bool)
        if self.best_of == "places":
            most = 1 if self.every_place else MAX_TRIED_PER_METHOD
            enough = (self.tried[place, method] >= most) & may_be_enough
            matters |= (bound < np.minimum(self.next_best, self.of_place[place])) & ~enough
        if self.best_of == "names":
            for names, least in self.of_names:
                matters |= (bound < least[names[rows]] + KEPT_USD) & self.is_listed[rows]
        if self.work.target.shared:
            matters |= bound < self._least_within(rows)
        return matters

    def price(self, which: Sequence[int]) -> None:
        """Compute the least value of each row; those that a closer bound rules out have been tried all the same."""
        if self.best_of == "places" and not self.every_place:  # there the best of each method at a place is compared
            ruled_out = [row for row in which if not self._matters(row, self.work.close_bound(row) - KEPT_USD, False)]
            np.add.at(self.tried, (self.place[ruled_out], self.method[ruled_out]), 1)
            which = [row for row in which if row not in set(ruled_out)]
        values = self.work.least_values(which)
        for at in np.argsort(values, kind="stable").tolist():
            row, value = which[at], float(values[at])
            if self.checks_share and not self._matters(row, value):
                continue
            if self.checks_share:
                value = min((self.work.value(*found) for found in self.work.choices([row])), default=np.inf)
            method, place = self.method[row], self.place[row]
            self.tried[place, method] += 1
            self.of_method[method] = min(self.of_method[method], value)
            self.of_place[place] = min(self.of_place[place], value)
            for names, least in self.of_names if self.best_of == "names" and self.is_listed[row] else ():
                least[names[row]] = min(least[names[row]], value)
            self.of_both[place, method] = min(self.of_both[place, method], value)
            if self.free[row]:
                size, late = tuple(int(size[row]) for size in self.size), self.work.mean_market_late_value(row, value)
                # Its runs are drawn, which takes longer than a pass, where slow ones on a mean market rule out others.
                if self._enough(value, late) < self._least_within(row):
                    self.within[size] = min(self.within[size], self._enough(value, self.work.late_value(row, value)))
            self.values[row] = value
        self.next_best = self._runner_up()

    def _enough(self, value: float, late: float) -> float:
        """Return the value from which a row of some value, and of this one at the confidence, rules others out."""
        # A row that keeps the budget of the only job rules out whatever costs more than itself.
        return value if late <= self.only_budget_usd else late

    def misses_share(self, found: Sequence[tuple[int, SpotChoice]]) -> bool:
        """Return whether some row that matters has the least spot share with a costlier policy only, or not at all."""
        value = {row: self.work.value(row, choice) for row, choice in found}
        costs_more = any(value.get(row, np.inf) > self.values[row] + KEPT_USD for row in self.kept_rows())
        return self.work.target.low > 0 and costs_more

    def kept_rows(self) -> list[int]:
        """Return the best rows of each method, and at each place; where limits are shared, all that were priced."""
        room = (
            KEPT_USD if self.best_of in ("places", "names") or self.work.target.waiting else 0.0
        )  # else the best alone

        def kept(row: int, value: float) -> bool:
            place, method = self.place[row], self.method[row]
            is_best = value <= self.of_method[method] * (1 + SAME_USD) + room
            # Of a place that is named, any method may be asked for: some may be excluded.
            is_named = value <= self.of_both[place, method] + KEPT_USD and self.of_place[place] <= self.next_best
            is_named &= self.best_of == "places"
            if self.best_of == "names" and self.is_listed[row]:
                is_named = any(value <= least[names[row]] + KEPT_USD for names, least in self.of_names)
            return np.isfinite(value) and (is_best or is_named or self._may_be_needed(row, value))

        return [row for row, value in self.values.items() if kept(row, value)]

    def _may_be_needed(self, row: int, value: float) -> bool:
        """Return whether limits that are shared may bar every row that costs no more than this one."""
        return self.work.target.shared and value < float(self._least_within(row)) + KEPT_USD

    def choices(self) -> list[tuple[int, SpotChoice]]:
        """Return the policies of the rows that are kept."""
        return self.work.choices(self.kept_rows())


class _Frontier(_Search):
    """For every deadline: what may be the cheapest (of its method, or place) at some time.

    A bound falls with the time and the least cost known falls in steps, so a row that may matter anywhere on a step may
    matter at its end: no time between two tests is missed.
    """

    def __init__(self, work: SpotCandidates, able: Flags, scope: SearchScope) -> None:
        super().__init__(work, able, scope)
        if scope.every_place:
            self.method, _ = work.places()
        elif not scope.by_method:
            self.method = np.zeros(len(work.table), dtype=np.int64)
        late = work.table.late_hours(0.0)
        self.least: dict[int, LeastCost] = {}
        for code in np.unique(self.method).tolist():
            which = (self.method == code) & np.isfinite(late) & np.isfinite(self.on_demand)
            self.least[code] = LeastCost(late[which], self.on_demand[which])
        self.curves: dict[tuple[int, Span], tuple[Floats, Floats]] = {}  # the hours begin with those of the span
        self.priced = np.zeros(len(work.table), dtype=bool)
        self.mattering: Flags | None = None  # what was known when it was computed

    def may_matter(self, rows: Integers) -> Flags:
        """Return which rows (n,) may be the cheapest at some time."""
        if self.mattering is None:
            self.mattering = self._compare_bounds()
        return self.mattering[rows]

    def _compare_bounds(self) -> Flags:
        """Return the rows (n,) whose bound at the end of some step lies below the least cost known."""
        found = np.zeros(len(self.work.table), dtype=bool)
        for code, least in self.least.items():
            which = self.able[(self.method[self.able] == code) & ~self.priced[self.able]]
            hours = self.work.hours.rows(which)
            for end, usd in zip(*least.ends(self.work.target.latest_hours, MAX_TESTS), strict=True):
                found[which] |= self.work.bound(policy_guarantee_hours(hours, float(end)), which) < usd
        return found

    def price(self, which: Sequence[int]) -> None:
        """Compute the curve of each row in dollars, span by span."""
        spans = [self.work.useful_spans(row, self.least[int(self.method[row])].by) for row in which]
        for row, several, curves in zip(which, spans, self.work.value_curves(which, spans), strict=True):
            hours, least = self.work.hours.rows(np.asarray([row])), self.least[int(self.method[row])]
            for span, (times, values) in zip(several, curves, strict=True):
                late = policy_late_hours(hours, np.append(span[0], times))
                self.curves[row, span] = late, values
                if self.work.target.low <= 0:
                    least.add(late[1:], values)
                else:  # a policy without the least spot share rules out no other
                    allowed, usd = self.work.allowed_ends(row, [span])
                    least.add(policy_late_hours(hours, allowed), usd)
            self.priced[row] = True
        self.mattering = None

    def pieces(self) -> list[tuple[int, SpotPiece]]:
        """Return the pieces of all curves in the spans in which they may be the cheapest at some time.

        Between two ticks a curve costs no less than at the second, and what is known at the first is no less than the
        least cost then: a curve that is the cheapest only between two ticks is not missed. Where limits are shared,
        one that is never the cheapest may be needed.
        """
        return [
            (row, piece)
            for (row, span), (late, values) in self.curves.items()
            if self.work.target.shared or np.any(values <= self.least[int(self.method[row])].by(late[:-1]))
            for piece in self.work.pieces(row, [span])
        ]
