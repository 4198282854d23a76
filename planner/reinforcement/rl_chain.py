"""Jobs of reinforcement learning and others before or after them: the least sum of their dollars.

No other job runs while one of these runs does, so that they share dollars and time alone. As in every timetable, a job
holds its machines until its end at its confidence, and dollars at the confidence add up. A way of each run therefore
leaves the others a program of their own, with less of the budget and of the hours. Its least dollars never fall when
any of these falls, so what is proven for one way bounds those of every way that leaves no more: few programs are
solved.
"""

from __future__ import annotations

import datetime
import functools
import math
from collections import Counter
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from planner import timetable
from planner.analysis.frontier_trace import NOTICEABLE_USD
from planner.analysis.why_not import solve_pinned
from planner.arrays import Flags, Floats, Integers
from planner.errors import AuditError, Fault, ScenarioError
from planner.formulation.solvers import solver_versions
from planner.reinforcement.evaluated_rl import EvaluatedRl, report_rl
from planner.reinforcement.rl_choice import SAME_OBJECTIVE, count_ways, diagnose_rl, evaluated_way, matches, told_run
from planner.reinforcement.rl_limits import NOT_FOR_RL, check_rl, limits_of, within
from planner.reinforcement.rl_sides import undominated
from planner.reinforcement.rl_ways import RlSearch, RlWays, search_rl
from planner.results.explanation import WhyNot
from planner.results.plan import Plan, Status, most_of_each, needed_at_once
from planner.results.plan_parts import CandidateCounts, Hours, Infeasible, Relaxation, Spread
from planner.results.subject_runs import RlRun
from planner.scenario.job import After
from planner.scenario.limits import PEAK_TOLERANCE
from planner.scenario.rl_job import RlJob
from planner.scenario.scenario import Scenario, SolveOptions, ends_before, setting_path, without_jobs
from planner.solving.alternatives import SOLVED
from planner.solving.chosen import build_inputs
from planner.solving.limit_changes import BUDGET, HOURS_STEP, USD_STEP, round_up
from planner.solving.notes import budget_probability
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve, solve_prepared

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from planner.analysis.why_not import WhyNotQuery
    from planner.library.schema import Library
    from planner.results.plan import Assignment
    from planner.scenario.job import Job


# What runs leave the other jobs.


def runs_of(scenario: Scenario) -> tuple[RlJob, ...]:
    """Return the jobs of reinforcement learning, in the order of the scenario."""
    return tuple(job for job in scenario.jobs if isinstance(job, RlJob))


def around(scenario: Scenario, late_hours: Mapping[str, float], late_usd: float) -> Scenario | None:
    """Return the other jobs as they are planned around runs of so many hours each, and of so many dollars in all.

    Hours and dollars are those at the confidence. What a run waits for ends so much before the deadline of the run;
    what waits for the run waits for that, with the run as a lag. None where no time or no budget is left.
    """
    budget = scenario.limits.budget_usd
    left = None if budget is None else budget - late_usd
    jobs = {job.name: job for job in scenario.jobs}
    for name, hours in late_hours.items():
        run = jobs.pop(name)
        jobs = {other: _around(other_job, run, hours) for other, other_job in jobs.items()}
        deadline = run.planned_deadline_hours
        if run.release_hours and deadline is not None and run.release_hours + hours > deadline * (1 + PEAK_TOLERANCE):
            return None  # the runs before it end too late
    is_late = any(
        other_job.deadline_hours is not None and other_job.deadline_hours <= _least_end(other_job)
        for other_job in jobs.values()
    )
    if is_late or (left is not None and left <= 0 and (jobs or left < -NOTICEABLE_USD)):
        return None
    reduced = without_jobs(scenario, set(late_hours), left)
    return reduced.model_copy(update={"jobs": tuple(jobs.values()), "jobs_written": ()})


_WAIT = After(job="another")


def _around(other: Job, job: Job, late_hours: float) -> Job:
    """Return one of the other jobs with what the run changes of its times."""
    lags = {wait.job: wait.lag_hours for wait in other.after}
    update: dict[str, Any] = {}
    if job.name in lags:
        delay = late_hours + lags.pop(job.name)
        for wait in job.after:
            lags[wait.job] = max(lags.get(wait.job, 0.0), wait.lag_hours + delay)
        update["after"] = tuple(_WAIT.model_copy(update={"job": name, "lag_hours": lag}) for name, lag in lags.items())
        if job.release_hours or not job.after:
            update["release_hours"] = max(other.release_hours, job.release_hours + delay)
    wait_for_it = next((wait for wait in job.after if wait.job == other.name), None)
    if wait_for_it is not None and job.planned_deadline_hours is not None:
        by = job.planned_deadline_hours - late_hours - wait_for_it.lag_hours + other.start_slack_hours
        update["deadline_hours"] = by if other.deadline_hours is None else min(by, other.deadline_hours)
    return other.model_copy(update=update)


def _least_end(job: Job) -> float:
    """Return the hours before which a job cannot end."""
    return job.release_hours + job.start_slack_hours


def without_runs(scenario: Scenario) -> Scenario | None:
    """Return the other jobs with as much of all limits as runs that take nothing would leave them."""
    free = {"deadline_hours": None, "start_slack_hours": 0.0}
    jobs = (job.model_copy(update=free) if isinstance(job, RlJob) else job for job in scenario.jobs)
    asked = scenario.model_copy(update={"jobs": tuple(jobs)})
    return around(asked, {job.name: 0.0 for job in runs_of(scenario)}, 0.0)


def run_alone(scenario: Scenario, job: RlJob) -> Scenario:
    """Return the scenario with one job of reinforcement learning alone, which waits for nothing."""
    return scenario.model_copy(update={"jobs": (job.model_copy(update={"after": ()}),), "jobs_written": ()})


def starts_of(scenario: Scenario, late_hours: Mapping[str, float], plan: Plan) -> dict[str, float]:
    """Return when each run starts: when the jobs that it waits for have ended, and their lags.

    `plan` is that of the other jobs, `late_hours` what each run takes at its confidence.
    """
    ends, starts = {job_before.name: job_before.finish_hours for job_before in plan.jobs}, dict[str, float]()
    for job in in_order(scenario):
        if job.name in late_hours:
            starts[job.name] = max((ends[wait.job] + wait.lag_hours for wait in job.after), default=0.0)
            ends[job.name] = starts[job.name] + late_hours[job.name]
    return starts


def in_order(scenario: Scenario) -> list[Job]:
    """Return the jobs of a scenario, none before one that it waits for."""
    return sorted(scenario.jobs, key=lambda job: len(ends_before(scenario, job.name)))


# The search over ways of the run.


class ChainSearch:
    """What the plans of a scenario have in common with those of scenarios that differ from it in a limit.

    The ways of a run depend on no deadline and no budget; candidates of the other jobs stay from plan to plan.
    """

    def __init__(
        self,
        library: Library,
        options: SolveOptions,
        asked: Mapping[str, WhyNotQuery] | None = None,
        pinned: WhyNotQuery | None = None,
    ) -> None:
        """`asked`: by the name of a run, those of its ways that count; `pinned`: how another job must run."""
        self.library, self.options, self.asked, self.pinned = library, options, asked or {}, pinned
        self._trainers: dict[str, dict[Any, Any]] = {}
        self._ways: dict[str, tuple[Scenario, RlSearch]] = {}
        self._prepared: PreparedScenario | None = None

    def ways(self, scenario: Scenario, job: RlJob) -> RlSearch:
        """Return every way of a run of a scenario, as if it waited for nothing."""
        alone = run_alone(scenario, job)
        (job,) = runs_of(alone)
        free = job.model_copy(update={"deadline_hours": None, "start_slack_hours": 0.0})
        limits = alone.limits.model_copy(update={"budget_usd": None})
        key = alone.model_copy(update={"jobs": (free,), "limits": limits})
        if job.name not in self._ways or self._ways[job.name][0] != key:
            known = self._trainers.setdefault(job.name, {})
            self._ways[job.name] = key, search_rl(alone, job, self.library, self.asked.get(job.name), known)
        return replace(self._ways[job.name][1], scenario=alone, job=job)

    def prepared(self, asked: Scenario) -> PreparedScenario:
        """Return the candidates of the other jobs as they are planned around runs."""
        self._prepared = prepare(asked, self.library, self._prepared)
        return self._prepared

    def others(self, asked: Scenario, apart_usd: float = 0.0) -> Plan | None:
        """Return the plan of the other jobs; None where they have none. `apart_usd`: what the runs cost.

        With a budget the runs of every policy on spot are drawn to know its dollars at the confidence, which takes a
        third of the time. So they are planned without it first: the least of more plans that keeps it is the least.
        """
        if not asked.jobs:
            return _no_others(asked, self.options)
        budget = asked.limits.budget_usd
        if budget is not None and asked.limits.spot_share.max > 0 and any(offer.has_spot for offer in asked.offers):
            plan = self._others(with_value(asked, BUDGET, None), apart_usd)
            if plan is None or plan.objective is None or paid_at_confidence(plan) <= budget:
                return plan
        return self._others(asked, apart_usd)

    def _others(self, asked: Scenario, apart_usd: float) -> Plan | None:
        prepared = replace(self.prepared(asked), apart_usd=apart_usd)
        if self.pinned is None:
            plan = solve_prepared(prepared, self.options, explains=False)
        else:
            plan = solve_pinned(prepared, self.pinned, self.options)
        return None if plan.status == "infeasible" else plan


def _no_others(asked: Scenario, options: SolveOptions) -> Plan:
    """Return the plan of no jobs at all, next to runs alone."""
    none: dict[str, Any] = dict.fromkeys(("objective", "bound", "gap", "cost_at_confidence"), 0.0)
    return Plan(
        scenario=asked.name, status="optimal", solver=options.solver, seconds=0.0,
        as_of=(options.as_of or datetime.date.today()).isoformat(), now=asked.now_text, zone=asked.zone, **none,
        candidates=CandidateCounts(made=0, rejected=0, dominated=0, offers=0),
        cost=Spread(expected=0.0, low=0.0, high=0.0),
        hours=Hours(expected=0.0, low=0.0, high=0.0, at_confidence=0.0),
    )  # fmt: skip


MOST_COMBINATIONS = 4_000_000
"""Combinations of ways of several runs that are compared."""


class Combinations:
    """Ways of all runs together, columns (n,) and (n, runs), with what is proven of the other jobs around each.

    Of each run the ways are combined that no other one beats.
    """

    def __init__(
        self, scenario: Scenario, searches: tuple[RlSearch, ...], able: tuple[Flags, ...], shared: ChainSearch
    ) -> None:
        self.scenario, self.searches, self.shared = scenario, searches, shared
        self.names = tuple(search.job.name for search in searches)
        kept = [self._kept(search.ways, which) for search, which in zip(searches, able, strict=True)]
        if (count := math.prod(map(len, kept))) > MOST_COMBINATIONS:
            problem = f"{NOT_FOR_RL}: {len(kept)} runs with {count:,} combinations of their ways"
            raise ScenarioError(
                [Fault(scenario.name, 0, "jobs", problem, "plan some of them in a scenario of their own")]
            )
        way = np.stack([column.ravel() for column in np.meshgrid(*kept, indexing="ij")], axis=1)
        self._set(way)
        rows = np.flatnonzero(self._may_be_in_time())
        self._set(way[rows[np.lexsort((self.usd[rows], self.hours[rows].sum(axis=1)))]])  # the fastest first
        self.lower = np.zeros(len(self.way))  # dollars of the others, at least
        self.solved = np.zeros(len(self.way), dtype=bool)
        self.best: tuple[float, int] | None = None  # dollars of all, row
        self.best_bound = math.inf  # dollars that are proven for that row
        self.plans: dict[int, Plan] = {}  # of the others, by row
        self.gave_up = False  # whether a solver stopped without a plan

    def _kept(self, ways: RlWays, able: Flags) -> Integers:
        """Return the ways of one run, of those that keep its limits, that no other one beats."""
        members = np.flatnonzero(able)
        late = ways.late_usd if self.scenario.limits.budget_usd is not None else np.zeros(len(ways))
        return members[undominated(*(column[members] for column in (ways.usd, ways.late_hours, late)))]

    def _set(self, way: Integers) -> None:
        """Take rows (n, runs) of ways."""
        columns = [search.ways for search in self.searches]
        self.way = way
        self.hours: Floats = np.stack([ways.late_hours[way[:, at]] for at, ways in enumerate(columns)], axis=1)
        self.usd: Floats = sum_of(ways.usd[way[:, at]] for at, ways in enumerate(columns))
        self.late_usd = np.zeros(len(way))
        if self.scenario.limits.budget_usd is not None:
            self.late_usd = sum_of(ways.late_usd[way[:, at]] for at, ways in enumerate(columns))

    def _may_be_in_time(self) -> Flags:
        """Return the rows (n,) that would keep deadlines and budget if the other jobs took nothing."""
        budget, ends = self.scenario.limits.budget_usd, dict[str, Floats]()
        in_time = np.ones(len(self.way), dtype=bool) if budget is None else self.late_usd <= budget
        for job in in_order(self.scenario):
            waits = [ends[wait.job] + wait.lag_hours for wait in job.after]
            start = np.maximum.reduce([np.full(len(in_time), job.release_hours), *waits])
            took = self.hours[:, self.names.index(job.name)] if job.name in self.names else 0.0
            ends[job.name] = start + took
            if job.planned_deadline_hours is not None:
                in_time &= ends[job.name] <= job.planned_deadline_hours * (1.0 + PEAK_TOLERANCE)
        return in_time

    def least(self) -> tuple[float, int] | None:
        """Return the least dollars of all and the row; None where no row leaves the others a plan.

        Where the other jobs of the best row are not proven, as mostly on spot, a row that may cost no less than what is
        proven for the best one is left out: it moves no bound.
        """
        if not len(self.way):
            return None
        self.lower[:] = self._least_of_others()
        is_late, is_bounded = not np.isfinite(self.lower).any(), False
        while True:
            most = math.inf if self.best is None else min(self.best[0] * (1.0 - SAME_OBJECTIVE), self.best_bound)
            (left,) = np.nonzero(~self.solved & (self.usd + self.lower < most))
            if not len(left):
                return self.best
            if (
                self.solved.any() and not is_bounded
            ):  # what is proven of the fastest and least holds for all that are left
                is_late = self._prove(self.hours[left].min(axis=0), float(self.late_usd[left].min())) is None
                is_bounded = True
                continue
            # The row that may cost least; where it left the others no plan, a faster one halves what is left.
            at = int(left[len(left) // 2] if is_late else left[np.argmin((self.usd + self.lower)[left])])
            runs = self.runs_of(at)
            self.hours[at] = [run.hours.at_confidence for run in runs]  # as the check takes them off, to the last bit
            if self.scenario.limits.budget_usd is not None:
                self.late_usd[at] = math.fsum(run.cost_at_confidence for run in runs)
            self.solved[at] = True
            plan = self._prove(self.hours[at], float(self.late_usd[at]), at)
            is_late = plan is None
            if plan is not None and plan.objective is not None:
                self.plans[at] = plan

    def _least_of_others(self) -> float:
        """Return the dollars of the others around the fastest ways if each had all limits to itself."""
        asked = around(self.scenario, self.late_hours(self.hours.min(axis=0)), float(self.late_usd.min()))
        if asked is not None and not asked.jobs:
            return 0.0
        prepared = None if asked is None else self.shared.prepared(with_value(asked, BUDGET, None))
        if prepared is None or not all(len(screened.table) for screened in prepared.screened):
            return math.inf
        return timetable.least_objective(prepared) / timetable.UNITS_PER_USD

    def late_hours(self, hours: Floats) -> dict[str, float]:
        """Return the hours (runs,) by the names of the runs."""
        return dict(zip(self.names, hours.tolist(), strict=True))

    def made_of(self, at: int) -> list[EvaluatedRl]:
        """Return the ways of a row, each evaluated by itself."""
        return [evaluated_way(search, int(way)) for search, way in zip(self.searches, self.way[at], strict=True)]

    def runs_of(self, at: int) -> list[RlRun]:
        """Return the ways of a row as runs."""
        return [report_rl(made, self.shared.options.as_of or datetime.date.today()) for made in self.made_of(at)]

    @property
    def bound_usd(self) -> float:
        """Dollars below which no row costs, with the other jobs."""
        return float(np.min(self.usd + self.lower))

    def others(self, hours: Floats, late_usd: float, apart_usd: float = 0.0) -> Plan | None:
        """Return the plan of the other jobs around runs of so much; None where they have none."""
        asked = around(self.scenario, self.late_hours(hours), late_usd)
        return None if asked is None else self.shared.others(asked, apart_usd)

    def _prove(self, late_hours: Floats, late_usd: float, at: int = -1) -> Plan | None:
        """Return the plan of the other jobs around runs of so much, whose bound holds for all that leave no more.

        `at`: the row that takes so much.
        """
        tighter = (self.hours >= late_hours).all(axis=1) & (self.late_usd >= late_usd)
        plan = self.others(late_hours, late_usd, float(self.usd[tighter].min()))
        if plan is None:
            self.lower[tighter] = math.inf
        elif plan.objective is None:
            self.gave_up = True
        else:
            self.lower[tighter] = np.maximum(self.lower[tighter], plan.bound or 0.0)
            self._take(plan, late_hours, at)
        return plan

    def _take(self, plan: Plan, late_hours: Floats, at: int) -> None:
        """Take the cheapest row that a plan of the other jobs leaves room for, where both cost less than what is known.

        A run that jobs wait for may be no longer than the one that the plan was made around.
        """
        assert plan.objective is not None
        budget, room = self.scenario.limits.budget_usd, late_hours.copy()
        starts = starts_of(self.scenario, self.late_hours(late_hours), plan)
        for place, job in enumerate(runs_of(self.scenario)):
            if not any(wait.job == job.name for other in self.scenario.jobs for wait in other.after):
                deadline = job.planned_deadline_hours
                room[place] = math.inf if deadline is None else deadline - starts[job.name]
        able = np.asarray((self.hours <= room).all(axis=1))
        if budget is not None:
            able &= self.late_usd <= budget - paid_at_confidence(plan)
        able |= np.arange(len(able)) == at
        if not able.any():
            return
        at = int(np.argmin(np.where(able, self.usd, math.inf)))
        usd, bound = float(self.usd[at]) + plan.objective, float(self.usd[at] + self.lower[at])
        if self.best is None or usd < self.best[0]:
            self.best, self.best_bound = (usd, at), bound if (self.hours[at] >= late_hours).all() else usd


def paid_at_confidence(plan: Plan) -> float:
    """Return the dollars at the confidence of a plan without runs, of jobs together as each needs by itself."""
    return math.fsum(
        (*(job.cost_at_confidence for job in plan.jobs), *(reservation.usd for reservation in plan.reservations))
    )


def sum_of(columns: Iterable[Floats]) -> Floats:
    """Return the sum (n,) of columns."""
    return np.asarray(np.sum(list(columns), axis=0), dtype=float)


def combined_ways(
    scenario: Scenario, shared: ChainSearch
) -> tuple[tuple[RlSearch, ...], tuple[Flags, ...], Combinations | None]:
    """Return for each run its ways (n,) and which of them keep its limits by themselves, and the search over all.

    No search where a run has none. Raises ScenarioError for what is not modelled, each by its name.
    """
    for job in runs_of(scenario):
        check_rl(scenario, job, shared.library)
    searches = tuple(shared.ways(scenario, job) for job in runs_of(scenario))
    able = list[Flags]()
    for search in searches:
        kept, query = within(limits_of(search), len(search.ways)), shared.asked.get(search.job.name)
        able.append(kept if query is None else kept & matches(search, query))
    has_ways = all(ways.any() for ways in able)
    return searches, tuple(able), Combinations(scenario, searches, tuple(able), shared) if has_ways else None


# The plan.


def solve_chain(scenario: Scenario, shared: ChainSearch, started: float, explains: bool = True) -> Plan:
    """Return the plan of jobs of reinforcement learning and others before or after them, not yet audited.

    Raises ScenarioError for what is not modelled, each by its name.
    """
    options = shared.options
    searches, able, rows = combined_ways(scenario, shared)
    least = rows.least() if rows is not None else None
    counts = functools.reduce(add_counts, map(count_ways, searches))
    if rows is None or least is None:
        gave_up = rows is not None and rows.gave_up
        why = _diagnosed(scenario, searches, able, shared) if explains and not gave_up else None
        return _no_plan(scenario, counts, options, started, why, "no_plan" if gave_up else "infeasible")
    usd, at = least
    as_of = options.as_of or datetime.date.today()
    every, told = rows.made_of(at), list[RlRun]()
    runs = [report_rl(made, as_of) for made in every]
    hours = {run.name: run.hours.at_confidence for run in runs}
    plan = rows.plans.get(at) or rows.others(
        np.asarray([*hours.values()]), math.fsum(run.cost_at_confidence for run in runs), float(rows.usd[at])
    )
    if plan is None or plan.status not in SOLVED:
        raise AuditError(f"search and plan differ: no plan of the other jobs around {' and '.join(hours)}")
    starts = starts_of(scenario, hours, plan)
    for search, made, run, which, way in zip(searches, every, runs, able, rows.way[at].tolist(), strict=True):
        shown = which & (search.ways.late_hours <= run.hours.at_confidence) | (np.arange(len(which)) == way)
        started_run = run.model_copy(update={"start_at_hours": starts[run.name]})
        told.append(told_run(search, made, started_run, way, shown, explains))
    return joined(scenario, plan, told, counts, min(rows.bound_usd, usd), perf_counter() - started)


def joined(
    scenario: Scenario, plan: Plan, runs: Sequence[RlRun], counts: CandidateCounts, bound: float, seconds: float
) -> Plan:
    """Return the plan of the other jobs with the runs: dollars add up, hours until the last one ends."""
    assert plan.objective is not None and plan.cost is not None and plan.hours is not None
    objective = plan.objective + math.fsum(run.cost_usd for run in runs)
    bound = min(bound, objective)
    gap = max(0.0, objective - bound) / max(abs(objective), 1e-9)
    gap = 0.0 if gap <= SAME_OBJECTIVE else gap
    every: tuple[Plan | RlRun, ...] = (plan, *runs)
    ages = [part.price_age_days for part in every if part.price_age_days is not None]
    parts: tuple[Assignment | RlRun, ...] = (*plan.jobs, *runs)
    together, most = needed_at_once(parts), most_of_each(parts)
    notes = [note if len(runs) == 1 else f"{run.name}: {note}" for run in runs for note in run.notes]
    return plan.model_copy(
        update={
            "seconds": seconds,
            "status": "optimal" if not gap else "feasible",
            "objective": objective,
            "bound": bound if gap else objective,
            "gap": gap,
            **_dollars_with(plan, runs, 1),
            "budget_usd": scenario.limits.budget_usd,
            "budget_probability": None,
            "hours": Hours(**{name: max(hours, *(run.start_at_hours + getattr(run.hours, name) for run in runs))
                              for name, hours in dict(plan.hours).items()}),
            "price_age_days": max(ages, default=None),
            "candidates": add_counts(plan.candidates, counts) if plan.jobs else counts,
            "reinforcement": tuple(runs),
            "faster": (), "shared_limits": (),
            "at_one_time": together,
            "most_of_each": () if most == together else most,
            "warnings": tuple(dict.fromkeys((*plan.warnings, *notes))),
            "inputs": build_inputs(scenario, parts, solver_versions()),
        }
    )  # fmt: skip


def _dollars_with(plan: Plan, runs: Sequence[RlRun], sign: int) -> dict[str, Any]:
    """Return the dollars of a plan with those of runs (1), or without them (-1)."""

    def total(usd: float | None, name: str) -> float | None:
        return None if usd is None else usd + sign * math.fsum(getattr(run, name) for run in runs)

    assert plan.cost is not None
    cost = {
        name: usd + sign * math.fsum(getattr(run.cost, name) for run in runs) for name, usd in dict(plan.cost).items()
    }
    return {
        "cost": Spread(**cost),
        "cost_at_confidence": total(plan.cost_at_confidence, "cost_at_confidence"),
        "least_cost_usd": total(plan.least_cost_usd, "cost_usd"),
    }


def add_counts(first: CandidateCounts, second: CandidateCounts) -> CandidateCounts:
    """Return the candidates of the other jobs with the ways of the run; the offers are the same."""
    reasons = Counter(first.reasons)
    reasons.update(second.reasons)
    return CandidateCounts(
        made=first.made + second.made, rejected=first.rejected + second.rejected, dominated=first.dominated,
        offers=first.offers, outdated_offers=first.outdated_offers, reasons=dict(reasons.most_common()),
    )  # fmt: skip


def jobs_of_chain(plan: Plan, scenario: Scenario) -> tuple[Plan, Scenario]:
    """Return the other jobs of a plan as the plan of a scenario of their own; those of runs alone as they are."""
    hours = {run.name: run.hours.at_confidence for run in plan.reinforcement}
    if not plan.jobs or hours.keys() != {job.name for job in runs_of(scenario)} or len(hours) < len(plan.reinforcement):
        return plan, scenario
    asked = around(scenario, hours, math.fsum(run.cost_at_confidence for run in plan.reinforcement))
    if asked is None:  # an edited plan, whose hours or dollars its check names
        asked = around(scenario, dict.fromkeys(hours, 0.0), 0.0) or scenario
    paid = math.fsum(reservation.usd for reservation in plan.reservations)
    chance = budget_probability(asked, plan.jobs, paid)
    update = {"budget_usd": asked.limits.budget_usd, "budget_probability": chance}
    return other_jobs(plan).model_copy(update=update), asked


def other_jobs(plan: Plan) -> Plan:
    """Return a plan without its runs: dollars and bound less those of the runs, hours until the last other job ends."""
    assert plan.cost is not None and plan.objective is not None
    usd = math.fsum(run.cost_usd for run in plan.reinforcement)
    objective, bound = plan.objective - usd, None if plan.bound is None else plan.bound - usd
    gap = None if bound is None else max(0.0, objective - bound) / max(abs(objective), 1e-9)
    is_proven = gap is not None and gap <= SAME_OBJECTIVE
    ages = [job.price_age_days for job in plan.jobs if job.price_age_days is not None]
    together, every = needed_at_once(plan.jobs), most_of_each(plan.jobs)
    hours = {name: max(job.delay_hours + getattr(job.hours, name) for job in plan.jobs) for name in Hours.model_fields}
    return plan.model_copy(
        update={
            "reinforcement": (),
            "status": "optimal" if is_proven else plan.status,
            "objective": objective,
            "bound": objective if is_proven else bound,
            "gap": 0.0 if is_proven else gap,
            **_dollars_with(plan, plan.reinforcement, -1),
            "budget_usd": None,
            "hours": Hours(**hours),
            "price_age_days": max(ages, default=None),
            "at_one_time": together,
            "most_of_each": () if every == together else every,
        }
    )


# Why there is no plan.


def _no_plan(
    scenario: Scenario,
    counts: CandidateCounts,
    options: SolveOptions,
    started: float,
    why: Infeasible | None,
    status: Status = "infeasible",
) -> Plan:
    """Return the answer without a plan, with its reasons."""
    return Plan(
        scenario=scenario.name, status=status, objective=None, bound=None, gap=None, cost=None, hours=None,
        solver=options.solver, seconds=perf_counter() - started, candidates=counts, infeasible=why,
        as_of=(options.as_of or datetime.date.today()).isoformat(), budget_usd=scenario.limits.budget_usd,
    )  # fmt: skip


Reasons = TypeVar("Reasons", Infeasible, WhyNot)


def renumbered(why: Reasons, scenario: Scenario, job: RlJob) -> Reasons:
    """Return the reasons of the run alone with its place among all jobs, where settings name it by its place."""
    index = [other.name for other in scenario.jobs].index(job.name)
    relax = (
        relaxation.model_copy(update={"setting": relaxation.setting.replace("jobs.0.", f"jobs.{index}.", 1)})
        if relaxation.setting.startswith("jobs.0.")
        else relaxation
        for relaxation in why.relax
    )
    return why.model_copy(update={"relax": tuple(relax)})


def _diagnosed(
    scenario: Scenario, searches: tuple[RlSearch, ...], able: tuple[Flags, ...], shared: ChainSearch
) -> Infeasible:
    """Return the least budget and the least deadline that alone suffice; without one why a part has no plan.

    `able`: of each run the ways (n,) that keep all limits by themselves.
    """
    relax = list[Relaxation]()
    for path, given in given_values(scenario):
        least = least_value(scenario, path, given, shared)
        if least is None:
            continue
        more, plan = least
        assert plan.cost is not None and plan.hours is not None
        setting = f"{setting_path(path, scenario)}={more:.10g}{'' if path == BUDGET else 'h'}"
        change = {"limit": path, "from": given, "to": more, "setting": setting, "way": len(relax) + 1}
        figures = {"cost_usd": plan.cost.expected, "hours": plan.hours.expected}
        relax.append(Relaxation(**change, **figures, then=f"${figures['cost_usd']:,.2f} for all jobs"))
    if relax:
        return Infeasible(relax=tuple(relax))
    for search, kept in zip(searches, able, strict=True):
        if not kept.any():
            return renumbered(diagnose_rl(search), scenario, search.job)
    others = without_runs(scenario)
    why = solve(others, shared.options, shared.library).infeasible if others is not None and others.jobs else None
    return why or Infeasible(relax=())


def given_values(scenario: Scenario) -> Iterator[tuple[str, float]]:
    """Yield the path of the budget and of each deadline, with its value."""
    if (budget := scenario.limits.budget_usd) is not None:
        yield BUDGET, budget
    for job in scenario.jobs:
        if job.deadline_hours is not None:
            yield f"jobs.{job.name}.deadline", job.deadline_hours


def least_value(
    scenario: Scenario, path: str, given: float, shared: ChainSearch, goal: float = math.inf
) -> tuple[float, Plan] | None:
    """Return the least value of a limit that leaves a plan of at most some dollars, and that plan; None without one.

    `path`: of the budget or of a deadline, whose given value leaves none. What the best plan needs of a limit is mostly
    the least: it is tried with a step less, and halved where that suffices.
    """
    step = USD_STEP if path == BUDGET else HOURS_STEP

    def solved(value: float | None) -> Plan | None:
        plan = solve_chain(with_value(scenario, path, value), shared, perf_counter(), explains=False)
        return plan if plan.objective is not None and plan.objective <= goal else None

    best, low = solved(None), given
    if best is None:
        return None
    high, is_least = max(_needed(best, scenario, path), round_up(low + step, step)), True
    while high - low > 1.5 * step:
        middle = high - step if is_least else round_up((low + high) / 2.0, step)
        plan = solved(middle)
        if plan is None:
            low, is_least = middle, False
        else:
            best, high, is_least = plan, min(middle, _needed(plan, scenario, path)), not is_least
    return high, best


def with_value(scenario: Scenario, path: str, value: float | None) -> Scenario:
    """Return the scenario with another budget or deadline; None: without it."""
    if path == BUDGET:
        return scenario.model_copy(update={"limits": scenario.limits.model_copy(update={"budget_usd": value})})
    free: dict[str, Any] = {"deadline_hours": value, **({"start_slack_hours": 0.0} if value is None else {})}
    jobs = (job.model_copy(update=free) if path == f"jobs.{job.name}.deadline" else job for job in scenario.jobs)
    return scenario.model_copy(update={"jobs": tuple(jobs)})


def _needed(plan: Plan, scenario: Scenario, path: str) -> float:
    """Return the dollars or hours that a plan needs of a limit, at the confidence, as a value that can be typed."""
    if path == BUDGET:
        return round_up(plan.cost_at_confidence or 0.0, USD_STEP)
    ends = {part.name: part.finish_hours for part in plan.parts_that_end}
    job = next(job for job in scenario.jobs if path == f"jobs.{job.name}.deadline")
    return round_up(ends[job.name] + job.start_slack_hours, HOURS_STEP)
