"""Search for the spot use of each candidate that a plan may choose: switching policies, and fixed shares of spot.

Of policies a bound leaves few. A run on a fixed share uses spot up to an hour, and does on demand what is left then.
Its means are sums over the two markets. Its hours and dollars at a confidence are quantiles over speeds and markets,
which are no such sums: so a row whose share may vary becomes points, each with a share of its own. The shares do not
depend on the deadline: so a later deadline has all points of an earlier one, and a frontier has the points of every
solve.

Drawing takes a millisecond a point, so only the rows that look best by the means are drawn.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import numpy as np

from planner.arrays import (
    ON_DEMAND,
    SPOT,
    CandidateTable,
    Flags,
    Floats,
    Integers,
    concatenate,
    distinct,
    distinct_names,
)
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.market import Market
from planner.candidates.run_hours import policy_guarantee_hours, policy_late_hours
from planner.candidates.spot_candidates import (
    MIN_HOURS,
    FoundPolicies,
    SearchTarget,
    SpotCandidates,
    SpotChoice,
    SpotPiece,
    SpotRows,
    on_demand_rounding_usd,
    only_dollars,
    rows_of,
)
from planner.configurations.recipe import is_allowed
from planner.library.schema import Library
from planner.spot.drawn_runs import SpotOnlyCosts
from planner.spot.luck import quantile
from planner.spot.policy_cache import Span
from planner.spot.switching_policy import LeastCost
from planner.watch import keep_going

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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
    least, cheapest = float(on_demand.min(initial=np.inf)), dict[int, float]()
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
            least, cheapest = float(usd[best]), {waiting[best]: float(values[best])}
        size = min(2 * size, MOST)
    return cheapest


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
BEST = SearchScope(best_of="all", alone=True)
"""The policy of the best candidate."""
BEST_OF_METHODS = SearchScope(best_of="methods", alone=True)
"""The policy of the best candidate of each method."""
BEST_OF_FRAMEWORKS = SearchScope(best_of="frameworks", alone=True)
"""The policy of the best candidate of each framework."""
NEEDED_BY_JOBS = SearchScope(best_of="needed")
"""The policies that one of several jobs under shared limits may need."""
MEAN_SHARES = SearchScope(mean_shares=True)
"""Fixed shares by their means: for a change of a limit, which is solved again before it is named."""
BEST_OF_NAMES = SearchScope(every_place=True, best_of="names")
"""The best policy of each method, GPU and provider, as an explanation lists them."""
LEAST_DOLLARS = SearchScope(best_of="all", only_dollars=True, mean_markets=True)
"""What the best candidate costs, without its policy."""


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
    choices = search.choices()
    if search.misses_share(choices):
        choices = _Best(work, able, scope, checks_share=True).search().choices()
    return FoundPolicies(*rows_of(work, choices), dict(enumerate(choice for _, choice in choices)), {})


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
        self.done: dict[tuple[object, ...], list[Floats]] = {}

    def search(self) -> Self:
        """Price all rows that matter."""
        left = self.able[np.lexsort((self.work.table.lossiness[self.able], self.bounds[self.able]))]
        while len(left := left[self.may_matter(left)]):  # what is known changes with each batch alone
            keep_going()
            waiting, left = self.take(left)
            self.price(waiting)
            self.batch = min(2 * self.batch, BATCH_SIZE)
        return self

    def take(self, left: Integers) -> tuple[list[int], Integers]:
        """Return the rows to price next of those that are left, and the rows that are left then."""
        # Of every method, or framework, so many: one pass prices all of them.
        room, waiting, later = dict.fromkeys(self.method[left].tolist(), self.batch), list[int](), list[int]()
        for row in left.tolist():
            method = int(self.method[row])
            if not room[method]:
                later.append(row)
                continue
            if self.is_dominated(row) or not self.may_still_matter(row):
                continue
            self.add(row)
            waiting.append(row)
            room[method] -= 1
            if len(waiting) == BATCH_SIZE or not any(room.values()):
                break
        rest = left[np.flatnonzero(left == row)[0] + 1 :]
        return waiting, np.concatenate([np.asarray(later, dtype=np.int64), rest])

    def is_dominated(self, row: int) -> bool:
        """Return whether a row that is priced, or will be, is in nothing worse than this one of its kind."""
        size = self.work.sizes[row]
        return any(bool(np.all(other <= size)) for other in self.done.get(self._kind(row), ()))

    def add(self, row: int) -> None:
        """Take a row for one that is priced, or will be."""
        self.done.setdefault(self._kind(row), []).append(self.work.sizes[row])

    def _kind(self, row: int) -> tuple[object, ...]:
        return (*self.work.kind(row), int(self.method[row]))

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
        self.closest: dict[int, float] = {}  # close bounds of rows that are no worse than others
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

    def take(self, left: Integers) -> tuple[list[int], Integers]:
        """Return the rows to price next, by rising close bounds where only the best of all, or of a name, are wanted.

        A close bound takes some time: a row has its own where no known close bound is less than its bound.
        """
        if self.best_of == "places" or self.work.target.shared:  # there rows are tried in the order of their bounds
            return super().take(left)
        room, waiting, gone = dict.fromkeys(self.method[left].tolist(), self.batch), list[int](), set[int]()
        nearest: list[tuple[float, int, int]] = []

        def choose(up_to: float) -> bool:
            """Choose rows whose close bound is this at most; return whether there is room for more."""
            while nearest and nearest[0][0] <= up_to and len(waiting) < BATCH_SIZE:
                row = heapq.heappop(nearest)[-1]
                if room[int(self.method[row])]:
                    room[int(self.method[row])] -= 1
                    waiting.append(row)
            return len(waiting) < BATCH_SIZE and any(room.values())

        for place, row in enumerate(left.tolist()):
            if not choose(float(self.bounds[row])):
                break
            if not room[int(self.method[row])]:
                continue
            if (row not in self.closest and self.is_dominated(row)) or not self.may_still_matter(row):
                gone.add(row)
                continue
            if row not in self.closest:
                self.add(row)
                self.closest[row] = self.work.close_bound(row)
            heapq.heappush(nearest, (self.closest[row], place, row))
        choose(math.inf)
        gone.update(waiting)
        return waiting, np.asarray([row for row in left.tolist() if row not in gone], dtype=np.int64)

    def _names(self) -> tuple[Flags, tuple[tuple[Integers, Floats], ...]]:
        """Return which rows (n,) may be listed; then GPU and provider of each, and the least value known of them."""
        work = self.work
        is_allowed_recipe = [is_allowed(recipe, work.candidates.job) for recipe in work.candidates.recipes]
        listed = np.asarray(is_allowed_recipe, dtype=bool)[work.table.recipe]
        by_names = []
        for of_offers in (work.market.gpus, [offer.provider for offer in work.market.offers]):
            known, code = distinct_names(list(of_offers))
            names, least = code[work.table.offer], np.full(len(known), np.inf)
            np.minimum.at(least, names[listed], self.on_demand[listed])
            by_names.append((names, least))
        return listed, tuple(by_names)

    def _sizes(self) -> list[Integers]:
        """Return the rank (n,) of each row by GPUs, and by what else jobs share at one time; zeros where nothing is."""
        table = self.work.table
        if not self.work.target.at_one_time:  # more GPUs bar no other job
            return [np.zeros(len(table), dtype=np.int64)]
        ranks = [distinct(table.gpus)[1]]
        for limit in self.work.target.peaks:
            used = self.work.market.use_of(limit)[table.offer] * table.instances
            if not np.array_equal(used, table.gpus):
                ranks.append(np.unique(used, return_inverse=True)[1].reshape(-1))
        return ranks

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
                value = min((self.work.value(*choice) for choice in self.work.choices([row])), default=np.inf)
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

    def misses_share(self, choices: Sequence[tuple[int, SpotChoice]]) -> bool:
        """Return whether some row that matters has the least spot share with a costlier policy only, or not at all."""
        value = {row: self.work.value(row, choice) for row, choice in choices}
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
        is_below = np.zeros(len(self.work.table), dtype=bool)
        for code, least in self.least.items():
            which = self.able[(self.method[self.able] == code) & ~self.priced[self.able]]
            hours = self.work.hours.rows(which)
            for end, usd in zip(*least.ends(self.work.target.latest_hours, MAX_TESTS), strict=True):
                is_below[which] |= self.work.bound(policy_guarantee_hours(hours, float(end)), which) < usd
        return is_below

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


MOST_DRAWN = 12
"""Rows that are drawn because they cost least by the means, and as many because they end first."""
MOST_AT_PLACE = 2
"""Of these, rows of one provider, GPU, method and framework; so many of each method and framework are drawn anyway."""
SHARE_STEPS, FEW_STEPS = 24, 4
"""Parts of the range of spot shares of a row; where any share may matter, and hours or other jobs too, fewer."""

UNENDING_HOURS = 1e9
"""Hours at the confidence of a run that may never end: no deadline is as late, and programs need finite numbers."""


# What hours and dollars depend on.


def spot_only_rows(candidates: JobCandidates, rows: Integers) -> Flags:
    """Return which of some rows (n,) have spot machines and no others."""
    run_h = candidates.table.run_h[rows]
    return np.asarray(np.isnan(run_h[:, ON_DEMAND]) & ~np.isnan(run_h[:, SPOT]), dtype=bool)


def spot_only_costs(candidates: JobCandidates, row: int, market: Market, library: Library) -> SpotOnlyCosts:
    """Return what hours and dollars of a row of the uncut table on spot alone depend on."""
    return next(_costs_of_spot_only(candidates, np.asarray([row]), market, library))


def fixed_share_costs(
    candidates: JobCandidates, row: int, market: Market, library: Library, share: float
) -> SpotOnlyCosts:
    """Return what hours and dollars of a row of the uncut table on both markets depend on at a fixed spot share."""
    which = np.asarray([row])
    return next(_mixed_rows(candidates, which, market, library)).costs(share)


class _MixedRow(NamedTuple):
    """What a row on both markets depends on; hours are those of one node group, dollars those of all machines."""

    alone: SpotOnlyCosts  # on spot, without a move
    start_hours: float
    after_start_hours: float  # outside the run
    mean_wall_hours: float  # of the run on spot
    more_usd_per_hour: float  # on demand than on spot
    demand_usd_per_hour: float  # as far as machines are used

    def costs(self, share: float) -> SpotOnlyCosts:
        """Return the same at a fixed spot share: it moves to on demand when this share of the mean hours is over."""
        if share >= 1:
            return self.alone
        return replace(
            self.alone,
            outside_usd=self.alone.outside_usd + (1 - share) * self.after_start_hours * self.more_usd_per_hour,
            on_demand_usd_per_hour=self.demand_usd_per_hour,
            switch_hours=self.start_hours + share * self.mean_wall_hours,
        )


def _mixed_rows(candidates: JobCandidates, which: Integers, market: Market, library: Library) -> Iterator[_MixedRow]:
    """Yield what some rows (n,) of the uncut table on both markets depend on."""
    h, table, columns = candidates.hours.rows(which), candidates.table.rows(which), candidates.columns
    demand, spot = (price[table.offer] * table.instances for price in (columns.on_demand_usd, columns.spot_usd))
    used = demand * h.group_run / (h.run * h.node_groups)
    figures = np.stack([h.start, h.after_start, h.spot_wall, demand - spot, used], axis=1)
    costs = _costs_of_spot_only(candidates, which, market, library)
    return (_MixedRow(alone, *of_row) for alone, of_row in zip(costs, figures.tolist(), strict=True))


def _costs_of_spot_only(
    candidates: JobCandidates, which: Integers, market: Market, library: Library
) -> Iterator[SpotOnlyCosts]:
    """Yield what hours and dollars of some rows (n,) of the uncut table on spot alone depend on."""
    table, columns = candidates.table.rows(which), candidates.columns
    rows = SpotRows(candidates, table, which, SearchTarget(np.inf, 0.0, 1.0, 0.0, 0.0), market, library)
    h, usd = rows.hours, columns.spot_usd[table.offer] * table.instances
    late_separate = np.asarray([placement.total("late_usd") for placement in candidates.placements])[rows.placement]
    figures = np.stack(
        [
            candidates.run_hours.sigma_tail[rows.configuration],
            h.stretch,
            h.after_start + h.separate,
            h.after_start + h.late_separate,
            h.after_start * (usd + rows.storage) + late_separate,
            usd * h.group_run / (h.run * h.node_groups),
            rows.storage,
            table.fixed_usd,
        ],
        axis=1,
    )
    for number, of_row in enumerate(figures.tolist()):
        yield SpotOnlyCosts(*rows.run_of(number), *of_row)


def with_spot_only_odds(
    candidates: JobCandidates, rows: Integers, latest: Floats, market: Market, library: Library
) -> CandidateTable:
    """Return the table in which some rows on spot alone have the hours and dollars of drawn markets.

    Late figures are quantiles over speeds and markets. A row that is late on a market without losses stays as it is.
    """
    table, h, alone = candidates.table, candidates.hours, spot_only_rows(candidates, rows)
    rows, latest = rows[alone], latest[alone]
    soonest = h.late_outside_run[rows] + (h.run * h.late_factor)[rows]
    rows, late_from = rows[soonest <= latest], candidates.columns.lead_hours
    if not len(rows):
        return table
    rows = rows[np.lexsort((h.restart[rows], table.offer[rows]))]  # up-times of equal starts are the same
    run_h, late_h, run_usd, late_usd = (
        column.copy() for column in (table.run_h, table.late_h, table.run_usd, table.late_usd)
    )
    confidences = (candidates.job.confidence, candidates.run_hours.budget_confidence)
    for row, costs in zip(rows.tolist(), _costs_of_spot_only(candidates, rows, market, library), strict=True):
        lead = float(late_from[int(table.offer[row])])
        expected, late, paid = _spot_only_figures(costs, *confidences)
        if not np.isfinite(late):
            late_h[row, SPOT] = UNENDING_HOURS
            continue
        run_h[row, SPOT] = expected + lead - table.start_h[row]
        run_usd[row, SPOT] += (run_h[row, SPOT] - table.run_h[row, SPOT]) * costs.storage_usd_per_hour
        late_h[row, SPOT] = late + lead - table.late_start_h[row]
        late_usd[row, SPOT] = paid - table.fixed_usd[row]
    return replace(table, run_h=run_h, late_h=late_h, run_usd=run_usd, late_usd=late_usd)


@lru_cache(maxsize=4096)  # a solve screens the same rows under several limits
def _spot_only_figures(costs: SpotOnlyCosts, confidence: float, budget_confidence: float) -> tuple[float, float, float]:
    """Return expected hours, hours at the confidence and dollars at that of the budget; inf where a run may never end.

    Where a run may never end nothing is expected of it, and no deadline is kept.
    """
    keep_going()
    (hours, usd), expected = costs.draw(), costs.expected_hours()
    late = quantile(hours, confidence) if np.isfinite(expected) else np.inf
    return expected, late, quantile(usd, budget_confidence)


# Rows on both markets as points of fixed shares.


def on_both_markets(candidates: JobCandidates, rows: Integers) -> Flags:
    """Return which of some rows (n,) have machines on demand and on spot."""
    both = ~np.isnan(candidates.table.run_h[rows]).any(axis=1)
    return np.asarray(both & ~candidates.is_managed_service[rows], dtype=bool)


class SharePoint(NamedTuple):
    """A row at a fixed spot share."""

    share: float
    late_hours: float  # at the confidence of the job, from the order of the first machines; inf if it may never end
    late_usd: float  # at the confidence of the budget
    alone_hours: float = math.nan  # expected, where the run never moves


class WantedShares(NamedTuple):
    """Which points may matter."""

    between: bool  # any share, not only the least and the largest in time
    is_fine: bool  # all shares, not only some of them
    only_hours: bool  # hours are minimised, and no limit but a budget is on dollars or providers
    every_place: bool  # of each provider, GPU, method and framework
    budget_usd: float  # of all jobs


class DrawnShares(NamedTuple):
    """A table whose rows on both markets are points, and the row (n,) that each came from."""

    table: CandidateTable
    origin: Integers
    late: Mapping[int, float]  # row that has no point in time and may not be on demand -> hours that it ends too late


class FixedShares:
    """The points of some rows of a job."""

    def __init__(self, candidates: JobCandidates, rows: Integers, market: Market, library: Library) -> None:
        self.candidates, self.rows, self.market, self.library = candidates, rows, market, library

    def draw(
        self,
        table: CandidateTable,
        is_mixed: Flags,
        latest: Floats,
        likely: Floats,
        whole: Mapping[int, Sequence[float]],
        wanted: WantedShares,
    ) -> DrawnShares:
        """Return rows of a table as points where they may be on both markets, as they are elsewhere.

        Rows that are not drawn are on demand, or left out where that is not allowed.

        Parameters
        ----------
        table
            The rows (n,) with their bounds on the spot share.
        is_mixed
            (n,): which have points.
        latest
            (n,): the hours within which they have to end at the confidence.
        likely
            (n,): shares that keep the deadline by the means: by the dollars there rows are compared.
        whole
            Shares at which all billed hours are used, by row; such rows have no others between their bounds.
        wanted
            Which rows and shares may matter.
        """
        best = self._best_rows(table, np.flatnonzero(is_mixed), likely, wanted)
        drawn, late = list[tuple[int, SharePoint]](), dict[int, float]()
        rows = _mixed_rows(self.candidates, self.rows[np.asarray(best, dtype=np.int64)], self.market, self.library)
        for at, row in zip(best, rows, strict=True):
            low, high = float(table.share_low[at]), float(table.share_high[at])
            steps = SHARE_STEPS if wanted.is_fine else FEW_STEPS
            inside = whole.get(at, [low + (high - low) * part / steps for part in range(1, steps)])
            shares = sorted({low, *inside, high} - {0.0})
            left = float(latest[at] - self.candidates.columns.lead_hours[int(table.offer[at])])
            points = self._points_in_time(row, shares, left, wanted, at in whole, low > 0)
            drawn += [(at, point) for point in points]
            if not points and low > 0:
                late[at] = min(self._point(row, shares[0]).late_hours, UNENDING_HOURS) - left
        others = np.flatnonzero(~is_mixed | (table.share_low <= 0))
        kept = table.rows(others)
        kept = replace(kept, share_high=np.where(is_mixed[others], 0.0, kept.share_high))
        origin = np.asarray([at for at, _ in drawn], dtype=np.int64)
        made = self._as_rows(table.rows(origin), origin, [point for _, point in drawn])
        return DrawnShares(concatenate([kept, made]), np.concatenate([others, origin]), late)

    def _points_in_time(
        self,
        row: _MixedRow,
        shares: Sequence[float],
        latest: float,
        wanted: WantedShares,
        is_coarse: bool,
        has_least: bool,
    ) -> list[SharePoint]:
        """Return the points of a row that end in time: all, or those of the least share and of the largest.

        Means are linear in the share, so one of the two is best where a budget is no obstacle.
        """
        ends = [] if wanted.between or is_coarse else self._ends_in_time(row, shares, latest, has_least)
        if wanted.between or is_coarse or any(point.late_usd > wanted.budget_usd for point in ends):
            points = [self._point(row, share) for share in shares]
            return [point for point in points if point.late_hours <= latest]
        return ends

    def _ends_in_time(
        self, row: _MixedRow, shares: Sequence[float], latest: float, has_least: bool
    ) -> list[SharePoint]:
        """Return the point of the largest share in time, and that of the least where there has to be one."""
        low, high, middle = 0, len(shares), len(shares) - 1  # those below `low` are in time: more on spot ends later
        while low < high:  # mostly all of them are: the last comes first
            if self._point(row, shares[middle]).late_hours <= latest:
                low = middle + 1
            else:
                high = middle
            middle = (low + high) // 2
        numbers = dict.fromkeys([0, low - 1] if has_least else [low - 1])
        return [self._point(row, shares[number]) for number in numbers if 0 <= number < low]

    def _point(self, row: _MixedRow, share: float) -> SharePoint:
        """Return the point of a row at a share."""
        run_hours = self.candidates.run_hours
        return SharePoint(
            share, *_late_figures(row.costs(share), self.candidates.job.confidence, run_hours.budget_confidence)
        )

    def _as_rows(self, made: CandidateTable, origin: Integers, points: Sequence[SharePoint]) -> CandidateTable:
        """Return rows of single shares, whose late figures are equal on both markets; `origin` are the rows of each.

        The means of both markets together count a move. A run that is on spot for good has none, and its hours are
        those of the drawn runs.
        """
        columns, h = self.candidates.columns, self.candidates.hours.rows(self.rows[origin])
        share, late, usd, alone = np.asarray(points, dtype=float).reshape(-1, len(SharePoint._fields)).T
        lead, stays = columns.lead_hours[made.offer], share >= 1
        run_h, run_usd = made.run_h.copy(), made.run_usd.copy()
        run_h[stays, SPOT] = (alone + lead - made.start_h)[stays]
        storage = (run_h - made.run_h)[:, SPOT] * columns.storage_usd_per_hour(made.offer, h.stored_gb)
        moves = columns.on_demand_usd[made.offer] * made.instances * h.switch
        run_usd[stays, SPOT] += (storage - moves)[stays]
        return replace(
            made,
            run_h=run_h,
            run_usd=run_usd,
            late_h=np.stack([late + lead - made.late_start_h] * 2, axis=1),
            late_usd=np.stack([usd - made.fixed_usd] * 2, axis=1),
            share_low=share,
            share_high=share,
        )

    def _best_rows(self, table: CandidateTable, rows: Integers, likely: Floats, wanted: WantedShares) -> list[int]:
        """Return the rows of least dollars, and those of least hours, by the means; those within the budget."""
        some, best = table.rows(rows), set[int]()
        usd = np.fmin(some.cost_usd(some.share_low), some.cost_usd(some.share_high))
        rows = rows[usd <= wanted.budget_usd]
        some = table.rows(rows)
        shares = np.clip(likely[rows], some.share_low, some.share_high)
        usd = np.fmin(some.cost_usd(some.share_low), some.cost_usd(shares)) + some.penalty_usd
        kinds = [(recipe.method_label, recipe.framework) for recipe in self.candidates.recipes]
        of_any_kind = 0 if wanted.only_hours else MOST_AT_PLACE  # there a method is named at its hours on demand
        for figure in (usd, some.late_hours(some.share_low)):
            at_place, of_kind, taken = Counter[object](), Counter[object](), 0
            for number in np.argsort(figure, kind="stable").tolist():
                offer, kind = self.market.offers[int(some.offer[number])], kinds[int(some.recipe[number])]
                place = offer.provider, offer.gpu, kind
                if at_place[place] < MOST_AT_PLACE:
                    if wanted.every_place or taken < MOST_DRAWN or of_kind[kind] < of_any_kind:
                        best.add(int(rows[number]))
                    at_place[place], of_kind[kind], taken = at_place[place] + 1, of_kind[kind] + 1, taken + 1
        return sorted(best)


@lru_cache(maxsize=16384)
def _late_figures(costs: SpotOnlyCosts, confidence: float, budget_confidence: float) -> tuple[float, float, float]:
    """Return hours at the confidence, dollars at that of the budget, and expected hours of a run that never moves.

    Hours are inf where such a run may never end; expected hours are nan where it moves.
    """
    hours, usd = costs.draw()
    alone = costs.expected_hours() if math.isinf(costs.switch_hours) else math.nan
    late = math.inf if math.isinf(alone) else quantile(hours, confidence)
    return late, quantile(usd, budget_confidence), alone
