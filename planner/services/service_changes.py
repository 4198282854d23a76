"""Before and after of scenarios with a service: its dollars of a month, its fleet, and its latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.analysis.what_if_question import compare_jobs, what_it_would_take
from planner.analysis.what_if_sweep import difference, mean_of, rest_of, separable_settings
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario
from planner.results.fleet import Service
from planner.results.plan import Plan
from planner.results.service_results import ServiceDelta, compare_services, services_usd
from planner.results.what_if import Delta, Effect, WhatIf
from planner.scenario.peak_limits import PEAK_LIMITS
from planner.scenario.scenario import Scenario, SolveOptions, without_services
from planner.solving.prepare import prepare
from planner.solving.solve import solve

if TYPE_CHECKING:
    from collections.abc import Sequence

ALSO_OF_SERVICES = (*(limit.path for limit in PEAK_LIMITS), "limits.quota")
"""Limits of which the machines of services take a part that the figures of jobs do not have."""


def what_if_of_services(
    scenario: Scenario, changed: Scenario, settings: tuple[str, ...], options: SolveOptions | None, library: Library
) -> WhatIf:
    """Return the plans of `solve` before and after settings, and what each did to them, to services and to jobs."""

    def solved(given: Sequence[str]) -> Plan:
        return solve(change_scenario(scenario, given) if given else scenario, options, library)

    before, after = solved(()), solved(settings)
    answer = compare_services_solved(before, after, settings)
    groups = separable_settings(scenario, settings)
    effects: tuple[Effect, ...] = ()
    if groups:
        alone = [solved(group) for group in groups]
        rests = [[setting for other in groups if other is not group for setting in other] for group in groups]
        without = alone[::-1] if len(groups) == 2 else [solved(rest) for rest in rests]
        plans = zip(groups, alone, without, strict=True)
        effects = tuple(_effect(", ".join(group), before, plan, rest, after) for group, plan, rest in plans)
    answer = answer.model_copy(update={"effects": effects, "together": rest_of(answer.delta, effects)})
    return _with_jobs(answer, scenario, changed, library)


def _with_jobs(answer: WhatIf, scenario: Scenario, changed: Scenario, library: Library) -> WhatIf:
    """Return the comparison of plans with services, with that of the jobs next to them."""
    before, after = answer.before, answer.after
    if not (before.jobs and after.jobs):
        return answer
    base = prepare(without_services(scenario, services_usd(before)), library)
    other = prepare(without_services(changed, services_usd(after)), library, base)
    answer = answer.model_copy(update={"jobs": compare_jobs(base, other, before, after)})
    if not answer.unchanged:
        return answer
    own = [setting for setting in answer.settings if not setting.startswith(ALSO_OF_SERVICES)]
    return answer.model_copy(update={"it_would_take": what_it_would_take(before, own, base)})


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
    later = {service.name: service for service in after.services}
    return tuple(
        ServiceDelta(
            name=service.name,
            usd_per_month=later[service.name].fleet.usd_per_month - service.fleet.usd_per_month,
            proven_usd_per_month=_proven(service.gap * service.fleet.usd_per_month, later[service.name]),
            changes=compare_services(service, later[service.name]),
        )
        for service in before.services
        if service.name in later
    )


def _proven(open_usd: float, after: Service) -> float:
    """Return the dollars of a month by which either plan may lie above the least one."""
    return max(open_usd, after.gap * after.fleet.usd_per_month)
