"""Why the plan of a job of reinforcement learning is as it is: what binds, prices of limits, why not another way."""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from planner.analysis.why_not import RL_TECHNIQUES, WhyNotQuery, parse_query
from planner.candidates.screening import CandidateObjective
from planner.reinforcement.evaluated_rl import USUAL_CHECKPOINTING
from planner.reinforcement.rl_choice import best_way, diagnose_rl, matches, searched, way_words
from planner.reinforcement.rl_limits import (
    BOTH,
    OF_POOLS,
    RlLimit,
    changes_needed,
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
from planner.reinforcement.rl_sides import USUAL_OPTIMIZER
from planner.reinforcement.rl_ways import MOST_POOL_GPUS, RlSearch
from planner.results.explanation import Alternative, Binding, Explanation, LimitSensitivity, Remedy, WhyNot
from planner.results.plan_parts import Relaxation
from planner.results.subject_runs import rollout_words
from planner.scenario.rl_job import DIVIDING, TRAINER_DEGREES, RlJob
from planner.scenario.scenario import setting_path
from planner.solving.alternatives import describe_difference, difference_sigma
from planner.solving.limit_changes import UNITS, LimitChange, limit_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.arrays import Flags
    from planner.library.schema import Library
    from planner.scenario.scenario import Scenario

WORTH_USD = 0.005
"""Least gain of the objective, in dollars or hours, that is one."""


class Chosen:
    """A way of a search, its figures, and how others compare with it."""

    def __init__(self, search: RlSearch, way: int) -> None:
        self.search, self.way, self.limits = search, way, limits_of(search)
        self.usd, self.objective = float(search.ways.usd[way]), float(search.objective[way])

    @property
    def hours(self) -> float:
        """Expected hours, start included."""
        ways, way = self.search.ways, self.way
        start = max(float(ways.trainer.start_hours[way]), float(ways.rollout.start_hours[way]))
        return start + float(ways.run_hours[way])

    @property
    def words(self) -> str:
        """GPUs with their place, engines of fewer bits, and the method."""
        named = self.search.named(self.way)
        bits = {16: "LoRA", 4: "QLoRA"}.get(named.weight_bits, f"LoRA {named.weight_bits}-bit")
        machines = way_words(self.search, self.way) + rollout_words(named.rollout_weight_bits, named.engine)
        return f"{machines}, {'full' if named.method == 'full' else bits}"

    def against(self, other: Chosen) -> dict[str, Any]:
        """Return the figures of this way, and what they differ by from those of the plan."""
        return {
            "plan": self.words, "cost_usd": self.usd, "hours": self.hours, "delta_usd": self.usd - other.usd,
            "delta_hours": self.hours - other.hours, "gain": other.objective - self.objective,
        }  # fmt: skip


def best_within(search: RlSearch, *without: str) -> Chosen | None:
    """Return the best way that keeps all limits but those named; None where there is none."""
    able = within(limits_of(search), len(search.ways), *without)
    return Chosen(search, best_way(search, able)) if able.any() else None


def explain_rl(
    scenario: Scenario, why_not: str | None, library: Library, search: RlSearch | None = None
) -> Explanation:
    """Return what binds the plan, what each limit is worth, the best of each kind; or why not what is asked for.

    `search` is that of the scenario where it is made already.
    """
    started = perf_counter()
    search = search or searched(scenario, library)
    plan = best_within(search)
    facts: dict[str, Any] = {"scenario": scenario.name, "objective": scenario.objective_kind}
    if plan is not None:
        facts |= {"plan": plan.words, "cost_usd": plan.usd, "hours": plan.hours}
        facts["compared_by"] = CandidateObjective.of(scenario).formula
    if why_not is not None:
        query = parse_query(why_not, scenario, library)
        facts["why_not"] = answer_rl_query(search, plan, query)
    elif plan is None:
        facts |= dict(diagnose_rl(search))
    else:
        binding, steps = _binding(plan)
        facts |= {"binding": binding, "next_steps": steps, "alternatives": tuple(_alternatives(plan))}
    status = "infeasible" if plan is None else "optimal"
    return Explanation(status=status, **facts, seconds=perf_counter() - started)


# What binds, and the least change of it that pays.


def _binding(plan: Chosen) -> tuple[tuple[Binding, ...], tuple[LimitSensitivity, ...]]:
    """Return the limits and choices without which the plan would be better, and the least change of each that pays."""
    binding, steps = list[Binding](), list[LimitSensitivity]()
    search, goal = plan.search, plan.objective - WORTH_USD

    def binds(path: str, current: float | str, better: Chosen | None) -> bool:
        if better is None or better.objective > goal:
            return False
        usd, hours = plan.usd - better.usd, plan.hours - better.hours
        saving = plan.objective - better.objective
        binding.append(Binding(limit=path, current=current, saving=saving, saving_usd=usd, saving_hours=hours))
        return True

    for limit in (limit for limit in plan.limits if limit.settable):
        wide = _with_all_gpus(plan, limit)
        if binds(limit.path, limit.most, best_within(wide, limit.path)):
            steps.append(_paying_step(plan, limit, wide))
        elif limit.path != "limits.max_hours":
            note = "no effect at any value"
            worth = UNITS.get(limit_key(limit.path), "choice")
            steps.append(LimitSensitivity(worth=worth, limit=limit.path, **{"from": limit.most}, note=note))
    for freed in (*freed_searches(search), *_with_stale_answers(search)):
        better = best_within(freed)
        changes = changes_needed(search.scenario, freed, better.way) if better else []
        if freed.job.staleness != search.job.staleness:
            changes = [_stale_answers(search.scenario, search.job)]
        # Of two choices that are opened together each alone is another search, which may need the same change.
        is_new = len(changes) == 1 and all(changes[0].setting != step.setting for step in steps)
        if better and is_new and binds(changes[0].limit, str(changes[0].old), better):
            steps.append(_step(plan, changes[0], better))
    return tuple(binding), tuple(steps)


def _with_all_gpus(plan: Chosen, limit: RlLimit) -> RlSearch:
    """Return the search, made again with as many GPUs as a pool may have where the limit is one on GPUs."""
    if not limit.path.startswith(OF_POOLS):
        return plan.search
    scenario = plan.search.scenario
    free: dict[str, Any] = {"max_gpus": None} if limit.path == "limits.max_gpus" else {"quota": _but(limit, scenario)}
    wide = scenario.model_copy(update={"limits": scenario.limits.model_copy(update=free)})
    return plan.search.again(wide, plan.search.job)


def _but(limit: RlLimit, scenario: Scenario) -> dict[str, int]:
    return {name: most for name, most in scenario.limits.quota.items() if not limit.path.endswith(f".{name}")}


def _paying_step(plan: Chosen, limit: RlLimit, wide: RlSearch) -> LimitSensitivity:
    """Return the least change of a limit that gives a better plan.

    Where more GPUs do, the search without a limit on them leaves out pools that use fewer and are no better: it is made
    again with as many as its best way has, which keeps these.
    """
    goal, scenario = plan.objective - WORTH_USD, plan.search.scenario
    limits = plan.limits
    if limit.path.startswith(OF_POOLS):
        best = best_within(wide)
        assert best is not None
        offers = wide.market.market.offers
        needed = int(wide.used_at_once(np.asarray([float(offer.gpus) for offer in offers]))[best.way])
        wide = wide.again(with_gpus(scenario, min(needed, 2 * MOST_POOL_GPUS)), wide.job)
        limits = limits_of(wide, scenario.limits)
        limit = next(other for other in limits if other.path == limit.path)
    least = least_change(wide, limits, limit, goal)
    if least is None:  # the way found without the limit breaks another one that the search without it does not have
        return LimitSensitivity(worth="gpu", limit=limit.path, **{"from": limit.most}, note="no effect by itself")
    change, way = least
    return _step(plan, change, Chosen(wide, way))


def _step(plan: Chosen, change: LimitChange, better: Chosen) -> LimitSensitivity:
    return LimitSensitivity(
        worth=UNITS.get(limit_key(change.limit), "choice"), limit=change.limit, change_from=change.old,
        change_to=change.new, setting=change.setting, **better.against(plan),
    )  # fmt: skip


def _with_stale_answers(search: RlSearch) -> Iterator[RlSearch]:
    """Yield the search of answers that may be one step behind, where the job allows none."""
    job = search.job
    if job.staleness == 0 and "apart" in job.rollout.placement:
        stale = job.model_copy(update={"staleness": 1})
        yield search.again(with_job(search.scenario, stale), stale)


def _stale_answers(scenario: Scenario, job: RlJob) -> LimitChange:
    path = f"jobs.{job.name}.staleness"
    return LimitChange(path, 0.0, 1.0, f"{setting_path(path, scenario)}=1")


# The best way of each provider, kind of GPU and method.


RL_METHODS: tuple[tuple[str, str, int], ...] = (("full", "full", 16), ("LoRA", "lora", 16), ("QLoRA", "lora", 4))
"""Names of methods, and what they are."""


def _alternatives(plan: Chosen) -> Iterator[Alternative]:
    """Yield the best way at each provider, on each kind of GPU, and by each method; all machines are of that kind."""
    search, ways = plan.search, plan.search.ways
    offers, able = search.market.market.offers, within(plan.limits, len(plan.search.ways))
    names = np.asarray([offer.provider for offer in offers], dtype=object)
    here = names[ways.trainer.offer]
    same = here == names[ways.rollout.offer]
    tables: list[tuple[Literal["provider", "gpu", "method"], list[tuple[str, Chosen | None, bool]]]] = [
        ("provider", [(str(name), _of(search, able & same & (here == name)), True) for name in dict.fromkeys(here)]),
        ("gpu", [(gpu, _only(search, {"gpu": gpu}), True) for gpu in _gpus(search)]),
        ("method", [_by_method(search, *method) for method in RL_METHODS]),
    ]
    for by, rows in tables:
        answered = [(name, other, allowed) for name, other, allowed in rows if other is not None]
        for name, other, allowed in sorted(answered, key=lambda row: (not row[2], row[1].objective)):
            yield _alternative(plan, by, name, other, allowed)


def _of(search: RlSearch, able: Flags) -> Chosen | None:
    return Chosen(search, best_way(search, able)) if able.any() else None


def _gpus(search: RlSearch) -> list[str]:
    return list(dict.fromkeys(search.market.cards[at].name for at in search.market.allowed))


def _only(search: RlSearch, given: dict[str, Any], job: RlJob | None = None) -> Chosen | None:
    """Return the best way of which all machines are as asked; None where there is none."""
    own, query = job or search.job, WhyNotQuery("", 0, given)
    narrow = search.again(with_job(search.scenario, own), own, query)
    return _of(narrow, within(limits_of(narrow), len(narrow.ways)))


def _by_method(search: RlSearch, name: str, method: str, bits: int) -> tuple[str, Chosen | None, bool]:
    """Return a method with its best way, and whether the job allows it."""
    asked = search.job.techniques
    allowed = method in asked.method and (method == "full" or bits in (asked.weight_bits or (16,)))
    techniques = asked.model_copy(update={"method": (method,), "weight_bits": (bits,)})
    return name, _only(search, {}, search.job.model_copy(update={"techniques": techniques})), allowed


def _alternative(
    plan: Chosen, by: Literal["provider", "gpu", "method"], name: str, other: Chosen, allowed: bool
) -> Alternative:
    ways, way, offers = other.search.ways, other.way, other.search.market.market.offers
    first = offers[int(ways.trainer.offer[way])]
    gpus = int(other.search.used_at_once(np.asarray([float(offer.gpus) for offer in offers]))[way])
    same = other.search is plan.search and way == plan.way
    same = same or (other.words == plan.words and abs(other.objective - plan.objective) < WORTH_USD)
    sigma = difference_sigma(plan.search.library, same_gpu=first.card == _first_card(plan))
    words = CandidateObjective.of(plan.search.scenario).comparatives
    return Alternative(
        by=by, job=plan.search.job.name, name=name, plan=other.words, gpu=first.card, gpus=gpus,
        provider=first.provider, method=other.words.rpartition(", ")[2], cost_usd=other.usd, hours=other.hours,
        hours_at_confidence=float(ways.late_hours[way]), usd_per_hour=float(other.search.rent[way]),
        difference=other.objective / plan.objective - 1 if plan.objective > 0 else None,
        verdict="the plan" if same else describe_difference(other.objective, plan.objective, sigma, words),
        chosen=same, allowed=allowed,
    )  # fmt: skip


def _first_card(plan: Chosen) -> str:
    return plan.search.market.market.offers[int(plan.search.ways.trainer.offer[plan.way])].card


# Why not another way.


def answer_rl_query(search: RlSearch, plan: Chosen | None, query: WhyNotQuery) -> WhyNot:
    """Return what the way that is asked for would cost, or which limits exclude it, or why none of them can run."""
    scenario = search.scenario
    job = pinned_job(search.job, query)
    allowed = not not_admitted(search, job, query)
    if allowed:
        narrow = search.again(with_job(scenario, job), job, query)
        best = _of(narrow, within(limits_of(narrow), len(narrow.ways)) & matches(narrow, query))
        if best is not None:
            return _possible(plan, best, query)
    most = max(scenario.limits.max_gpus or 0, _asked_gpus(query))
    wide_scenario = without_lists(with_job(scenario, job))
    if scenario.limits.max_gpus is not None or scenario.limits.quota or most > MOST_POOL_GPUS:
        wide_scenario = with_gpus(wide_scenario, most or MOST_POOL_GPUS)
    wide = search.again(wide_scenario, job, query)
    limits = limits_of(wide, scenario.limits)
    able = matches(wide, query) & within([limit for limit in limits if not limit.settable], len(wide.ways))
    if not able.any():
        reasons, remedies = tuple(_blockers(wide, query)), tuple(_remedies(search, query))
        return WhyNot(asked=query.text, status="impossible", reasons=reasons, remedies=remedies)
    broken = np.sum([~limit.kept for limit in limits], axis=0) + lists_broken(scenario, wide)
    best = Chosen(wide, best_way(wide, able & (broken == broken[able].min())))
    changes = changes_needed(scenario, wide, best.way, pins=True)
    relax = tuple(
        Relaxation(
            limit=change.limit, change_from=change.old, change_to=change.new, then=f"{best.words}, ${best.usd:,.2f}",
            setting=change.setting, cost_usd=best.usd, hours=best.hours,
        )
        for change in changes
    )  # fmt: skip
    reasons = tuple(_reason(change) for change in changes)
    return _priced(plan, best, query, status="beyond", reasons=reasons, relax=relax)


def _asked_gpus(query: WhyNotQuery) -> int:
    """Return the GPUs in all that a query needs at least."""
    given = query.given
    return int(max(given.get("gpus", 0), given.get("training_gpus", 0) + given.get("rollout_gpus", 0)))


def pinned_job(job: RlJob, query: WhyNotQuery) -> RlJob:
    """Return the job with the choices of a query as the only ones."""
    given = query.given
    techniques = {key: (given[key],) for key in (*RL_TECHNIQUES, *TRAINER_DEGREES) if key in given}
    divides = any(given.get(key, 1) > 1 for key in TRAINER_DEGREES)
    framework = (given["framework"],) if "framework" in given else DIVIDING if divides else job.framework
    rollout: dict[str, Any] = {}
    if "placement" in given:
        rollout["placement"] = ("colocated",) if given["placement"] == "colocated" else ("apart",)
    if "gpus_per_engine" in given:
        rollout["tensor_parallel"] = (given["gpus_per_engine"],)
    if "engine" in given:
        rollout["engine"] = (given["engine"],)
    if "rollout_weight_bits" in given:
        rollout["weight_bits"] = (given["rollout_weight_bits"],)
    pinned: dict[str, Any] = {"techniques": job.techniques.model_copy(update=techniques), "framework": framework}
    if "reward_placement" in given and job.reward_model is not None:
        pinned["reward"] = job.reward_model.model_copy(update={"placement": (given["reward_placement"],)})
    return job.model_copy(update={**pinned, "rollout": job.rollout.model_copy(update=rollout)})


def not_admitted(search: RlSearch, pinned: RlJob, query: WhyNotQuery) -> list[str]:
    """Return the keys of a query whose values the job's own lists leave out."""
    job, given = search.job, query.given
    asked = job.techniques
    lists: dict[str, Any] = {
        "method": asked.method,
        "weight_bits": (asked.weight_bits or (16,)) if "full" not in pinned.techniques.method else None,
        "sharding": asked.sharding,
        "activation_checkpointing": asked.activation_checkpointing or (USUAL_CHECKPOINTING,),
        "optimizer": asked.optimizer or (USUAL_OPTIMIZER,),
        "gpus_per_engine": job.rollout.tensor_parallel,
        "rollout_weight_bits": job.rollout.weight_bits,
        "engine": job.rollout.engine,
        "reward_placement": job.reward_model and job.reward_model.placement,
        **{name: getattr(asked, name) for name in TRAINER_DEGREES},
    }
    keys = [key for key, values in lists.items() if key in given and values is not None and given[key] not in values]
    is_left_out = not set(pinned.rollout.placement) <= set(job.rollout.placement)
    other = not set(pinned.framework) <= set(job.framework)
    return [*keys, *["placement"] * is_left_out, *["framework"] * other]


def _possible(plan: Chosen | None, best: Chosen, query: WhyNotQuery) -> WhyNot:
    """Return the answer to a query that a way within the limits fulfils."""
    same = plan is not None and best.words == plan.words and abs(best.objective - plan.objective) < WORTH_USD
    return _priced(
        plan, best, query, status="chosen" if same else "possible",
        reasons=() if same or plan is None else tuple(_differences(plan, best)),
    )  # fmt: skip


def _priced(plan: Chosen | None, best: Chosen, query: WhyNotQuery, **answer: Any) -> WhyNot:
    times = best.usd / plan.usd if plan is not None and plan.usd > 0 else None
    figures = {"plan": best.words, "cost_usd": best.usd, "hours": best.hours, "times": times}
    return WhyNot(asked=query.text, **figures, **answer)


def _differences(plan: Chosen, best: Chosen) -> Iterator[str]:
    """Yield what makes the difference: dollars of an hour, seconds of a step, GPUs."""
    (rent, step), (own_rent, own_step) = (
        (float(chosen.search.rent[chosen.way]), float(chosen.search.ways.step_seconds[chosen.way]))
        for chosen in (best, plan)
    )
    pairs = (
        (rent, own_rent, f"an hour costs ${rent:,.2f} against ${own_rent:,.2f}"),
        (step, own_step, f"a step takes {step:,.0f} s against {own_step:,.0f} s"),
    )
    words = [(abs(math.log(other / own)), text) for other, own, text in pairs if other > 0 and own > 0]
    yield from (text for ratio, text in sorted(words, reverse=True) if ratio > math.log(LEAST_FACTOR))


LEAST_FACTOR = 1.03
"""Factor from which on a difference is a reason."""


def _reason(change: LimitChange) -> str:
    """Return a limit that excludes what is asked for, with both values."""
    old, new = change.old, change.new
    if isinstance(old, str) or isinstance(new, str):
        allowed, asked = str(old).removeprefix("allow "), str(new).removeprefix("allow also ")
        return f"{change.limit} allows {allowed}, not {asked}"
    return f"it needs {new:,.10g} of {change.limit}, which is {old:,.10g}"


def _remedies(search: RlSearch, query: WhyNotQuery) -> Iterator[Remedy]:
    """Yield what other method would make it possible within the limits, where the query leaves the method open."""
    job = with_choices(pinned_job(search.job, query)).get(BOTH)
    if job is None or {"method", "weight_bits"} & query.given.keys():
        return
    freed = search.again(with_job(search.scenario, job), job, query)
    best = _of(freed, within(limits_of(freed), len(freed.ways)) & matches(freed, query))
    changes = changes_needed(search.scenario, freed, best.way) if best else []
    if best and changes:
        words = " and ".join(f"{change.limit}: {change.new}" for change in changes)
        first, *others = (change.setting for change in changes)
        yield Remedy(
            change=words, setting=first, also=tuple(others), plan=best.words, cost_usd=best.usd, hours=best.hours
        )


def _blockers(wide: RlSearch, query: WhyNotQuery) -> Iterator[str]:
    """Yield why no way is as asked, whatever the limits are."""
    if not wide.market.allowed:
        named = " ".join(f"{key} {value}" for key, value in query.where.items())
        yield f"no offer that can be planned with has {named}" if named else "no offer can be planned with"
    elif not len(wide.ways):
        yield from (f"{reason} ({count:,} cases)" for reason, count in wide.rejected.most_common(2))
    elif query.given.get("market") == "spot":
        yield "no offer has engines on spot: the trainer stays on demand, engines on the same machines do too"
    else:
        counts = [key for key in (*query.given,) if key.endswith("gpus") or key == "placement"]
        yield f"no machines can be divided so: {', '.join(f'{key} {query.given[key]}' for key in counts)}"
