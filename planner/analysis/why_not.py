"""Why not X: the query, checked; X fixed and the program solved again; else what excludes it, and what admits it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, compress
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from planner import timetable
from planner.analysis.estimate_question import memory_saving_changes
from planner.arrays import CandidateTable, Flags
from planner.candidates.candidate_enumeration import Margins, enumerate_candidates
from planner.candidates.job_candidates import JobCandidates
from planner.candidates.screening import CandidateObjective, screen
from planner.candidates.spot_candidates import ScreenedCandidates
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
from planner.results.explanation import Remedy, WhyNot
from planner.results.plan import Plan
from planner.results.plan_parts import Vram
from planner.scenario.job import Job
from planner.scenario.limits import PEAK_LIMITS, AllowForbid, given_peaks
from planner.scenario.naming import MATCHED, OfferedNames
from planner.scenario.offer import Offer
from planner.scenario.rl_job import REWARD_PLACEMENTS, RL_FRAMEWORKS, TRAINER_DEGREES
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.alternatives import COST_WORDS, describe_difference, difference_sigma
from planner.solving.binding_limits import with_job
from planner.solving.chosen import MemoryEvaluator, describe_break_even, describe_method, recipe_of, rent_usd_per_hour
from planner.solving.diagnosis import build_relaxations, verified_relaxations
from planner.solving.elastic_program import (
    HEADROOM,
    RelaxedCandidates,
    margin_of,
    relax_candidates,
    unrestricted_techniques,
)
from planner.solving.limit_changes import LimitChange, describe_small_host, limit_key, longest_fitting_sequence
from planner.solving.optimise_choice import ResolvedPlan, try_solve, with_settings
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve_built, solve_prepared

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
    """Return which limit leaves all of some offers out because what their machines use is unknown; else nothing."""
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
        refusals = [find_incompatibility(recipe, card, library, architecture) for recipe in recipes]
        if any(reason is None for reason in refusals):
            return ""
        reasons.update(reason for reason in refusals if reason)
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
    candidates, limits = prepared.candidates[query.job], prepared.scenario.limits
    job = pin_techniques(prepared, query)
    made = enumerate_configurations(job, candidates.architecture, machines, prepared.library, limits.vram_headroom)
    misses = [miss for miss in made.misses if matches_query(miss.recipe, query)]
    some_fit = any(matches_query(made.ways.recipes[index], query) for index in set(made.ways.recipe.tolist()))
    hosts = [miss for miss in made.small_hosts if matches_query(miss.recipe, query)]
    return (
        sorted(misses, key=lambda miss: miss.shortfall_gib),
        sorted(hosts, key=lambda miss: miss.shortfall_gb),
        some_fit,
    )


def _evaluator(prepared: PreparedScenario, query: WhyNotQuery, miss: MemoryShortfall) -> MemoryEvaluator:
    candidates = prepared.candidates[query.job]
    return MemoryEvaluator.of(
        candidates.job,
        candidates.physics.shape,
        miss.recipe,
        miss.machine,
        prepared.scenario.limits.vram_headroom,
        prepared.library,
    )


def _memory(prepared: PreparedScenario, query: WhyNotQuery, miss: MemoryShortfall) -> Blockers:
    evaluator = _evaluator(prepared, query, miss)
    vram = evaluator.vram(evaluator.at(1, MANY_ACCUMULATION_STEPS))
    way = describe_method(miss.recipe)
    how = [f"{miss.recipe.activation_checkpointing} checkpointing", miss.recipe.optimizer]
    how += [miss.recipe.sharding] if miss.machine.gpus > 1 else []
    return (
        f"{way} on {miss.machine.gpus:,} x {miss.machine.gpu} needs {vram.peak:.1f} GiB per GPU at a micro-batch of 1"
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
    remedies = []
    for change, setting, changed in _possible_remedies(prepared, query):
        also = settings_to_allow(prepared, changed)
        try:
            plan = solve(with_settings(prepared, [*([setting] if setting else []), *also]), changed)
        except ScenarioError:  # values that contradict one another
            continue
        if plan is not None:
            figures = {"plan": plan.description, "cost_usd": plan.cost_usd, "hours": plan.hours}
            remedies.append(Remedy(change=change, setting=setting, also=also, **figures))
    return tuple(sorted(remedies, key=lambda remedy: (not remedy.setting, remedy.cost_usd))[:MAX_WHY_NOT_REMEDIES])


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
    setting_of: dict[str, str] = {}
    for miss in shortfalls:
        gpu, gpus = library.gpu(miss.machine.gpu), miss.machine.gpus
        for change, settings in memory_saving_changes(miss.recipe, gpu, gpus, library):
            for name, value in settings.items():
                if settings.keys() <= UNTRIED_SETTINGS.keys() and name not in query.techniques:
                    setting_of[change] = f"jobs.{query.job}.{UNTRIED_SETTINGS[name]}={value}"
    yield from setting_of.items()


# The answer: the query is fixed and the program solved again; else the least change of limits that admits it.


MIN_FACTOR = 1.03
"""Factor from which on a difference is a reason."""
SAME_COST_USD = 0.01
"""Difference of the objective below which two plans on the same machines are one."""


def answer_query(prepared: PreparedScenario, plan: ResolvedPlan | None, query: WhyNotQuery) -> WhyNot:
    """Return the answer to one query; `plan` is that of the scenario, None if there is none."""
    base = _with_every_offer(prepared, query)
    alternative = solve_query(base, query)
    if alternative is not None:
        same = plan is not None and _is_same(plan, alternative, query.job)
        if same:
            return _priced_answer(query, plan, alternative, status="chosen")
        least = _of_least_cost(base, query, alternative)
        reasons = _differences(plan, least, query.job) if plan is not None else ()
        return _priced_answer(query, plan, least, status="possible", reasons=(*reasons, *_near_tie(least, alternative)))
    relaxed = _relaxed_matches(base, query)
    if relaxed is not None:
        verified = verified_relaxations(base, relaxed, lambda changed: solve_query(changed, query), 1)
        if verified:
            (alternative, changes), *_ = verified
            reasons, relax = (
                tuple(_reason(change, base) for change in changes),
                build_relaxations(alternative, changes, 1),
            )
            return _priced_answer(query, plan, alternative, status="beyond", reasons=reasons, relax=tuple(relax))
    reasons, memory = find_blockers(base, query)
    return WhyNot(
        asked=query.text,
        status="impossible",
        reasons=reasons,
        memory=memory,
        remedies=find_remedies(base, query, solve_query),
    )


def _priced_answer(query: WhyNotQuery, plan: ResolvedPlan | None, alternative: ResolvedPlan, **answer: Any) -> WhyNot:
    """Return an answer with the price of X, and how it compares with that of the plan."""
    times = alternative.cost_usd / plan.cost_usd if plan is not None and plan.cost_usd > 0 else None
    figures = {
        "plan": alternative.description,
        "cost_usd": alternative.cost_usd,
        "hours": alternative.hours,
        "times": times,
    }
    offer = alternative.prepared.market.offers[int(alternative.chosen.offer[query.job])]
    figures["hours_at_confidence"] = alternative.late_hours
    share = float(alternative.as_run[1][query.job])
    figures["usd_per_hour"] = rent_usd_per_hour(offer, int(alternative.chosen.gpus[query.job]), share)
    if plan is not None:
        figures["verdict"] = _verdict(plan, alternative, query.job)
    return WhyNot(asked=query.text, **figures, **answer)


def solve_query(prepared: PreparedScenario, query: WhyNotQuery) -> ResolvedPlan | None:
    """Return the best plan that runs the job as the query asks, within all limits; None if there is none."""
    pinned = prepare(_fix_techniques(prepared.scenario, query), prepared.library, prepared)
    return try_solve(keep_matches(pinned, query))


def solve_pinned(prepared: PreparedScenario, query: WhyNotQuery, options: SolveOptions) -> Plan:
    """Return the plan whose one job runs as the query asks, of all ways to run it where jobs take turns."""
    pinned = keep_matches(prepare(_fix_techniques(prepared.scenario, query), prepared.library, prepared), query)
    if not pinned.scenario.needs_timetable:
        return solve_prepared(pinned, options, explains=False)
    built = timetable.build_timetable(pinned, rows_in_market(query))
    return solve_built(pinned, built, options, perf_counter(), explains=False)


def keep_matches(prepared: PreparedScenario, query: WhyNotQuery) -> PreparedScenario:
    """Return the scenario with those candidates of the job alone that the query asks for, screened again.

    Screened with all others, most of them have no policy on spot: only what may be the best of its method has one.
    """
    scenario, (floor, cap) = prepared.scenario, query.spot_bounds
    candidates, screened = list(prepared.candidates), list(prepared.screened)
    job_candidates = candidates[query.job]
    job_candidates = job_candidates.rows(
        match_rows(job_candidates, job_candidates.table, named_offers(prepared, query), query)
    )
    share = scenario.limits.spot_share
    bounds = share.model_copy(update={"min": max(share.min, floor), "max": min(share.max, cap)})
    limits = scenario.limits.model_copy(update={"spot_share": bounds})
    waiting = CandidateObjective.of(scenario).waiting_usd
    candidates[query.job] = job_candidates
    screened[query.job] = screen(job_candidates, prepared.market, limits, prepared.library, waiting_usd=waiting)
    return replace(prepared, candidates=tuple(candidates), screened=tuple(screened))


def rows_in_market(query: WhyNotQuery) -> Callable[[int, ScreenedCandidates], ScreenedCandidates]:
    """Return what keeps the rows of the job that may run in the market of the query, within its spot shares."""
    floor, cap = query.spot_bounds

    def keep(index: int, screened: ScreenedCandidates) -> ScreenedCandidates:
        if index != query.job:
            return screened
        within = screened.select((screened.table.share_low <= cap) & (screened.table.share_high >= floor))
        return replace(within, table=in_market(within.table, query))

    return keep


def _with_every_offer(prepared: PreparedScenario, query: WhyNotQuery) -> PreparedScenario:
    """Return the scenario with every offer of its own if the query may name one that is not the cheapest of its kind.

    Every region is allowed by name, so that regions and instances count.
    """
    scenario = prepared.scenario
    if not {"region", "offer", "instance", "market"} & query.given.keys() or scenario.limits.regions != AllowForbid():
        return prepared
    regions = AllowForbid(allow=tuple(dict.fromkeys(offer.region for offer in scenario.offers)))
    limits = scenario.limits.model_copy(update={"regions": regions})
    return prepare(scenario.model_copy(update={"limits": limits}), prepared.library, prepared)


def _fix_techniques(scenario: Scenario, query: WhyNotQuery) -> Scenario:
    """Return the scenario with each technique of the query as the only one, if the job's own list admits it."""
    job = scenario.jobs[query.job]
    techniques = job.techniques
    given: dict[str, Any] = {
        field: job.framework if field == "framework" else getattr(techniques, field) for field in query.techniques
    }
    update = {
        field: (value,) for field, value in query.techniques.items() if given[field] is None or value in given[field]
    }
    framework = update.pop("framework", job.framework)
    return with_job(scenario, query.job, {"framework": framework, "techniques": techniques.model_copy(update=update)})


def match_rows(candidates: JobCandidates, table: CandidateTable, offers: Flags, query: WhyNotQuery) -> Flags:
    """Return the rows (n,) of a table of the job whose offer, GPUs, market and recipe match the query."""
    floor, cap = query.spot_bounds
    fits = np.asarray([matches_query(recipe, query) for recipe in candidates.recipes], dtype=bool)
    mask = offers[table.offer] & fits[table.recipe] & (table.share_low <= cap) & (table.share_high >= floor)
    return np.asarray(mask & (table.gpus == query.given.get("gpus", table.gpus)), dtype=bool)


def in_market(table: CandidateTable, query: WhyNotQuery, members: Flags | bool = True) -> CandidateTable:
    """Return a table with the work of some rows (n,) in the market of the query."""
    floor, cap = query.spot_bounds
    low, high = np.maximum(table.share_low, floor), np.minimum(table.share_high, cap)
    return replace(
        table, share_low=np.where(members, low, table.share_low), share_high=np.where(members, high, table.share_high)
    )


def _relaxed_matches(prepared: PreparedScenario, query: WhyNotQuery) -> RelaxedCandidates | None:
    """Return every candidate that runs the job as the query asks, whatever limits it breaks; None if there is none."""
    job, pinned = prepared.scenario.jobs[query.job], pin_techniques(prepared, query)
    candidates = prepared.candidates[query.job]
    headroom = prepared.scenario.limits.vram_headroom
    margins = [headroom, *([0.0] if margin_of(job, prepared.scenario.limits, prepared.library) > 0 else [])]
    offers = named_offers(prepared, query)
    pieces = []
    for margin in margins:
        names, both = candidates.table.jobs, Margins(margin, candidates.run_hours.budget_confidence)
        made = enumerate_candidates(pinned, candidates.architecture, prepared.market, names, prepared.library, both)
        pieces.append(made.rows(match_rows(made, made.table, offers, query)))
    if not any(len(piece.table) for piece in pieces):
        return None
    relaxed = relax_candidates(prepared, {query.job: pieces})
    floor, cap = query.spot_bounds
    table = relaxed.table
    relaxed = relaxed.rows((table.job != query.job) | ((table.share_low <= cap) & (table.share_high >= floor)))
    return replace(relaxed, table=in_market(relaxed.table, query, relaxed.table.job == query.job))


def _is_same(plan: ResolvedPlan, alternative: ResolvedPlan, job: int) -> bool:
    """Return whether two plans run a job on the same machines with the same recipe, at the same objective."""
    return _kind(alternative, job) == _kind(plan, job) and abs(alternative.objective - plan.objective) < SAME_COST_USD


def _kind(plan: ResolvedPlan, job: int) -> tuple[object, ...]:
    candidates, row = plan.prepared.candidates[job], plan.rows[job]
    offer = plan.prepared.market.offers[int(candidates.table.offer[row])]
    return (
        offer.provider,
        offer.gpu,
        int(candidates.table.gpus[row]),
        recipe_of(candidates, row),
        round(plan.shares[job], 2),
    )


def _differences(plan: ResolvedPlan, alternative: ResolvedPlan, job: int) -> tuple[str, ...]:
    """Return what makes the difference: the price of an hour, the hours, commitments, GPUs; largest factor first.

    What speaks for X comes last. Dollars per hour are those of the bill: on spot a run also waits, for nothing.
    """
    (price, hours), (price_x, hours_x) = _per_hour(plan, job), _per_hour(alternative, job)
    gpus, gpus_x = int(plan.chosen.gpus[job]), int(alternative.chosen.gpus[job])
    hour = "an hour with waiting" if max(plan.shares[job], alternative.shares[job]) > 0 else "an hour"
    reasons, although = [], []
    for with_x, usual, words in (
        (price_x, price, f"{hour} costs ${price_x:,.2f} against ${price:,.2f}"),
        (hours_x, hours, f"it likely takes {_format_duration(hours_x)} against {_format_duration(hours)}"),
    ):
        if words.startswith("an hour") and not (gpus and gpus_x):
            continue  # a service charges for tokens and runs, whatever their hours
        if min(with_x, usual) <= 0:  # nothing is a multiple of what is free
            reasons += [(math.inf, words)] if with_x > usual else []
            although += [f"although {words}"] if with_x < usual else []
        elif with_x > MIN_FACTOR * usual:
            reasons.append((math.log(with_x / usual), f"{words} ({_format_factor(with_x / usual)})"))
        elif usual > MIN_FACTOR * with_x:
            although.append(f"although {words} ({_format_factor(with_x / usual)})")
    described = [words for _, words in sorted(reasons, reverse=True)]
    market, place = alternative.prepared.market, int(alternative.chosen.offer[job])
    if break_even := describe_break_even(market, market.offers[place], float(alternative.chosen.instances[job])):
        described.append(f"its commitment {break_even}")
    if not gpus or not gpus_x:
        described.insert(0, "it charges for tokens or runs, not for hours" if gpus else "it is paid by the hour")
    elif gpus != gpus_x:
        described.append(f"{gpus_x:,} GPU{'s' if gpus_x > 1 else ''} against {gpus:,}")
    penalty = float(alternative.chosen.penalty_usd[job] - plan.chosen.penalty_usd[job])
    if abs(penalty) >= 0.01:
        described.append(f"penalties make ${penalty:+,.2f}".replace("$-", "-$").replace("$+", "+$"))
    return (*described, *although)


def _of_least_cost(prepared: PreparedScenario, query: WhyNotQuery, alternative: ResolvedPlan) -> ResolvedPlan:
    """Return the plan of least cost with X, which tables of other ways show, in place of a near tie that costs more."""
    scenario = alternative.prepared.scenario
    in_dollars = scenario.objective_kind == "cost" and scenario.has_plain_dollars
    if not in_dollars or round(alternative.cost_usd, 2) <= round(alternative.objective, 2):
        return alternative
    strict = {"solve": prepared.scenario.solve.model_copy(update={"ties": 0.0})}
    return solve_query(replace(prepared, scenario=prepared.scenario.model_copy(update=strict)), query) or alternative


def _near_tie(least: ResolvedPlan, alternative: ResolvedPlan) -> tuple[str, ...]:
    """Return what `solve` with X alone prefers where that is a near tie of the least cost shown."""
    if least is alternative:
        return ()
    late = f"by {alternative.late_hours:,.1f} h"
    return (f"with it alone planner solve prefers a near tie: ${alternative.cost_usd:,.2f}, {late} (solve.ties)",)


def _verdict(plan: ResolvedPlan, alternative: ResolvedPlan, job: int) -> str:
    """Return how the objective with X differs from that of the plan, in the words of the tables of other ways."""
    objective = CandidateObjective.of(plan.prepared.scenario)
    by_time = objective.by_time
    values = [compared.hours if by_time else compared.cost_usd for compared in (alternative, plan)]
    gpus = [compared.prepared.market.gpus[int(compared.chosen.offer[job])] for compared in (alternative, plan)]
    sigma = difference_sigma(plan.prepared.library, gpus[0] == gpus[1])
    return describe_difference(values[0], values[1], sigma, objective.comparatives if by_time else COST_WORDS)


def _format_duration(hours: float) -> str:
    """Return hours, or minutes below a tenth of an hour."""
    return f"{hours * 60:,.0f} min" if hours < 0.1 else f"{hours:,.1f} h"


def _format_factor(factor: float) -> str:
    """Return a factor in words: `2.1x`, `7.5x less`, `4 % more`."""
    if 1 / 1.5 < factor < 1.5:
        return f"{abs(factor - 1) * 100:.0f} % {'more' if factor > 1 else 'less'}"
    return f"{factor:,.1f}x" if factor > 1 else f"{1 / factor:,.1f}x less"


def _per_hour(plan: ResolvedPlan, job: int) -> tuple[float, float]:
    """Return dollars per expected hour of one job, and its expected hours."""
    table, shares = plan.as_run
    row, share = table.rows(np.asarray([job])), shares[[job]]
    hours = float(row.hours(share)[0])
    return float(row.cost_usd(share)[0]) / hours, hours


REASONS = {
    "deadline": "it takes {new:.4g} h at {confidence:.3g} % confidence; the deadline is {old:.4g} h",
    "max_hours": "it takes {new:.4g} h at the requested confidence; at most {old:.4g} h are allowed",
    "budget_usd": "it costs ${new:,.2f} at the requested confidence; the budget is ${old:,.2f}",
    **{limit.key: limit.excludes for limit in PEAK_LIMITS if limit.excludes},
    "quota": "it needs {new:,.0f} GPUs at {name}; the quota is {old:,.0f}",
    "spot_share": "it needs a spot share of {new:.2g}; spot_share.{name} is {old:.2g}",
    "max_price_age": "its price is too old: limits.max_price_age is {old}",
    "at_once": "there are machines for {new:g} {plans} at a time; {old:g} are requested",
}
"""Why a limit excludes X, by its key in the scenario."""


def _reason(change: LimitChange, base: PreparedScenario) -> str:
    """Return a limit that excludes X, as a sentence with both values."""
    limit, old, new = change.limit, change.old, change.new
    if limit == HEADROOM:
        margins = f"{float(new) * 100:.3g} %; {float(old) * 100:.3g} %"
        return f"it fits in memory only with a margin of {margins} are kept free"
    if limit.endswith(".confidence.memory"):
        asked = f"{float(old) * 100:.3g} % are asked for"
        return f"it fits in memory with {float(new) * 100:.3g} % probability; {asked}"
    job = next((job for job in base.scenario.jobs if limit.startswith(f"jobs.{job.name}.")), None)
    if reason := REASONS.get(limit_key(limit)):
        confidence, plans = job.confidence * 100 if job else None, "plan" if new == 1 else "plans"
        name = limit.removeprefix("limits.").partition(".")[2]
        return reason.format(new=new, old=old, name=name, confidence=confidence, plans=plans)
    allowed = str(new).removeprefix("allow also ")
    kind, _, names = str(old).partition(" ")
    if kind == "forbid":
        return f"{limit} forbids {allowed}"
    return f"{limit} allows {names if kind == 'allow' else old}, not {allowed}"
