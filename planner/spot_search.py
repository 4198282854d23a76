"""Which candidates' market curves are worth computing: a bound leaves few, and what is found leaves fewer."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

import numpy as np

from planner.candidates import JobCandidates
from planner.library import Library
from planner.markets import Market
from planner.spot_curves import Aim, SpotChoice, SpotRows
from planner.table import ON_DEMAND, CandidateTable, Flags, Floats, Integers

TOGETHER = 8
"""Candidates whose curves are computed at a time."""
RUNNERS_UP = 2
"""Other cards or providers that a plan names beside its own: their spot plans must be known too."""
SHORTEST_HOURS = 1e-3
"""Of work: there is nothing to switch in less."""
TIMES = 40
"""Deadlines at which a frontier asks whether a curve may matter."""


def spot_points(
    candidates: JobCandidates,
    table: CandidateTable,
    rows: Integers,
    able: Flags,
    aim: Aim,
    market: Market,
    library: Library,
    whole: bool = False,
    by_method: bool = True,
) -> tuple[CandidateTable, Integers, dict[int, SpotChoice]]:
    """Candidates on their best policies: rows to be put beside `table`, where they came from, and their choices.

    `table` holds screened rows at share 0, `rows` what they are in the uncut table, `able` which may follow a policy.
    Computed are those that may be the best of their method, or among the best of another card or provider; the rest
    would not be told of. `whole` gives every point of the curves that may matter at some time up to the latest, for
    each method or, without `by_method`, for the job.
    """
    if not able.any():
        return table.rows(np.zeros(0, dtype=np.int64)), np.zeros(0, dtype=np.int64), {}
    work = SpotRows(candidates, table, rows, aim, market, library)
    which: list[int] = []
    choices: list[SpotChoice] = []
    search = _Frontier(work, able, by_method) if whole else _Best(work, able)
    for row, found in search.found():
        which += [row] * len(found)
        choices += found
    if not which:
        return table.rows(np.zeros(0, dtype=np.int64)), np.zeros(0, dtype=np.int64), {}
    came = np.asarray(which, dtype=np.int64)
    return work.as_rows(came, choices), came, dict(enumerate(choices))


class _Search:
    """Rows in the order of their bounds; each computed unless it cannot matter, or another of its kind beats it."""

    def __init__(self, work: SpotRows, able: Flags) -> None:
        self.work = work
        self.methods = np.asarray([one.method_label for one in work.candidates.recipes])[work.table.recipe]
        enough = (work.guarantee > work.work + work.hours.restart) & (work.work > SHORTEST_HOURS)
        self.able = np.flatnonzero(able & enough)
        self.bounds = work.bound()
        table, aim = work.table, work.aim
        on_demand = table.cost_usd(0.0) + table.penalty_usd + aim.usd_per_hour * table.hours(0.0)
        barred = np.isnan(table.run_h[:, ON_DEMAND]) | (table.share_low > 0)
        self.on_demand: Floats = np.where(barred, np.inf, on_demand)

    def found(self) -> Iterator[tuple[int, list[SpotChoice]]]:
        """Rows with their choices."""
        done: dict[tuple[object, ...], list[tuple[float, ...]]] = {}
        waiting: list[int] = []
        for row in self.able[np.argsort(self.bounds[self.able], kind="stable")].tolist():
            if not self.promises(row):
                continue
            key, size = (*self.work.kind(row), self.methods[row]), self.work.size(row)
            if any(all(a <= b for a, b in zip(other, size, strict=True)) for other in done.get(key, ())):
                continue
            done.setdefault(key, []).append(size)
            waiting.append(row)
            if len(waiting) == TOGETHER:
                yield from self.computed(waiting)
                waiting.clear()
        yield from self.computed(waiting)

    def promises(self, row: int) -> bool:
        """Whether the row may still matter."""
        raise NotImplementedError

    def computed(self, which: list[int]) -> Iterator[tuple[int, list[SpotChoice]]]:
        """The choices of rows, which are remembered for those that follow."""
        raise NotImplementedError


class _Best(_Search):
    """For one deadline: the best of each method, and of the cards and providers that come next."""

    def __init__(self, work: SpotRows, able: Flags) -> None:
        super().__init__(work, able)
        self.places = [(offer.provider, offer.gpu) for offer in work.market.offers]
        self.of_method = {name: float(np.min(self.on_demand[self.methods == name])) for name in np.unique(self.methods)}
        self.of_place: dict[tuple[str, str | None], float] = {}
        for row in np.flatnonzero(np.isfinite(self.on_demand)).tolist():
            self._remember(row, float(self.on_demand[row]))

    def _remember(self, row: int, value: float) -> None:
        method, place = self.methods[row], self.places[int(self.work.table.offer[row])]
        self.of_method[method] = min(self.of_method[method], value)
        self.of_place[place] = min(self.of_place.get(place, math.inf), value)

    def promises(self, row: int) -> bool:
        told = heapq.nsmallest(RUNNERS_UP + 1, self.of_place.values())
        runner_up = told[-1] if len(told) > RUNNERS_UP else math.inf
        here = self.of_place.get(self.places[int(self.work.table.offer[row])], math.inf)
        return bool(self.bounds[row] < max(min(runner_up, here), self.of_method[self.methods[row]]))

    def computed(self, which: list[int]) -> Iterator[tuple[int, list[SpotChoice]]]:
        for row, choice in self.work.choices(which):
            self._remember(row, self.work.value(row, choice.point))
            yield row, [choice]


class _Frontier(_Search):
    """For every deadline: what may be the cheapest (of its method) at some of many."""

    def __init__(self, work: SpotRows, able: Flags, by_method: bool) -> None:
        super().__init__(work, able)
        if not by_method:
            self.methods = np.full(len(work.table), "")
        late = work.table.late_hours(0.0)
        ends = late[np.isfinite(late)]
        first = float(ends.min()) if len(ends) else 0.0
        self.times = np.linspace(min(first, work.aim.latest_hours), work.aim.latest_hours, TIMES)
        self.least = {name: self._on_demand(self.methods == name, late) for name in np.unique(self.methods)}
        self.bound_by: Floats = np.stack([work.bound(work.guarantee_by(at)) for at in self.times])

    def _on_demand(self, which: Flags, late: Floats) -> Floats:
        """Least cost (times,) on demand by each time."""
        order = np.argsort(late[which], kind="stable")
        hours, usd = late[which][order], np.minimum.accumulate(self.on_demand[which][order])
        place = np.searchsorted(hours, self.times, side="right") - 1
        return np.where(place >= 0, usd[np.maximum(place, 0)], np.inf) if len(usd) else np.full(TIMES, np.inf)

    def promises(self, row: int) -> bool:
        return bool(np.any(self.bound_by[:, row] < self.least[self.methods[row]]))

    def computed(self, which: list[int]) -> Iterator[tuple[int, list[SpotChoice]]]:
        for row, found in self.work.whole_curves(which):
            late = self.work.late_beside[row] + np.asarray([one.point.hours for one in found]) * float(
                self.work.hours.late[row] * self.work.hours.stretch[row]
            )
            usd = np.asarray([self.work.value(row, one.point) for one in found])
            place = np.searchsorted(late, self.times, side="right") - 1
            here = np.where(place >= 0, usd[np.maximum(place, 0)], np.inf)
            name = self.methods[row]
            self.least[name] = np.minimum(self.least[name], here)
            yield row, found
