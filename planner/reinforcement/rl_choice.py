"""The choice of the machines of a job of reinforcement learning: the least way, other ways, and why there is none.

Every way is priced, so that the plan, the cost for every deadline, and the least change that gives a plan are exact.
"""

from __future__ import annotations

import datetime
import math
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.analysis.frontier_trace import NOTICEABLE_USD, ignored_objectives, with_knee
from planner.analysis.lower_envelope import find_knee
from planner.arrays import Flags
from planner.errors import AuditError, Fault, ScenarioError
from planner.estimates.uncertainty import equally_likely_factors, tail_of_68_percent
from planner.formulation.solvers import solver_versions
from planner.library.schema import Library
from planner.reinforcement.evaluated_rl import EvaluatedRl, changes_of, evaluate_rl, report_rl, states_network
from planner.reinforcement.rl_estimate import FP8_CAUTION, REWARD_CAUTION, SGLANG_CAUTION, step_sigma
from planner.reinforcement.rl_limits import (
    BOTH,
    OF_POOLS,
    RlLimit,
    changes_needed,
    check_rl,
    freed_searches,
    least_change,
    limits_of,
    lists_broken,
    with_choices,
    with_gpus,
    with_job,
    within,
    without_lists,
)
from planner.reinforcement.rl_step import RlPhases, transfer_seconds
from planner.reinforcement.rl_ways import MOST_POOL_GPUS, MOST_RL_GPUS, PLACEMENTS, RlSearch, search_rl
from planner.results.explanation import describe_job_differences
from planner.results.frontier import Frontier, GroupBy, HiddenByLimit, Point, Segment, SegmentJob
from planner.results.plan import Plan
from planner.results.plan_parts import CandidateCounts, Infeasible, Relaxation
from planner.results.subject_runs import (
    NETWORK_RISK,
    RL_PHASE_NAMES,
    SECURE,
    SPEED_RISK,
    RlAlternative,
    RlRun,
    machines_words,
    reward_gpus_words,
    rollout_words,
)
from planner.scenario.limits import latest_finish_hours
from planner.scenario.rl_job import DIVIDING, RL_FRAMEWORK, RL_FRAMEWORKS, TRAINER_DEGREES, Judge, RlJob
from planner.scenario.scenario import Scenario, SolveOptions, rl_job_of, setting_path
from planner.solving.chosen import build_inputs
from planner.solving.limit_changes import LimitChange
from planner.units import GB, SPEED_RANK_BOUNDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.analysis.why_not import WhyNotQuery

SLOW_NETWORK_GBPS = 1.0
"""Gbit/s for which a plan that assumes more says what new weights would take."""
RL_SEARCH_TOLERANCE = 1e-6
"""Relative, by which the arrays of the search and the evaluation of the chosen way may differ."""
SAME_OBJECTIVE = 1e-9
"""Relative difference of the objective below which two ways cost the same."""
MEGATRON_NOTE = (
    "the trainer is Megatron: published steps with it took 18 % longer than the formulas say (median of 34), and none "
    "states its memory"
)
"""Note of a plan whose trainer is Megatron: published steps of NeMo-RL (31) and verl (3)."""


def searched(scenario: Scenario, library: Library) -> RlSearch:
    """Return every way to run the job of a scenario; ScenarioError for what is not modelled."""
    job = rl_job_of(scenario)
    assert job is not None
    check_rl(scenario, job, library)
    return search_rl(scenario, job, library)


def matches(search: RlSearch, query: WhyNotQuery) -> Flags:
    """Return the ways (n,) that a query means, of those on its offers."""
    ways, given = search.ways, query.given
    offers = search.market.market.offers
    gpus = np.asarray([float(offer.gpus) for offer in offers])
    of_trainer = ways.trainer.instances * gpus[ways.trainer.offer]
    divided = ways.placement == PLACEMENTS.index("one machine")
    meant = np.ones(len(ways), dtype=bool)
    if "placement" in given:
        meant &= ways.placement == PLACEMENTS.index(given["placement"])
    if "reward_placement" in given:
        meant &= (ways.trainer.reward_gpus > 0) == (given["reward_placement"] == "own")
    if "market" in given:
        meant &= ways.rollout.is_spot == (given["market"] == "spot")
    if "gpus" in given:
        meant &= search.used_at_once(gpus) == given["gpus"]
    if "training_gpus" in given:
        others = np.where(divided, ways.rollout.gpus, 0) + ways.trainer.reward_gpus
        meant &= of_trainer - others == given["training_gpus"]
    if "rollout_gpus" in given:
        meant &= ways.rollout.gpus == given["rollout_gpus"]
    return meant


# The choice: the least way, other ways.


def best_way(search: RlSearch, able: Flags) -> int:
    """Return of some ways (n,) that of least objective; of equal ones the one that ends first, then the cheapest."""
    objective = np.where(able, search.objective, math.inf)
    least = np.flatnonzero(objective <= objective.min() * (1.0 + SAME_OBJECTIVE))
    order = np.lexsort((search.ways.usd[least], search.ways.late_hours[least]))
    return int(least[order[0]])


def solve_rl(
    scenario: Scenario, library: Library, options: SolveOptions, started: float, explains: bool = True
) -> Plan:
    """Return the plan of a scenario with a job of reinforcement learning, not yet audited.

    Raises ScenarioError for what is not modelled, each by its name.
    """
    job = rl_job_of(scenario)
    assert job is not None
    check_rl(scenario, job, library)
    search = search_rl(scenario, job, library)
    fits = within(limits_of(search), len(search.ways))
    as_of = options.as_of or datetime.date.today()
    facts: dict[str, Any] = {
        "scenario": scenario.name,
        "solver": options.solver,
        "as_of": as_of.isoformat(),
        "candidates": count_ways(search),
        "budget_usd": scenario.limits.budget_usd,
    }
    if not fits.any():
        return Plan(
            **facts, seconds=perf_counter() - started, status="infeasible", objective=None, bound=None, gap=None,
            cost=None, hours=None,
        )  # fmt: skip
    way = best_way(search, fits)
    made = evaluated_way(search, way)
    run = told_run(search, made, report_rl(made, as_of), way, fits, explains)
    value = run.cost_usd + scenario.value_of_time_usd_per_hour * run.hours.expected
    value = run.hours.at_confidence if scenario.objective_kind == "time" else value
    return Plan(
        **facts, seconds=perf_counter() - started, status="optimal", objective=value, bound=value, gap=0.0,
        cost=run.cost, cost_at_confidence=run.cost_at_confidence, hours=run.hours, reinforcement=(run,),
        price_age_days=run.price_age_days, warnings=run.notes,
        inputs=build_inputs(scenario, (run,), solver_versions()),
    )  # fmt: skip


def evaluated_way(search: RlSearch, way: int) -> EvaluatedRl:
    """Return a way evaluated by itself; AuditError where the arrays of the search say something else."""
    offers = dict(zip(search.market.market.labels, search.market.market.offers, strict=True))
    made = evaluate_rl(search.named(way), search.job, search.scenario, offers, search.library)
    pairs = {
        "step_seconds": (search.ways.step_seconds[way], made.step_seconds),
        "cost_usd": (search.ways.usd[way], made.usd()),
        "sigma": (search.ways.sigma[way], made.sigma),
    }
    for name, (mine, other) in pairs.items():
        if not math.isclose(mine, other, rel_tol=RL_SEARCH_TOLERANCE):
            raise AuditError(f"search and evaluation differ: {name} {mine:.10g} and {other:.10g}")
    return made


def told_run(search: RlSearch, made: EvaluatedRl, run: RlRun, way: int, fits: Flags, explains: bool) -> RlRun:
    """Return the run with other ways, changes, what was assumed, and notes."""
    update: dict[str, Any] = {"assumed": _assumed(search), "notes": run_notes(search, made)}
    if explains:
        update |= {"ways": _other_ways(search, way, fits), "changes": changes_of(made, run.start_at_hours)}
    return run.model_copy(update=update)


# Other ways next to the plan.


MOST_RL_WAYS = 6
AT_KNEE, FASTEST = "best value", "faster"
"""Ways that are shown for what they cost at their end, whatever their kind is; the first as a frontier calls it."""
NEARLY_FASTEST = 1.01
"""Of the ways that end within one percent of the fastest the cheapest is shown."""


def _other_ways(search: RlSearch, way: int, fits: Flags) -> tuple[RlAlternative, ...]:
    """Return the plan and the best way of each kind, the cheapest first."""
    ways, shown = search.ways, {way: "plan"}
    soon = ways.late_hours <= NEARLY_FASTEST * np.min(ways.late_hours[fits])
    for label, members in _categories(search, way, fits).items():
        able = members & fits & (soon if label == FASTEST else True)
        if able.any():
            shown.setdefault(int(np.argmin(np.where(able, ways.usd, math.inf))), label)
    while len(shown) > MOST_RL_WAYS:
        shown.pop(_least_telling(search, shown))
    rows = [_alternative(search, index, label) for index, label in shown.items()]
    return tuple(sorted(rows, key=lambda row: row.cost_usd))


def _categories(search: RlSearch, way: int, fits: Flags) -> dict[str, Flags]:
    """Return ways by a word for what is characteristic of them: secure ones first where the plan has private hosts."""
    ways, offers = search.ways, search.market.market.offers
    own = ways.trainer.reward_gpus > 0
    apart, spot = ways.placement == PLACEMENTS.index("apart"), ways.rollout.is_spot
    gpu = np.asarray([hash(offer.card) for offer in offers])
    same_gpu = gpu[ways.trainer.offer] == gpu[ways.rollout.offer]
    place = search.market.place
    here = place[ways.trainer.offer] == place[ways.rollout.offer]
    hosts = np.asarray([offer.tier == "community" for offer in offers], dtype=bool)
    is_secure = ~(hosts[ways.trainer.offer] | hosts[ways.rollout.offer])
    return {
        **({"own rewards": own, "shared rewards": ~own} if own.any() else {}),
        **({} if is_secure[way] else {SECURE: is_secure}),
        "colocated": ways.placement == PLACEMENTS.index("colocated"),
        "one machine": ways.placement == PLACEMENTS.index("one machine"),
        "apart": apart & ~spot & same_gpu,
        "two kinds": apart & ~spot & ~same_gpu,
        "spot rollout": apart & spot,
        "two places": apart & ~here,
        AT_KNEE: np.isin(np.arange(len(ways)), _best_value(search, fits)),
        FASTEST: np.ones(len(ways), dtype=bool),
    }


def _best_value(search: RlSearch, fits: Flags) -> list[int]:
    """Return the way beyond which waiting stops paying; empty where there is no such one."""
    curve = undercut_by_none(search, fits)
    knee = find_knee(search.ways.late_hours[curve], search.ways.usd[curve])
    return [] if knee is None else [curve[knee.vertex]]


def undercut_by_none(search: RlSearch, able: Flags) -> list[int]:
    """Return of some ways (n,) those that no other one beats in hours and in dollars, the fastest first."""
    ways = search.ways
    members = np.flatnonzero(able)
    order = members[np.lexsort((ways.usd[members], ways.late_hours[members]))]
    before = np.minimum.accumulate(np.concatenate(([math.inf], ways.usd[order])))[:-1]
    least, curve = math.inf, list[int]()
    for way in order[ways.usd[order] < before].tolist():
        if ways.usd[way] < least - NOTICEABLE_USD:
            curve.append(way)
            least = float(ways.usd[way])
    return curve


def _least_telling(search: RlSearch, shown: dict[int, str]) -> int:
    """Return the way to leave out: the last kind that another way beats in dollars and hours, else the last one."""
    ways, kept = search.ways, ("plan", SECURE, "own rewards", "shared rewards", AT_KNEE, FASTEST)
    others = [way for way, label in reversed(shown.items()) if label not in kept]

    def is_beaten(way: int) -> bool:
        by = [other for other in shown if other != way and ways.usd[other] <= ways.usd[way]]
        return any(ways.late_hours[other] <= ways.late_hours[way] for other in by)

    return next((way for way in others if is_beaten(way)), others[0])


def _alternative(search: RlSearch, way: int, label: str) -> RlAlternative:
    ways, named = search.ways, search.named(way)
    return RlAlternative(
        label=label,
        machines=way_words(search, way),
        usd_per_hour=float(search.rent[way]),
        cost_usd=float(ways.usd[way]),
        hours_at_confidence=float(ways.late_hours[way]),
        step_seconds=float(ways.step_seconds[way]),
        how=how_words(named.placement, named.overlapped, named.method, named.weight_bits, named.framework)
        + rollout_words(named.rollout_weight_bits, named.engine)
        + reward_gpus_words(named.reward_gpus),
    )


def way_words(search: RlSearch, way: int) -> str:
    """Return the GPUs of a way with their place: `8 x H100-80GB vast`, `6 + 2 x H100-80GB vast`."""
    ways, offers = search.ways, search.market.market.offers
    trainer, rollout = offers[int(ways.trainer.offer[way])], offers[int(ways.rollout.offer[way])]
    placement, more = PLACEMENTS[int(ways.placement[way])], int(ways.rollout.gpus[way])
    gpus = int(ways.trainer.instances[way]) * trainer.gpus
    gpus -= int(ways.trainer.reward_gpus[way])
    left = gpus - more if placement == "one machine" else gpus
    sides = (left, trainer.card, trainer.provider), (more, rollout.card, rollout.provider)
    words = machines_words(placement, *sides, bool(ways.rollout.is_spot[way]))
    return words + reward_gpus_words(int(ways.trainer.reward_gpus[way]))


def how_words(placement: str, overlapped: bool, method: str, bits: int, framework: str) -> str:
    """Return how a way works, in a few words."""
    turn = "in turn" if not overlapped else "overlapped"
    trained = "full" if method == "full" else "QLoRA" if bits == 4 else "LoRA"
    trained += "" if framework == RL_FRAMEWORK else f" with {framework}"
    return f"{trained}, {turn}" if placement != "colocated" else f"{trained}, colocated"


# What a plan says of a way: what it rests on, notes, counts.


def _assumed(search: RlSearch) -> tuple[str, ...]:
    """Return what the scenario does not say and the plan rests on."""
    work, given = search.job.work, search.job.work.model_fields_set
    said = {
        "prompts": f"{work.prompts:,} prompts a step",
        "answers": f"{work.answers:,} answers to each",
        "longest_output": f"answers cut at {search.quantities.longest:,} tokens",
        "output_cv": f"spread of lengths {work.spread:g} of their mean",
    }
    from_log = {"longest_output", "output_cv"} if work.lengths else set()
    return tuple(words for name, words in said.items() if name not in given | from_log)


def _corrected_words(factors: RlPhases) -> list[str]:
    """Return how observed runs correct the phases of a step."""
    changed = {name: factor for name, factor in factors.by_name.items() if factor != 1.0}
    named = ", ".join(f"{RL_PHASE_NAMES[name]} x {factor:.2f}" for name, factor in changed.items())
    return [f"seconds are corrected by observed runs of this job: {named or 'nothing'}"]


def run_notes(search: RlSearch, made: EvaluatedRl) -> tuple[str, ...]:
    """Return what a plan says of a way besides its figures, what may change the decision first."""
    notes = [*(_corrected_words(search.quantities.factors) if made.job.measured else [SPEED_RISK]), *network_risk(made)]
    notes += _without_shards(search.job)
    notes += [MEGATRON_NOTE] if made.named.framework != RL_FRAMEWORK else _not_tried(search, made)
    notes.append(median_words(made))
    notes += _limits_without_effect(search, made)
    if isinstance(search.job.reward, Judge):
        notes.append("the seconds of the judge are not modelled: it is assumed to keep up with the engines")
    if made.named.overlapped:
        count = made.job.staleness
        notes.append(f"answers may be {count} step{'s' * (count > 1)} behind the policy (off-policy)")
    if made.named.rollout_weight_bits < 16:
        notes.append(FP8_CAUTION)
    if made.named.engine == "sglang":
        notes.append(SGLANG_CAUTION)
    if made.step.reward is not None:
        notes.append(REWARD_CAUTION)
    if made.host_gb:
        held = "the trainer" if made.named.offloads else "the reward model"
        held = "the trainer and the reward model" if made.named.offloads and made.step.shares_reward else held
        notes.append(f"while the engines sample, {made.host_gb:,.0f} GB of a machine's host memory hold {held}")
    if made.engines_pool.named.on_spot:
        notes.append("engines on spot are lost one by one here: where a zone is lost as a whole, steps wait for it")
    return tuple(notes)


DIVIDED_FROM = 30e9
"""Parameters from which on published runs divide layers: NeMo-RL's recipes of 32B and larger, and verl's."""


def _not_tried(search: RlSearch, made: EvaluatedRl) -> list[str]:
    """Return that trainers were not compared that large models are usually trained with, and how they are."""
    job, is_large = search.job, made.architecture.parameters >= DIVIDED_FROM
    if set(DIVIDING) <= set(job.framework) or made.named.method != "full" or not is_large:
        return []
    setting = f"{setting_path(f'jobs.{job.name}.framework', search.scenario)}=[{','.join(RL_FRAMEWORKS)}]"
    return [f"{' and '.join(DIVIDING)}, which divides layers, was not compared: --set '{setting}'"]


def _without_shards(job: RlJob) -> list[str]:
    """Return that a trainer that is allowed was not compared, as it divides no layers and a degree is pinned."""
    pinned = [name for name in TRAINER_DEGREES if 1 not in (getattr(job.techniques, name) or (1,))]
    if RL_FRAMEWORK not in job.framework or not pinned:
        return []
    return [f"framework {RL_FRAMEWORK} was not compared: it divides no layers, and {pinned[0]} is given"]


def median_words(made: EvaluatedRl) -> str:
    """Return that hours and dollars are medians over the error of the speed, and what they are on average.

    The average is that of `planner simulate`, which cuts the long tail of the error at the same ranks.
    """
    factors = equally_likely_factors(float(tail_of_68_percent(step_sigma(made.step))), SPEED_RANK_BOUNDS).tolist()
    usd = fmean(made.usd(factor) for factor in factors)
    hours = (made.start_hours + made.run_hours) * fmean(factors)
    return f"likely hours and dollars are medians; slow runs make the average ${usd:,.2f} and {hours:,.1f} h"


def _limits_without_effect(search: RlSearch, made: EvaluatedRl) -> list[str]:
    """Return limits of the scenario that leave this plan as it is, because of what offers are or do not state."""
    limits, notes = search.scenario.limits, list[str]()
    if limits.outlay_usd is not None:
        notes.append("limits.outlay_usd has no effect: machines of kind rl are rented by the hour alone")
    silent = [pool.named.offer for pool in made.pools if pool.offer.stock is None and pool.offer.stock_status is None]
    if limits.stock_status is not None and silent:
        unstated = f"limits.stock_status has no effect on {', '.join(dict.fromkeys(silent))}"
        notes.append(f"{unstated}: the provider's list does not state its stock")
    return notes


def network_risk(made: EvaluatedRl) -> list[str]:
    """Return a line where new weights cross between machines whose network the offers do not state."""
    if made.rollout is None or states_network(made.trainer.offer, made.rollout.offer):
        return []
    weight_bytes, assumed = made.step.weight_bytes, (made.step.between or 0.0) * 8.0 / GB
    at, seconds = "", made.phases.new_weights
    if assumed > SLOW_NETWORK_GBPS:
        at = f"at {SLOW_NETWORK_GBPS:g} Gbit/s "
        seconds = transfer_seconds(weight_bytes, SLOW_NETWORK_GBPS * GB / 8.0)
    return [f"{NETWORK_RISK}: {assumed:g} Gbit/s assumed, {at}new weights take {seconds:,.0f} s a step"]


def count_ways(search: RlSearch) -> CandidateCounts:
    """Return how many ways there were, and why others are none."""
    offers = search.market.market.offers
    return CandidateCounts(
        made=len(search.ways),
        rejected=sum(search.rejected.values()),
        dominated=0,
        offers=len(offers) - int(search.market.market.is_outdated.sum()),
        outdated_offers=int(search.market.market.is_outdated.sum()),
        reasons=dict(search.rejected.most_common()),
    )


# Cost against time: the ways that no other one beats in both.


def frontier_of_rl(
    scenario: Scenario, options: SolveOptions, library: Library, by: GroupBy | None, search: RlSearch | None = None
) -> Frontier:
    """Return the cost for every deadline: of all ways within the limits those that no other one undercuts.

    The time is that at the confidence of the job, the cost expected dollars. Exact: every way is priced. `search` is
    that of the scenario where it is made already.
    """
    if by is not None:
        problem = f"curves by {by} are not modelled for kind rl: a way may have two kinds of GPUs"
        raise ScenarioError([Fault(scenario.name, 0, "--by", problem, f"use explain for the best way of each {by}")])
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


def _with_divided_layers(search: RlSearch) -> Iterator[RlSearch]:
    """Yield the search with trainers that divide layers, too, where a job leaves them out and trains all weights.

    Only where there is no plan: its memory was compared with no measured one, and must not win by being optimistic.
    """
    job = search.job.model_copy(update={"framework": RL_FRAMEWORKS})
    if not set(DIVIDING) <= set(search.job.framework) and "full" in job.techniques.method:
        yield search.again(with_job(search.scenario, job), job)


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
