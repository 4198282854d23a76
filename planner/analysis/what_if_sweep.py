"""A scenario solved along one range or two, and the tornado: every limit, price and estimate changed by one share."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from planner import open_choices
from planner.documents.overrides import Settings, SweepRange, as_settings, parse_ranges, range_name, well_formed_ranges
from planner.errors import Fault, InputError, ScenarioError, collect_faults, raise_faults
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.question import Asked, as_scenario
from planner.loading.scenario_file import change_scenario
from planner.results.explanation import method_name
from planner.results.fleet import Service
from planner.results.plan import Assignment, Plan
from planner.results.service_results import CellService, describe_kinds
from planner.results.subject_runs import ModelChoice, RlRun
from planner.results.what_if import (
    PRICES,
    Axis,
    Bar,
    Better,
    Cell,
    CellJob,
    CellModel,
    Delta,
    Effect,
    Endpoint,
    Sweep,
    Tornado,
    loss_of,
)
from planner.scenario.inference_job import ServeJob
from planner.scenario.limits import given_peaks
from planner.scenario.rl_job import RlJob
from planner.scenario.scenario import Scenario, SolveOptions, architectures_of, open_jobs
from planner.solving.prepare import prepare
from planner.solving.solve import solve, solve_prepared
from planner.subjects import check_supported, subject_of
from planner.units import MILLISECONDS, figure_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


# Sweeps: a scenario solved at every value of one range, or at every pair of values of two.


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


# Variants of a scenario solved one after the other.


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
    if plan.cost is None or plan.hours is None:
        return Cell(values=values, status=plan.status, cut=plan.cut)
    return Cell(
        values=values,
        status=plan.status,
        cost_usd=plan.cost.expected,
        hours=plan.hours.expected,
        hours_at_confidence=plan.hours.at_confidence,
        jobs=(*(_job(job) for job in plan.jobs), *(_rl(run) for run in plan.reinforcement)),
        services=tuple(_service(service) for service in plan.services),
        cut=plan.cut,
    )


def _job(job: Assignment) -> CellJob:
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
            found = tornado(fixed.scenario, options, library, by)
            return found.model_copy(update={"base": fixed.plan, "settings": settings, "fixed": fixed.lines})
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
            what = f"deadline{_job_suffix(scenario, job.name)}"
            yield _scaled_parameter(what, f"jobs.{job.name}.deadline", job.deadline_hours, by, unit="h")
        elif isinstance(job, ServeJob):
            yield from _service_limits(job, _job_suffix(scenario, job.name), by)


def _service_limits(job: ServeJob, whose: str, by: float) -> Iterator[Parameter]:
    """Yield what a service is asked for: its latency, its replicas, its headroom."""
    for name, what in (("tpot", "time per token"), ("ttft", "time to the first token")):
        seconds = getattr(job.latency, f"{name}_seconds")
        if seconds is not None:
            path = f"jobs.{job.name}.latency.{name}"
            ends = [f"{seconds * factor * MILLISECONDS:.6g}ms" for factor in (1.0, 1 - by, 1 + by)]
            down, up = ((end, (f"{path}={end}",)) for end in ends[1:])
            yield Parameter(f"{what}{whose}", path, ends[0], down, up)
    if job.replicas.min > 0:
        yield _integer_parameter(f"least replicas{whose}", f"jobs.{job.name}.replicas.min", job.replicas.min, by, 0)
    if job.headroom > 0:
        yield _scaled_parameter(f"headroom{whose}", f"jobs.{job.name}.headroom", job.headroom, by)


def _service_load(job: ServeJob, whose: str, by: float) -> Iterator[Parameter]:
    """Yield the load at the peak and the lengths of prompts and answers."""
    where = f"jobs.{job.name}.load"
    for name, what in (("per_second", "load, requests/s"), ("concurrent", "load, requests in flight")):
        if (peak := getattr(job.load, name)) is not None:
            yield _scaled_parameter(f"{what}{whose}", f"{where}.{name}", peak, by)
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
        what = f"work{_job_suffix(scenario, job.name)} ({unit})"
        yield _integer_parameter(what, f"jobs.{job.name}.work.{unit}", getattr(job.work, unit), by, 1)
        if isinstance(job, RlJob) and job.work.output_tokens is not None:
            what = f"output_tokens{_job_suffix(scenario, job.name)}"
            yield _scaled_parameter(what, f"jobs.{job.name}.work.output_tokens", job.work.output_tokens, by)


def _factor(what: str, path: str, by: float, down: tuple[str, ...], up: tuple[str, ...]) -> Parameter:
    """Return a parameter whose settings multiply figures by the factors 1 - by and 1 + by."""
    return Parameter(what, path, "x 1", (f"x {figure_text(1 - by)}", down), (f"x {figure_text(1 + by)}", up))


def _scaled_parameter(
    what: str, path: str, base: float, by: float, least: float = 0.0, most: float = math.inf, unit: str = ""
) -> Parameter:
    """Return a figure that changes by a share, between two bounds."""
    return _parameter(what, path, base, max(base * (1 - by), least), min(base * (1 + by), most), unit)


def _integer_parameter(what: str, path: str, count: int, by: float, least: int) -> Parameter:
    """Return a whole number rounded outwards; an error of floating point does not count as a fraction."""
    low = max(least, math.floor(round(count * (1 - by), 6)))
    return _parameter(what, path, count, low, math.ceil(round(count * (1 + by), 6)))


def _parameter(what: str, path: str, base: float, low: float, high: float, unit: str = "") -> Parameter:
    """Return a parameter with its ends as shown and as settings, each with the unit."""
    shown = [f"{figure_text(value)} {unit}".rstrip() for value in (base, low, high)]
    down, up = ((f"{path}={value!r}{unit}",) for value in (low, high))
    return Parameter(what, path, shown[0], (shown[1], down), (shown[2], up))
