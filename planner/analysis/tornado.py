"""One-at-a-time sensitivity: every limit, price and estimate changed by the same share, ranked by effect."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from planner.analysis.what_if_sweep import VariantSolver, library_of
from planner.errors import Fault, ScenarioError
from planner.loading.scenario_file import change_scenario
from planner.records import record
from planner.results.fleet_differences import MILLISECONDS, by_dollars
from planner.results.what_if import PRICES, Bar, Better, Endpoint, Tornado
from planner.scenario.service_load import ServeJob
from planner.units import figure_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.library.schema import Library
    from planner.results.plan import Plan
    from planner.scenario.scenario import Scenario, SolveOptions

DEFAULT_SHARE = 0.2
MOST_PRICED_KINDS = 3
"""Kinds of a fleet, those with most dollars first, whose prices have a bar each."""


@record(frozen=True)
class Parameter:
    """A parameter to change: its name, its present value, and for either end the value and its settings."""

    what: str
    path: str
    base: str
    down: tuple[str, tuple[str, ...]]
    up: tuple[str, tuple[str, ...]]


def tornado(
    scenario: Scenario,
    options: SolveOptions | None = None,
    library: Library | None = None,
    by: float = DEFAULT_SHARE,
    settings: Sequence[str] = (),
) -> Tornado:
    """Change every limit, every price of the plan and the estimate itself, each alone by the share `by`.

    `settings` are applied first. Whole numbers are rounded outwards, so that they change. Without a plan there are no
    bars. Raises ScenarioError for invalid settings and a share outside 0..1.
    """
    if not 0 < by < 1:
        raise ScenarioError([Fault("--by", 0, "", f"{by:g} is not a share between 0 and 1", "such as 0.2 for 20 %")])
    scenario = scenario.on_day(options.as_of if options else None)
    scenario = change_scenario(scenario, settings) if settings else scenario
    solver = VariantSolver(library or library_of([scenario]), options)
    plan = solver.solve(scenario, explains=True)
    parameters: tuple[Parameter, ...] = ()
    if plan.jobs or plan.services:
        parameters = (*_limits(scenario, by), *_prices(scenario, plan, by), *_estimates(scenario, by))
    bars = [_bar(one, scenario, plan, solver) for one in parameters if one.down != one.up]
    better: Better = "sooner" if scenario.objective_kind == "time" else "cheaper"
    bars.sort(key=lambda bar: _rank(bar, plan, better))
    return Tornado(scenario=scenario.name, settings=tuple(settings), by=by, base=plan, bars=tuple(bars), better=better)


def _rank(bar: Bar, plan: Plan, better: Better) -> tuple[bool, float, float, float]:
    """Return the sort key of a bar: what can fail first, then larger effect, then wider span, to two decimals."""
    usd = [plan.cost_usd.expected if plan.cost_usd else 0.0, bar.down.cost_usd, bar.up.cost_usd]
    hours = [plan.hours.expected if plan.hours else 0.0, bar.down.hours, bar.up.hours]
    known = [value for value in (hours if better == "sooner" else usd) if value is not None]
    effect = bar.effect_hours if better == "sooner" else bar.effect_usd
    return not bar.can_fail, -round(effect, 2), -round(max(known) - min(known), 2), -round(bar.effect_usd, 2)


def _bar(parameter: Parameter, scenario: Scenario, plan: Plan, solver: VariantSolver) -> Bar:
    down, up = (_end(value, settings, scenario, solver) for value, settings in (parameter.down, parameter.up))
    cost_usd, hours = (one.expected if one else 0.0 for one in (plan.cost_usd, plan.hours))
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
    cost_usd, hours = (one.expected if one else None for one in (plan.cost_usd, plan.hours))
    return Endpoint(value=value, settings=settings, status=plan.status, cost_usd=cost_usd, hours=hours)


def _limits(scenario: Scenario, by: float) -> Iterator[Parameter]:
    """Yield the limits that the scenario sets; shares stay within 0..1 and in order."""
    limits, share = scenario.limits, scenario.limits.spot_share
    yield from _job_limits(scenario, by)
    if limits.budget_usd is not None:
        yield _scaled_parameter("budget", "limits.budget_usd", limits.budget_usd, by)
    if limits.max_gpus is not None:
        yield _integer_parameter("max_gpus", "limits.max_gpus", limits.max_gpus, by, 1)
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
    rented = [*plan.jobs, *(kind for one in plan.services for kind in by_dollars(one.fleet)[:MOST_PRICED_KINDS])]
    gpus, providers = ([(key, getattr(job, key)) for job in rented] for key in ("gpu", "provider"))
    matches = [(name, {key: name}) for key, name in dict.fromkeys([*gpus, *providers])]
    for name, match in [*matches, ("all", {})]:
        offers = [one for one in scenario.offers if all(getattr(one, key) == value for key, value in match.items())]
        for market, key in (("on demand", "usd_per_hour"), ("spot", "spot_usd_per_hour")):
            if any(getattr(offer, key) is not None for offer in offers):
                rules = [{"match": match, f"{key}_factor": factor} for factor in (1 - by, 1 + by)]
                down, up = ((f"{path}={json.dumps(rule)}",) for rule in rules)
                yield _factor(f"{name} {market}{PRICES}", f"{path}.{key}_factor", by, down, up)


def _estimates(scenario: Scenario, by: float) -> Iterator[Parameter]:
    """Yield the predicted speed of all jobs together, because its error is shared, and the work of each job."""
    down, up = (
        tuple(f"jobs.{job.name}.efficiency={job.efficiency * factor!r}" for job in scenario.jobs)
        for factor in (1 - by, 1 + by)
    )
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
