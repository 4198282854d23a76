"""Timetables with CP-SAT: the model, the search, its limits, and what it found."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING, Any

from planner.errors import SolverError
from planner.formulation.solvers import Termination
from planner.timetable.time_index import consecutive_periods, energy_rows, periods_together, start_range
from planner.timetable.timetable_problem import Mode, Period, Schedule, Timetable, lot_groups, time_bounds
from planner.watch import keep_going, seconds_left, stopping

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


# Timetables as a model of CP-SAT: optional intervals, cumulative resources, lots that are bought, energy rows.
#
# The equations are those of `planner.timetable.timetable_problem`. An interval stands for all modes of a task that
# hold the same; energy rows are redundant, and close most of the gap where machines are shared.


class TimetableModel:
    """The variables and rows of a timetable in CP-SAT."""

    def __init__(self, problem: Timetable, cp_model: Any) -> None:
        self.problem, self.cp = problem, cp_model
        self.model: Any = cp_model.CpModel()
        self.first, self.last = time_bounds(problem)
        self.chosen: list[list[Any]] = []  # literals by task and mode
        self.start: list[Any] = []
        self.size: list[Any] = []
        self.end: list[Any] = []
        self.holds: list[list[tuple[Any, Any]]] = [[] for _ in problem.resources]  # (interval, amount)
        self.bought: list[Any] = [
            None if resource.price is None else self.model.new_int_var(0, resource.capacity, f"bought[{resource.name}]")
            for resource in problem.resources
        ]
        self.final: Any = None
        for index in range(len(problem.tasks)):
            self._add_task(index)
        self._add_precedence()
        self._add_capacity()
        self._add_pools()
        self._add_periods()
        self._add_energy()

    def _add_task(self, index: int) -> None:
        """Add start, end, the choice of a mode, and an optional interval for each set of resources."""
        task, model = self.problem.tasks[index], self.model
        first, last = self.first[index], self.last[index]
        sizes = [mode.minutes for mode in task.modes]
        start = model.new_int_var(first, max(first, last), f"start[{task.name}]")
        end = model.new_int_var(first, max(first, last), f"end[{task.name}]")
        literals = [model.new_bool_var(f"mode[{task.name},{mode.label}]") for mode in task.modes]
        model.add_exactly_one(literals)
        if len(set(sizes)) == 1:
            size: Any = sizes[0]
        else:
            size = model.new_int_var_from_domain(self.cp.Domain.from_values(sorted(set(sizes))), f"size[{task.name}]")
            model.add(size == sum(minutes * literal for minutes, literal in zip(sizes, literals, strict=True)))
        model.add(end == start + size)
        for mode, literal in zip(task.modes, literals, strict=True):
            earliest, latest = start_range(task, mode, first, last)
            if latest < earliest:
                model.add(literal == 0)
            elif mode.earliest > first or latest < last - mode.minutes:
                model.add_linear_constraint(start, earliest, latest).only_enforce_if(literal)
        self.start.append(start)
        self.size.append(size)
        self.end.append(end)
        self.chosen.append(literals)
        self._add_intervals(index)

    def _add_intervals(self, index: int) -> None:
        """Add one interval for all modes of a task that hold the same: a mode more is then no interval more."""
        task, model = self.problem.tasks[index], self.model

        def needs(place: int) -> tuple[tuple[int, int], ...]:
            return task.modes[place].needs

        for held, group in groupby(sorted(range(len(task.modes)), key=needs), key=needs):
            members = list(group)
            if not held:
                continue
            literals = [self.chosen[index][place] for place in members]
            minutes = {task.modes[place].minutes for place in members}
            size: Any = minutes.pop() if len(minutes) == 1 else self.size[index]
            present = literals[0]
            if len(literals) > 1:
                present = model.new_bool_var(f"holds[{task.name},{members[0]}]")
                model.add(sum(literals) == present)
            interval = model.new_optional_interval_var(
                self.start[index], size, self.end[index], present, f"interval[{task.name},{members[0]}]"
            )
            for resource, amount in held:
                self.holds[resource].append((interval, amount))

    def _add_precedence(self) -> None:
        for index, task in enumerate(self.problem.tasks):
            for other, lag in task.after:
                self.model.add(self.start[index] >= self.end[other] + lag)

    def _add_capacity(self) -> None:
        """Add a cumulative row per resource; machines that are one of a kind never overlap."""
        for resource, bought, held in zip(self.problem.resources, self.bought, self.holds, strict=True):
            intervals, amounts = [interval for interval, _ in held], [amount for _, amount in held]
            if not held:
                continue
            if bought is None and 2 * min(amounts) > resource.capacity >= max(amounts):
                self.model.add_no_overlap(intervals)
            else:
                self.model.add_cumulative(intervals, amounts, resource.capacity if bought is None else bought)

        for capacity, members in lot_groups(self.problem).values():
            counts: list[Any] = [self.bought[number] for number in members]
            self.model.add(sum(counts) <= capacity)

    def _sum_over_modes(self, amount: Callable[[Mode], int], tasks: Collection[int] | None = None) -> Any:
        """Return sum_{j,m} amount[m]*x[j,m], over some of the tasks or all."""
        terms = [
            (count, literal)
            for index, (task, literals) in enumerate(zip(self.problem.tasks, self.chosen, strict=True))
            for mode, literal in zip(task.modes, literals, strict=True)
            if (tasks is None or index in tasks) and (count := amount(mode))
        ]
        return self.cp.LinearExpr.weighted_sum([literal for _, literal in terms], [count for count, _ in terms])

    def _lots(self, pool: int) -> Any:
        """Return what lots take from a pool."""
        pairs = zip(self.problem.resources, self.bought, strict=True)
        return sum(amount * bought for lot, bought in pairs for which, amount in lot.uses if which == pool)

    def _lots_paid(self, period: Period) -> Any:
        """Return what is paid for lots in a period."""
        pairs = zip(self.problem.resources, self.bought, strict=True)
        return sum(
            lot.price * bought for lot, bought in pairs if lot.price and period.start <= lot.paid_at < period.end
        )

    def _add_pools(self) -> None:
        for number, pool in enumerate(self.problem.pools):
            used = self._sum_over_modes(lambda mode, n=number: sum(a for which, a in mode.uses if which == n))  # type: ignore[misc]
            self.model.add(used + self._lots(number) <= pool.amount)

    def _add_periods(self) -> None:
        """Add the budget of every period: what a task spends in it is its rate times its minutes inside."""
        for number, period in enumerate(self.problem.periods):
            spent = [
                dollars
                for index in range(len(self.problem.tasks))
                if (dollars := self._spent(index, number, period.start, period.end)) is not None
            ]
            if spent:
                self.model.add(sum(spent) + self._lots_paid(period) <= period.amount)
        for inside, amount in periods_together(self.problem, self.first, self.last):
            self.model.add(self._sum_over_modes(lambda mode: mode.spend, inside) <= amount)
        for run in consecutive_periods(self.problem):
            for count in range(1, len(run)):
                self._add_boundary(run[:count])

    def _add_boundary(self, periods: list[Period]) -> None:
        """Add what consecutive periods allow together up to the last one's end: redundant.

        A task that starts within them has spent all but its rate times the minutes that it runs on after the boundary.
        Whether it runs on is a literal to branch on; without it the bound on lateness stays at zero for seconds.
        """
        boundary, amount = periods[-1].end, sum(period.amount for period in periods)
        inside = [index for index, first in enumerate(self.first) if periods[0].start <= first < boundary]
        spent = [self._spent_before(index, boundary) for index in inside]
        if spent:
            self.model.add(sum(spent) + sum(self._lots_paid(period) for period in periods) <= amount)

    def _spent_before(self, index: int, boundary: int) -> Any:
        """Return what a task spends before a boundary, at least."""
        task, model = self.problem.tasks[index], self.model
        name = f"{task.name},{boundary}"
        spent = model.new_int_var(0, max(mode.spend for mode in task.modes), f"before[{name}]")
        after = model.new_bool_var(f"after[{name}]")
        model.add(self.end[index] <= boundary).only_enforce_if(~after)
        model.add(self.end[index] >= boundary).only_enforce_if(after)
        for mode, literal in zip(task.modes, self.chosen[index], strict=True):
            if mode.spend:
                model.add(spent >= mode.spend).only_enforce_if(literal, ~after)
                over = self.end[index] - boundary
                model.add(mode.minutes * (spent - mode.spend) >= -mode.spend * over).only_enforce_if(literal, after)
        return spent

    def _spent(self, index: int, number: int, first: int, last: int) -> Any:
        """Return what a task spends in a period; None where it can spend nothing in it."""
        task, model = self.problem.tasks[index], self.model
        most = max(mode.spend for mode in task.modes)
        if not most or self.first[index] >= last or self.last[index] <= first:
            return None
        name = f"{task.name},{number}"
        longest = max(mode.minutes for mode in task.modes)
        stop = model.new_int_var(0, self.problem.horizon, f"stop[{name}]")
        begin = model.new_int_var(0, self.problem.horizon + last, f"begin[{name}]")
        inside = model.new_int_var(0, min(longest, last - first), f"inside[{name}]")
        model.add_min_equality(stop, [self.end[index], last])
        model.add_max_equality(begin, [self.start[index], first])
        model.add(inside >= stop - begin)
        spent = model.new_int_var(0, most, f"spent[{name}]")
        for mode, literal in zip(task.modes, self.chosen[index], strict=True):
            if mode.spend:
                model.add(mode.minutes * spent >= mode.spend * inside).only_enforce_if(literal)
        return spent

    def _add_energy(self) -> None:
        """Add redundant rows: without them the bound barely moves where machines are shared."""
        for row in energy_rows(self.problem):
            used = sum(amount * self.chosen[index][place] for index, place, amount in row.terms)
            bought = self.bought[row.resource]
            count = self.problem.resources[row.resource].capacity if bought is None else bought
            self.model.add(used <= row.minutes * count)

    def minimise(
        self, most: int | None, least: int | None = None, by_rank: bool = False, most_rank: int | None = None
    ) -> None:
        """Set the objective; with `most` bound it and minimise the ends instead, an earlier task before a later.

        `least` is a bound that is known already: the search stops when a plan reaches it. With `by_rank` the sum of
        the ranks of the modes is minimised instead of the ends, and `most_rank` bounds it.
        """
        if self.problem.objective == "last":
            objective: Any = self.model.new_int_var(0, self.problem.horizon, "last")
            self.model.add_max_equality(objective, self.end)
            self._add_energy_before(objective)
        else:
            objective = self._cost()
        if most is None:
            if least is not None:
                self.model.add(objective >= least)
            self.model.minimize(objective)
            return
        self.model.add(objective <= most)
        if by_rank:
            self.model.minimize(self._sum_over_modes(lambda mode: mode.rank))
            return
        if most_rank is not None:
            self.model.add(self._sum_over_modes(lambda mode: mode.rank) <= most_rank)
        count = len(self.end)
        ends = sum((2 * count - index) * end for index, end in enumerate(self.end))
        # Of equal ends the first task has the cheapest mode: one timetable is the best, whoever searches.
        terms = [
            ((count - index) * place, literal)
            for index, literals in enumerate(self.chosen)
            for place, literal in enumerate(literals)
        ]
        ranks = self.cp.LinearExpr.weighted_sum([literal for _, literal in terms], [weight for weight, _ in terms])
        most_ranks = sum((count - index) * len(literals) for index, literals in enumerate(self.chosen))
        self.model.minimize(ends * (most_ranks + 1) + ranks)

    def _add_energy_before(self, last: Any) -> None:
        """Add that all work on a resource fits between the earliest start and the last end."""
        opens = min(self.first)
        for number, resource in enumerate(self.problem.resources):
            if resource.price is None:
                work = self._sum_over_modes(
                    lambda mode, n=number: mode.minutes * sum(a for which, a in mode.needs if which == n)  # type: ignore[misc]
                )
                self.model.add(work <= resource.capacity * (last - opens))

    def _cost(self) -> Any:
        """Return dollars with lots, waiting and lateness."""
        total = self._sum_over_modes(lambda mode: mode.cost)
        for resource, bought in zip(self.problem.resources, self.bought, strict=True):
            if bought is not None and resource.price:
                total += resource.price * bought
        for index, task in enumerate(self.problem.tasks):
            if task.wait:
                total += task.wait * (self.start[index] - task.release)
            if task.late and task.due is not None:
                late = self.model.new_int_var(0, max(0, self.last[index] - task.due), f"late[{task.name}]")
                self.model.add(late >= self.end[index] - task.due)
                total += task.late * late
        return total

    def hint(self, schedule: Schedule) -> None:
        """Start the search from a schedule."""
        for index, literals in enumerate(self.chosen):
            self.model.add_hint(self.start[index], schedule.starts[index])
            self.model.add_hint(self.end[index], schedule.end(self.problem, index))
            for place, literal in enumerate(literals):
                self.model.add_hint(literal, place == schedule.modes[index])
        for count, bought in zip(schedule.bought, self.bought, strict=True):
            if bought is not None:
                self.model.add_hint(bought, count)

    def schedule(self, solver: Any) -> Schedule:
        """Return the schedule of a solution."""
        return Schedule(
            tuple(
                next(place for place, literal in enumerate(literals) if solver.boolean_value(literal))
                for literals in self.chosen
            ),
            tuple(int(solver.value(start)) for start in self.start),
            tuple(0 if count is None else int(solver.value(count)) for count in self.bought),
        )


# Timetables with CP-SAT: the search, its limits, and what it found.


WORKERS = 8
"""Threads: each has another strategy, so that more of them than cores still find better plans and bounds."""

# A step of a plan that is bounded by a clock finds less on a busy machine. Such steps are bounded by work instead: the
# solver's deterministic time, which counts what it does. A unit of all workers is about a second of one core.


@dataclass(frozen=True)
class TimetableResult:
    """What CP-SAT found; `bound` is a proven lower bound on the objective in the units of the timetable."""

    termination: Termination
    seconds: float
    schedule: Schedule | None
    objective: int | None
    bound: float
    work: float = 0.0  # deterministic time of all workers


@dataclass(frozen=True)
class SearchLimits:
    """When the search may stop, and what it starts from."""

    time_limit_seconds: float | None = None  # what the user allows
    relative_gap: float = 0.0
    hint: Schedule | None = None
    least: int | None = None  # a lower bound on the objective that is proven elsewhere
    most: int | None = None  # the objective must not be above it: the value of an earlier pass
    by_rank: bool = False  # with `most`: the sum of the ranks of the modes is minimised
    most_rank: int | None = None  # with `most`: that sum must not be above it
    work: float | None = None  # deterministic time of all workers, whatever the machine


def solve_timetable(problem: Timetable, limits: SearchLimits | None = None) -> TimetableResult:
    """Return the best timetable that CP-SAT finds.

    With `limits.most` the objective is bounded by it and the ranks of modes or the sum of the ends is minimised, tasks
    in their order.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise SolverError(f"a timetable needs the package ortools: {error}") from error
    limits, started = limits or SearchLimits(), perf_counter()
    if any(not task.modes for task in problem.tasks):
        return TimetableResult(Termination.INFEASIBLE, 0.0, None, None, 0.0)
    built = TimetableModel(problem, cp_model)
    built.minimise(limits.most, limits.least, limits.by_rank, limits.most_rank)
    if limits.hint is not None:
        built.hint(limits.hint)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = WORKERS
    solver.parameters.relative_gap_limit = limits.relative_gap
    keep_going()
    if (left := seconds_left(most=limits.time_limit_seconds)) is not None:
        solver.parameters.max_time_in_seconds = max(0.01, left)
    if limits.work is not None:  # each worker has the limit for itself, and ends the piece of work that it has begun
        solver.parameters.max_deterministic_time = limits.work / WORKERS
    with stopping(solver.stop_search):
        status = solver.solve(built.model)
    names = {cp_model.OPTIMAL: "OPTIMAL", cp_model.FEASIBLE: "FEASIBLE", cp_model.INFEASIBLE: "INFEASIBLE"}
    if status == cp_model.MODEL_INVALID:
        raise SolverError(f"cp-sat rejects the timetable: {built.model.validate()}")
    termination = Termination[names.get(status, "NO_SOLUTION")]
    schedule, objective = None, None
    if termination in (Termination.OPTIMAL, Termination.FEASIBLE):
        schedule, objective = built.schedule(solver), round(solver.objective_value)
    return TimetableResult(
        termination, perf_counter() - started, schedule, objective,
        bound=float(solver.best_objective_bound), work=float(solver.response_proto.deterministic_time),
    )  # fmt: skip
