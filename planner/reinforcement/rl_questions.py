"""What is asked of a job of reinforcement learning around its plan: cost against time, reasons, why not another way."""

from __future__ import annotations

import datetime
import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import generation
from planner.analysis.frontier_trace import NOTICEABLE_USD, ignored_objectives, with_knee
from planner.errors import Fault, ScenarioError
from planner.reinforcement.evaluated_rl import report_rl
from planner.reinforcement.rl_solve import (
    MOST_POOL_GPUS,
    MOST_RL_GPUS,
    RlLimit,
    RlSearch,
    best_way,
    check_rl,
    count_ways,
    evaluated_way,
    least_change,
    limits_of,
    run_notes,
    search_rl,
    undercut_by_none,
    way_words,
    within,
)
from planner.results.explanation import describe_job_differences
from planner.results.frontier import Frontier, HiddenByLimit, Point, Segment, SegmentJob
from planner.results.plan_parts import Infeasible, Relaxation
from planner.scenario.limits import AllowForbid, Limits, SpotShare, latest_finish_hours
from planner.scenario.rl_job import DIVIDING, REWARD_PLACEMENTS, RL_FRAMEWORK, RL_FRAMEWORKS, TRAINER_DEGREES
from planner.scenario.scenario import Scenario, SolveOptions, rl_job_of, setting_path
from planner.solving.elastic_program import MAX_PRICE_AGE, CandidateFilter
from planner.solving.limit_changes import LimitChange, extend_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.arrays import Integers
    from planner.library.schema import Library
    from planner.results.frontier import GroupBy
    from planner.results.subject_runs import RlRun
    from planner.scenario.offer import Offer
    from planner.scenario.rl_job import RlJob


def searched(scenario: Scenario, library: Library) -> RlSearch:
    """Return every way to run the job of a scenario; ScenarioError for what is not modelled."""
    job = rl_job_of(scenario)
    assert job is not None
    check_rl(scenario, job, library)
    return search_rl(scenario, job, library)


# Cost against time: the ways that no other one beats in both.


def frontier_of_rl(
    scenario: Scenario, options: SolveOptions, library: Library, by: GroupBy | None, search: RlSearch | None = None
) -> Frontier:
    """Return the cost for every deadline: of all ways within the limits those that no other one undercuts.

    The time is that at the confidence of the job, the cost expected dollars. Exact: every way is priced. `search` is
    that of the scenario where it is made already.
    """
    if by is not None:
        what = f"curves by {by} are not modelled for kind rl: a way may have two kinds of GPUs"
        raise ScenarioError([Fault(scenario.name, 0, "--by", what, f"use explain for the best way of each {by}")])
    started, as_of = perf_counter(), options.as_of or datetime.date.today()
    search = search or searched(scenario, library)
    limits = limits_of(search)
    able = within(limits, len(search.ways))
    points = list[Point]()
    for way in undercut_by_none(search, able):
        run = report_rl(made := evaluated_way(search, way), as_of)
        points.append(_point(run.model_copy(update={"notes": run_notes(search, made)}), points))
    marked, knee = with_knee(tuple(points))
    return Frontier(
        scenario=scenario.name,
        status="optimal" if points else "infeasible",
        exact=True,
        confidence=search.job.confidence,
        points=marked,
        segments=tuple(_segment(point) for point in marked),
        knee=knee,
        beyond=_hidden(search, limits) if points else (),
        candidates=count_ways(search),
        solver="envelope",
        seconds=perf_counter() - started,
        as_of=as_of.isoformat(),
        budget_usd=scenario.limits.budget_usd,
        infeasible=None if points else diagnose_rl(search),
        notes=ignored_objectives(scenario),
    )


def _point(run: RlRun, before: list[Point]) -> Point:
    """Return a breakpoint; `before` are those that end earlier."""
    earlier = before[-1].reinforcement if before else ()
    return Point(
        hours=run.hours.at_confidence,
        expected_hours=run.hours.expected,
        cost_usd=run.cost_usd,
        jobs=(),
        reinforcement=(run,),
        change=describe_job_differences(earlier, (run,)),
        bound=run.cost_usd,
        gap=0.0,
        mostly_start_up=max(pool.start_hours for pool in run.pools) > 0.5 * run.hours.expected,
    )


def _segment(point: Point) -> Segment:
    """Return the segment of a breakpoint: no share of spot varies along it."""
    ends = {"hours_from": point.hours, "hours_to": point.hours}
    own = tuple(map(segment_job, point.reinforcement))
    return Segment(**ends, cost_from_usd=point.cost_usd, cost_to_usd=point.cost_usd, jobs=own)


def segment_job(run: RlRun) -> SegmentJob:
    """Return a run along a segment."""
    return SegmentJob(
        name=run.name, provider=run.pools[0].provider, offer=run.pools[0].offer, gpu=run.gpu, gpus=run.gpus,
        method=run.method_name, spot_share_from=0.0, spot_share_to=0.0,
    )  # fmt: skip


def _hidden(search: RlSearch, limits: list[RlLimit]) -> tuple[HiddenByLimit, ...]:
    """Return the cheapest way that ends after the deadline, or the longest run, where it costs less."""
    ways, job = search.ways, search.job
    latest, deadline = latest_finish_hours(job, search.scenario.limits), f"jobs.{job.name}.deadline"
    usd = np.where(within(limits, len(ways), deadline, "limits.max_hours"), ways.usd, math.inf)
    way, least = int(np.argmin(usd)), float(np.where(within(limits, len(ways)), ways.usd, math.inf).min())
    if usd[way] >= least - NOTICEABLE_USD:
        return ()
    hours = float(ways.late_hours[way])
    by_deadline = job.deadline_hours is not None and job.deadline_hours <= latest
    limit = deadline if by_deadline else "limits.max_hours"
    value: Any = "null" if by_deadline else f"{math.ceil(hours)}"
    setting = f"{setting_path(limit, search.scenario)}={value}"
    return (HiddenByLimit(limit=limit, limit_hours=latest, cost_usd=float(usd[way]), hours=hours, setting=setting),)


# What a limit forbids: the scenario without it, and what of it a way needs.


OFFER_LISTS: dict[str, Callable[[Offer], Any]] = {
    "providers": lambda offer: offer.provider,
    "gpus": lambda offer: offer.card,
    "regions": lambda offer: offer.region,
    "tiers": lambda offer: offer.tier,
}
"""Lists of limits, and what of an offer they name."""
FREE_LIMITS: dict[str, dict[str, Any]] = {
    **{f"limits.{name}": {name: AllowForbid()} for name in OFFER_LISTS},
    "limits.spot": {"spot": None, "spot_share": SpotShare()},
    "limits.max_price_age": {"max_price_age_hours": None},
    "limits.stock_status": {"stock_status": None},
}
"""Limits that name offers, each with what it is where it limits nothing."""


def without_lists(scenario: Scenario, *paths: str) -> Scenario:
    """Return the scenario without some limits that name offers; without any named without all of them."""
    update: dict[str, Any] = {}
    for path in paths or FREE_LIMITS:
        update |= FREE_LIMITS[path]
    return scenario.model_copy(update={"limits": scenario.limits.model_copy(update=update)})


def given_lists(scenario: Scenario) -> list[str]:
    """Return the limits that name offers and that the scenario gives."""
    free = Limits()
    return [
        path
        for path, update in FREE_LIMITS.items()
        if any(getattr(scenario.limits, name) != getattr(free, name) for name in update)
    ]


BOTH = "method and weight_bits"
"""Two choices together: adapters on weights of fewer bits."""


def with_choices(job: RlJob) -> dict[str, RlJob]:
    """Return the job with one choice more left open, by what is opened; what is open already is left out."""
    techniques, rollout = job.techniques, job.rollout
    every: dict[str, tuple[Any, ...]] = {"method": ("full", "lora"), "weight_bits": generation.ALL_BITS}
    opened: dict[str, dict[str, Any]] = {}
    if set(techniques.method) < set(every["method"]):
        opened |= {"method": {"method": every["method"]}, BOTH: every}
    if "lora" in techniques.method and set(techniques.weight_bits or (16,)) < set(generation.ALL_BITS):
        opened["weight_bits"] = {"weight_bits": generation.ALL_BITS}
    if techniques.sharding is not None:
        opened["sharding"] = {"sharding": None}
    degrees = {name: None for name in TRAINER_DEGREES if getattr(techniques, name) is not None}
    opened |= {f"techniques.{name}": {name: None} for name in degrees}
    found = {
        name: job.model_copy(update={"techniques": techniques.model_copy(update=update)})
        for name, update in opened.items()
    }
    if (
        RL_FRAMEWORK not in job.framework
    ):  # the other way is opened where there is no plan alone: `_with_divided_layers`
        layout = techniques.model_copy(update=degrees)
        found["framework"] = job.model_copy(update={"framework": RL_FRAMEWORKS, "techniques": layout})
    if (reward := job.reward_model) is not None and set(reward.placement) < set(REWARD_PLACEMENTS):
        opened_reward = reward.model_copy(update={"placement": REWARD_PLACEMENTS})
        found["reward.placement"] = job.model_copy(update={"reward": opened_reward})
    if reward is not None and reward.offload is not None:
        found["reward.offload"] = job.model_copy(update={"reward": reward.model_copy(update={"offload": None})})
    for name, free in (("placement", ("colocated", "apart")), ("tensor_parallel", None)):
        if getattr(rollout, name) not in (free, tuple(reversed(free or ()))):
            found[name] = job.model_copy(update={"rollout": rollout.model_copy(update={name: free})})
    return found


def changes_needed(base: Scenario, search: RlSearch, way: int, pins: bool = False) -> list[LimitChange]:
    """Return what of a scenario must change for a way of a search that was made with fewer limits.

    `pins`: a choice that must change is set to that of the way alone, else it is allowed next to what is given.
    """
    numbers = limits_of(search, base.limits)
    broken = [limit for limit in numbers if limit.settable and not limit.kept[way]]
    return [
        *_lists_needed(base, search, way),
        *_choices_needed(base, search, way, pins),
        *(limit.change(float(limit.used[way]), base) for limit in broken),
    ]


def _offers(search: RlSearch, way: int) -> list[Offer]:
    """Return the offers of a way, each once."""
    ways, offers = search.ways, search.market.market.offers
    return [offers[at] for at in dict.fromkeys((int(ways.trainer.offer[way]), int(ways.rollout.offer[way])))]


def _lists_needed(base: Scenario, search: RlSearch, way: int) -> Iterator[LimitChange]:
    limits, offers = base.limits, _offers(search, way)
    for name, named in OFFER_LISTS.items():
        missing = dict.fromkeys(named(offer) for offer in offers if not getattr(limits, name).permits(named(offer)))
        if missing:
            yield extend_list(f"limits.{name}", [CandidateFilter(f"limits.{name}", one) for one in missing], base)
    if search.ways.rollout.is_spot[way] and limits.spot_share.max <= 0:
        yield LimitChange("limits.spot", "false", "true", "limits.spot=true")
    if any(limits.is_outdated(offer) for offer in offers):
        yield extend_list(MAX_PRICE_AGE, [CandidateFilter(MAX_PRICE_AGE)], base)
    if not all(limits.has_stock(offer) for offer in offers):
        path = "limits.stock_status"
        yield LimitChange(path, limits.stock_status or "", "none", f"{path}=null")


def _choices_needed(base: Scenario, search: RlSearch, way: int, pins: bool) -> Iterator[LimitChange]:
    job, named = rl_job_of(base), search.named(way)
    assert job is not None
    asked, rollout = job.techniques, job.rollout
    bits = (asked.weight_bits or (16,)) if named.method != "full" else None
    placement = "colocated" if named.placement == "colocated" else "apart"
    sharding = asked.sharding if search.trainers.machines[_machine(search, way)].gpus > 1 else None
    pairs: list[tuple[str, Any, Any]] = [
        ("framework", job.framework, named.framework),
        *((f"techniques.{name}", getattr(asked, name), getattr(named, name)) for name in TRAINER_DEGREES),
        ("techniques.method", asked.method, named.method),
        ("techniques.weight_bits", bits, named.weight_bits),
        ("techniques.sharding", sharding, named.sharding),
        ("techniques.activation_checkpointing", asked.activation_checkpointing, named.activation_checkpointing),
        ("techniques.optimizer", asked.optimizer, named.optimizer),
        ("rollout.placement", rollout.placement, placement),
        ("rollout.tensor_parallel", rollout.tensor_parallel, named.gpus_per_engine),
        ("rollout.weight_bits", rollout.weight_bits, named.rollout_weight_bits),
        ("rollout.engine", rollout.engine, named.engine),
    ]
    if (reward := job.reward_model) is not None:
        pairs.append(("reward.placement", reward.placement, "own" if named.reward_gpus else "shared"))
        if reward.offload is not None and not named.reward_gpus and reward.offload != named.reward_offloads:
            path, new = f"jobs.{job.name}.reward.offload", str(named.reward_offloads).lower()
            setting = f"{setting_path(path, base)}={new}"
            yield LimitChange(path, str(reward.offload).lower(), new, setting)
    loose = {"rollout.placement"} if job.staleness else set[str]()  # what other settings of the job do not allow alone
    loose |= {"framework"} if named.framework == RL_FRAMEWORK else set()
    loose |= {"techniques.method"} if named.method == "full" and asked.weight_bits else set()
    loose |= {"reward.placement"} if reward is not None and reward.offload is not None else set()
    for key, given, value in pairs:
        if given is not None and value not in given:
            path = f"jobs.{job.name}.{key}"
            is_pinned = pins and key not in loose
            values = str(value) if is_pinned else f"[{','.join(map(str, (*given, value)))}]"
            new = str(value) if is_pinned else f"allow also {value}"
            yield LimitChange(path, ", ".join(map(str, given)), new, f"{setting_path(path, base)}={values}")


def _machine(search: RlSearch, way: int) -> int:
    return int(search.trainers.machine[int(search.ways.trainer.row[way])])


# Why there is no plan, and the least change of one thing that gives one.


MOST_CHANGES = 6
"""Changes that are shown."""
MORE_GPUS = (2, 4, 8, 16)
"""Multiples of the GPUs that are tried, up to 1,024: from the second on with all GPUs in turn, as two pools have more.
"""


def diagnose_rl(search: RlSearch) -> Infeasible:
    """Return the least change of each limit and of each choice alone that gives a plan, else the fewest together."""
    scenario, found = search.scenario, list[tuple[list[LimitChange], RlSearch, int]]()
    limits = limits_of(search)
    for limit in limits:
        if not limit.path.startswith(OF_POOLS) and (least := least_change(search, limits, limit, math.inf)):
            found.append(([least[0]], search, least[1]))
    for freed in (*freed_searches(search), *_with_divided_layers(search)):
        able = within(limits_of(freed), len(freed.ways))
        if able.any():
            way = best_way(freed, able)
            found.append((changes_needed(scenario, freed, way), freed, way))
    if more := _more_gpus(search):
        found.append(more)
    if not found and (together := _together(search)):
        found.append(together)
    found.sort(key=lambda one: (len(one[0]), float(one[1].ways.usd[one[2]])))
    each: dict[tuple[str, ...], tuple[list[LimitChange], RlSearch, int]] = {}
    for one in found:  # several choices left open may need the same change: the cheapest way of it stays
        each.setdefault(tuple(sorted(change.setting for change in one[0])), one)
    relax = [
        one
        for number, (changes, freed, way) in enumerate([*each.values()][:MOST_CHANGES], 1)
        for one in _relaxations(changes, freed, way, number)
    ]
    return Infeasible(relax=tuple(relax))


OF_POOLS = ("limits.max_gpus", "limits.quota.")
"""Limits that decide which pools are searched: for more of them the search is made again."""


def freed_searches(search: RlSearch) -> Iterator[RlSearch]:
    """Yield the searches with one limit on offers, or one choice, left open; those that change nothing are left out."""
    scenario = search.scenario
    for path in given_lists(scenario):
        yield search.again(without_lists(scenario, path), search.job)
    for job in with_choices(search.job).values():
        yield search.again(with_job(scenario, job), job)


def _with_divided_layers(search: RlSearch) -> Iterator[RlSearch]:
    """Yield the search with trainers that divide layers, too, where a job leaves them out and trains all weights.

    Only where there is no plan: its memory was compared with no measured one, and must not win by being optimistic.
    """
    job = search.job.model_copy(update={"framework": RL_FRAMEWORKS})
    if not set(DIVIDING) <= set(search.job.framework) and "full" in job.techniques.method:
        yield search.again(with_job(search.scenario, job), job)


def with_job(scenario: Scenario, job: RlJob) -> Scenario:
    """Return the scenario with another version of its job."""
    return scenario.model_copy(update={"jobs": (job,)})


def with_gpus(scenario: Scenario, most: int) -> Scenario:
    """Return the scenario with so many GPUs at one time, and quotas that do not limit below that."""
    quota = {name: max(count, most) for name, count in scenario.limits.quota.items()}
    limits = scenario.limits.model_copy(update={"max_gpus": most, "quota": quota})
    return scenario.model_copy(update={"limits": limits})


def _more_gpus(search: RlSearch) -> tuple[list[LimitChange], RlSearch, int] | None:
    """Return the least number of GPUs with which there is a plan, and the best one with so many; None without."""
    scenario, job, given = search.scenario, search.job, search.scenario.limits.max_gpus or MOST_POOL_GPUS
    in_turn = job.model_copy(update={"rollout": job.rollout.model_copy(update={"placement": ("colocated",)})})
    in_turn = in_turn.model_copy(update={"staleness": 0})
    for times in MORE_GPUS:
        most = min(given * times, MOST_RL_GPUS)
        own = job if times == MORE_GPUS[0] and most <= MOST_POOL_GPUS else in_turn
        if most <= given or (own is in_turn and "colocated" not in job.rollout.placement):
            continue
        wide = search.again(with_job(with_gpus(scenario, most), own), own)
        limits = limits_of(wide, scenario.limits)
        used = wide.used_at_once(np.asarray([float(offer.gpus) for offer in wide.market.market.offers]))
        freed = [limit.path for limit in limits if limit.path.startswith(OF_POOLS)]
        able = within(limits, len(wide.ways), *freed)
        if able.any():
            way = best_way(wide, able & (used <= used[able].min()))
            changes = changes_needed(scenario, wide, way)
            if not any(change.limit == "limits.max_gpus" for change in changes) and scenario.limits.max_gpus is None:
                new = int(used[way])
                changes.append(LimitChange("limits.max_gpus", float(given), float(new), f"limits.max_gpus={new}"))
            return changes, wide, way
    return None


def _together(search: RlSearch) -> tuple[list[LimitChange], RlSearch, int] | None:
    """Return the fewest changes that give a plan together: of all limits, methods and placements; None without."""
    scenario, job = search.scenario, search.job
    job = with_choices(job).get(BOTH, job)
    open_scenario = with_job(without_lists(scenario), job)
    if scenario.limits.max_gpus is not None or scenario.limits.quota:
        open_scenario = with_gpus(open_scenario, max(scenario.limits.max_gpus or 0, MOST_POOL_GPUS))
    wide = search.again(open_scenario, job)
    limits = limits_of(wide, scenario.limits)
    possible = [limit.kept for limit in limits if not limit.settable]
    if not len(wide.ways) or not (able := np.logical_and.reduce(possible)).any():
        return None
    broken = np.sum([~limit.kept for limit in limits], axis=0) + lists_broken(scenario, wide)
    way = best_way(wide, able & (broken == broken[able].min()))
    return changes_needed(scenario, wide, way), wide, way


def lists_broken(base: Scenario, wide: RlSearch) -> Integers:
    """Return how many lists of a scenario, and whether its methods, each way (n,) breaks."""
    ways, offers, limits = wide.ways, wide.market.market.offers, base.limits
    job = rl_job_of(base)
    assert job is not None
    found = np.asarray([recipe.method not in job.techniques.method for recipe in wide.trainers.recipes])[
        ways.trainer.row
    ]
    found = found.astype(np.int64)
    for name, named in OFFER_LISTS.items():
        allowed = np.asarray([getattr(limits, name).permits(named(offer) or "") for offer in offers])
        found += ~(allowed[ways.trainer.offer] & allowed[ways.rollout.offer])
    return found + (ways.rollout.is_spot & (limits.spot_share.max <= 0))


def _relaxations(changes: list[LimitChange], freed: RlSearch, way: int, number: int) -> Iterator[Relaxation]:
    """Yield one way out as results: an entry for each limit, all with the same number and plan."""
    ways, late = freed.ways, ""
    if freed.scenario.limits.budget_usd is not None:  # a budget holds at the confidence, so both figures are needed
        late = f" expected, ${ways.late_usd[way]:,.2f} at the requested confidence"
    for change in changes:
        yield Relaxation(
            limit=change.limit, change_from=change.old, change_to=change.new,
            then=f"{way_words(freed, way)}, ${ways.usd[way]:,.2f}{late}", way=number, setting=change.setting,
            cost_usd=float(ways.usd[way]), hours=float(ways.late_hours[way]),
        )  # fmt: skip
