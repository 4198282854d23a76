"""Sweeps: a scenario solved at every value of one range, or at every pair of values of two."""

from __future__ import annotations

import math
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from planner.documents.sweep_ranges import SweepRange, parse_ranges, range_name, well_formed_ranges
from planner.errors import Fault, InputError, ScenarioError, collect_faults, raise_faults
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario
from planner.results.differences import method_name
from planner.results.fleet_differences import CellService, ServiceDelta, compare_services, describe_kinds
from planner.results.what_if import Axis, Cell, CellJob, Delta, Effect, Sweep, WhatIf
from planner.scenario.definite import architectures_of
from planner.scenario.service_load import ServeJob
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve, solve_prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.library.schema import Library
    from planner.results.fleet import Service
    from planner.results.plan import Assignment, Plan
    from planner.scenario.scenario import Scenario, SolveOptions


# Differences between two plans, and the share that each of several settings has in them.


def library_of(scenarios: Sequence[Scenario]) -> Library:
    """Return one library for several scenarios, so that they can share prepared candidates."""
    return read_library(dict.fromkeys(name for one in scenarios for job in one.jobs for name in architectures_of(job)))


def difference(before: Plan, after: Plan) -> Delta:
    """Return expected dollars and hours of `after` less those of `before`; None if either has no plan."""
    if before.cost_usd is None or after.cost_usd is None or before.hours is None or after.hours is None:
        return Delta(cost_usd=None, hours=None)
    return Delta(
        cost_usd=after.cost_usd.expected - before.cost_usd.expected, hours=after.hours.expected - before.hours.expected
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
    """Return the groups of settings whose effects can be told apart; none where some are valid together alone.

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
        cost_usd=left(delta.cost_usd, [one.share.cost_usd for one in effects]),
        hours=left(delta.hours, [one.share.hours for one in effects]),
    )


# Before and after of scenarios with a service: its dollars of a month, its fleet, and its latency.


def what_if_of_services(
    scenario: Scenario, settings: tuple[str, ...], options: SolveOptions | None, library: Library
) -> WhatIf:
    """Return the plans of `solve` before and after settings, and what each setting did to them and to the services."""

    def solved(given: Sequence[str]) -> Plan:
        return solve(change_scenario(scenario, given) if given else scenario, options, library)

    before, after = solved(()), solved(settings)
    answer = compare_services_solved(before, after, settings)
    groups = separable_settings(scenario, settings)
    effects: tuple[Effect, ...] = ()
    if groups:
        alone = [solved(group) for group in groups]
        rests = [[one for other in groups if other is not group for one in other] for group in groups]
        without = alone[::-1] if len(groups) == 2 else [solved(rest) for rest in rests]
        plans = zip(groups, alone, without, strict=True)
        effects = tuple(_effect(", ".join(group), before, one, rest, after) for group, one, rest in plans)
    return answer.model_copy(update={"effects": effects, "together": rest_of(answer.delta, effects)})


def compare_services_solved(before: Plan, after: Plan, settings: tuple[str, ...]) -> WhatIf:
    """Return the comparison of two plans that are solved already, without the effect of each single setting."""
    return WhatIf(
        scenario=before.scenario,
        settings=settings,
        better="cheaper",
        before=before,
        after=after,
        delta=difference(before, after),
        services=_services(before, after),
    )


def _effect(setting: str, before: Plan, alone: Plan, rest: Plan, after: Plan) -> Effect:
    """Return what a setting does alone, and as the last of all."""
    first, last = difference(before, alone), difference(rest, after)
    return Effect(
        setting=setting,
        alone_status=alone.status,
        alone=first,
        last=last,
        share=Delta(cost_usd=mean_of(first.cost_usd, last.cost_usd), hours=mean_of(first.hours, last.hours)),
    )


def _services(before: Plan, after: Plan) -> tuple[ServiceDelta, ...]:
    """Return one entry for every service that both plans have."""
    later = {one.name: one for one in after.services}
    return tuple(
        ServiceDelta(
            name=one.name,
            usd_per_month=later[one.name].fleet.usd_per_month - one.fleet.usd_per_month,
            proven_usd_per_month=_proven(one.gap * one.fleet.usd_per_month, later[one.name]),
            changes=compare_services(one, later[one.name]),
        )
        for one in before.services
        if one.name in later
    )


def _proven(open_usd: float, after: Service) -> float:
    """Return the dollars of a month by which either plan may lie above the least one."""
    return max(open_usd, after.gap * after.fleet.usd_per_month)


# Variants of a scenario solved one after the other.


class VariantSolver:
    """Solves scenarios; what one has in common with the one before is not computed again."""

    def __init__(self, library: Library, options: SolveOptions | None) -> None:
        self.library = library
        self.options = options
        self._before: PreparedScenario | None = None

    def solve(self, scenario: Scenario, explains: bool = False) -> Plan:
        """Return the plan that `solve` gives; without `explains` nothing need say why there is none."""
        if any(isinstance(job, ServeJob) for job in scenario.jobs):
            return solve(scenario, self.options, self.library, explains)
        self._before = prepare(scenario, self.library, self._before)
        return solve_prepared(self._before, self.options, explains=explains)


def sweep(
    scenario: Scenario,
    vary: Sequence[str],
    settings: Sequence[str] = (),
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
    """
    if not vary:
        fault = Fault("--vary", 0, "", "nothing to vary", "such as jobs.NAME.deadline=6h:48h:6h")
        raise ScenarioError([fault])
    scenario = scenario.on_day(options.as_of if options else None)
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
        values = tuple(one.values[place] for one, place in zip(ranges, places, strict=True))
        cells.append(build_cell(values, solver.solve(changed)))
        if on_cell:
            on_cell(len(cells), total)
    axes = tuple(Axis(path=one.path, values=one.values, numbers=one.numbers, unit=one.unit) for one in ranges)
    answer = Sweep(scenario=scenario.name, settings=tuple(settings), axes=axes, cells=tuple(cells))
    if any(cell.cost_usd is not None for cell in cells):
        return answer
    ends = [_least_restrictive(axis) for axis in axes]
    changed = change_scenario(base, [one.settings[place] for one, place in zip(ranges, ends, strict=True)])
    values = tuple(one.values[place] for one, place in zip(ranges, ends, strict=True))
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
    for one in ranges or well_formed_ranges(vary):
        with collect_faults(faults):
            settings = one.settings if ranges else one.settings[:1]
            scenarios.append([scenario_at(base, one, setting) for setting in settings])
    raise_faults(faults, ScenarioError)
    return ranges, scenarios


def _least_restrictive(axis: Axis) -> int:
    """Return the index of the least restrictive value: the highest limit, the least work; of names the last."""
    if axis.numbers is None:
        return len(axis.values) - 1
    ease = 1 if axis.looser_direction == "up" or axis.path.endswith(".efficiency") else -1
    return max(range(len(axis.numbers)), key=[ease * number for number in axis.numbers].__getitem__)


def scenario_at(scenario: Scenario, one: SweepRange, setting: str) -> Scenario:
    """Return the scenario at one value; faults name the range of the value."""
    try:
        return change_scenario(scenario, [setting])
    except ScenarioError as error:
        name = range_name(f"{one.path}={setting.partition('=')[2]}")
        raise ScenarioError([Fault(name, 0, f.where, f.what, _fix(f, one)) for f in error.faults]) from None


def _fix(fault: Fault, one: SweepRange) -> str:
    """Return the fix of a fault: a unit that is missing is missing three times in a range."""
    if fault.what.endswith("has no unit") and one.numbers and not one.unit:
        return f"such as {one.path}={one.values[0]}h:{one.values[-1]}h:STEPh"
    return fault.fix


def build_cell(values: tuple[str, ...], plan: Plan) -> Cell:
    """Return the figures of a plan that a sweep keeps."""
    if plan.cost_usd is None or plan.hours is None:
        return Cell(values=values, status=plan.status, cut=plan.cut)
    return Cell(
        values=values,
        status=plan.status,
        cost_usd=plan.cost_usd.expected,
        hours=plan.hours.expected,
        hours_at_confidence=plan.hours.at_confidence,
        jobs=tuple(_job(job) for job in plan.jobs),
        services=tuple(_service(one) for one in plan.services),
        cut=plan.cut,
    )


def _job(job: Assignment) -> CellJob:
    same = job.model_dump(include=CellJob.model_fields.keys() - {"method", "hours"})
    return CellJob(**same, method=method_name(job.techniques), hours=job.hours.expected)


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
