"""The query of `--why-not`, checked, and what excludes it under any limits, with the nearest alternatives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, compress
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.analysis.estimate_question import memory_saving_changes
from planner.arrays import Flags
from planner.configurations.fitting_cells import MANY_ACCUMULATION_STEPS, enumerate_configurations
from planner.configurations.grid import HostShortfall, MemoryShortfall
from planner.configurations.recipe import (
    GpuClass,
    Machine,
    Recipe,
    enumerate_recipes,
    find_incompatibility,
    frameworks_of,
)
from planner.documents.quantities import MAX_INTEGER, parse_hours
from planner.documents.validation import find_name, name_fix, suggest_names
from planner.errors import Fault, ScenarioError, format_value, raise_faults
from planner.library.engines import read_engines
from planner.library.schema import Library
from planner.library.technique_tables import TECHNIQUE_FIELDS
from planner.loading.question import suggest_gpus, suggest_offers
from planner.results.explanation import Remedy
from planner.results.plan_parts import Vram
from planner.scenario.job import Job
from planner.scenario.limits import given_peaks
from planner.scenario.naming import MATCHED, OfferedNames
from planner.scenario.offer import Offer
from planner.scenario.rl_job import REWARD_PLACEMENTS, RL_FRAMEWORKS, TRAINER_DEGREES
from planner.scenario.scenario import Scenario
from planner.solving.chosen import MemoryEvaluator, describe_method
from planner.solving.elastic_program import unrestricted_techniques
from planner.solving.limit_changes import describe_small_host, longest_fitting_sequence
from planner.solving.optimise_choice import ResolvedPlan, with_settings
from planner.solving.prepare import PreparedScenario

if TYPE_CHECKING:
    from collections.abc import Sequence


# The query of `--why-not`, such as `gpu=RTX4090,method=full`, checked; every fault names the nearest valid value.


OFFER_KEYS = ("gpu", "provider", "region", "instance", "offer")
RECIPE_KEYS = ("framework", *TECHNIQUE_FIELDS)
TIME_KEYS = ("start", "end")
"""Latest start and latest end of a job that takes turns with others: why not earlier?"""
KEYS = ("job", *OFFER_KEYS, "gpus", "market", *TIME_KEYS, *RECIPE_KEYS)
SERVED_KEYS = ("engine", "weight_bits", "weight_format", "kv_bits")
FLEET_KEYS = ("job", *OFFER_KEYS, "gpus", "market", *SERVED_KEYS)
"""Keys of a query about a service; its `gpus` are those of one machine."""
SIDES = ("training_gpus", "rollout_gpus", "gpus_per_engine")
COUNT_KEYS = ("gpus", *SIDES)
ALL_COUNT_KEYS = (*COUNT_KEYS, *TRAINER_DEGREES)
"""Keys whose values are numbers of GPUs."""
RL_PLACEMENTS = ("colocated", "one machine", "apart")
RL_TECHNIQUES = ("method", "weight_bits", "sharding", "activation_checkpointing", "optimizer")
ROLLOUT_BITS = "rollout_weight_bits"
REWARD_PLACEMENT = "reward_placement"
OF_ROLLOUT = ("placement", REWARD_PLACEMENT, "engine", ROLLOUT_BITS)
RL_KEYS = (*("job", *OFFER_KEYS, *COUNT_KEYS, "market", *OF_ROLLOUT), *("framework", *RL_TECHNIQUES, *TRAINER_DEGREES))
"""Keys of a query about reinforcement learning; what it says of an offer holds for all machines."""
QLORA = "qlora"
"""LoRA on 4-bit weights: what people ask about, and no method of its own."""
ALIASES = {"checkpointing": "activation_checkpointing", "card": "gpu", "spot": "market"}
FLEET_ALIASES = {**ALIASES, "framework": "engine", "quant": "weight_format"}
SPOT_MAJORITY = 0.5
"""Share of the work from which on a job counts as run on spot: policies keep on-demand machines to fall back on."""
MARKET_SHARES = {None: (0.0, 1.0), "spot": (SPOT_MAJORITY, 1.0), "on_demand": (0.0, 0.0)}
"""Market of a query -> least and largest spot share."""
QUERY_EXAMPLE = "such as gpu=RTX4090,method=full"


@dataclass(frozen=True)
class WhyNotQuery:
    """An alternative for one job: what is not named is free."""

    text: str
    job: int
    given: dict[str, Any]  # fields of a recipe first, then total `gpus`, `market`, hours, and keys of OFFER_KEYS
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)  # word of `given` -> the names that it means

    @property
    def techniques(self) -> dict[str, Any]:
        """Fields of a recipe by name."""
        return {key: value for key, value in self.given.items() if key in RECIPE_KEYS}

    @property
    def where(self) -> dict[str, str]:
        """What the query says of the offer."""
        return {key: value for key, value in self.given.items() if key in OFFER_KEYS}

    @property
    def spot_bounds(self) -> tuple[float, float]:
        """Least and largest spot share of the job in the market of the query."""
        return MARKET_SHARES[self.given.get("market")]

    @property
    def times(self) -> dict[str, float]:
        """Latest start and end of the job in hours, as far as the query names them."""
        return {key: self.given[key] for key in TIME_KEYS if key in self.given}

    def permits(self, offer: Offer, label: str) -> bool:
        """Return whether the query names the offer, which has this label."""
        facts = ((label if key == "offer" else getattr(offer, key), value) for key, value in self.where.items())
        return all(name in self.meant(value) for name, value in facts)

    def meant(self, word: str) -> tuple[str, ...]:
        """Return the names that a word of the query means: those of its group, or itself."""
        return self.groups.get(word, (word,))

    def drop(self, dropped: str) -> WhyNotQuery:
        """Return the query without a key."""
        return replace(self, given={key: value for key, value in self.given.items() if key != dropped})


def parse_query(text: str, scenario: Scenario, library: Library) -> WhyNotQuery:
    """Return the query in a text of KEY=VALUE pairs; raise `ScenarioError` with every fault."""
    name = f"--why-not {text if len(text) <= 80 else text[:77] + '...'}"
    faults: list[Fault] = []

    def fault(key: str, what: str, fix: str = "") -> None:
        faults.append(Fault(name, 0, key, what, fix))

    serves = any(not job.ends for job in scenario.jobs)
    keys, aliases = (FLEET_KEYS, FLEET_ALIASES) if serves else (KEYS, ALIASES)
    if is_rl := any(job.subject == "rl" for job in scenario.jobs):
        keys = RL_KEYS
    given: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        key = aliases.get(key, key)
        if not equals or not key or not value:
            fault("", f"{part.strip()!r} is not KEY=VALUE", QUERY_EXAMPLE)
        elif key not in keys:
            close = suggest_names(key, keys)
            fix = f"did you mean {close}?" if close and key not in KEYS else f"known: {', '.join(keys)}"
            whose = " for a service" if serves else " for kind rl" if is_rl else ""
            fault(key, f"is not a key of --why-not{whose}", fix)
        elif key in given:
            fault(key, "is given twice", "keep one")
        else:
            given[key] = value
    query = _read(text, given, scenario, library, fault)
    raise_faults(faults, ScenarioError)
    return query


def _read(text: str, given: dict[str, str], scenario: Scenario, library: Library, fault: Any) -> WhyNotQuery:
    known, offered = _known_values(scenario, library), OfferedNames(scenario.offers)
    values: dict[str, Any] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for key, value in given.items():
        if key == "market":
            value = {"yes": "spot", "true": "spot", "no": "on_demand", "false": "on_demand"}.get(
                value, value.replace("-", "_")
            )
        if key in (*ALL_COUNT_KEYS, *TIME_KEYS):
            number = _number(key, value, fault)
            if number is not None:
                values[key] = number
            continue
        exact = find_name(value, known[key]) or _spelled(key, value)
        if key in MATCHED and (meant := offered.meant(key, value)):
            exact = meant[0] if len(meant) == 1 else value
            groups |= {value: meant} if len(meant) > 1 else {}
        if exact is None:
            fix = name_fix(value, known[key])
            if key == "offer" and (close := suggest_offers(value, scenario.offers)):
                # Parts of a label have a meaning: similar letters alone do not help.
                fix = f"did you mean {' or '.join(close)}?"
            fault(key, f"unknown {key} {format_value(value)}", offered.fault("gpu", value)[1] if key == "gpu" else fix)
        else:
            values[key] = exact
    settled: dict[str, Any] = {key: values[key] for key in (*RECIPE_KEYS, *SERVED_KEYS) if key in values}
    _settle_method(settled, fault)
    job = known["job"].index(values["job"]) if "job" in values else 0
    if len(scenario.jobs) > 1 and "job" not in given:
        fix = f"job={known['job'][0]}, or another of {', '.join(known['job'][:3])}"
        fault("job", "is missing, but the scenario has several jobs", fix)
    settled |= {ROLLOUT_BITS: int(values[ROLLOUT_BITS])} if ROLLOUT_BITS in values else {}
    settled |= {
        key: values[key]
        for key in (*ALL_COUNT_KEYS, "placement", REWARD_PLACEMENT, "market", *TIME_KEYS, *OFFER_KEYS)
        if key in values
    }
    if "gpu" in settled and settled["gpu"] not in groups:
        settled["gpu"] = library.gpu(settled["gpu"]).name
    return WhyNotQuery(text, job, settled, groups)


def _number(key: str, value: str, fault: Any) -> float | None:
    """Return a count of GPUs or a time in hours; None after a fault."""
    if key in ALL_COUNT_KEYS:
        if value.isdecimal() and len(value) < 8 and 0 < int(value) <= MAX_INTEGER:
            return int(value)
        fault(key, f"{format_value(value)} is not a count", f"give the total number of GPUs, at most {MAX_INTEGER:,}")
        return None
    try:
        return 0.0 if key == "start" and value in ("0", "0h") else parse_hours(value)
    except ValueError:
        fault(key, f"{format_value(value)} is not hours after the start of the plan", f"such as {key}=12h")
        return None


def _known_values(scenario: Scenario, library: Library) -> dict[str, Sequence[str]]:
    """Return the values that each key may have."""
    known: dict[str, Sequence[str]] = {
        "job": [job.name for job in scenario.jobs],
        "gpu": [*library.gpus, *(alias for card in library.gpus.values() for alias in card.aliases)],
        "provider": [offer.provider for offer in scenario.offers],
        "region": [offer.region for _, offer in scenario.labelled_offers()],  # groups of zones included
        "instance": [offer.instance for offer in scenario.offers if offer.instance],
        "offer": [label for label, _ in scenario.labelled_offers()],
        "market": [market for market in MARKET_SHARES if market],
        "placement": list(RL_PLACEMENTS),
        REWARD_PLACEMENT: list(REWARD_PLACEMENTS),
        ROLLOUT_BITS: ["16", "8"],
        **{key: [str(value) for value in library.techniques.allowed(key)] for key in RECIPE_KEYS},
    }
    known["method"] = [*known["method"], QLORA]
    if any(job.subject == "rl" for job in scenario.jobs):
        known["framework"] = RL_FRAMEWORKS
    engines = read_engines()
    known["engine"], known["weight_format"] = list(engines.engines), list(engines.formats)
    bits = dict.fromkeys(kv_bit for row in engines.engines.values() for kv_bit in row.kv_bits)
    known["kv_bits"] = [str(bit) for bit in bits]
    return known


def _spelled(key: str, value: str) -> str | None:
    """Return the engine or format that is also spelled so."""
    behind = {"engine": read_engines().engine_behind, "weight_format": read_engines().format_behind}
    return behind[key](value) if key in behind else None


def _settle_method(techniques: dict[str, Any], fault: Any) -> None:
    """Make bits numbers, and resolve the method QLoRA: it is LoRA on 4-bit weights."""
    for key in ("weight_bits", "kv_bits"):
        if key in techniques:
            techniques[key] = int(techniques[key])
    if techniques.get("method") == QLORA:
        if techniques.get("weight_bits", 4) != 4:
            fault("weight_bits", "QLoRA has 4-bit weights", "leave it out, or use method=lora")
        techniques.update(method="lora", weight_bits=4)


# Why a query is impossible under any limits: no offer, no such recipe, no fit; and the nearest alternatives.


MAX_WHY_NOT_REMEDIES = 3
UNTRIED_SETTINGS = {"framework": "framework", "precision": "techniques.precision", "optimizer": "techniques.optimizer"}
"""Fields that the configurations of a job do not vary by themselves, and where a scenario sets them."""
MACHINE_FACTORS = (2, 4, 8, 16)
"""Multiples of the machines that are rented together, tried only to report that they would suffice."""

Blockers = tuple[tuple[str, ...], Vram | None]
SolveQuery = Callable[[PreparedScenario, WhyNotQuery], ResolvedPlan | None]


def matches_query(recipe: Recipe, query: WhyNotQuery) -> bool:
    """Return whether a recipe has the techniques of the query."""
    return all(getattr(recipe, field) == value for field, value in query.techniques.items())


def pin_techniques(prepared: PreparedScenario, query: WhyNotQuery) -> Job:
    """Return the query's job with its techniques as in the query and no other restriction; latents stay as given."""
    job = prepared.scenario.jobs[query.job]
    update = {"latents": job.techniques.latents, **{field: (value,) for field, value in query.techniques.items()}}
    framework = update.pop("framework", job.framework)
    techniques = unrestricted_techniques(job.techniques).model_copy(update=update)
    return job.model_copy(update={"techniques": techniques, "framework": framework})


def _unknown_use(prepared: PreparedScenario, offers: Sequence[Offer]) -> str:
    """Return which limit leaves all of some offers out because nobody states what their machines use; else nothing."""
    for limit, _ in given_peaks(prepared.scenario.limits):
        use = limit.of_machine
        if use is not None and all(math.isnan(use(offer, prepared.library.gpu(offer.card))) for offer in offers):
            return f"{limit.unknown}; {limit.path}=null admits it"
    return ""


def find_blockers(prepared: PreparedScenario, query: WhyNotQuery) -> Blockers:
    """Return what excludes the query whatever the limits are, with the memory by part if it does not fit."""
    offers = list(compress(prepared.market.offers, named_offers(prepared, query)))
    if not offers:
        return _no_offer(prepared, query), None
    if unknown := _unknown_use(prepared, offers):
        return (unknown,), None
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
    return [machine for machine in dict.fromkeys(machines) if query.given.get("gpus") in (None, machine.gpus)]


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
        *_encoders(evaluator),
        *_more_gpus(prepared, query, miss),
    ), vram


def _encoders(evaluator: MemoryEvaluator) -> tuple[str, ...]:
    """Return what the encoders of a network of images take, where they lie on the GPU."""
    taken = f"{evaluator.encoders_gib:.1f} of them are text and image encoders"
    return (f"{taken}, which leave the GPU with latents: cached",) if evaluator.encoders_gib else ()


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
    return tuple(sorted(found, key=lambda remedy: (not remedy.setting, remedy.cost_usd))[:MAX_WHY_NOT_REMEDIES])


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
    for name, value in query.techniques.items():
        given = getattr(techniques, name, None)
        of_adapters = name == "weight_bits" and query.techniques.get("method") == "full"
        if isinstance(given, tuple) and value not in given and not of_adapters:
            made.append(f"jobs.{query.job}.techniques.{name}=[{','.join(map(str, (*given, value)))}]")
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
            for name, value in settings.items():
                if settings.keys() <= UNTRIED_SETTINGS.keys() and name not in query.techniques:
                    found[change] = f"jobs.{query.job}.{UNTRIED_SETTINGS[name]}={value}"
    yield from found.items()
