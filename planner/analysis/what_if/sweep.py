"""Sweeps: a scenario solved at every value of one range, or at every pair of values of two."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

from planner.analysis.what_if.effects import library_of
from planner.analysis.what_if.variants import VariantSolver
from planner.documents.sweep_ranges import SweepRange, parse_ranges, range_name, well_formed_ranges
from planner.errors import Fault, ScenarioError, collect_faults, raise_faults
from planner.loading.scenario_file import change_scenario
from planner.results.differences import method_name
from planner.results.serving.differences import describe_kinds
from planner.results.serving.what_if import CellService
from planner.results.what_if import Axis, Cell, CellJob, Sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.library.schema import Library
    from planner.results.plan import Assignment, Plan
    from planner.results.serving.fleet import Service
    from planner.scenario.scenario import Scenario, SolveOptions


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
