"""Solve a scenario again with some values changed, and say what the change did."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.analysis.what_if_sweep import difference, library_of, mean_of, rest_of, separable_settings
from planner.configurations.recipe import Recipe
from planner.documents.overrides import Settings, as_settings
from planner.evaluation.audited_limits import amount_of, held_by, peak
from planner.library.schema import Library
from planner.loading.question import Asked, as_scenario
from planner.loading.scenario_file import change_scenario
from planner.results.explanation import compare
from planner.results.plan import Assignment, Plan
from planner.results.subject_runs import ModelChoice
from planner.results.what_if import Better, BillDelta, Delta, Effect, JobDelta, WhatIf
from planner.scenario.limits import peak_limit_at
from planner.scenario.scenario import SolveOptions
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve_prepared
from planner.subjects import subject_of

if TYPE_CHECKING:
    from collections.abc import Sequence

MIN_DIFFERENCE_USD = 0.005
"""Dollars under which two bills read the same."""
RELATIVE_TOLERANCE = 1e-9
"""Relative difference under which two figures are those of one candidate."""

PreparedJob = tuple[PreparedScenario, int]
"""A prepared scenario and the index of a job in it."""
LeastFigures = dict[tuple[str, int, "Recipe"], float]
"""Least dollars, or hours, by offer, number of machines and recipe."""


def what_if(
    scenario: Asked, settings: Settings, options: SolveOptions | None = None, library: Library | None = None
) -> WhatIf:
    """Return the plans before and after `PATH=VALUE` settings, and what each setting did.

    The changed scenario is validated like any other; `scenario` itself does not change. Either side may be
    infeasible. Raises ScenarioError for invalid settings, and what `solve` raises.

    >>> planner.what_if("quickstart", {"jobs.0.deadline": "2h"}).delta.cost_usd > 0
    True
    """
    scenario = as_scenario(scenario)
    settings = as_settings(settings)
    scenario = scenario.on_day(options.as_of if options else None)
    changed = change_scenario(scenario, settings)
    library = library or library_of([scenario, changed])
    if (subject := subject_of(scenario, changed)) is not None:
        return subject.what_if(scenario, changed, settings, options, library)
    base = prepare(scenario, library)
    other = prepare(changed, library, base)
    before, after = solve_prepared(base, options), solve_prepared(other, options)
    answer = compare_solved(base, other, before, after, settings)
    effects = _effects(base, before, after, settings, options, answer.better)
    return answer.model_copy(update={"effects": effects, "together": rest_of(answer.delta, effects)})


def effect_of(setting: str, plans: tuple[Plan, Plan, Plan, Plan]) -> Effect:
    """Return the effect of a setting; `plans` are before, with it alone, with all but it, after."""
    before, plan, rest, after = plans
    first, last = difference(before, plan), difference(rest, after)
    share = {key: mean_of(getattr(first, key), getattr(last, key)) for key in Delta.model_fields}
    return Effect(setting=setting, alone_status=plan.status, alone=first, last=last, share=Delta(**share))


def compare_solved(
    base: PreparedScenario, other: PreparedScenario, before: Plan, after: Plan, settings: tuple[str, ...]
) -> WhatIf:
    """Return the comparison of two plans that are solved already, without the effect of each single setting."""
    answer = WhatIf(
        scenario=base.scenario.name,
        settings=settings,
        better="sooner" if other.scenario.objective_kind == "time" else "cheaper",
        before=before,
        after=after,
        delta=difference(before, after),
        jobs=compare_jobs(base, other, before, after),
    )
    if not answer.unchanged or before.status in ("infeasible", "no_plan"):
        return answer
    return answer.model_copy(update={"it_would_take": what_it_would_take(before, settings, base)})


def compare_jobs(base: PreparedScenario, other: PreparedScenario, before: Plan, after: Plan) -> tuple[JobDelta, ...]:
    """Return one entry for every job that both plans have."""
    later = {job.name: (index, job) for index, job in enumerate(after.jobs)}
    return tuple(
        _job((base, index), (other, later[job.name][0]), job, later[job.name][1])
        for index, job in enumerate(before.jobs)
        if job.name in later
    )


def _job(base: PreparedJob, other: PreparedJob, before: Assignment, after: Assignment) -> JobDelta:
    by_time = other[0].scenario.objective_kind == "time"
    counts = {}
    if _trains_the_same(before.model, after.model):
        here, there = _least_figures(*base, by_time), _least_figures(*other, by_time)
        counts["ruled_out"], counts["dearer"] = _count_displaced(here, there, after, by_time)
        counts["opened"], counts["cheaper"] = _count_displaced(there, here, before, by_time)
    return JobDelta(
        name=before.name,
        changes=compare(before, after),
        **_bill(before, after),
        delta=Delta(cost_usd=after.cost_usd - before.cost_usd, hours=after.hours.expected - before.hours.expected),
        **counts,
    )


def _trains_the_same(before: ModelChoice | None, after: ModelChoice | None) -> bool:
    """Whether candidates of two plans do the same work: what is open was chosen alike."""
    if before is None or after is None:
        return before is after
    return (before.architecture, before.tokens, before.batch) == (after.architecture, after.tokens, after.batch)


def _count_displaced(here: LeastFigures, there: LeastFigures, chosen: Assignment, by_time: bool) -> tuple[int, int]:
    """Return how many better candidates of a job are impossible `there`, and how many are possible but worse.

    Better than the plan `chosen` of the same job `there` is cheaper (expected dollars without penalties), or
    `by_time` earlier at the requested confidence.
    """
    reached = chosen.hours.at_confidence if by_time else chosen.cost_usd
    reached -= RELATIVE_TOLERANCE * max(1.0, abs(reached))
    better = [kind for kind, figure in here.items() if figure < reached]
    figures = [there.get(kind, math.inf) for kind in better]
    return sum(map(math.isinf, figures)), sum(reached <= figure < math.inf for figure in figures)


def _least_figures(prepared: PreparedScenario, job: int, by_time: bool) -> LeastFigures:
    """Return least dollars, or hours, by offer, number of machines and recipe; infinite over a budget of one job."""
    table, recipes = prepared.screened[job].table, prepared.candidates[job].recipes
    low, high = table.share_low, table.share_high
    of_share = table.late_hours if by_time else table.cost_usd
    figures = np.minimum(of_share(low), of_share(high))
    budget_usd = prepared.scenario.limits.budget_usd
    if budget_usd is not None and len(prepared.scenario.jobs) == 1:
        is_affordable = np.minimum(table.late_cost_usd(low), table.late_cost_usd(high)) <= budget_usd
        figures = np.where(is_affordable, figures, np.inf)
    # Rows of one kind are brought together as numbers: a dictionary entry for each of 100,000 rows takes longer than
    # all else.
    sizes = (len(table.offers), int(table.instances.max(initial=0)) + 1, len(recipes))
    kinds, place = np.unique(
        np.ravel_multi_index((table.offer, table.instances, table.recipe), sizes), return_inverse=True
    )
    least = np.full(len(kinds), np.inf)
    np.fmin.at(least, place, figures)
    names = zip(*(indices.tolist() for indices in np.unravel_index(kinds, sizes)), strict=True)
    return {
        (table.offers[offer], machines, recipes[recipe]): figure
        for (offer, machines, recipe), figure in zip(names, least.tolist(), strict=True)
        if figure < math.inf
    }


def _bill(before: Assignment, after: Assignment) -> dict[str, Any]:
    """Return the lines that differ by a cent or more, GPUs first, and all others as one, so that they add up."""
    old, new = _usd_by_item(before), _usd_by_item(after)
    items = sorted(dict.fromkeys((*old, *new)), key=lambda item: not item.startswith("gpu"))
    is_changed = {item: abs(old.get(item, 0.0) - new.get(item, 0.0)) >= MIN_DIFFERENCE_USD for item in items}
    lines = (
        BillDelta(item=item, before_usd=old.get(item), after_usd=new.get(item)) for item in items if is_changed[item]
    )
    rest = [math.fsum(bill.get(item, 0.0) for item in items if not is_changed[item]) for bill in (old, new)]
    unchanged = BillDelta(item="unchanged", before_usd=rest[0], after_usd=rest[1])
    return {"bill": tuple(lines), "bill_unchanged": unchanged if max(rest) >= MIN_DIFFERENCE_USD else None}


def _usd_by_item(job: Assignment) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in job.bill:
        found[line.item] = found.get(line.item, 0.0) + line.usd
    return found


def _effects(
    base: PreparedScenario,
    before: Plan,
    after: Plan,
    settings: tuple[str, ...],
    options: SolveOptions | None,
    better: Better,
) -> tuple[Effect, ...]:
    """Return the effect of each of several changes, alone and as the last one; of a single change nothing."""
    groups = separable_settings(base.scenario, settings)
    if not groups:
        return ()

    def changed(kept: list[tuple[str, ...]]) -> PreparedScenario:
        scenario = change_scenario(base.scenario, [setting for group in kept for setting in group])
        return prepare(scenario, base.library, base)

    alone = [changed([group]) for group in groups]
    plans = [solve_prepared(prepared, options) for prepared in alone]
    without = plans[::-1]  # of two, all but one is the other
    if len(groups) > 2:
        rests = [[*groups[:index], *groups[index + 1 :]] for index in range(len(groups))]
        without = [solve_prepared(changed(rest), options) for rest in rests]
    return tuple(
        _effect(", ".join(group), base, prepared, (before, plan, rest, after), better)
        for group, prepared, plan, rest in zip(groups, alone, plans, without, strict=True)
    )


def _effect(
    setting: str, base: PreparedScenario, alone: PreparedScenario, plans: tuple[Plan, Plan, Plan, Plan], better: Better
) -> Effect:
    """Return the effect of a setting; `plans` are before, with it alone, with all but it, after."""
    before, _, _, after = plans
    effect = effect_of(setting, plans)
    names = [job.name for job in alone.scenario.jobs]
    by_time = better == "sooner"
    lost = gained = 0
    for index, job in enumerate(base.scenario.jobs):
        if job.name not in names:
            continue
        old = _least_figures(base, index, by_time)
        new = _least_figures(alone, names.index(job.name), by_time)
        reached = next((planned_job for planned_job in after.jobs if planned_job.name == job.name), None)
        lost += _count_displaced(old, new, reached, by_time)[0] if reached else 0
        gained += _count_displaced(new, old, before.jobs[index], by_time)[0] if before.jobs else 0
    return effect.model_copy(update={"ruled_out": lost, "opened": gained})


def what_it_would_take(plan: Plan, settings: Sequence[str], base: PreparedScenario) -> tuple[str, ...]:
    """Return for each limit that was set without effect the value below which the plan would change."""
    paths = (setting.partition("=")[0].strip() for setting in settings)
    return tuple(dict.fromkeys(hint for path in paths for hint in _threshold(path, plan, base)))


def _threshold(path: str, plan: Plan, base: PreparedScenario) -> list[str]:
    limit = path.split(".")[-1]
    if path.startswith("jobs.") and limit == "deadline":
        job = next((job for job in plan.jobs if path == f"jobs.{job.name}.deadline"), plan.jobs[0])
        return [_round_down("a deadline", job.hours.at_confidence, job)]
    if path == "limits.max_hours":
        longest = max(plan.jobs, key=lambda job: job.hours.at_confidence)
        return [_round_down("max_hours", longest.hours.at_confidence, longest)]
    if path == "limits.budget_usd" and plan.cost_at_confidence is not None:
        dollars = math.ceil(round(plan.cost_at_confidence * 100, 6)) / 100  # the least that keeps the plan
        return [f"a budget under ${dollars:,.2f} would change it: that is the bill at the requested confidence"]
    if (peak_limit := peak_limit_at(path)) is not None and peak_limit.used:
        offers, key = dict(base.scenario.labelled_offers()), peak_limit.key
        used = peak(plan.jobs, lambda job: amount_of(key, held_by(job, offers.get(job.offer)), base.library))
        return [peak_limit.used.format(used=plan.outlay_usd if peak_limit.stays else used)]
    if path.startswith("limits.quota."):
        provider = path.removeprefix("limits.quota.")
        return [f"the plan rents {sum(j.gpus for j in plan.jobs if j.provider == provider)} GPUs at {provider}"]
    if path.endswith(".forbid"):
        return ["the plan does not use what is forbidden"]
    return []


def _round_down(limit: str, hours: float, job: Assignment) -> str:
    """Return the hours rounded down, so that the sentence holds."""
    lower = math.floor(round(hours * 10, 6)) / 10
    held = f"{limit} under {lower:,.1f} h would change it: {job.name} needs that long at the requested confidence"
    free = job.model is None and not any(binding.startswith("deadline") for binding in job.binding)
    return f"{held}; a higher value has no effect" if free else held
