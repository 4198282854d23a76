"""What moving one limit is worth: the exact next point at which another plan is better, or the present one ends."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.elastic import STOCK, Elastic, Found, only
from planner.explanations import Binding, NextStep
from planner.formulation.objective import cost_objective
from planner.formulation.program import Floats
from planner.loosening import HOURS_STEP, Change, changes_of, loosened, setting_path
from planner.preparing import Prepared, prepare
from planner.scenario import Limits, Scenario
from planner.trials import Trial, attempt, way_words, with_deadline
from planner.widening import HEADROOM, Wide, free_techniques

CENT, SHARE_OF_COST = 0.01, 0.001
"""A plan is cheaper where it saves a cent and a thousandth of the cost: less is not worth a decision."""
SOONER_HOURS = 0.05
"""A plan is faster where it saves what reads as a tenth of an hour."""


@dataclass(frozen=True)
class Now:
    """The question with its plan, and the same question with limits that give."""

    prepared: Prepared
    trial: Trial
    wide: Wide

    @cached_property
    def elastic(self) -> Elastic:
        return Elastic.of(self.wide)

    @property
    def by_time(self) -> bool:
        return self.prepared.scenario.objective_kind == "time"

    @property
    def goal(self) -> float:
        """The objective from which on another plan is better."""
        gain = max(SOONER_HOURS if self.by_time else CENT, SHARE_OF_COST * abs(self.trial.objective))
        return self.trial.objective - gain

    @property
    def caps(self) -> list[tuple[Floats, float]]:
        """The goal as rows of the elastic program."""
        columns = self.elastic.columns
        if not self.by_time:
            return [(cost_objective(columns), self.goal)]
        late, jobs = columns.late_hours(), range(len(self.prepared.candidates))
        return [(late * only(columns, columns.table.job == job), self.goal) for job in jobs]

    def better(self, prepared: Prepared) -> Trial | None:
        """The plan of a changed question where it reaches the goal."""
        trial = attempt(prepared)
        return trial if trial is not None and trial.objective <= self.goal * (1 + 1e-9) + 1e-9 else None


def bindings(now: Now) -> tuple[Binding, ...]:
    """Limits without which the plan would be cheaper, or faster where that is the objective."""
    found = []
    for limit, current, lifted in _lifted(now.prepared.scenario):
        free = attempt(prepare(lifted, now.prepared.library, now.prepared))
        if free is None or free.objective > now.goal:
            continue
        found.append(
            Binding(
                limit=limit,
                current=current,
                saving_usd=now.trial.cost_usd - free.cost_usd,
                saving_hours=now.trial.hours - free.hours,
            )
        )
    return tuple(found)


def _lifted(scenario: Scenario) -> Iterator[tuple[str, float | str, Scenario]]:
    """Every limit that the scenario sets, its value, and the scenario without it."""
    limits = scenario.limits
    for index, job in enumerate(scenario.jobs):
        kept = free_techniques(job.techniques)
        for limit, given, update in (
            ("deadline", job.deadline_hours, {"deadline_hours": None}),
            ("techniques", None if job.techniques == kept else "as given", {"techniques": kept}),
        ):
            if given is not None:
                jobs = list(scenario.jobs)
                jobs[index] = job.model_copy(update=update)
                yield f"jobs.{job.name}.{limit}", given, scenario.model_copy(update={"jobs": tuple(jobs)})
    plain = Limits()
    for name in type(limits).model_fields:
        given, none = getattr(limits, name), getattr(plain, name)
        if given == none:
            continue
        value = given if isinstance(given, (int, float)) else "as given"
        free = limits.model_copy(update={name: none})
        yield f"limits.{name}", value, scenario.model_copy(update={"limits": free})


def next_steps(now: Now, binding: tuple[Binding, ...]) -> tuple[NextStep, ...]:
    """Looser: every limit that the scenario sets; tighter: the deadline under which the plan ends, job by job."""
    scenario = now.prepared.scenario
    bound = {one.limit for one in binding}
    steps: list[NextStep] = []
    for path in _set_by_user(now.elastic, scenario):
        gains = path == HEADROOM or any(path == limit or path.startswith(f"{limit}.") for limit in bound)
        steps.append(_looser(now, path) if gains else _nothing(path, scenario))
    steps += _stock(now)
    if not now.by_time:
        steps += [_tighter(now, job) for job in range(len(scenario.jobs))]
    return tuple(steps)


def _set_by_user(elastic: Elastic, scenario: Scenario) -> list[str]:
    unset = set() if scenario.limits.max_hours is not None else {"limits.max_hours"}
    return [path for path in elastic.levers if path not in unset]


def _looser(now: Now, path: str) -> NextStep:
    """The least move of one limit that reaches the goal; of a list the one value that saves most."""
    elastic = now.elastic
    is_list = any(one.path == path for one in elastic.wide.filters) and path != HEADROOM
    found = elastic.solve((path,), caps=now.caps, one_filter=is_list, cost_first=is_list)
    held = loosened(now.prepared, changes_of(found, elastic, now.prepared), now.better) if found else None
    if held is None:
        return _nothing(path, now.prepared.scenario)
    trial, changes = held
    return _step(now, trial, changes[0])


def _nothing(path: str, scenario: Scenario) -> NextStep:
    limits = scenario.limits
    current = next((given for limit, given, _ in _lifted(scenario) if limit == path), None)
    if path.startswith("limits.quota."):
        current = limits.quota.get(path.removeprefix("limits.quota."))
    return NextStep(worth=_worth(path), limit=path, change_from=current, note="nothing at any value")


def _step(now: Now, trial: Trial, change: Change, direction: str = "looser") -> NextStep:
    return NextStep(
        worth=_worth(change.limit),
        limit=change.limit,
        direction="looser" if direction == "looser" else "tighter",
        change_from=change.old,
        change_to=change.new,
        plan=trial.words,
        cost_usd=trial.cost_usd,
        hours=trial.hours,
        delta_usd=trial.cost_usd - now.trial.cost_usd,
        delta_hours=trial.hours - now.trial.hours,
        setting=change.setting,
    )


def _worth(path: str) -> str:
    if path.endswith(".deadline") or path == "limits.max_hours":
        return "hour"
    if path == "limits.budget_usd":
        return "dollar"
    if path == "limits.max_gpus" or path.startswith(("limits.quota", STOCK)):
        return "gpu"
    return "gib" if path == HEADROOM else "choice"


def _stock(now: Now) -> Iterator[NextStep]:
    """Machines that an offer has too few of; nobody but the provider can change that, so no setting does."""
    elastic = now.elastic
    stocks = [one for one in elastic.soft if one.path.startswith(STOCK)]
    found = elastic.solve([one.path for one in stocks], caps=now.caps) if stocks else None
    if found is None:
        return
    for one in stocks:
        if one.path in found.excess:
            yield NextStep(
                worth="gpu",
                limit=one.path,
                change_from=one.current,
                change_to=float(round(one.current + found.excess[one.path])),
                plan=_words(elastic, found),
                cost_usd=found.cost,
                delta_usd=found.cost - now.trial.cost_usd,
                note="machines that the offer would have to have",
            )


def _words(elastic: Elastic, found: Found) -> str:
    wide = elastic.wide
    said = [
        way_words(wide.pieces[int(wide.piece[row])], int(wide.row[row]), float(share), wide.market)
        for row, share in zip(found.rows, found.shares, strict=True)
    ]
    return "; ".join(said)


def _tighter(now: Now, job: int) -> NextStep:
    """The deadline under which the job's present way is not the best any more, and what comes then."""
    one = now.prepared.scenario.jobs[job]
    path = f"jobs.{one.name}.deadline"
    low, after = _end_of(now, job)
    ends = round((low + 1) * HOURS_STEP, 2)
    if after is None:
        return NextStep(
            worth="dollar",
            limit=path,
            direction="tighter",
            change_from=one.deadline_hours,
            note=f"nothing within the limits ends before {ends:g} h at {one.confidence * 100:.3g} % confidence",
        )
    hours = round(low * HOURS_STEP, 2)
    change = Change(
        path, one.deadline_hours or "none", hours, f"{setting_path(path, now.prepared.scenario)}={hours:g}h"
    )
    step = _step(now, after, change, "tighter")
    return step.model_copy(update={"worth": "dollar", "note": f"the present plan ends at {ends:g} h"})


def _label(trial: Trial, job: int) -> tuple[str, bool]:
    """What a person would call another way: machine, place, method, and which market does most of the work."""
    candidates, row = trial.prepared.candidates[job], trial.rows[job]
    return way_words(candidates, row, 0.0, trial.prepared.market), trial.shares[job] >= 0.5


def _end_of(now: Now, job: int) -> tuple[int, Trial | None]:
    """The longest deadline (in steps) at which the job is run another way, and the plan there; by bisection."""
    mine = _label(now.trial, job)
    high = math.ceil(now.trial.late_hours[job] / HOURS_STEP - 1e-6)  # the present way is best here
    low = min(high - 1, math.ceil(_least_hours(now, job) / HOURS_STEP - 1e-6) - 1)  # and impossible here

    def at(steps: int) -> Trial | None:
        return attempt(with_deadline(now.prepared, job, steps * HOURS_STEP)) if steps > 0 else None

    after = at(low)
    while high - low > 1:
        middle = (low + high) // 2
        tried = at(middle)
        if tried is None or _label(tried, job) != mine:
            low, after = middle, tried
        else:
            high = middle
    return low, after


def _least_hours(now: Now, job: int) -> float:
    """Least late hours of any row on the machines of the job's present way."""
    one, trial = now.prepared.candidates[job], now.trial
    table, row = one.table, trial.rows[job]
    alike = (table.provider == table.provider[row]) & (table.gpus == table.gpus[row])
    mine = table.rows(alike)
    hours = np.where(mine.share_low <= 0, mine.late_hours(0.0), np.inf)
    hours = np.minimum(hours, np.where(mine.share_high >= 1, mine.late_hours(1.0), np.inf))
    return min(float(np.min(hours)), trial.late_hours[job])
