"""What limits a job of reinforcement learning: what is refused, limits in numbers, lists of offers, its own choices.

Of each limit that is a number: what every way uses of it, which ways keep it, and its least change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import generation
from planner.arrays import Flags, Floats
from planner.errors import Fault, ScenarioError, raise_faults
from planner.reinforcement.rl_estimate import LONGER, reward_model_faults
from planner.scenario.limits import PEAK_TOLERANCE, AllowForbid, Limits, SpotShare, given_peaks, max_run_hours
from planner.scenario.rl_job import REWARD_PLACEMENTS, RL_FRAMEWORK, RL_FRAMEWORKS, TRAINER_DEGREES, RlJob
from planner.scenario.scenario import Scenario, ends_before, rl_job_of, setting_path
from planner.solving.elastic_program import MAX_PRICE_AGE, CandidateFilter
from planner.solving.limit_changes import BUDGET, HOURS_STEP, USD_STEP, LimitChange, extend_list, round_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.arrays import Integers
    from planner.library.schema import Library
    from planner.reinforcement.rl_ways import RlSearch
    from planner.scenario.offer import Offer

NOT_FOR_RL = "not modelled for kind rl"


# Questions that are refused by name.


def check_rl(scenario: Scenario, job: RlJob, library: Library) -> None:
    """Raise ScenarioError for what a job of reinforcement learning cannot be planned with."""
    faults = [
        Fault(scenario.name, 0, where, f"{NOT_FOR_RL}: {problem}", fix) for where, problem, fix in _refused(scenario)
    ]
    card, work = library.architecture(job.architecture), job.work
    index = [other.name for other in scenario.jobs].index(job.name)
    longest, key = (work.cut_at, "longest_output") if work.cut_at else (work.mean_output, "output_tokens")
    if work.input_tokens + longest > card.max_sequence:
        problem = f"{work.input_tokens:,.0f} + {longest:,.0f} tokens exceed the context of {card.name}"
        fix = f"at most {card.max_sequence:,} together"
        faults.append(Fault(scenario.name, 0, f"jobs.{index}.work.{key}", problem, fix))
    longest = work.cut_at or min(LONGER * work.mean_output, card.max_sequence - work.input_tokens)
    faults += _reward_faults(scenario, job, index, work.input_tokens + longest)
    if card.image is not None:
        faults.append(
            Fault(
                scenario.name, 0, f"jobs.{index}.architecture", f"{card.name} makes images", "choose a language model"
            )
        )
    if "colocated" not in job.rollout.placement and (scenario.limits.max_gpus or 2) < 2:
        problem = "1 GPU cannot have two roles: training and rollout"
        faults.append(
            Fault(scenario.name, 0, "limits.max_gpus", problem, "give 2 or more, or allow placement colocated")
        )
    raise_faults(faults, ScenarioError)


def _reward_faults(scenario: Scenario, job: RlJob, index: int, tokens: float) -> Iterator[Fault]:
    """Yield what a reward model cannot score, or where it cannot be."""
    if (asked := job.reward_model) is None:
        return
    for _, problem, fix in reward_model_faults(asked.model, tokens):
        yield Fault(scenario.name, 0, f"jobs.{index}.reward.model", problem, fix)
    if "shared" not in asked.placement and (scenario.limits.max_gpus or 2) < 2:
        problem, fix = "1 GPU cannot train and be a reward model's own", "give 2 or more, or allow placement shared"
        yield Fault(scenario.name, 0, "limits.max_gpus", problem, fix)


def _refused(scenario: Scenario) -> list[tuple[str, str, str]]:
    """Return place, what and remedy of what of a scenario is refused."""
    limits, refused = scenario.limits, list[tuple[str, str, str]]()
    if len(scenario.jobs) > 1:
        refused += _refused_next_to_others(scenario)
    if limits.fallbacks:
        refused.append(("limits.fallbacks", "further ways", "leave it out"))
    if limits.budgets:
        refused.append(("limits.budgets", "budgets by period", "give budget_usd for the whole job"))
    if limits.tools:
        refused.append(("limits.tools", "tools that must run the plan", "leave it out"))
    if limits.spot_share.min > 0:
        refused.append(("limits.spot_share", "a least share on spot", "leave min out: the trainer stays on demand"))
    if scenario.horizon is not None:
        refused.append(("horizon", "machines that are bought", "leave it out: own machines are offers with own"))
    return refused


def _refused_next_to_others(scenario: Scenario) -> list[tuple[str, str, str]]:
    """Return place, what and remedy of what other jobs cannot be in the same scenario, or not at the same time."""
    alone, refused = "plan it in a scenario of its own", list[tuple[str, str, str]]()
    if scenario.objective != "cost":
        refused.append(
            ("objective", "another objective than cost with several jobs", "leave it out, or plan them alone")
        )
    before = {job.name: ends_before(scenario, job.name) for job in scenario.jobs}
    runs = [job.name for job in scenario.jobs if isinstance(job, RlJob)]
    for index, job in enumerate(scenario.jobs):
        if job.subject not in (None, "rl"):
            kind = "a service" if not job.ends else "an open model, batch or number of tokens"
            refused.append((f"jobs.{index}", f"{kind} in the same scenario", alone))
            continue
        others = runs[: runs.index(job.name)] if isinstance(job, RlJob) else runs  # of two runs the second is named
        run = next((run for run in others if job.name not in before[run] and run not in before[job.name]), None)
        if run is not None:
            fix = f"let one wait for the other (after: {run}), or plan it in a scenario of its own"
            refused.append((f"jobs.{index}", f"{job.name} may run at the same time as {run}", fix))
    return refused


# Limits in numbers: what each way uses of them, which keep them, the least change of one.


@dataclass(frozen=True)
class RlLimit:
    """A limit in numbers, and what each way (n,) uses of it."""

    path: str
    most: float
    """What the scenario gives, or the default."""
    used: Floats
    step: float
    """A new value is rounded up to a multiple of it."""
    unit: str = ""
    tolerance: float = 0.0
    settable: bool = True
    """Whether a setting of the scenario moves it: the stock of an offer has none."""

    @property
    def kept(self) -> Flags:
        """Return the ways (n,) that keep it."""
        return np.asarray(self.used <= self.most * (1.0 + self.tolerance))

    def value_for(self, used: float) -> float:
        """Return the least value that can be typed and that allows so much."""
        if self.step >= 1.0:
            return float(math.ceil(used - 1e-6))
        if self.tolerance:  # what a value allows up to the tolerance needs no larger one
            return round(math.ceil(used / self.step * (1.0 - self.tolerance)) * self.step, 6)
        return round_up(used, self.step)

    def change(self, used: float, scenario: Scenario) -> LimitChange:
        """Return the change of a scenario that allows so much."""
        new = self.value_for(used)
        setting = f"{setting_path(self.path, scenario)}={new:.10g}{self.unit}"
        return LimitChange(self.path, self.most, new, setting)


def limits_of(search: RlSearch, limits: Limits | None = None) -> list[RlLimit]:
    """Return the limits of the scenario, or of others than the search was made with; with the longest run's default."""
    ways, job = search.ways, search.job
    limits = search.scenario.limits if limits is None else limits
    longest = max_run_hours(job, limits)
    numbers = [RlLimit("limits.max_hours", longest, ways.late_hours, HOURS_STEP)]
    if job.deadline_hours is not None and job.planned_deadline_hours is not None:
        kept_back = job.deadline_hours - job.planned_deadline_hours
        used = ways.late_hours + kept_back
        numbers.append(RlLimit(f"jobs.{job.name}.deadline", job.deadline_hours, used, HOURS_STEP, "h", PEAK_TOLERANCE))
    if limits.budget_usd is not None:
        numbers.append(RlLimit(BUDGET, limits.budget_usd, ways.late_usd, USD_STEP))
    for limit, most in given_peaks(limits):
        used = search.rent if limit.is_of_dollars else search.used_at_once(search.market.market.use_of(limit))
        step = USD_STEP if limit.is_of_dollars else limit.step or 1.0
        numbers.append(RlLimit(limit.path, most, used, step, tolerance=PEAK_TOLERANCE))
    offers = search.market.market.offers
    for provider, quota in limits.quota.items():
        gpus = np.asarray([offer.gpus if offer.provider == provider else 0.0 for offer in offers])
        numbers.append(RlLimit(f"limits.quota.{provider}", quota, search.used_at_once(gpus), 1.0))
    return [*numbers, RlLimit("stock", 0.0, _beyond_stock(search), 1.0, settable=False)]


def _beyond_stock(search: RlSearch) -> Floats:
    """Return the machines (n,) of a way that its offers do not have."""
    ways = search.ways
    stock = np.asarray([math.inf if offer.stock is None else offer.stock for offer in search.market.market.offers])
    both = ways.is_apart & (ways.trainer.offer == ways.rollout.offer)
    used = ways.trainer.instances + both * ways.rollout.instances
    return np.asarray(np.maximum(used - stock[ways.trainer.offer], 0.0))


def within(limits: list[RlLimit], count: int, *without: str) -> Flags:
    """Return the ways (count,) that keep all limits but those named."""
    flags = [limit.kept for limit in limits if limit.path not in without]
    return np.asarray(np.logical_and.reduce(flags)) if count else np.zeros(0, dtype=bool)


def least_change(
    search: RlSearch, limits: list[RlLimit], moved: RlLimit, goal: float
) -> tuple[LimitChange, int] | None:
    """Return the least change of one limit at which a way reaches a goal of the objective, and the best way then.

    All other limits hold; None where no way reaches it at any value. A goal of infinity: any way.
    """
    able = within(limits, len(search.ways), moved.path) & (search.objective <= goal)
    if not moved.settable or not able.any():
        return None
    change = moved.change(float(moved.used[able].min()), search.scenario)
    allowed = within(limits, len(search.ways), moved.path) & (moved.used <= float(change.new) * (1.0 + moved.tolerance))
    return change, int(np.argmin(np.where(allowed, search.objective, math.inf)))


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
    variants = {
        name: job.model_copy(update={"techniques": techniques.model_copy(update=update)})
        for name, update in opened.items()
    }
    if (
        RL_FRAMEWORK not in job.framework
    ):  # the other way is opened where there is no plan alone: `_with_divided_layers`
        layout = techniques.model_copy(update=degrees)
        variants["framework"] = job.model_copy(update={"framework": RL_FRAMEWORKS, "techniques": layout})
    if (reward := job.reward_model) is not None and set(reward.placement) < set(REWARD_PLACEMENTS):
        opened_reward = reward.model_copy(update={"placement": REWARD_PLACEMENTS})
        variants["reward.placement"] = job.model_copy(update={"reward": opened_reward})
    if reward is not None and reward.offload is not None:
        variants["reward.offload"] = job.model_copy(update={"reward": reward.model_copy(update={"offload": None})})
    for name, free in (("placement", ("colocated", "apart")), ("tensor_parallel", None)):
        if getattr(rollout, name) not in (free, tuple(reversed(free or ()))):
            variants[name] = job.model_copy(update={"rollout": rollout.model_copy(update={name: free})})
    return variants


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
            yield extend_list(f"limits.{name}", [CandidateFilter(f"limits.{name}", value) for value in missing], base)
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


OF_POOLS = ("limits.max_gpus", "limits.quota.")
"""Limits that decide which pools are searched: for more of them the search is made again."""


def with_job(scenario: Scenario, job: RlJob) -> Scenario:
    """Return the scenario with another version of its job."""
    return scenario.model_copy(update={"jobs": (job,)})


def with_gpus(scenario: Scenario, most: int) -> Scenario:
    """Return the scenario with so many GPUs at one time, and quotas that do not limit below that."""
    quota = {name: max(count, most) for name, count in scenario.limits.quota.items()}
    limits = scenario.limits.model_copy(update={"max_gpus": most, "quota": quota})
    return scenario.model_copy(update={"limits": limits})


def freed_searches(search: RlSearch) -> Iterator[RlSearch]:
    """Yield the searches with one limit on offers, or one choice, left open; those that change nothing are left out."""
    scenario = search.scenario
    for path in given_lists(scenario):
        yield search.again(without_lists(scenario, path), search.job)
    for job in with_choices(search.job).values():
        yield search.again(with_job(scenario, job), job)


def lists_broken(base: Scenario, wide: RlSearch) -> Integers:
    """Return how many lists of a scenario, and whether its methods, each way (n,) breaks."""
    ways, offers, limits = wide.ways, wide.market.market.offers, base.limits
    job = rl_job_of(base)
    assert job is not None
    broken = np.asarray([recipe.method not in job.techniques.method for recipe in wide.trainers.recipes])[
        ways.trainer.row
    ]
    broken = broken.astype(np.int64)
    for name, named in OFFER_LISTS.items():
        allowed = np.asarray([getattr(limits, name).permits(named(offer) or "") for offer in offers])
        broken += ~(allowed[ways.trainer.offer] & allowed[ways.rollout.offer])
    return broken + (ways.rollout.is_spot & (limits.spot_share.max <= 0))
