"""A job of reinforcement learning and others before or after it: the least sum of their dollars.

No other job runs while this one does, so that they share dollars and time alone. As in every timetable, a job holds its
machines until its end at its confidence, and dollars at the confidence add up. A way of the run therefore leaves the
others a program of their own, with less of the budget and of the hours. Its least dollars never fall when either of the
two falls, so what is proven for one way bounds those of every way that leaves no more: few programs are solved.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from planner import timetable
from planner.analysis.why_not import solve_pinned
from planner.arrays import Flags, Floats, Integers
from planner.decode.chosen import build_inputs
from planner.decode.notes import budget_probability
from planner.errors import AuditError
from planner.reinforcement.evaluated_rl import report_rl
from planner.reinforcement.rl_questions import diagnose_rl
from planner.reinforcement.rl_reasons import matches
from planner.reinforcement.rl_solve import (
    SAME_OBJECTIVE,
    RlSearch,
    check_rl,
    count_ways,
    evaluated_way,
    limits_of,
    search_rl,
    told_run,
    within,
)
from planner.results.explanation import WhyNot
from planner.results.plan import Plan, Status, most_of_each, needed_at_once
from planner.results.plan_parts import CandidateCounts, Hours, Infeasible, Relaxation, Spread
from planner.scenario.rl_job import RlJob
from planner.scenario.scenario import Scenario, SolveOptions, rl_job_of, setting_path, without_jobs
from planner.scenario.schedule import After
from planner.solvers.registry import solver_versions
from planner.solving.alternatives import SOLVED
from planner.solving.limit_changes import BUDGET, HOURS_STEP, USD_STEP, round_up
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve, solve_prepared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.analysis.why_not_query import WhyNotQuery
    from planner.library.schema import Library
    from planner.results.plan import Assignment
    from planner.results.subject_runs import RlRun
    from planner.scenario.job import Job


# What a run leaves the other jobs.


def around(scenario: Scenario, job: RlJob, late_hours: float, late_usd: float) -> Scenario | None:
    """Return the other jobs as they are planned around a run of so many hours and dollars at the confidence.

    What the run waits for ends so much before the deadline of the run; what waits for the run waits for that, with the
    run as a lag. None where no time or no budget is left.
    """
    budget = scenario.limits.budget_usd
    left = None if budget is None else budget - late_usd
    jobs = [_around(each, job, late_hours) for each in scenario.jobs if each.name != job.name]
    is_late = any(each.deadline_hours is not None and each.deadline_hours <= _least_end(each) for each in jobs)
    if is_late or (left is not None and left <= 0):
        return None
    reduced = without_jobs(scenario, {job.name}, left)
    return reduced.model_copy(update={"jobs": tuple(jobs), "jobs_written": ()})


_WAIT = After(job="another")


def _around(each: Job, job: RlJob, late_hours: float) -> Job:
    """Return one of the other jobs with what the run changes of its times."""
    lags = {wait.job: wait.lag_hours for wait in each.after}
    update: dict[str, Any] = {}
    if job.name in lags:
        delay = late_hours + lags.pop(job.name)
        for wait in job.after:
            lags[wait.job] = max(lags.get(wait.job, 0.0), wait.lag_hours + delay)
        update["after"] = tuple(_WAIT.model_copy(update={"job": name, "lag_hours": lag}) for name, lag in lags.items())
        if not job.after:
            update["release_hours"] = max(each.release_hours, delay)
    found = next((wait for wait in job.after if wait.job == each.name), None)
    if found is not None and job.planned_deadline_hours is not None:
        by = job.planned_deadline_hours - late_hours - found.lag_hours + each.start_slack_hours
        update["deadline_hours"] = by if each.deadline_hours is None else min(by, each.deadline_hours)
    return each.model_copy(update=update)


def _least_end(each: Job) -> float:
    """Return the hours before which a job cannot end."""
    return each.release_hours + each.start_slack_hours


def run_alone(scenario: Scenario) -> Scenario:
    """Return the scenario with the job of reinforcement learning alone, which waits for nothing."""
    job = rl_job_of(scenario)
    assert job is not None
    return scenario.model_copy(update={"jobs": (job.model_copy(update={"after": ()}),), "jobs_written": ()})


def start_of(job: RlJob, plan: Plan) -> float:
    """Return the hours until the jobs that the run waits for have ended, and their lags."""
    ends = {each.name: each.finish_hours for each in plan.jobs}
    return max((ends[wait.job] + wait.lag_hours for wait in job.after), default=0.0)


# The search over ways of the run.


class ChainSearch:
    """What the plans of a scenario have in common with those of scenarios that differ from it in a limit.

    The ways of the run depend on no deadline and no budget; candidates of the other jobs stay from plan to plan.
    """

    def __init__(
        self,
        library: Library,
        options: SolveOptions,
        asked: WhyNotQuery | None = None,
        pinned: WhyNotQuery | None = None,
    ) -> None:
        """`asked`: of the ways of the run those alone that it names; `pinned`: how one of the other jobs must run."""
        self.library, self.options, self.asked, self.pinned = library, options, asked, pinned
        self._trainers: dict[Any, Any] = {}
        self._ways: tuple[Scenario, RlSearch] | None = None
        self._prepared: PreparedScenario | None = None

    def ways(self, scenario: Scenario) -> RlSearch:
        """Return every way of the run of a scenario, as if it waited for nothing."""
        alone = run_alone(scenario)
        (job,) = (each for each in alone.jobs if isinstance(each, RlJob))
        free = job.model_copy(update={"deadline_hours": None, "start_slack_hours": 0.0})
        limits = alone.limits.model_copy(update={"budget_usd": None})
        key = alone.model_copy(update={"jobs": (free,), "limits": limits})
        if self._ways is None or self._ways[0] != key:
            self._ways = key, search_rl(alone, job, self.library, self.asked, self._trainers)
        return replace(self._ways[1], scenario=alone, job=job)

    def prepared(self, asked: Scenario) -> PreparedScenario:
        """Return the candidates of the other jobs as they are planned around a run."""
        self._prepared = prepare(asked, self.library, self._prepared)
        return self._prepared

    def others(self, asked: Scenario) -> Plan | None:
        """Return the plan of the other jobs; None where they have none."""
        prepared = self.prepared(asked)
        if self.pinned is None:
            plan = solve_prepared(prepared, self.options, explains=False)
        else:
            plan = solve_pinned(prepared, self.pinned, self.options)
        return None if plan.status == "infeasible" else plan


class Pairs:
    """Ways of the run that no other one beats, columns (n,), with what is proven of the other jobs around each."""

    def __init__(self, scenario: Scenario, job: RlJob, search: RlSearch, able: Flags, shared: ChainSearch) -> None:
        self.scenario, self.job, self.search, self.shared = scenario, job, search, shared
        ways, members = search.ways, np.flatnonzero(able)
        late = ways.late_usd if scenario.limits.budget_usd is not None else np.zeros(len(ways))
        columns = [column[members] for column in (ways.usd, ways.late_hours, late)]
        kept = members[undominated(*columns)]
        self.way: Integers = kept[np.lexsort((ways.usd[kept], ways.late_hours[kept]))]  # the fastest first
        self.usd, self.hours, self.late_usd = (column[self.way] for column in (ways.usd, ways.late_hours, late))
        self.lower = np.zeros(len(self.way))  # dollars of the others, at least
        self.solved = np.zeros(len(self.way), dtype=bool)
        self.best: tuple[float, int] | None = None  # dollars of all, row of the way
        self.best_bound = math.inf  # dollars that are proven for that way
        self.plans: dict[int, Plan] = {}  # of the others, by row of the way
        self.gave_up = False  # whether a solver stopped without a plan

    def least(self) -> tuple[float, int] | None:
        """Return the least dollars of all and the way of the run; None where no way leaves the others a plan.

        Where the other jobs of the best way are not proven, as mostly on spot, a way that may cost no less than what is
        proven for the best one is left out: it moves no bound.
        """
        self.lower[:] = self._least_of_others()
        is_late, is_bounded = not np.isfinite(self.lower).any(), False
        while True:
            most = math.inf if self.best is None else min(self.best[0] * (1.0 - SAME_OBJECTIVE), self.best_bound)
            (left,) = np.nonzero(~self.solved & (self.usd + self.lower < most))
            if not len(left):
                return None if self.best is None else (self.best[0], int(self.way[self.best[1]]))
            if (
                self.solved.any() and not is_bounded
            ):  # what is proven of the fastest and least holds for all that are left
                is_late = self._prove(float(self.hours[left].min()), float(self.late_usd[left].min())) is None
                is_bounded = True
                continue
            # The way that may cost least; where it left the others no plan, a faster one halves what is left.
            at = int(left[len(left) // 2] if is_late else left[np.argmin((self.usd + self.lower)[left])])
            run = self.run_of(at)
            self.hours[at] = run.hours.at_confidence  # as the check takes them off, to the last bit
            self.late_usd[at] = 0.0 if self.scenario.limits.budget_usd is None else run.cost_at_confidence
            self.solved[at] = True
            plan = self._prove(float(self.hours[at]), float(self.late_usd[at]), at)
            is_late = plan is None
            if plan is not None and plan.objective is not None:
                self.plans[int(self.way[at])] = plan

    def _least_of_others(self) -> float:
        """Return the dollars of the others around the fastest way if each had all limits to itself."""
        asked = around(self.scenario, self.job, float(self.hours.min()), float(self.late_usd.min()))
        prepared = None if asked is None else self.shared.prepared(asked)
        if prepared is None or not all(len(screened.table) for screened in prepared.screened):
            return math.inf
        return timetable.least_objective(prepared) / timetable.UNITS_PER_USD

    def run_of(self, at: int) -> RlRun:
        """Return a way as a run."""
        return report_rl(
            evaluated_way(self.search, int(self.way[at])), self.shared.options.as_of or datetime.date.today()
        )

    @property
    def bound_usd(self) -> float:
        """Dollars below which no way costs, with the other jobs."""
        return float(np.min(self.usd + self.lower))

    def others(self, late_hours: float, late_usd: float) -> Plan | None:
        """Return the plan of the other jobs around a run of so much; None where they have none."""
        asked = around(self.scenario, self.job, late_hours, late_usd)
        return None if asked is None else self.shared.others(asked)

    def _prove(self, late_hours: float, late_usd: float, at: int = -1) -> Plan | None:
        """Return the plan of the other jobs around a run of so much, whose bound holds for all that leave no more.

        `at`: row of the way that takes so much.
        """
        plan = self.others(late_hours, late_usd)
        tighter = (self.hours >= late_hours) & (self.late_usd >= late_usd)
        if plan is None:
            self.lower[tighter] = math.inf
        elif plan.objective is None:
            self.gave_up = True
        else:
            self.lower[tighter] = np.maximum(self.lower[tighter], plan.bound or 0.0)
            self._take(plan, late_hours, at)
        return plan

    def _take(self, plan: Plan, late_hours: float, at: int) -> None:
        """Take the cheapest way that a plan of the other jobs leaves room for, where both cost less than what is known.

        With jobs after the run no way may be longer than the one that the plan was made around.
        """
        assert plan.objective is not None
        room, deadline, budget = late_hours, self.job.planned_deadline_hours, self.scenario.limits.budget_usd
        if not any(wait.job == self.job.name for each in self.scenario.jobs for wait in each.after):
            room = math.inf if deadline is None else deadline - start_of(self.job, plan)
        able = self.hours <= room
        if budget is not None:
            paid = (*(job.cost_at_confidence for job in plan.jobs), *(one.usd for one in plan.reservations))
            able &= self.late_usd <= budget - math.fsum(paid)  # of jobs together, as each needs by itself
        able |= np.arange(len(able)) == at
        if not able.any():
            return
        at = int(np.argmin(np.where(able, self.usd, math.inf)))
        usd, bound = float(self.usd[at]) + plan.objective, float(self.usd[at] + self.lower[at])
        if self.best is None or usd < self.best[0]:
            self.best, self.best_bound = (usd, at), bound if self.hours[at] >= late_hours else usd


def undominated(*columns: Floats) -> Integers:
    """Return the rows (k,) of columns (n,) that no other row beats or equals in all of them, less being better."""
    left, found = np.lexsort(columns[::-1]), list[int]()
    while len(left):
        first = left[0]
        found.append(int(first))
        left = left[np.logical_or.reduce([column[left] < column[first] for column in columns])]
    return np.asarray(found, dtype=np.int64)


def pairs_of(scenario: Scenario, shared: ChainSearch) -> tuple[RlSearch, Flags, Pairs | None]:
    """Return the ways of the run (n,), which of them keep its limits by themselves, and the search over these.

    No search where none does. Raises ScenarioError for what is not modelled, each by its name.
    """
    job = rl_job_of(scenario)
    assert job is not None
    check_rl(scenario, job, shared.library)
    search = shared.ways(scenario)
    able = within(limits_of(search), len(search.ways))
    able = able if shared.asked is None else able & matches(search, shared.asked)
    return search, able, Pairs(scenario, job, search, able, shared) if able.any() else None


# The plan.


def solve_chain(scenario: Scenario, shared: ChainSearch, started: float, explains: bool = True) -> Plan:
    """Return the plan of a job of reinforcement learning with others before or after it, not yet audited.

    Raises ScenarioError for what is not modelled, each by its name.
    """
    options = shared.options
    search, able, pairs = pairs_of(scenario, shared)
    found = pairs.least() if pairs is not None else None
    if pairs is None or found is None:
        gave_up = pairs is not None and pairs.gave_up
        has_reasons = explains and not gave_up
        why = _diagnosed(scenario, search, shared, has_runs=pairs is not None) if has_reasons else None
        return _no_plan(scenario, search, options, started, why, "no_plan" if gave_up else "infeasible")
    usd, way = found
    as_of = options.as_of or datetime.date.today()
    made = evaluated_way(search, way)
    run = report_rl(made, as_of)
    plan = pairs.plans.get(way) or pairs.others(run.hours.at_confidence, run.cost_at_confidence)
    if plan is None or plan.status not in SOLVED:
        raise AuditError(f"search and plan differ: no plan of the other jobs around {run.name}")
    shown = able & (search.ways.late_hours <= run.hours.at_confidence) | (np.arange(len(able)) == way)
    run = run.model_copy(update={"start_at_hours": start_of(pairs.job, plan)})
    run = told_run(search, made, run, way, shown, explains)
    return joined(scenario, plan, run, count_ways(search), min(pairs.bound_usd, usd), perf_counter() - started)


def joined(scenario: Scenario, plan: Plan, run: RlRun, counts: CandidateCounts, bound: float, seconds: float) -> Plan:
    """Return the plan of the other jobs with the run: dollars add up, hours until the last one ends."""
    assert plan.objective is not None and plan.cost is not None and plan.hours is not None
    objective, late = plan.objective + run.cost_usd, plan.cost_at_confidence
    bound = min(bound, objective)
    gap = max(0.0, objective - bound) / max(abs(objective), 1e-9)
    gap = 0.0 if gap <= SAME_OBJECTIVE else gap
    ages = [age for age in (plan.price_age_days, run.price_age_days) if age is not None]
    parts: tuple[Assignment | RlRun, ...] = (*plan.jobs, run)
    together, each = needed_at_once(parts), most_of_each(parts)
    return plan.model_copy(
        update={
            "seconds": seconds,
            "status": "optimal" if not gap else "feasible",
            "objective": objective,
            "bound": bound if gap else objective,
            "gap": gap,
            "cost": Spread(**{name: usd + getattr(run.cost, name) for name, usd in dict(plan.cost).items()}),
            "cost_at_confidence": None if late is None else late + run.cost_at_confidence,
            "least_cost_usd": None if plan.least_cost_usd is None else plan.least_cost_usd + run.cost_usd,
            "budget_usd": scenario.limits.budget_usd,
            "budget_probability": None,
            "hours": Hours(**{name: max(hours, run.start_at_hours + getattr(run.hours, name))
                              for name, hours in dict(plan.hours).items()}),
            "price_age_days": max(ages, default=None),
            "candidates": _counts(plan.candidates, counts),
            "reinforcement": (run,),
            "faster": (), "shared_limits": (),
            "at_one_time": together,
            "most_of_each": () if each == together else each,
            "warnings": tuple(dict.fromkeys((*plan.warnings, *run.notes))),
            "inputs": build_inputs(scenario, parts, solver_versions()),
        }
    )  # fmt: skip


def _counts(first: CandidateCounts, second: CandidateCounts) -> CandidateCounts:
    """Return the candidates of the other jobs with the ways of the run; the offers are the same."""
    reasons = Counter(first.reasons)
    reasons.update(second.reasons)
    return CandidateCounts(
        made=first.made + second.made, rejected=first.rejected + second.rejected, dominated=first.dominated,
        offers=first.offers, outdated_offers=first.outdated_offers, reasons=dict(reasons.most_common()),
    )  # fmt: skip


def jobs_of_chain(plan: Plan, scenario: Scenario) -> tuple[Plan, Scenario]:
    """Return the other jobs of a plan as the plan of a scenario of their own; those of a run alone as they are."""
    job = rl_job_of(scenario)
    if not plan.jobs or job is None or len(plan.reinforcement) != 1:
        return plan, scenario
    (run,) = plan.reinforcement
    asked = around(scenario, job, run.hours.at_confidence, run.cost_at_confidence)
    if asked is None:  # an edited plan, whose hours or dollars its check names
        asked = around(scenario, job, 0.0, 0.0) or scenario
    paid = math.fsum(one.usd for one in plan.reservations)
    chance = budget_probability(asked, plan.jobs, paid)
    update = {"budget_usd": asked.limits.budget_usd, "budget_probability": chance}
    return other_jobs(plan).model_copy(update=update), asked


def other_jobs(plan: Plan) -> Plan:
    """Return a plan without its run: dollars and bound less those of the run, hours until the last other job ends."""
    (run,) = plan.reinforcement
    assert plan.cost is not None and plan.objective is not None
    objective, late = plan.objective - run.cost_usd, plan.cost_at_confidence
    bound = None if plan.bound is None else plan.bound - run.cost_usd
    gap = None if bound is None else max(0.0, objective - bound) / max(abs(objective), 1e-9)
    is_proven = gap is not None and gap <= SAME_OBJECTIVE
    ages = [each.price_age_days for each in plan.jobs if each.price_age_days is not None]
    together, every = needed_at_once(plan.jobs), most_of_each(plan.jobs)
    hours = {
        name: max(each.delay_hours + getattr(each.hours, name) for each in plan.jobs) for name in Hours.model_fields
    }
    return plan.model_copy(
        update={
            "reinforcement": (),
            "status": "optimal" if is_proven else plan.status,
            "objective": objective,
            "bound": objective if is_proven else bound,
            "gap": 0.0 if is_proven else gap,
            "cost": Spread(**{name: usd - getattr(run.cost, name) for name, usd in dict(plan.cost).items()}),
            "cost_at_confidence": None if late is None else late - run.cost_at_confidence,
            "least_cost_usd": None if plan.least_cost_usd is None else plan.least_cost_usd - run.cost_usd,
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
    search: RlSearch,
    options: SolveOptions,
    started: float,
    why: Infeasible | None,
    status: Status = "infeasible",
) -> Plan:
    """Return the answer without a plan, with its reasons."""
    return Plan(
        scenario=scenario.name, status=status, objective=None, bound=None, gap=None, cost=None, hours=None,
        solver=options.solver, seconds=perf_counter() - started, candidates=count_ways(search), infeasible=why,
        as_of=(options.as_of or datetime.date.today()).isoformat(), budget_usd=scenario.limits.budget_usd,
    )  # fmt: skip


Reasons = TypeVar("Reasons", Infeasible, WhyNot)


def renumbered(why: Reasons, scenario: Scenario, job: RlJob) -> Reasons:
    """Return the reasons of the run alone with its place among all jobs, where settings name it by its place."""
    index = [each.name for each in scenario.jobs].index(job.name)
    relax = (
        one.model_copy(update={"setting": one.setting.replace("jobs.0.", f"jobs.{index}.", 1)})
        if one.setting.startswith("jobs.0.")
        else one
        for one in why.relax
    )
    return why.model_copy(update={"relax": tuple(relax)})


def _diagnosed(scenario: Scenario, search: RlSearch, shared: ChainSearch, has_runs: bool) -> Infeasible:
    """Return the least budget and the least deadline that alone suffice; without one why a part has no plan.

    `has_runs`: whether the run by itself keeps all limits.
    """
    job, relax = search.job, list[Relaxation]()
    for path, given in given_values(scenario):
        found = least_value(scenario, path, given, shared)
        if found is None:
            continue
        more, plan = found
        assert plan.cost is not None and plan.hours is not None
        setting = f"{setting_path(path, scenario)}={more:.10g}{'' if path == BUDGET else 'h'}"
        change = {"limit": path, "from": given, "to": more, "setting": setting, "way": len(relax) + 1}
        figures = {"cost_usd": plan.cost.expected, "hours": plan.hours.expected}
        relax.append(Relaxation(**change, **figures, then=f"${figures['cost_usd']:,.2f} for all jobs"))
    if relax:
        return Infeasible(relax=tuple(relax))
    if not has_runs:
        return renumbered(diagnose_rl(search), scenario, job)
    others = around(scenario, job.model_copy(update={"deadline_hours": None, "start_slack_hours": 0.0}), 0.0, 0.0)
    why = None if others is None else solve(others, shared.options, shared.library).infeasible
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
