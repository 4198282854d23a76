"""What looser limits of a service save, each verified by solving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.results.explanation import LimitSensitivity
from planner.results.plan_parts import Relaxation
from planner.solving.fleet.refusals import milliseconds, rounded_up
from planner.solving.fleet.trial import try_service, with_latency
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.library.schema import Library
    from planner.scenario.scenario import Scenario, SolveOptions
    from planner.scenario.serving.job import ServeJob
    from planner.solving.fleet.trial import ServiceTrial

LOOSER = 1.25
"""Factor on a limit on latency."""
LESS_SURE = 0.05
"""Share of the requests that need not be in time any more."""
LEAST_RELAXED_SAVING = 0.005
"""Share of the dollars below which a relaxation saves nothing."""
LEAST_LATENCY_SHARE = 0.5
MOST_QUICK = 6_000
"""Kinds that dominance leaves times different loads, up to which a plan says what a looser latency saves."""


class _Change(NamedTuple):
    """A limit, its values before and after as a scenario writes them, and what is solved."""

    limit: str
    old: float | str
    new: float | str
    setting: str
    scenario: Scenario
    job: ServeJob


def relaxations_of(
    scenario: Scenario, plan: ServiceTrial, library: Library, options: SolveOptions
) -> tuple[LimitSensitivity, ...]:
    """Return what each limit saves where it is a step looser, the largest saving first; those that save nothing last.

    A step is a quarter of a limit on latency, five hundredths of the share, one replica, or a limit left out.
    """
    found = [_worth(change, plan, library, options) for change in _changes(scenario, plan.served.job)]
    return tuple(sorted(found, key=lambda one: (one.change_to is None, one.delta_usd or 0.0)))


def looser_latency(
    scenario: Scenario, plan: ServiceTrial, library: Library, options: SolveOptions
) -> Relaxation | None:
    """Return what a quarter more of the latency that holds the fleet saves.

    None where it saves nothing, where no latency holds it, or where to find out would take long.
    """
    name = {"TPOT": "tpot", "TTFT": "ttft"}.get(plan.binds[0] if plan.binds else "", "")
    limit = f"jobs.{plan.served.job.name}.latency.{name}"
    change = next((one for one in _changes(scenario, plan.served.job) if one.limit == limit), None)
    if change is None or plan.solved.kept * len(np.unique(plan.problem.load)) > MOST_QUICK:
        return None
    found = _worth(change, plan, library, options)
    if found.change_to is None or found.cost_usd is None:
        return None
    saved = -(found.delta_usd or 0.0) * MONTH_HOURS / plan.served.job.for_hours
    return Relaxation(
        limit=found.limit, **{"from": found.change_from, "to": found.change_to}, then=f"saves ${saved:,.2f} a month",
        cost_usd=found.cost_usd, hours=plan.served.job.for_hours, setting=found.setting,
    )  # fmt: skip


def _worth(change: _Change, plan: ServiceTrial, library: Library, options: SolveOptions) -> LimitSensitivity:
    """Return what a change saves."""
    same = None if change.limit.startswith("limits.") else plan
    other = try_service(change.scenario, library, options, change.job, among=same)
    facts: dict[str, Any] = {"worth": "choice", "limit": change.limit, "from": change.old}
    saved = plan.usd_per_month - other.usd_per_month
    if not other.is_feasible or saved < LEAST_RELAXED_SAVING * plan.usd_per_month:
        return LimitSensitivity(**facts, **{"to": None}, note=f"no gain at {change.new}")
    delta = other.cost_usd - plan.cost_usd
    return LimitSensitivity(
        **facts,
        **{"to": change.new},
        plan="; ".join(other.machines),
        cost_usd=other.cost_usd,
        hours=other.served.job.for_hours,
        delta_usd=delta,
        delta_hours=0.0,
        gain=-delta,
        setting=change.setting,
    )


def _changes(scenario: Scenario, job: ServeJob) -> Iterator[_Change]:
    """Yield a looser value of each limit that the scenario sets."""
    where, limits = f"jobs.{job.name}", scenario.limits
    for name in ("tpot", "ttft"):
        seconds = getattr(job.latency, f"{name}_seconds")
        if seconds is not None:
            looser = rounded_up(LOOSER * seconds)
            texts = milliseconds(seconds), milliseconds(looser)
            path = f"{where}.latency.{name}"
            yield _Change(
                path, *texts, f"{path}={texts[1]}", scenario, with_latency(job, **{f"{name}_seconds": looser})
            )
    share = round(job.latency.share - LESS_SURE, 6)
    if share >= LEAST_LATENCY_SHARE:
        path = f"{where}.latency.share"
        yield _Change(path, job.latency.share, share, f"{path}={share:g}", scenario, with_latency(job, share=share))
    if job.replicas.min > 1:
        fewer = job.replicas.min - 1
        other = job.model_copy(update={"replicas": job.replicas.model_copy(update={"min": fewer})})
        yield _Change(
            f"{where}.replicas.min", job.replicas.min, fewer, f"{where}.replicas.min={fewer}", scenario, other
        )
    if job.headroom > 0:
        other = job.model_copy(update={"headroom": 0.0})
        yield _Change(f"{where}.headroom", job.headroom, 0.0, f"{where}.headroom=0", scenario, other)
    plain = type(limits)()
    for name in ("providers", "gpus", "regions", "quota", "max_gpus", "max_usd_per_hour"):
        if getattr(limits, name) != getattr(plain, name):
            changed = scenario.model_copy(update={"limits": limits.model_copy(update={name: getattr(plain, name)})})
            nothing = "null" if getattr(plain, name) is None else "{}"
            yield _Change(f"limits.{name}", "as given", "none", f"limits.{name}={nothing}", changed, job)
    if limits.spot_share.max < 1:
        bounds = limits.spot_share.model_copy(update={"max": 1.0})
        changed = scenario.model_copy(update={"limits": limits.model_copy(update={"spot_share": bounds})})
        setting = "limits.spot=true" if limits.spot_share.max == 0 else "limits.spot_share.max=1"
        yield _Change("limits.spot_share.max", limits.spot_share.max, 1.0, setting, changed, job)
