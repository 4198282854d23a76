"""What-if: the question asked again with some values changed, and what the change did."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.analysis.what_if.displaced_candidates import count_displaced
from planner.loading.scenario_file import change_scenario, read_library
from planner.results.differences import compare
from planner.results.what_if import Better, BillDelta, Delta, Effect, JobDelta, WhatIf
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve_prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.library.schema import Library
    from planner.results.plan import Assignment, Plan
    from planner.scenario.scenario import Scenario, SolveOptions

MIN_DIFFERENCE_USD = 0.005
"""Dollars under which two bills read the same."""


def what_if(
    scenario: Scenario, settings: Sequence[str], options: SolveOptions | None = None, library: Library | None = None
) -> WhatIf:
    """The plan before and after `PATH=VALUE` settings, and what each of them did.

    The changed scenario is validated like any other; `scenario` itself stays as it is. Either side may be
    infeasible. Raises ScenarioError for settings that cannot be, and what `solve` raises.
    """
    settings = tuple(settings)
    changed = change_scenario(scenario, settings)
    library = library or library_of([scenario, changed])
    base = prepare(scenario, library)
    other = prepare(changed, library, base)
    before, after = solve_prepared(base, options), solve_prepared(other, options)
    delta = difference(before, after)
    better: Better = "sooner" if changed.objective_kind == "time" else "cheaper"
    effects = _effects(base, before, after, settings, options, better)
    answer = WhatIf(
        scenario=scenario.name,
        settings=settings,
        better=better,
        before=before,
        after=after,
        delta=delta,
        jobs=_jobs(base, other, before, after),
        effects=effects,
        together=_rest(delta, effects),
    )
    if not answer.unchanged or before.status in ("infeasible", "no_plan"):
        return answer
    return answer.model_copy(update={"it_would_take": _thresholds(before, settings)})


def library_of(scenarios: Sequence[Scenario]) -> Library:
    """One library for several scenarios, so that they can share what was prepared."""
    return read_library(dict.fromkeys(job.architecture for one in scenarios for job in one.jobs))


def difference(before: Plan, after: Plan) -> Delta:
    """Expected dollars and hours of `after` less those of `before`; None where either has no plan."""
    if before.cost_usd is None or after.cost_usd is None or before.hours is None or after.hours is None:
        return Delta(cost_usd=None, hours=None)
    return Delta(
        cost_usd=after.cost_usd.expected - before.cost_usd.expected, hours=after.hours.expected - before.hours.expected
    )


def _jobs(base: PreparedScenario, other: PreparedScenario, before: Plan, after: Plan) -> tuple[JobDelta, ...]:
    """One entry for every job that both plans have."""
    later = {job.name: (index, job) for index, job in enumerate(after.jobs)}
    return tuple(
        _job(base, other, (index, old), later[old.name]) for index, old in enumerate(before.jobs) if old.name in later
    )


def _job(
    base: PreparedScenario, other: PreparedScenario, old: tuple[int, Assignment], new: tuple[int, Assignment]
) -> JobDelta:
    (was, before), (now, after) = old, new
    by_time = other.scenario.objective_kind == "time"
    lost = count_displaced(base, was, other, now, after, by_time)
    gained = count_displaced(other, now, base, was, before, by_time)
    return JobDelta(
        name=before.name,
        changes=compare(before, after),
        bill=_bill(before, after),
        bill_unchanged=_bill_unchanged(before, after),
        delta=Delta(cost_usd=after.cost_usd - before.cost_usd, hours=after.hours.expected - before.hours.expected),
        ruled_out=lost.impossible,
        dearer=lost.worse,
        opened=gained.impossible,
        cheaper=gained.worse,
    )


def _bill(before: Assignment, after: Assignment) -> tuple[BillDelta, ...]:
    """The lines that differ by a cent or more: what is rented first, then in the order of the bill before."""
    return tuple(one for one in _lines(before, after) if _changed_amount(one) >= MIN_DIFFERENCE_USD)


def _bill_unchanged(before: Assignment, after: Assignment) -> BillDelta | None:
    """The other lines as one, so that all of them add up to the cost."""
    rest = [one for one in _lines(before, after) if _changed_amount(one) < MIN_DIFFERENCE_USD]
    old, new = math.fsum(one.before_usd or 0.0 for one in rest), math.fsum(one.after_usd or 0.0 for one in rest)
    return BillDelta(item="unchanged", before_usd=old, after_usd=new) if max(old, new) >= MIN_DIFFERENCE_USD else None


def _lines(before: Assignment, after: Assignment) -> list[BillDelta]:
    """Every line of either bill; GPUs on demand and on spot stand together, whichever plan has them."""
    old, new = _items(before), _items(after)
    items = sorted(dict.fromkeys((*old, *new)), key=lambda item: not item.startswith("gpu"))
    return [BillDelta(item=item, before_usd=old.get(item), after_usd=new.get(item)) for item in items]


def _changed_amount(line: BillDelta) -> float:
    return abs((line.before_usd or 0.0) - (line.after_usd or 0.0))


def _items(job: Assignment) -> dict[str, float]:
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
    """Each of several changes alone, and as the last one; a single one has the whole effect and needs no entry."""
    groups = group_settings(settings)
    if len(groups) < 2:
        return ()

    def changed(kept: list[tuple[str, ...]]) -> PreparedScenario:
        scenario = change_scenario(base.scenario, [setting for group in kept for setting in group])
        return prepare(scenario, base.library, base)

    alone = [changed([group]) for group in groups]
    plans = [solve_prepared(one, options) for one in alone]
    without = plans[::-1]  # of two, all but one is the other
    if len(groups) > 2:
        rests = [[*groups[:index], *groups[index + 1 :]] for index in range(len(groups))]
        without = [solve_prepared(changed(rest), options) for rest in rests]
    return tuple(
        _effect(", ".join(group), base, one, (before, plan, rest, after), better)
        for group, one, plan, rest in zip(groups, alone, plans, without, strict=True)
    )


def group_settings(settings: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Settings that can only be judged together: those of one rule under `adjust`; all others one by one."""
    groups: dict[str, list[str]] = {}
    for index, setting in enumerate(settings):
        steps = setting.partition("=")[0].strip().split(".")
        key = ".".join(steps[:2]) if steps[0] == "adjust" and len(steps) > 1 else str(index)
        groups.setdefault(key, []).append(setting)
    return [tuple(group) for group in groups.values()]


def _effect(
    setting: str, base: PreparedScenario, alone: PreparedScenario, plans: tuple[Plan, Plan, Plan, Plan], better: Better
) -> Effect:
    """`plans`: before, with this setting alone, with all but it, after."""
    before, plan, rest, after = plans
    first, last = difference(before, plan), difference(rest, after)
    names = [job.name for job in alone.scenario.jobs]
    by_time = better == "sooner"
    lost = gained = 0
    for index, job in enumerate(base.scenario.jobs):
        if job.name not in names:
            continue
        now = names.index(job.name)
        if after.jobs:
            reached = next((one for one in after.jobs if one.name == job.name), None)
            lost += count_displaced(base, index, alone, now, reached, by_time).impossible if reached else 0
        if before.jobs:
            gained += count_displaced(alone, now, base, index, before.jobs[index], by_time).impossible
    return Effect(
        setting=setting,
        alone_status=plan.status,
        alone=first,
        last=last,
        share=Delta(cost_usd=_mean(first.cost_usd, last.cost_usd), hours=_mean(first.hours, last.hours)),
        ruled_out=lost,
        opened=gained,
    )


def _mean(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else (one + other) / 2


def _rest(delta: Delta, effects: tuple[Effect, ...]) -> Delta:
    def left(whole: float | None, shares: list[float | None]) -> float | None:
        known = [share for share in shares if share is not None]
        return None if whole is None or not shares or len(known) < len(shares) else whole - math.fsum(known)

    return Delta(
        cost_usd=left(delta.cost_usd, [one.share.cost_usd for one in effects]),
        hours=left(delta.hours, [one.share.hours for one in effects]),
    )


def _thresholds(plan: Plan, settings: Sequence[str]) -> tuple[str, ...]:
    """For each limit that was set without effect, the value below which the plan could not stay; others say nothing."""
    said = []
    for setting in settings:
        path = setting.partition("=")[0].strip()
        said += _threshold(path, plan)
    return tuple(dict.fromkeys(said))


def _threshold(path: str, plan: Plan) -> list[str]:
    limit = path.split(".")[-1]
    if path.startswith("jobs.") and limit == "deadline":
        job = next((one for one in plan.jobs if path == f"jobs.{one.name}.deadline"), plan.jobs[0])
        return [_round_down("a deadline", job.hours.at_confidence, job)]
    if path == "limits.max_hours":
        longest = max(plan.jobs, key=lambda job: job.hours.at_confidence)
        return [_round_down("max_hours", longest.hours.at_confidence, longest)]
    if path == "limits.budget_usd" and plan.cost_at_confidence is not None:
        dollars = math.floor(plan.cost_at_confidence * 100) / 100
        return [f"a budget under ${dollars:,.2f} would change it: that is the bill at the asked confidence"]
    if path == "limits.max_gpus":
        return [f"max_gpus under {sum(job.gpus for job in plan.jobs)} would change it: the plan rents so many"]
    if path.startswith("limits.quota."):
        provider = path.removeprefix("limits.quota.")
        return [f"the plan rents {sum(j.gpus for j in plan.jobs if j.provider == provider)} GPUs at {provider}"]
    if path.endswith(".forbid"):
        return ["the plan uses nothing of what is forbidden"]
    return []


def _round_down(limit: str, hours: float, job: Assignment) -> str:
    """Rounded down, so that what is said is true."""
    lower = math.floor(hours * 10) / 10
    held = f"{limit} under {lower:,.1f} h would change it: {job.name} needs so long at the asked confidence"
    free = not any(one.startswith("deadline") for one in job.binding)
    return f"{held}; a later one saves nothing" if free else held


__all__ = ["difference", "library_of", "what_if"]
