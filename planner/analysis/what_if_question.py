"""A scenario solved again with some values changed: one change, a range or two, every limit and price by one share."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import open_choices
from planner.configurations.recipe import Recipe
from planner.documents.overrides import Settings, SweepRange, as_settings, parse_ranges, range_name, well_formed_ranges
from planner.errors import Fault, InputError, ScenarioError, collect_faults, raise_faults
from planner.evaluation.audited_limits import amount_of, held_by, peak
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.question import Asked, as_scenario
from planner.loading.scenario_file import change_scenario
from planner.results.explanation import compare, method_name
from planner.results.fleet import Service
from planner.results.plan import Assignment, Plan
from planner.results.service_results import CellService, describe_kinds
from planner.results.subject_runs import ModelChoice, RlRun
from planner.results.what_if import (
    PRICES,
    Axis,
    Bar,
    Better,
    BillDelta,
    Cell,
    CellJob,
    CellModel,
    Delta,
    Effect,
    Endpoint,
    JobDelta,
    Sweep,
    Tornado,
    WhatIf,
    loss_of,
)
from planner.scenario.inference_job import ServeJob
from planner.scenario.limits import given_peaks, peak_limit_at
from planner.scenario.rl_job import RlJob
from planner.scenario.scenario import Scenario, SolveOptions, architectures_of, open_jobs
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve, solve_prepared
from planner.subjects import check_supported, subject_of
from planner.units import MILLISECONDS, figure_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


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
        _compared_job((base, index), (other, later[job.name][0]), job, later[job.name][1])
        for index, job in enumerate(before.jobs)
        if job.name in later
    )


def _compared_job(base: PreparedJob, other: PreparedJob, before: Assignment, after: Assignment) -> JobDelta:
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
    usd: dict[str, float] = {}
    for line in job.bill:
        usd[line.item] = usd.get(line.item, 0.0) + line.usd
    return usd


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


# Differences between two plans, and the share that each of several settings has in them.


def library_of(scenarios: Sequence[Scenario]) -> Library:
    """Return one library for several scenarios, so that they can share prepared candidates."""
    return read_library(
        dict.fromkeys(name for scenario in scenarios for job in scenario.jobs for name in architectures_of(job))
    )


def difference(before: Plan, after: Plan) -> Delta:
    """Return expected dollars and hours of `after` less those of `before`; None if either has no plan."""
    if before.cost is None or after.cost is None or before.hours is None or after.hours is None:
        return Delta(cost_usd=None, hours=None)
    losses = [loss_of(job.model for job in plan.jobs) for plan in (before, after)]
    return Delta(
        cost_usd=after.cost.expected - before.cost.expected,
        hours=after.hours.expected - before.hours.expected,
        loss=None if losses[0] is None or losses[1] is None else losses[1] - losses[0],
    )


def group_settings(settings: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return settings that belong together: those of one rule under `adjust`; all others one by one."""
    groups: dict[str, list[str]] = {}
    for index, setting in enumerate(settings):
        steps = setting.partition("=")[0].strip().split(".")
        key = ".".join(steps[:2]) if steps[0] == "adjust" and len(steps) > 1 else str(index)
        groups.setdefault(key, []).append(setting)
    return [tuple(group) for group in groups.values()]


def separable_settings(scenario: Scenario, settings: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the groups of settings whose effects can be distinguished; none where some are valid together alone.

    Requests in flight in place of requests a second are two settings: either alone is a contradiction.
    """
    groups = group_settings(settings)
    if len(groups) < 2:
        return []
    rests = [[setting for other in groups if other is not group for setting in other] for group in groups]
    try:
        for some in (*groups, *rests):
            change_scenario(scenario, some)
    except InputError:
        return []
    return groups


def mean_of(one: float | None, other: float | None) -> float | None:
    """Return the mean of two figures; None if either is unknown."""
    return None if one is None or other is None else (one + other) / 2


def rest_of(delta: Delta, effects: tuple[Effect, ...]) -> Delta:
    """Return the difference less the shares of all effects; None where a share is unknown."""

    def left(whole: float | None, shares: list[float | None]) -> float | None:
        known = [share for share in shares if share is not None]
        return None if whole is None or not shares or len(known) < len(shares) else whole - math.fsum(known)

    return Delta(
        cost_usd=left(delta.cost_usd, [effect.share.cost_usd for effect in effects]),
        hours=left(delta.hours, [effect.share.hours for effect in effects]),
        loss=left(delta.loss, [effect.share.loss for effect in effects]),
    )


# Sweeps: a scenario solved at every value of one range, or at every pair of values of two.


class VariantSolver:
    """Solves scenarios; what one has in common with the one before, or with their `centre`, is not computed again.

    A sweep goes step by step; the variants of a tornado each change one thing of the scenario in their centre.
    """

    def __init__(self, library: Library, options: SolveOptions | None, centre: Scenario | None = None) -> None:
        self.library = library
        self.options = options
        self._is_centred = centre is not None and subject_of(centre) is None
        self._before = prepare(centre, library) if centre is not None and self._is_centred else None

    def solve(self, scenario: Scenario, explains: bool = False) -> Plan:
        """Return the plan that `solve` gives.

        Without `explains` it has the figures alone: no other ways to run its jobs, and no reason where there is none.
        """
        if subject_of(scenario) is not None:
            return solve(scenario, self.options, self.library, explains)
        prepared = prepare(scenario, self.library, self._before)
        if not self._is_centred:
            self._before = prepared
        return solve_prepared(replace(prepared, names_others=explains), self.options, explains=explains)


def sweep(
    scenario: Asked,
    vary: Sequence[str],
    settings: Settings = (),
    options: SolveOptions | None = None,
    library: Library | None = None,
    on_cell: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Return the plan at every value of a range, or at every pair of values of two.

    Parameters
    ----------
    vary
        One or two ranges: `PATH=A:B:STEP` or `PATH=[a, b, c]`.
    settings
        `PATH=VALUE` settings that are applied first and hold in every cell.
    options, library
        As for `solve`, which gives the plan of each cell.
    on_cell
        Called with the number of cells done and of all cells.

    Raises
    ------
    ScenarioError
        For invalid ranges, settings or values, before anything is solved.

    Examples
    --------
    >>> found = planner.sweep("quickstart", ["jobs.0.deadline=6h:12h:6h"])
    >>> [cell.values for cell in found.cells]
    [('6h',), ('12h',)]
    """
    scenario = as_scenario(scenario)
    if not vary:
        fault = Fault("--vary", 0, "", "nothing to vary", "such as jobs.NAME.deadline=6h:48h:6h")
        raise ScenarioError([fault])
    scenario = scenario.on_day(options.as_of if options else None)
    settings, vary = as_settings(settings), as_settings(vary)
    base = change_scenario(scenario, settings) if settings else scenario
    ranges, scenarios = _scenarios_of_ranges(base, vary)
    library = library or library_of([base, *(changed for row in scenarios for changed in row)])
    cells: list[Cell] = []
    solver = VariantSolver(library, options)
    total = prod(map(len, scenarios))
    for places in product(*(range(len(row)) for row in scenarios)):
        changed = scenarios[0][places[0]]
        if len(ranges) == 2:
            changed = scenario_at(changed, ranges[1], ranges[1].settings[places[1]])
        values = tuple(sweep_range.values[place] for sweep_range, place in zip(ranges, places, strict=True))
        cells.append(build_cell(values, solver.solve(changed)))
        if on_cell:
            on_cell(len(cells), total)
    axes = tuple(
        Axis(path=sweep_range.path, values=sweep_range.values, numbers=sweep_range.numbers, unit=sweep_range.unit)
        for sweep_range in ranges
    )
    answer = Sweep(scenario=scenario.name, settings=tuple(settings), axes=axes, cells=tuple(cells))
    if any(cell.cost_usd is not None for cell in cells):
        return answer
    ends = [_least_restrictive(axis) for axis in axes]
    changed = change_scenario(
        base, [sweep_range.settings[place] for sweep_range, place in zip(ranges, ends, strict=True)]
    )
    values = tuple(sweep_range.values[place] for sweep_range, place in zip(ranges, ends, strict=True))
    unsolved = solver.solve(changed, explains=True)
    return answer.model_copy(update={"loosest": values, "unsolved": unsolved})


def _scenarios_of_ranges(base: Scenario, vary: Sequence[str]) -> tuple[tuple[SweepRange, ...], list[list[Scenario]]]:
    """Return the ranges, and the scenario at each value of each; ScenarioError with the faults of all ranges.

    Where a range cannot be read the others are tried at their first value, so that a wrong path is reported as well.
    """
    faults: list[Fault] = []
    ranges: tuple[SweepRange, ...] = ()
    with collect_faults(faults):
        ranges = parse_ranges(tuple(vary))
    scenarios = []
    for sweep_range in ranges or well_formed_ranges(vary):
        with collect_faults(faults):
            settings = sweep_range.settings if ranges else sweep_range.settings[:1]
            scenarios.append([scenario_at(base, sweep_range, setting) for setting in settings])
    raise_faults(faults, ScenarioError)
    return ranges, scenarios


def _least_restrictive(axis: Axis) -> int:
    """Return the index of the least restrictive value: the highest limit, the least work; of names the last."""
    if axis.numbers is None:
        return len(axis.values) - 1
    ease = 1 if axis.looser_direction == "up" or axis.path.endswith(".efficiency") else -1
    return max(range(len(axis.numbers)), key=[ease * number for number in axis.numbers].__getitem__)


def scenario_at(scenario: Scenario, sweep_range: SweepRange, setting: str) -> Scenario:
    """Return the scenario at one value; faults name the range of the value."""
    try:
        return change_scenario(scenario, [setting])
    except ScenarioError as error:
        name = range_name(f"{sweep_range.path}={setting.partition('=')[2]}")
        raise ScenarioError([Fault(name, 0, f.where, f.what, _fix(f, sweep_range)) for f in error.faults]) from None


def _fix(fault: Fault, sweep_range: SweepRange) -> str:
    """Return the fix of a fault: a unit that is missing is missing three times in a range."""
    if fault.what.endswith("has no unit") and sweep_range.numbers and not sweep_range.unit:
        return f"such as {sweep_range.path}={sweep_range.values[0]}h:{sweep_range.values[-1]}h:STEPh"
    return fault.fix


def build_cell(values: tuple[str, ...], plan: Plan) -> Cell:
    """Return the figures of a plan that a sweep keeps."""
    if plan.cost is None or plan.hours is None:
        return Cell(values=values, status=plan.status, cut=plan.cut)
    return Cell(
        values=values,
        status=plan.status,
        cost_usd=plan.cost.expected,
        hours=plan.hours.expected,
        hours_at_confidence=plan.hours.at_confidence,
        jobs=(*(_cell_job(job) for job in plan.jobs), *(_rl(run) for run in plan.reinforcement)),
        services=tuple(_service(service) for service in plan.services),
        cut=plan.cut,
    )


def _cell_job(job: Assignment) -> CellJob:
    same = job.model_dump(include=CellJob.model_fields.keys() - {"method", "hours", "model"})
    return CellJob(**same, method=method_name(job.techniques), hours=job.hours.expected, model=_model(job.model))


def _rl(run: RlRun) -> CellJob:
    """Return a job of reinforcement learning by the machines of its trainer, and all its GPUs."""
    first, *others = run.pools
    on_spot = sum(pool.gpus for pool in run.pools if pool.market == "spot")
    gpus = sum(pool.gpus for pool in run.pools)
    return CellJob(
        name=run.name,
        provider=" + ".join(dict.fromkeys(pool.provider for pool in run.pools)),
        gpu=" + ".join([first.gpu, *(f"{pool.gpus} x {pool.gpu}" for pool in others)]),
        gpus=first.gpus,
        method=f"{run.method}, {run.placement}",
        spot_share=on_spot / gpus,
        cost_usd=run.cost_usd,
        hours=run.hours.expected,
        start_hours=max(pool.start_hours for pool in run.pools),
    )


def _model(chosen: ModelChoice | None) -> CellModel | None:
    if chosen is None:
        return None
    return CellModel(
        architecture=chosen.architecture,
        tokens=chosen.tokens,
        loss=None if chosen.loss is None else chosen.loss.value,
        sequences=None if chosen.batch is None else chosen.batch.sequences,
    )


def _service(service: Service) -> CellService:
    fleet = service.fleet
    return CellService(
        name=service.name,
        usd_per_month=fleet.usd_per_month,
        least_replicas=min(fleet.replicas_by_hour),
        most_replicas=max(fleet.replicas_by_hour),
        machines=describe_kinds(fleet),
        ttft_seconds=max(kind.ttft_seconds for kind in fleet.kinds),
        tpot_seconds=max(kind.tpot_seconds for kind in fleet.kinds),
    )


# One-at-a-time sensitivity: every limit, price and estimate changed by the same share, ranked by effect.


DEFAULT_SHARE = 0.2
MOST_PRICED_KINDS = 3
"""Kinds of a fleet, those with most dollars first, whose prices have a bar each."""


@dataclass(frozen=True)
class Parameter:
    """A parameter to change: its name, its present value, and for either end the value and its settings."""

    what: str
    path: str
    base: str
    down: tuple[str, tuple[str, ...]]
    up: tuple[str, tuple[str, ...]]


def tornado(
    scenario: Asked,
    options: SolveOptions | None = None,
    library: Library | None = None,
    by: float = DEFAULT_SHARE,
    settings: Settings = (),
    plan: Plan | None = None,
) -> Tornado:
    """Change every limit, every price of the plan and the estimate itself, each alone by the share `by`.

    `settings` are applied first. `plan` is that of the scenario so changed where the caller has it: it is not solved
    for again. Whole numbers are rounded outwards, so that they change. Without a plan there are no
    bars. What is open is fixed as `solve` chose it. Raises ScenarioError for invalid settings and a share outside 0..1.

    >>> "deadline" in [bar.what for bar in planner.tornado("quickstart").bars]
    True
    """
    scenario = as_scenario(scenario)
    check_supported(scenario, "tornado")
    if not 0 < by < 1:
        raise ScenarioError([Fault("--by", 0, "", f"{by:g} is not a share between 0 and 1", "such as 0.2 for 20 %")])
    scenario = scenario.on_day(options.as_of if options else None)
    settings = as_settings(settings)
    scenario = change_scenario(scenario, settings) if settings else scenario
    if open_jobs(scenario):
        fixed = open_choices.fix_choice(scenario, options, library)
        if fixed.plan.jobs:
            answer = tornado(fixed.scenario, options, library, by)
            return answer.model_copy(update={"base": fixed.plan, "settings": settings, "fixed": fixed.lines})
    solver = VariantSolver(library or library_of([scenario]), options, centre=scenario)
    plan = plan or solver.solve(scenario, explains=True)
    parameters: tuple[Parameter, ...] = ()
    if plan.planned:
        parameters = (*_limits(scenario, by), *_prices(scenario, plan, by), *_estimates(scenario, by))
    bars = [_bar(parameter, scenario, plan, solver) for parameter in parameters if parameter.down != parameter.up]
    better: Better = "sooner" if scenario.objective_kind == "time" else "cheaper"
    bars.sort(key=lambda bar: _rank(bar, plan, better))
    return Tornado(scenario=scenario.name, settings=tuple(settings), by=by, base=plan, bars=tuple(bars), better=better)


def _rank(bar: Bar, plan: Plan, better: Better) -> tuple[bool, float, float, float]:
    """Return the sort key of a bar: what can fail first, then larger effect, then wider span, to two decimals."""
    usd = [plan.cost.expected if plan.cost else 0.0, bar.down.cost_usd, bar.up.cost_usd]
    hours = [plan.hours.expected if plan.hours else 0.0, bar.down.hours, bar.up.hours]
    known = [value for value in (hours if better == "sooner" else usd) if value is not None]
    effect = bar.effect_hours if better == "sooner" else bar.effect_usd
    return not bar.can_fail, -round(effect, 2), -round(max(known) - min(known), 2), -round(bar.effect_usd, 2)


def _bar(parameter: Parameter, scenario: Scenario, plan: Plan, solver: VariantSolver) -> Bar:
    down, up = (_end(value, settings, scenario, solver) for value, settings in (parameter.down, parameter.up))
    cost_usd, hours = (figure.expected if figure else 0.0 for figure in (plan.cost, plan.hours))
    moved = [abs(end.cost_usd - cost_usd) for end in (down, up) if end.cost_usd is not None]
    waited = [abs(end.hours - hours) for end in (down, up) if end.hours is not None]
    return Bar(
        what=parameter.what,
        path=parameter.path,
        base=parameter.base,
        down=down,
        up=up,
        effect_usd=max(moved, default=0.0),
        effect_hours=max(waited, default=0.0),
    )


def _end(value: str, settings: tuple[str, ...], scenario: Scenario, solver: VariantSolver) -> Endpoint:
    plan = solver.solve(change_scenario(scenario, settings))
    cost_usd, hours = (figure.expected if figure else None for figure in (plan.cost, plan.hours))
    return Endpoint(value=value, settings=settings, status=plan.status, cost_usd=cost_usd, hours=hours)


def _limits(scenario: Scenario, by: float) -> Iterator[Parameter]:
    """Yield the limits that the scenario sets; shares stay within 0..1 and in order."""
    limits, share = scenario.limits, scenario.limits.spot_share
    yield from _job_limits(scenario, by)
    if limits.budget_usd is not None:
        yield _scaled_parameter("budget", "limits.budget_usd", limits.budget_usd, by)
    for limit, most in given_peaks(limits):
        if limit.is_whole:
            yield _integer_parameter(limit.key, limit.path, int(most), by, 1)
        else:
            yield _scaled_parameter(limit.key, limit.path, most, by)
    if limits.max_hours is not None:
        yield _scaled_parameter("max_hours", "limits.max_hours", limits.max_hours, by)
    for provider, gpus in limits.quota.items():
        yield _integer_parameter(f"quota at {provider}", f"limits.quota.{provider}", gpus, by, 0)
    if share.min > 0:
        yield _scaled_parameter("least spot share", "limits.spot_share.min", share.min, by, most=share.max)
    if share.max < 1:
        yield _scaled_parameter("most spot share", "limits.spot_share.max", share.max, by, least=share.min, most=1.0)
    if limits.vram_headroom is not None:
        yield _scaled_parameter("vram_headroom", "limits.vram_headroom", limits.vram_headroom, by, most=0.99)


def _job_limits(scenario: Scenario, by: float) -> Iterator[Parameter]:
    """Yield what each job is asked for: a deadline, or the latency of a service."""
    for job in scenario.jobs:
        if job.deadline_hours is not None:
            label = f"deadline{_job_suffix(scenario, job.name)}"
            yield _scaled_parameter(label, f"jobs.{job.name}.deadline", job.deadline_hours, by, unit="h")
        elif isinstance(job, ServeJob):
            yield from _service_limits(job, _job_suffix(scenario, job.name), by)


def _service_limits(job: ServeJob, whose: str, by: float) -> Iterator[Parameter]:
    """Yield what a service is asked for: its latency, its replicas, its headroom."""
    for name, label in (("tpot", "time per token"), ("ttft", "time to the first token")):
        seconds = getattr(job.latency, f"{name}_seconds")
        if seconds is not None:
            path = f"jobs.{job.name}.latency.{name}"
            ends = [f"{seconds * factor * MILLISECONDS:.6g}ms" for factor in (1.0, 1 - by, 1 + by)]
            down, up = ((end, (f"{path}={end}",)) for end in ends[1:])
            yield Parameter(f"{label}{whose}", path, ends[0], down, up)
    if job.replicas.min > 0:
        yield _integer_parameter(f"least replicas{whose}", f"jobs.{job.name}.replicas.min", job.replicas.min, by, 0)
    if job.headroom > 0:
        yield _scaled_parameter(f"headroom{whose}", f"jobs.{job.name}.headroom", job.headroom, by)


def _service_load(job: ServeJob, whose: str, by: float) -> Iterator[Parameter]:
    """Yield the load at the peak and the lengths of prompts and answers."""
    where = f"jobs.{job.name}.load"
    for name, label in (("per_second", "load, requests/s"), ("concurrent", "load, requests in flight")):
        if (peak := getattr(job.load, name)) is not None:
            yield _scaled_parameter(f"{label}{whose}", f"{where}.{name}", peak, by)
    for name in ("input_tokens", "output_tokens"):
        tokens = getattr(job.load, name)
        if tokens is not None:
            yield _integer_parameter(f"{name}{whose}", f"{where}.{name}", tokens, by, 1)


def _job_suffix(scenario: Scenario, job: str) -> str:
    """Return the job of a limit in words, if there are several jobs."""
    return f" of {job}" if len(scenario.jobs) > 1 else ""


def _prices(scenario: Scenario, plan: Plan, by: float) -> Iterator[Parameter]:
    """Yield prices of the plan's GPUs and providers, then of all offers, in each market that has a price."""
    path = f"adjust.{len(scenario.adjust)}"
    rented = [*plan.jobs, *(pool for run in plan.reinforcement for pool in run.pools)]
    rented += [kind for service in plan.services for kind in service.fleet.by_dollars[:MOST_PRICED_KINDS]]
    gpus, providers = ([(key, getattr(job, key)) for job in rented] for key in ("gpu", "provider"))
    matches = [(name, {key: name}) for key, name in dict.fromkeys([*gpus, *providers])]
    for name, match in [*matches, ("all", {})]:
        offers = [
            offer for offer in scenario.offers if all(getattr(offer, key) == value for key, value in match.items())
        ]
        for market, key in (("on demand", "usd_per_hour"), ("spot", "spot_usd_per_hour")):
            if any(getattr(offer, key) is not None for offer in offers):
                rules = [{"match": match, f"{key}_factor": factor} for factor in (1 - by, 1 + by)]
                down, up = ((f"{path}={json.dumps(rule)}",) for rule in rules)
                yield _factor(f"{name} {market}{PRICES}", f"{path}.{key}_factor", by, down, up)


def _estimates(scenario: Scenario, by: float) -> Iterator[Parameter]:
    """Yield the predicted speed of all jobs together, because its error is shared, and the work of each job.

    A job of reinforcement learning has no speed that a setting moves; the mean length of its answers is one of work.
    """
    timed = [job for job in scenario.jobs if not isinstance(job, RlJob)]
    down, up = (
        tuple(f"jobs.{job.name}.efficiency={job.efficiency * factor!r}" for job in timed) for factor in (1 - by, 1 + by)
    )
    if timed:
        yield _factor("predicted speed", "jobs.*.efficiency", by, down, up)
    for job in scenario.jobs:
        if isinstance(job, ServeJob):
            yield from _service_load(job, _job_suffix(scenario, job.name), by)
            continue
        units = ("samples", "tokens", "steps", "images", "requests")
        unit = next((unit for unit in units if getattr(job.work, unit, None) is not None), None)
        if unit is None:  # prompts by a table of lengths have no single amount
            continue
        label = f"work{_job_suffix(scenario, job.name)} ({unit})"
        yield _integer_parameter(label, f"jobs.{job.name}.work.{unit}", getattr(job.work, unit), by, 1)
        if isinstance(job, RlJob) and job.work.output_tokens is not None:
            label = f"output_tokens{_job_suffix(scenario, job.name)}"
            yield _scaled_parameter(label, f"jobs.{job.name}.work.output_tokens", job.work.output_tokens, by)


def _factor(label: str, path: str, by: float, down: tuple[str, ...], up: tuple[str, ...]) -> Parameter:
    """Return a parameter whose settings multiply figures by the factors 1 - by and 1 + by."""
    return Parameter(label, path, "x 1", (f"x {figure_text(1 - by)}", down), (f"x {figure_text(1 + by)}", up))


def _scaled_parameter(
    label: str, path: str, base: float, by: float, least: float = 0.0, most: float = math.inf, unit: str = ""
) -> Parameter:
    """Return a figure that changes by a share, between two bounds."""
    return _parameter(label, path, base, max(base * (1 - by), least), min(base * (1 + by), most), unit)


def _integer_parameter(label: str, path: str, count: int, by: float, least: int) -> Parameter:
    """Return a whole number rounded outwards; an error of floating point does not count as a fraction."""
    low = max(least, math.floor(round(count * (1 - by), 6)))
    return _parameter(label, path, count, low, math.ceil(round(count * (1 + by), 6)))


def _parameter(label: str, path: str, base: float, low: float, high: float, unit: str = "") -> Parameter:
    """Return a parameter with its ends as shown and as settings, each with the unit."""
    shown = [f"{figure_text(value)} {unit}".rstrip() for value in (base, low, high)]
    down, up = ((f"{path}={value!r}{unit}",) for value in (low, high))
    return Parameter(label, path, shown[0], (shown[1], down), (shown[2], up))
