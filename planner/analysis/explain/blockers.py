"""Why a query is impossible under any limits: no offer, no such recipe, no fit; and the nearest alternatives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.analysis.estimate.fit_remedies import memory_saving_changes
from planner.analysis.explain.why_not_query import WhyNotQuery
from planner.configurations.enumeration import MANY_ACCUMULATION_STEPS, JobConfigurations, enumerate_configurations
from planner.configurations.recipe import GpuClass, Recipe, enumerate_recipes, find_incompatibility
from planner.decode.memory_breakdown import MemoryEvaluator
from planner.errors import ScenarioError
from planner.loading.suggestions import suggest_gpus
from planner.results.explanation import Remedy
from planner.results.plan import Vram
from planner.solving.infeasibility.near_misses import longest_fitting_sequence
from planner.solving.infeasibility.relaxed_candidates import unrestricted_techniques
from planner.solving.prepare import PreparedScenario
from planner.solving.resolve import ResolvedPlan, describe_method, with_settings

if TYPE_CHECKING:
    from planner.configurations.configuration_table import MemoryShortfall
    from planner.configurations.grid import Machine
    from planner.scenario.job import Job
    from planner.scenario.offer import Offer

MAX_WHY_NOT_REMEDIES = 3
UNTRIED_SETTINGS = {"framework": "framework", "precision": "techniques.precision"}
"""Fields that the configurations of a job do not vary by themselves, and where a scenario sets them."""
MACHINE_FACTORS = (2, 4, 8, 16)
"""Multiples of the machines that are rented together, tried only to report that they would suffice."""

Blockers = tuple[tuple[str, ...], Vram | None]
SolveQuery = Callable[[PreparedScenario, WhyNotQuery], ResolvedPlan | None]


def matches_query(recipe: Recipe, query: WhyNotQuery) -> bool:
    """Return whether a recipe has the techniques of the query."""
    if "quant" in query.techniques and recipe.weight_bits != 4:
        return False
    return all(getattr(recipe, field) == value for field, value in query.techniques.items())


def pin_techniques(prepared: PreparedScenario, query: WhyNotQuery) -> Job:
    """Return the query's job with its techniques as in the query and no other restriction."""
    job = prepared.scenario.jobs[query.job]
    update = {field: (value,) for field, value in query.techniques.items()}
    return job.model_copy(update={"techniques": unrestricted_techniques(job.techniques).model_copy(update=update)})


def find_blockers(prepared: PreparedScenario, query: WhyNotQuery) -> Blockers:
    """Return what excludes the query whatever the limits are, with the memory by part if it does not fit."""
    offers = _offers(prepared, query)
    if not offers:
        return _no_offer(prepared, query), None
    machines = _machines(prepared, query, offers)
    if not machines:
        counts = sorted({m.gpus for m in _machines(prepared, query.drop("gpus"), offers)})
        available = ", ".join(f"{count:,}" for count in counts[:8])
        return (f"no offer has {query.gpus:,} of them together; available counts: {available}",), None
    if query.market == "spot" and not any(offer.has_spot for offer in offers):
        return ("none of these offers has a spot price below its on-demand price",), None
    if query.market == "on_demand" and all(offer.usd_per_hour is None for offer in offers):
        return ("these offers are sold as spot only",), None
    refused = _refusal(prepared, query, machines)
    if refused:
        return (refused,), None
    misses = _memory_shortfalls(prepared, query, machines)
    if misses:
        return _memory(prepared, query, misses[0])
    if _fits_somewhere(prepared, query, machines):
        return ("no relaxation of limits admits it",), None
    batch = prepared.scenario.jobs[query.job].global_batch
    wanted = ", ".join(f"{count:,}" for count in sorted({m.gpus for m in machines})[:8])
    return (f"the global batch of {batch:,} does not divide over {wanted} GPUs",), None


def _offers(prepared: PreparedScenario, query: WhyNotQuery) -> list[Offer]:
    market = prepared.market
    return [offer for offer, label in zip(market.offers, market.labels, strict=True) if query.permits(offer, label)]


def _machines(prepared: PreparedScenario, query: WhyNotQuery, offers: list[Offer]) -> list[Machine]:
    market = prepared.market
    places = [i for i, offer in enumerate(market.offers) if offer in offers]
    machines = dict.fromkeys(machine for i in places for machine in market.machines[i])
    return [machine for machine in machines if query.gpus in (None, machine.gpus)]


def _no_offer(prepared: PreparedScenario, query: WhyNotQuery) -> tuple[str, ...]:
    """Return that no offer has it, and the offers that come nearest."""
    named = " ".join(f"{key} {value}" for key, value in query.where.items())
    reasons = [f"no offer of the inventory has {named}"]
    gpu, provider = query.where.get("gpu"), query.where.get("provider")
    others = dict.fromkeys(o.provider for o in prepared.scenario.offers if gpu and o.gpu == gpu)
    if gpu and not others:
        near = suggest_gpus(gpu, prepared.scenario.offers, prepared.library)
        reasons.append(f"the nearest GPUs on offer are {_list_names(near)}")
    if others:
        reasons.append(f"{gpu} is offered by {_list_names(list(others))}")
    cards = dict.fromkeys(o.gpu for o in prepared.scenario.offers if o.gpu and provider and o.provider == provider)
    if cards:
        reasons.append(f"{provider} offers {_list_names(list(cards))}")
    return tuple(reasons)


def _list_names(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _refusal(prepared: PreparedScenario, query: WhyNotQuery, machines: list[Machine]) -> str:
    """Return the most common reason why no matching recipe works on any of the machines; empty if one works."""
    job, library = pin_techniques(prepared, query), prepared.library
    if job.kind == "pretrain" and query.techniques.get("method") == "lora":
        return "pretraining trains every weight: its method is full"
    reasons: Counter[str] = Counter()
    for machine in machines:
        card = GpuClass.of(library.gpu(machine.gpu))
        recipes = [r for r in enumerate_recipes(job, card, machine.gpus > 1, library) if matches_query(r, query)]
        found = [find_incompatibility(recipe, card, job.framework, library) for recipe in recipes]
        if any(reason is None for reason in found):
            return ""
        reasons.update(reason for reason in found if reason)
        if not recipes:
            reasons[_no_recipe(query, job, machine, card, library)] += 1
    return reasons.most_common(1)[0][0]


def _no_recipe(query: WhyNotQuery, job: Job, machine: Machine, card: GpuClass, library: Any) -> str:
    """Return why there is no matching recipe at all: techniques that exclude one another, or the framework."""
    bits = query.techniques.get("weight_bits", 16)
    if query.techniques.get("method") == "full" and bits != 16:
        plain = Recipe("full", bits, "nf4" if bits == 4 else "int8", "bf16_mixed", "none", "none", "flash", "adamw")
        return find_incompatibility(plain, card, job.framework, library) or "quantised weights are not trained in full"
    sharding = query.techniques.get("sharding")
    if sharding is not None and (machine.gpus > 1) == (sharding == "none"):
        return f"sharding {sharding} needs {'one GPU' if sharding == 'none' else 'more than one GPU'}"
    techniques = ", ".join(f"{field} {value}" for field, value in query.techniques.items())
    return f"framework {job.framework} does not combine {techniques}"


def _physics(prepared: PreparedScenario, query: WhyNotQuery, machines: list[Machine]) -> JobConfigurations:
    one, limits = prepared.candidates[query.job], prepared.scenario.limits
    job = pin_techniques(prepared, query)
    return enumerate_configurations(job, one.architecture, machines, prepared.library, limits.vram_headroom)


def _memory_shortfalls(
    prepared: PreparedScenario, query: WhyNotQuery, machines: list[Machine]
) -> list[MemoryShortfall]:
    """Return matching recipes that do not fit in memory, smallest shortfall first."""
    misses = _physics(prepared, query, machines).misses
    return sorted((one for one in misses if matches_query(one.recipe, query)), key=lambda miss: miss.shortfall)


def _fits_somewhere(prepared: PreparedScenario, query: WhyNotQuery, machines: list[Machine]) -> bool:
    fitting = _physics(prepared, query, machines).ways
    return any(matches_query(fitting.recipes[int(index)], query) for index in set(fitting.recipe.tolist()))


def _evaluator(prepared: PreparedScenario, query: WhyNotQuery, miss: MemoryShortfall) -> MemoryEvaluator:
    one = prepared.candidates[query.job]
    return MemoryEvaluator.of(
        one.job, one.physics.shape, miss.recipe, miss.machine, prepared.scenario.limits.vram_headroom, prepared.library
    )


def _memory(prepared: PreparedScenario, query: WhyNotQuery, miss: MemoryShortfall) -> Blockers:
    evaluator = _evaluator(prepared, query, miss)
    vram = evaluator.vram(evaluator.at(1, MANY_ACCUMULATION_STEPS))
    what = describe_method(miss.recipe)
    how = [f"{miss.recipe.activation_checkpointing} checkpointing", miss.recipe.optimizer]
    how += [miss.recipe.sharding] if miss.machine.gpus > 1 else []
    return (
        f"{what} on {miss.machine.gpus:,} x {miss.machine.gpu} needs {vram.peak:.1f} GiB per GPU at a micro-batch of 1"
        f" ({', '.join(how)}); {vram.usable:.1f} are usable: {vram.peak - vram.usable:.1f} short",
        *_more_gpus(prepared, query, miss),
    ), vram


def _more_gpus(prepared: PreparedScenario, query: WhyNotQuery, miss: MemoryShortfall) -> tuple[str, ...]:
    """Return what else was tried: other settings, and counts of machines that would hold it but that no offer has."""
    fields = {"activation_checkpointing": "checkpointing", "optimizer": "optimizer", "sharding": "sharding"}
    free = [word for field, word in fields.items() if field not in query.techniques]
    reasons = [f"no other {' or '.join(free)} needs less"] if free else []
    sharded = {"sharding": "zero3", "optimizer": "adamw"}
    if miss.recipe.sharding == "none" and all(query.techniques.get(key, to) == to for key, to in sharded.items()):
        miss = replace(miss, recipe=replace(miss.recipe, sharding="zero3", optimizer="adamw"))
    for times in MACHINE_FACTORS:
        more = replace(miss.machine, instances=miss.machine.instances * times)
        evaluator = _evaluator(prepared, query, replace(miss, machine=more))
        if query.gpus is None and evaluator.need_gib(1, MANY_ACCUMULATION_STEPS) <= evaluator.usable_gib:
            reasons.append(f"{more.gpus:,} of them would hold it, but no offer has that many together")
            break
    return tuple(reasons)


def find_remedies(prepared: PreparedScenario, query: WhyNotQuery, solve: SolveQuery) -> tuple[Remedy, ...]:
    """Return changes under which the query is feasible within all limits, cheapest first, each verified by solving.

    If the job's techniques exclude the query, each remedy names the settings that admit it as well.
    """
    found = []
    for change, setting, also, plan in _try_remedies(prepared, query, solve):
        if plan is not None:
            figures = {"plan": plan.description, "cost_usd": plan.cost_usd, "hours": plan.hours}
            found.append(Remedy(change=change, setting=setting, also=also, **figures))
    return tuple(sorted(found, key=lambda one: (not one.setting, one.cost_usd))[:MAX_WHY_NOT_REMEDIES])


def _try_remedies(
    prepared: PreparedScenario, query: WhyNotQuery, solve: SolveQuery
) -> Iterator[tuple[str, str, tuple[str, ...], ResolvedPlan | None]]:
    """Yield change, its setting, the settings that go with it, and the plan, None without a plan."""
    offers = _offers(prepared, query)
    misses = _memory_shortfalls(prepared, query, machines) if (machines := _machines(prepared, query, offers)) else []

    def tried(changed: WhyNotQuery, *settings: str) -> tuple[tuple[str, ...], ResolvedPlan | None]:
        also = settings_to_allow(prepared, changed)
        try:
            return also, solve(with_settings(prepared, [*settings, *also]), changed)
        except ScenarioError:  # values that contradict one another
            return also, None

    for change, setting in _memory_saving_settings(prepared, query, misses):
        yield change, setting, *tried(query, setting)
    gpu = query.where.get("gpu")
    if gpu and not offers and not any(offer.gpu == gpu for offer in prepared.market.offers):
        for name in suggest_gpus(gpu, prepared.scenario.offers, prepared.library):
            yield f"gpu={name} instead", "", *tried(replace(query, where={**query.where, "gpu": name}))
    keys = [*(["gpus"] if query.gpus else []), *(["market"] if query.market else []), *query.where]
    for key in (*query.techniques, *keys):
        less = query.drop(key)
        if less.where or less.techniques or less.gpus or less.market:
            yield f"without {key}={_value(query, key)}", "", *tried(less)


def settings_to_allow(prepared: PreparedScenario, query: WhyNotQuery) -> tuple[str, ...]:
    """Return the settings that admit the techniques of a query to the lists of the job."""
    techniques = prepared.scenario.jobs[query.job].techniques
    made = []
    for field, value in query.techniques.items():
        given = getattr(techniques, field)
        of_adapters = field == "weight_bits" and query.techniques.get("method") == "full"
        if isinstance(given, tuple) and value not in given and not of_adapters:
            made.append(f"jobs.{query.job}.techniques.{field}=[{','.join(map(str, (*given, value)))}]")
    return tuple(made)


def _value(query: WhyNotQuery, name: str) -> object:
    return query.techniques.get(name, query.where.get(name, {"gpus": query.gpus, "market": query.market}.get(name)))


def _memory_saving_settings(
    prepared: PreparedScenario, query: WhyNotQuery, shortfalls: list[MemoryShortfall]
) -> Iterator[tuple[str, str]]:
    """Yield changes of the job that save memory and that no configuration has tried, with the setting of each."""
    if not shortfalls:
        return
    job = prepared.scenario.jobs[query.job]
    shape = prepared.candidates[query.job].physics.shape
    if shape.unit == "tokens":
        longest = max(longest_fitting_sequence(_evaluator(prepared, query, miss)) for miss in shortfalls[:3])
        if 0 < longest < shape.sequence:
            change = f"sequence_length {longest:,} instead of {shape.sequence:,}"
            yield change, f"jobs.{query.job}.sequence_length={longest}"
    found: dict[str, str] = {}
    for miss in shortfalls:
        gpu = prepared.library.gpu(miss.machine.gpu)
        for change, settings in memory_saving_changes(miss.recipe, job.framework, gpu, miss.machine.gpus):
            for field, value in settings.items():
                if settings.keys() <= UNTRIED_SETTINGS.keys() and field not in query.techniques:
                    found[change] = f"jobs.{query.job}.{UNTRIED_SETTINGS[field]}={value}"
    yield from found.items()
