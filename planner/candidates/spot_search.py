"""Search for the candidates whose market curves are worth computing: a bound leaves few, what is found still fewer."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.candidate_table import ON_DEMAND
from planner.candidates.deadline import policy_guarantee_hours, policy_late_hours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.arrays import Flags, Floats, Integers
    from planner.candidate_table import CandidateTable
    from planner.candidates.spot_candidates import SpotCandidates, SpotChoice

BATCH_SIZE = 8
"""Candidates whose curves are computed at a time."""
MAX_RUNNERS_UP = 2
"""Other GPUs or providers that a plan names as alternatives: their spot plans must be known too."""
MAX_TRIED_PER_METHOD = 2
"""Candidates of a GPU at a provider whose curves are computed to name an alternative: those of least bound."""
MIN_HOURS = 1e-3
"""Shortest work that a policy is computed for."""
DEADLINE_COUNT = 40
"""Deadlines at which a frontier checks whether a curve may matter."""


@dataclass(frozen=True)
class SearchScope:
    """Which policies are searched for."""

    whole_curves: bool = False  # every point that may matter at some time up to the latest, for a frontier
    by_method: bool = True  # of whole curves: for each method, else for the job
    every_place: bool = False  # for each card and provider, not only for those that a plan names


DEFAULT_SCOPE = SearchScope()
"""The policies that a plan may use or name as alternatives."""


def spot_points(
    work: SpotCandidates, able: Flags, scope: SearchScope
) -> tuple[CandidateTable, Integers, dict[int, SpotChoice]]:
    """Return candidates on their best policies: their rows, the row of `work` of each, and their choices.

    `able` (n,) are the rows that may follow a policy. Computed are those that may be the best of their method, or
    among the best of another card or provider: no plan names the others, unless the scope asks for every place.
    """
    search = _Frontier(work, able, scope) if scope.whole_curves else _Best(work, able, scope.every_place)
    which: list[int] = []
    choices: list[SpotChoice] = []
    for row, found in search.found():
        which += [row] * len(found)
        choices += found
    origin = np.asarray(which, dtype=np.int64)
    table = work.as_rows(origin, choices) if which else work.table.rows(origin)
    return table, origin, dict(enumerate(choices))


class _Search:
    """Rows in the order of their bounds; each is computed unless it cannot matter or one of its kind dominates it."""

    def __init__(self, work: SpotCandidates, able: Flags) -> None:
        self.work = work
        names = np.asarray([one.method_label for one in work.candidates.recipes])
        self.names, code = np.unique(names, return_inverse=True)
        self.method: Integers = code[work.table.recipe]
        enough = (work.guarantee > work.work + work.hours.restart) & (work.work > MIN_HOURS)
        self.able = np.flatnonzero(able & enough)
        self.bounds = work.bound()
        table = work.table
        on_demand = table.cost_usd(0.0) + table.penalty_usd + work.target.usd_per_hour * table.hours(0.0)
        barred = np.isnan(table.run_h[:, ON_DEMAND]) | (table.share_low > 0)
        self.on_demand: Floats = np.where(barred, np.inf, on_demand)

    def found(self) -> Iterator[tuple[int, list[SpotChoice]]]:
        """Yield rows with their choices."""
        done: dict[tuple[object, ...], list[Floats]] = {}
        waiting: list[int] = []
        for row in self.able[np.argsort(self.bounds[self.able], kind="stable")].tolist():
            if not self.may_matter(row):
                continue
            key, size = (*self.work.kind(row), self.method[row]), self.work.sizes[row]
            if any(bool(np.all(other <= size)) for other in done.get(key, ())):
                continue
            done.setdefault(key, []).append(size)
            waiting.append(row)
            if len(waiting) == BATCH_SIZE:
                yield from self.compute(waiting)
                waiting.clear()
        yield from self.compute(waiting)

    def may_matter(self, row: int) -> bool:
        """Return whether the row may still matter."""
        raise NotImplementedError

    def compute(self, which: list[int]) -> Iterator[tuple[int, list[SpotChoice]]]:
        """Yield the choices of rows, and remember them for the rows that follow."""
        raise NotImplementedError


def _places(work: SpotCandidates) -> tuple[Integers, int]:
    """Return the number (n,) of the provider and GPU of each row, and how many there are."""
    places = [(offer.provider, offer.gpu) for offer in work.market.offers]
    known = {place: code for code, place in enumerate(dict.fromkeys(places))}
    return np.asarray([known[place] for place in places], dtype=np.int64)[work.table.offer], len(known)


class _Best(_Search):
    """For one deadline: the best of each method, and of the GPUs and providers that come next.

    Where limits are shared, also rows that no cheaper row with as few GPUs on an unlimited offer replaces.
    """

    def __init__(self, work: SpotCandidates, able: Flags, every_place: bool) -> None:
        super().__init__(work, able)
        self.every_place = every_place
        self.place, count = _places(work)
        self.of_method = np.full(len(self.names), np.inf)
        self.of_place = np.full(count, np.inf)
        np.minimum.at(self.of_method, self.method, self.on_demand)
        np.minimum.at(self.of_place, self.place, self.on_demand)
        self.runner_up = self._runner_up()
        self.tried = np.zeros((count, len(self.names)), dtype=np.int64)
        self.free = work.unlimited[work.table.offer]
        self.gpus, number = np.unique(work.table.gpus, return_inverse=True)
        self.with_gpus = np.full(len(self.gpus), np.inf)
        feasible = np.flatnonzero(np.isfinite(self.on_demand) & self.free)
        beyond = work.table.late_cost_usd(0.0) - work.table.cost_usd(0.0)
        np.minimum.at(self.with_gpus, number[feasible], (self.on_demand + beyond)[feasible])

    def _runner_up(self) -> float:
        """Return the value of the best third place: a plan names nothing more expensive."""
        named = [] if self.every_place else heapq.nsmallest(MAX_RUNNERS_UP + 1, self.of_place.tolist())
        return named[-1] if len(named) > MAX_RUNNERS_UP else np.inf

    def may_matter(self, row: int) -> bool:
        """Return whether a plan may use or name the row."""
        bound = self.bounds[row]
        place, method = self.place[row], self.method[row]
        enough = self.tried[place, method] >= (1 if self.every_place else MAX_TRIED_PER_METHOD)
        alternative = bound < min(self.runner_up, self.of_place[place]) and not enough
        named = alternative or bound < self.of_method[method]
        if named or not self.work.target.shared:
            return bool(named)
        fewer = np.searchsorted(self.gpus, self.work.table.gpus[row], side="right")
        return bool(bound < self.with_gpus[:fewer].min())

    def compute(self, which: list[int]) -> Iterator[tuple[int, list[SpotChoice]]]:
        """Yield the cheapest point of each row."""
        for row, choice in self.work.find_choices(which):
            value = self.work.value(row, choice.point)
            method, place = self.method[row], self.place[row]
            self.tried[place, method] += 1
            self.of_method[method] = min(self.of_method[method], value)
            self.of_place[place] = min(self.of_place[place], value)
            if self.free[row]:
                at = int(np.searchsorted(self.gpus, self.work.table.gpus[row]))
                self.with_gpus[at] = min(self.with_gpus[at], self.work.late_value(row, choice.point))
            yield row, [choice]
        self.runner_up = self._runner_up()


class _Frontier(_Search):
    """For every deadline: what may be the cheapest (of its method, or place) at some of many deadlines."""

    def __init__(self, work: SpotCandidates, able: Flags, scope: SearchScope) -> None:
        super().__init__(work, able)
        if scope.every_place:
            self.method, _ = _places(work)
        elif not scope.by_method:
            self.method = np.zeros(len(work.table), dtype=np.int64)
        late = work.table.late_hours(0.0)
        ends = late[np.isfinite(late)]
        first = float(ends.min()) if len(ends) else 0.0
        self.times = np.linspace(min(first, work.target.latest_hours), work.target.latest_hours, DEADLINE_COUNT)
        self.least = {int(code): self._on_demand(self.method == code, late) for code in np.unique(self.method)}
        self.bound_by: Floats = np.stack(
            [work.bound(policy_guarantee_hours(work.hours, float(at))) for at in self.times]
        )

    def _on_demand(self, which: Flags, late: Floats) -> Floats:
        """Return the least cost (times,) on demand by each time."""
        order = np.argsort(late[which], kind="stable")
        hours, usd = late[which][order], np.minimum.accumulate(self.on_demand[which][order])
        place = np.searchsorted(hours, self.times, side="right") - 1
        return np.where(place >= 0, usd[np.maximum(place, 0)], np.inf) if len(usd) else np.full(DEADLINE_COUNT, np.inf)

    def may_matter(self, row: int) -> bool:
        """Return whether the row may be the cheapest at some time."""
        return bool(np.any(self.bound_by[:, row] < self.least[int(self.method[row])]))

    def compute(self, which: list[int]) -> Iterator[tuple[int, list[SpotChoice]]]:
        """Yield all points of each row."""
        for row, found in self.work.whole_curves(which):
            guarantees = np.asarray([one.point.hours for one in found])
            late = policy_late_hours(self.work.hours.rows(np.asarray([row])), guarantees)
            usd = np.asarray([self.work.value(row, one.point) for one in found])
            place = np.searchsorted(late, self.times, side="right") - 1
            here = np.where(place >= 0, usd[np.maximum(place, 0)], np.inf)
            method = int(self.method[row])
            self.least[method] = np.minimum(self.least[method], here)
            yield row, found
