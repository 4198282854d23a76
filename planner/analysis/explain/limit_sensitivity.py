"""What moving one limit is worth: the exact next point at which another plan is better."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.analysis.explain.baseline import Baseline, build_step, unit_of_limit
from planner.results.explanation import Binding, LimitSensitivity
from planner.scenario.limits import DEFAULT_MAX_HOURS, UNLIMITED_HOURS, Limits
from planner.solving.infeasibility.elastic_program import STOCK, ElasticProgram, ElasticSolution
from planner.solving.infeasibility.relaxations import HOURS_STEP, build_changes, round_up, verify_relaxation
from planner.solving.infeasibility.relaxed_candidates import HEADROOM, unrestricted_techniques
from planner.solving.prepare import prepare
from planner.solving.resolve import describe_candidate, try_solve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.scenario.scenario import Scenario

UNLIMITED_OFFER_HOURS = 1e9
"""Hours left of an offer that limit nothing."""


def find_binding_limits(now: Baseline) -> tuple[Binding, ...]:
    """Limits without which the plan would be cheaper, or faster where that is the objective."""
    found = []
    for limit, current, lifted in _scenarios_without_limit(now.prepared.scenario):
        free = try_solve(prepare(lifted, now.prepared.library, now.prepared))
        if free is None or free.objective > now.goal:
            continue
        found.append(
            Binding(
                limit=limit,
                current=current,
                saving=now.trial.objective - free.objective,
                saving_usd=now.trial.cost_usd - free.cost_usd,
                saving_hours=now.trial.hours - free.hours,
            )
        )
    return tuple(found)


def _scenarios_without_limit(scenario: Scenario) -> Iterator[tuple[str, float | str, Scenario]]:
    """Every limit that the scenario sets, its value, and the scenario without it."""
    limits = scenario.limits
    for index, job in enumerate(scenario.jobs):
        kept = unrestricted_techniques(job.techniques)
        for limit, given, update in (
            ("deadline", job.deadline_hours, {"deadline_hours": None}),
            ("techniques", None if job.techniques == kept else "as given", {"techniques": kept}),
        ):
            if given is not None:
                jobs = list(scenario.jobs)
                jobs[index] = job.model_copy(update=update)
                yield f"jobs.{job.name}.{limit}", given, scenario.model_copy(update={"jobs": tuple(jobs)})
    yield "limits.max_hours", _longest_run_limit(scenario), _drop_limit(scenario, "max_hours", UNLIMITED_HOURS)
    plain = Limits()
    for name in type(limits).model_fields:
        given, none = getattr(limits, name), getattr(plain, name)
        if given != none and name != "max_hours":
            value = given if isinstance(given, (int, float)) else "as given"
            yield f"limits.{name}", value, _drop_limit(scenario, name, none)
    for name, field, free in (("stock", "stock", None), ("hours paid for", "committed_hours", UNLIMITED_OFFER_HOURS)):
        if any(getattr(offer, field) is not None for offer in scenario.offers):
            yield name, "as offered", _with_unlimited_offers(scenario, field, free)


def _with_unlimited_offers(scenario: Scenario, field: str, free: float | None) -> Scenario:
    """The scenario where offers have as much of something as anyone asks for, where they said how much they have."""
    given = (offer for offer in scenario.offers)
    free_offers = (one if getattr(one, field) is None else one.model_copy(update={field: free}) for one in given)
    return scenario.model_copy(update={"offers": tuple(free_offers)})


def _drop_limit(scenario: Scenario, limit: str, free: object) -> Scenario:
    return scenario.model_copy(update={"limits": scenario.limits.model_copy(update={limit: free})})


def _longest_run_limit(scenario: Scenario) -> float | str:
    """The longest run, also where nobody has set it: then it is called the default."""
    if scenario.limits.max_hours is not None:
        return scenario.limits.max_hours
    kinds = dict.fromkeys(job.kind for job in scenario.jobs)
    return f"default {' and '.join(f'{DEFAULT_MAX_HOURS[kind]:,.0f}' for kind in kinds)} h"


def limit_sensitivities(now: Baseline, binding: tuple[Binding, ...]) -> tuple[LimitSensitivity, ...]:
    """Return for each limit of the scenario the smallest relaxation that gives a better plan, if any."""
    scenario = now.prepared.scenario
    bound = {one.limit for one in binding}
    steps: list[LimitSensitivity] = []
    for path in _set_by_user(now.elastic, scenario, bound):
        gains = path == HEADROOM or any(path == limit or path.startswith(f"{limit}.") for limit in bound)
        steps.append(_smallest_relaxation(now, path) if gains else _no_effect(path, scenario))
    return (*steps, *_scarce_offers(now))


def _set_by_user(elastic: ElasticProgram, scenario: Scenario, bound: set[str]) -> list[str]:
    """The limits that can be moved; the longest run that nobody has set only where it binds."""
    unset = set() if scenario.limits.max_hours is not None else {"limits.max_hours"} - bound
    return [path for path in elastic.relaxable_paths if path not in unset]


def _smallest_relaxation(now: Baseline, path: str) -> LimitSensitivity:
    """The least move of one limit that reaches the goal; of a list the one value that saves most."""
    elastic = now.elastic
    is_list = any(one.path == path for one in elastic.relaxed.filters) and path != HEADROOM
    found = elastic.solve((path,), caps=now.caps, one_filter=is_list, cost_first=is_list)
    held = verify_relaxation(now.prepared, build_changes(found, elastic, now.prepared), now.better) if found else None
    if held is None:
        return _no_effect(path, now.prepared.scenario)
    trial, changes = held
    return build_step(now, trial, changes[0])


def _no_effect(path: str, scenario: Scenario) -> LimitSensitivity:
    limits = scenario.limits
    current = next((given for limit, given, _ in _scenarios_without_limit(scenario) if limit == path), None)
    if path.startswith("limits.quota."):
        current = limits.quota.get(path.removeprefix("limits.quota."))
    return LimitSensitivity(worth=unit_of_limit(path), limit=path, change_from=current, note="nothing at any value")


def _scarce_offers(now: Baseline) -> Iterator[LimitSensitivity]:
    """Machines or hours paid for that an offer has too few of; nobody but the provider changes that: no setting."""
    elastic = now.elastic
    found = elastic.solve(elastic.offer_paths, caps=now.caps) if elastic.offer_paths else None
    if found is None:
        return
    for one in elastic.soft:
        if one.path in elastic.offer_paths and one.path in found.excess:
            needed = one.current + found.excess[one.path]
            stock = one.path.startswith(STOCK)
            yield LimitSensitivity(
                worth="gpu" if stock else "hour",
                limit=one.path,
                change_from=one.current,
                change_to=float(round(needed)) if stock else round_up(needed, HOURS_STEP),
                plan=_describe_scarcity(elastic, found),
                cost_usd=found.cost,
                delta_usd=found.cost - now.trial.cost_usd,
                note=f"{'machines' if stock else 'hours'} that the offer would have to have",
            )


def _describe_scarcity(elastic: ElasticProgram, found: ElasticSolution) -> str:
    wide = elastic.relaxed
    several = len(found.rows) > 1
    said = []
    for row, share in zip(found.rows, found.shares, strict=True):
        one = wide.pieces[int(wide.piece[row])]
        words = describe_candidate(one, int(wide.row[row]), float(share), wide.market)
        said.append(f"{one.job.name}: {words}" if several else words)
    return "; ".join(said)
