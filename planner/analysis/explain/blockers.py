"""Why a query is impossible under any limits: no offer, no such recipe, no fit; and the nearest alternatives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, compress
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.analysis.estimated_configuration import memory_saving_changes
from planner.analysis.explain.why_not_query import WhyNotQuery
from planner.configurations.fitting_cells import MANY_ACCUMULATION_STEPS, enumerate_configurations
from planner.configurations.recipe import GpuClass, Recipe, enumerate_recipes, find_incompatibility, frameworks_of
from planner.decode.memory_breakdown import MemoryEvaluator
from planner.errors import ScenarioError
from planner.loading.question import suggest_gpus
from planner.results.explanation import Remedy
from planner.results.plan_parts import Vram
from planner.solving.infeasibility.near_misses import describe_small_host, longest_fitting_sequence
from planner.solving.infeasibility.relaxed_candidates import unrestricted_techniques
from planner.solving.prepare import PreparedScenario
from planner.solving.resolve import ResolvedPlan, describe_method, with_settings

if TYPE_CHECKING:
    from planner.arrays import Flags
    from planner.configurations.grid import HostShortfall, Machine, MemoryShortfall
    from planner.scenario.job import Job

MAX_WHY_NOT_REMEDIES = 3
UNTRIED_SETTINGS = {"framework": "framework", "precision": "techniques.precision", "optimizer": "techniques.optimizer"}
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
    framework = update.pop("framework", job.framework)
    techniques = unrestricted_techniques(job.techniques).model_copy(update=update)
    return job.model_copy(update={"techniques": techniques, "framework": framework})


def find_blockers(prepared: PreparedScenario, query: WhyNotQuery) -> Blockers:
    """Return what excludes the query whatever the limits are, with the memory by part if it does not fit."""
    offers = list(compress(prepared.market.offers, named_offers(prepared, query)))
    if not offers:
        return _no_offer(prepared, query), None
    machines = _machines(prepared, query)
    if not machines:
        counts = _list_counts(_machines(prepared, query.drop("gpus")))
        return (f"no offer has {query.given['gpus']:,} of them together; available counts: {counts}",), None
    market = query.given.get("market")
    if market == "spot" and not any(offer.has_spot for offer in offers):
        return ("none of these offers has a spot price below its on-demand price",), None
    if market == "on_demand" and all(offer.usd_per_hour is None for offer in offers):
        return ("these offers are sold as spot only",), None
    refused = _refusal(prepared, query, machines)
    if refused:
        return (refused,), None
    misses, hosts, some_fit = _try_machines(prepared, query, machines)
    if hosts and not some_fit:
        return (f"{describe_method(hosts[0].recipe)}: {describe_small_host(hosts[0])}",), None
    if misses:
        return _memory(prepared, query, misses[0])
    if some_fit:
        return ("no relaxation of limits admits it",), None
    batch = prepared.scenario.jobs[query.job].global_batch
    return (f"the global batch of {batch:,} does not divide over {_list_counts(machines)} GPUs",), None


def named_offers(prepared: PreparedScenario, query: WhyNotQuery) -> Flags:
    """Return the offers (offers,) that the query names."""
    pairs = zip(prepared.market.offers, prepared.market.labels, strict=True)
    return np.asarray([query.permits(offer, label) for offer, label in pairs], dtype=bool)


def _machines(prepared: PreparedScenario, query: WhyNotQuery) -> list[Machine]:
    """Return the machines of the offers that the query names, with as many GPUs as it names."""
    machines = chain.from_iterable(compress(prepared.market.machines, named_offers(prepared, query)))
    return [one for one in dict.fromkeys(machines) if query.given.get("gpus") in (None, one.gpus)]


def _list_counts(machines: list[Machine]) -> str:
    """Return the counts of GPUs of some machines, the smallest eight."""
    return ", ".join(f"{count:,}" for count in sorted({machine.gpus for machine in machines})[:8])


def _no_offer(prepared: PreparedScenario, query: WhyNotQuery) -> tuple[str, ...]:
    """Return that no offer has it, and the offers that come nearest."""
    named = " ".join(f"{key} {value}" for key, value in query.where.items())
    reasons = [f"no offer of the inventory has {named}"]
    gpu, provider = query.where.get("gpu"), query.where.get("provider")
    others = dict.fromkeys(o.provider for o in prepared.scenario.offers if gpu and o.gpu in query.meant(gpu))
    if gpu and not others:
        near = suggest_gpus(query.meant(gpu)[0], prepared.scenario.offers, prepared.library)
        reasons.append(f"the nearest GPUs on offer are {_list_names(near)}")
    if others:
        reasons.append(f"{gpu} is offered by {_list_names(list(others))}")
    cards = dict.fromkeys(
        o.gpu for o in prepared.scenario.offers if o.gpu and provider and o.provider in query.meant(provider)
    )
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
    architecture = library.architecture(job.architecture)
    reasons: Counter[str] = Counter()
    for machine in machines:
        card = GpuClass.of(library.gpu(machine.gpu))
        recipes = [r for r in enumerate_recipes(job, card, machine.gpus > 1, library) if matches_query(r, query)]
        found = [find_incompatibility(recipe, card, library, architecture) for recipe in recipes]
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
        return find_incompatibility(plain, card, library) or "quantised weights are not trained in full"
    sharding = query.techniques.get("sharding")
    if sharding is not None and (machine.gpus > 1) == (sharding == "none"):
        return f"sharding {sharding} needs {'one GPU' if sharding == 'none' else 'more than one GPU'}"
    techniques = ", ".join(f"{field} {value}" for field, value in query.techniques.items())
    return f"framework {' or '.join(frameworks_of(job, library))} does not combine {techniques}"


def _try_machines(
    prepared: PreparedScenario, query: WhyNotQuery, machines: list[Machine]
) -> tuple[list[MemoryShortfall], list[HostShortfall], bool]:
    """Return matching recipes that do not fit, on GPUs and on hosts, smallest shortfall first; whether others fit."""
    one, limits = prepared.candidates[query.job], prepared.scenario.limits
    job = pin_techniques(prepared, query)
    made = enumerate_configurations(job, one.architecture, machines, prepared.library, limits.vram_headroom)
    misses = [miss for miss in made.misses if matches_query(miss.recipe, query)]
    some_fit = any(matches_query(made.ways.recipes[index], query) for index in set(made.ways.recipe.tolist()))
    hosts = [miss for miss in made.small_hosts if matches_query(miss.recipe, query)]
    return (
        sorted(misses, key=lambda miss: miss.shortfall_gib),
        sorted(hosts, key=lambda miss: miss.shortfall_gb),
        some_fit,
    )


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
    if len(pin_techniques(prepared, query).techniques.optimizer or ()) < 2:
        del fields["optimizer"]  # a single one is tried unless the job lists more
    free = [word for field, word in fields.items() if field not in query.techniques]
    reasons = [f"no other {' or '.join(free)} needs less"] if free else []
    sharded = {"sharding": "zero3", "optimizer": "adamw"}
    if miss.recipe.sharding == "none" and all(query.techniques.get(key, to) == to for key, to in sharded.items()):
        miss = replace(miss, recipe=replace(miss.recipe, sharding="zero3", optimizer="adamw"))
    for times in MACHINE_FACTORS:
        more = replace(miss.machine, instances=miss.machine.instances * times)
        evaluator = _evaluator(prepared, query, replace(miss, machine=more))
        if "gpus" not in query.given and evaluator.need_gib(1, MANY_ACCUMULATION_STEPS) <= evaluator.usable_gib:
            reasons.append(f"{more.gpus:,} of them would hold it, but no offer has that many together")
            break
    return tuple(reasons)


def find_remedies(prepared: PreparedScenario, query: WhyNotQuery, solve: SolveQuery) -> tuple[Remedy, ...]:
    """Return changes under which the query is feasible within all limits, cheapest first, each verified by solving.

    If the job's techniques exclude the query, each remedy names the settings that admit it as well.
    """
    found = []
    for change, setting, changed in _possible_remedies(prepared, query):
        also = settings_to_allow(prepared, changed)
        try:
            plan = solve(with_settings(prepared, [*([setting] if setting else []), *also]), changed)
        except ScenarioError:  # values that contradict one another
            continue
        if plan is not None:
            figures = {"plan": plan.description, "cost_usd": plan.cost_usd, "hours": plan.hours}
            found.append(Remedy(change=change, setting=setting, also=also, **figures))
    return tuple(sorted(found, key=lambda one: (not one.setting, one.cost_usd))[:MAX_WHY_NOT_REMEDIES])


def _possible_remedies(prepared: PreparedScenario, query: WhyNotQuery) -> Iterator[tuple[str, str, WhyNotQuery]]:
    """Yield change, its setting (empty if the query itself changes), and the query after it."""
    if machines := _machines(prepared, query):
        misses, _, _ = _try_machines(prepared, query, machines)
        for change, setting in _memory_saving_settings(prepared, query, misses):
            yield change, setting, query
    gpu = query.where.get("gpu")
    if gpu and not any(offer.gpu in query.meant(gpu) for offer in prepared.market.offers):
        for name in suggest_gpus(query.meant(gpu)[0], prepared.scenario.offers, prepared.library):
            yield f"gpu={name} instead", "", replace(query, given={**query.given, "gpu": name})
    for key, value in query.given.items():
        if len(query.given) > 1:
            yield f"without {key}={value}", "", query.drop(key)


def settings_to_allow(prepared: PreparedScenario, query: WhyNotQuery) -> tuple[str, ...]:
    """Return the settings that admit the techniques of a query to the lists of the job."""
    job = prepared.scenario.jobs[query.job]
    techniques, used = job.techniques, frameworks_of(job, prepared.library)
    made = []
    if (framework := query.techniques.get("framework", used[0])) not in used:
        made.append(f"jobs.{query.job}.framework=[{','.join((*used, framework))}]")
    for field, value in query.techniques.items():
        given = getattr(techniques, field, None)
        of_adapters = field == "weight_bits" and query.techniques.get("method") == "full"
        if isinstance(given, tuple) and value not in given and not of_adapters:
            made.append(f"jobs.{query.job}.techniques.{field}=[{','.join(map(str, (*given, value)))}]")
    return tuple(made)


def _memory_saving_settings(
    prepared: PreparedScenario, query: WhyNotQuery, shortfalls: list[MemoryShortfall]
) -> Iterator[tuple[str, str]]:
    """Yield changes of the job that save memory and that no configuration has tried, with the setting of each."""
    if not shortfalls:
        return
    library = prepared.library
    shape = prepared.candidates[query.job].physics.shape
    if shape.unit == "tokens":
        longest = max(longest_fitting_sequence(_evaluator(prepared, query, miss)) for miss in shortfalls[:3])
        if 0 < longest < shape.sequence:
            change = f"sequence_length {longest:,} instead of {shape.sequence:,}"
            yield change, f"jobs.{query.job}.sequence_length={longest}"
    found: dict[str, str] = {}
    for miss in shortfalls:
        gpu, gpus = library.gpu(miss.machine.gpu), miss.machine.gpus
        for change, settings in memory_saving_changes(miss.recipe, gpu, gpus, library):
            for field, value in settings.items():
                if settings.keys() <= UNTRIED_SETTINGS.keys() and field not in query.techniques:
                    found[change] = f"jobs.{query.job}.{UNTRIED_SETTINGS[field]}={value}"
    yield from found.items()
