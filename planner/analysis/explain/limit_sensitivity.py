"""What moving one limit is worth: the exact next point at which another plan is better."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.analysis.explain.baseline import Baseline, build_step, unit_of_limit
from planner.results.explanation import Binding, LimitSensitivity
<<<<<<< HEAD
from planner.scenario.scenario import Scenario
from planner.solving.binding_limits import lift_limits
=======
from planner.scenario.limits import DEFAULT_MAX_HOURS, UNLIMITED_HOURS, Limits
from planner.scenario.scenario import Scenario
>>>>>>> main
from planner.solving.infeasibility.elastic_program import STOCK, ElasticProgram, ElasticSolution
from planner.solving.infeasibility.relaxations import HOURS_STEP, build_changes, round_up, verify_relaxation
from planner.solving.infeasibility.relaxed_candidates import HEADROOM
from planner.solving.resolve import describe_candidate

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    current = next((one.current for one in lift_limits(scenario) if one.path == path), None)
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
