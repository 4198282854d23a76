"""One-at-a-time sensitivity: every limit, price and estimate changed by the same share, ranked by effect."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.analysis.what_if.sweep import build_cell
from planner.analysis.what_if.what_if import library_of
from planner.errors import Fault, ScenarioError
from planner.loading.scenario_file import change_scenario
from planner.results.what_if import PRICES, Bar, Better, Endpoint, Tornado
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve_prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.library.schema import Library
    from planner.results.plan import Plan
    from planner.scenario.scenario import Scenario, SolveOptions

DEFAULT_SHARE = 0.2


@dataclass(frozen=True)
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
    scenario = change_scenario(scenario, settings) if settings else scenario
    base = prepare(scenario, library or library_of([scenario]))
    plan = solve_prepared(base, options)
    bars = (
        [_bar(parameter, base, plan, options) for parameter in list_parameters(scenario, plan, by)] if plan.jobs else []
    )
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


def list_parameters(scenario: Scenario, plan: Plan, by: float) -> tuple[Parameter, ...]:
    """Return limits that the scenario sets, prices that the plan pays, and the estimate."""
    return tuple(
        parameter
        for parameter in (*_limits(scenario, by), *_prices(scenario, plan, by), *_estimates(scenario, by))
        if parameter.down != parameter.up
    )


def _bar(parameter: Parameter, base: PreparedScenario, plan: Plan, options: SolveOptions | None) -> Bar:
    down, up = (_end(value, settings, base, options) for value, settings in (parameter.down, parameter.up))
    cost_usd = plan.cost_usd.expected if plan.cost_usd else 0.0
    moved = [abs(end.cost_usd - cost_usd) for end in (down, up) if end.cost_usd is not None]
    took = plan.hours.expected if plan.hours else 0.0
    waited = [abs(end.hours - took) for end in (down, up) if end.hours is not None]
    return Bar(
        what=parameter.what,
        path=parameter.path,
        base=parameter.base,
        down=down,
        up=up,
        effect_usd=max(moved, default=0.0),
        effect_hours=max(waited, default=0.0),
    )


def _end(value: str, settings: tuple[str, ...], base: PreparedScenario, options: SolveOptions | None) -> Endpoint:
    changed = prepare(change_scenario(base.scenario, settings), base.library, base)
    cell = build_cell((value,), solve_prepared(changed, options))
    return Endpoint(value=value, settings=settings, status=cell.status, cost_usd=cell.cost_usd, hours=cell.hours)


def _limits(scenario: Scenario, by: float) -> list[Parameter]:
    limits = scenario.limits
    found = [
        _scaled_parameter(
            f"deadline{_job_suffix(scenario, job.name)}", f"jobs.{job.name}.deadline", job.deadline_hours, by, "h"
        )
        for job in scenario.jobs
        if job.deadline_hours is not None
    ]
    if limits.budget_usd is not None:
        found.append(_scaled_parameter("budget", "limits.budget_usd", limits.budget_usd, by))
    if limits.max_gpus is not None:
        found.append(_integer_parameter("max_gpus", "limits.max_gpus", limits.max_gpus, by, 1))
    if limits.max_hours is not None:
        found.append(_scaled_parameter("max_hours", "limits.max_hours", limits.max_hours, by))
    for provider, gpus in limits.quota.items():
        found.append(_integer_parameter(f"quota at {provider}", f"limits.quota.{provider}", gpus, by, 0))
    return found + _shares(scenario, by)


def _job_suffix(scenario: Scenario, job: str) -> str:
    """Return the job of a limit in words, if there are several jobs."""
    return f" of {job}" if len(scenario.jobs) > 1 else ""


def _shares(scenario: Scenario, by: float) -> list[Parameter]:
    """Return bounds on the spot share, within 0..1 and in order, and the VRAM margin."""
    limits = scenario.limits
    share = limits.spot_share
    found = []
    if share.min > 0:
        high = min(share.min * (1 + by), share.max)
        found.append(_parameter("least spot share", "limits.spot_share.min", share.min, share.min * (1 - by), high))
    if share.max < 1:
        low = max(share.max * (1 - by), share.min)
        found.append(
            _parameter("most spot share", "limits.spot_share.max", share.max, low, min(1.0, share.max * (1 + by)))
        )
    if limits.vram_headroom is not None:
        low, high = limits.vram_headroom * (1 - by), min(limits.vram_headroom * (1 + by), 0.99)
        found.append(_parameter("vram_headroom", "limits.vram_headroom", limits.vram_headroom, low, high))
    return found


def _prices(scenario: Scenario, plan: Plan, by: float) -> list[Parameter]:
    """Return prices of the plan's GPUs and providers, then of all offers, in each market that has a price."""
    names = dict.fromkeys(
        [*(("gpu", job.gpu) for job in plan.jobs), *(("provider", job.provider) for job in plan.jobs)]
    )
    matches: list[tuple[str, dict[str, str]]] = [*((name, {key: name}) for key, name in names), ("all", {})]
    markets = [("on demand", "usd_per_hour"), ("spot", "spot_usd_per_hour")]
    found = []
    for name, match in matches:
        for market, key in markets:
            prices = [
                getattr(offer, key)
                for offer in scenario.offers
                if all(getattr(offer, field) == value for field, value in match.items())
            ]
            if any(price is not None for price in prices):
                found.append(_price(scenario, f"{name} {market}{PRICES}", match, f"{key}_factor", by))
    return found


def _price(scenario: Scenario, what: str, match: dict[str, str], key: str, by: float) -> Parameter:
    path = f"adjust.{len(scenario.adjust)}"

    def end(factor: float) -> tuple[str, tuple[str, ...]]:
        rule = {"match": match, key: factor}
        return f"x {_format_short(factor)}", (f"{path}={json.dumps(rule)}",)

    return Parameter(what, f"{path}.{key}", "x 1", end(1 - by), end(1 + by))


def _estimates(scenario: Scenario, by: float) -> list[Parameter]:
    """Return the predicted speed of all jobs together, because its error is shared, and the work of each job."""

    def speed(factor: float) -> tuple[str, tuple[str, ...]]:
        settings = (f"jobs.{job.name}.efficiency={job.efficiency * factor!r}" for job in scenario.jobs)
        return f"x {_format_short(factor)}", tuple(settings)

    found = [Parameter("predicted speed", "jobs.*.efficiency", "x 1", speed(1 - by), speed(1 + by))]
    for job in scenario.jobs:
        unit = next(unit for unit in ("samples", "tokens", "steps", "images") if getattr(job.work, unit) is not None)
        amount = getattr(job.work, unit)
        found.append(
            _integer_parameter(
                f"work{_job_suffix(scenario, job.name)} ({unit})", f"jobs.{job.name}.work.{unit}", amount, by, 1
            )
        )
    return found


def _scaled_parameter(what: str, path: str, base: float, by: float, unit: str = "") -> Parameter:
    return _parameter(what, path, base, base * (1 - by), base * (1 + by), unit)


def _integer_parameter(what: str, path: str, count: int, by: float, least: int) -> Parameter:
    """Return a whole number rounded outwards; an error of floating point does not count as a fraction."""
    low = max(least, math.floor(round(count * (1 - by), 6)))
    return _parameter(what, path, count, low, math.ceil(round(count * (1 + by), 6)))


def _parameter(what: str, path: str, base: float, low: float, high: float, unit: str = "") -> Parameter:
    """Return a parameter with its ends as shown and as settings, each with the unit."""

    def show(value: float) -> str:
        return f"{_format_short(value)} {unit}".rstrip()

    ends = [(show(value), (f"{path}={value!r}{unit}",)) for value in (low, high)]
    return Parameter(what, path, show(base), *ends)


def _format_short(value: float) -> str:
    """Return at most four digits, or all of a whole number."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"
