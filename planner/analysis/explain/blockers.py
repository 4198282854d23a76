"""Why a wish cannot be at any limits: nobody rents it, nothing trains so, it does not fit; and what comes closest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.analysis.explain.why_not_query import WhyNotQuery
from planner.configurations.configuration_table import MemoryShortfall
from planner.configurations.enumeration import JobConfigurations, enumerate_configurations
from planner.configurations.recipe import GpuClass, Recipe, enumerate_recipes, find_incompatibility
from planner.decode.memory_breakdown import MemoryEvaluator
from planner.errors import ScenarioError
from planner.loading.suggestions import suggest_gpus
from planner.results.explanation import Remedy
from planner.results.plan import Vram
from planner.solving.infeasibility.relaxed_candidates import unrestricted_techniques
from planner.solving.prepare import PreparedScenario
from planner.solving.resolve import ResolvedPlan, describe_method, with_settings

if TYPE_CHECKING:
    from planner.configurations.grid import Machine
    from planner.scenario.scenario import Job, Offer

MANY_STEPS = 64.0
"""Accumulation steps beyond any pipeline degree: the memory of a micro-batch that is repeated."""
STEP_TOKENS = 128
MAX_REMEDIES = 3
MACHINE_FACTORS = (2, 4, 8, 16)
"""Times as many machines as are rented together, tried only to say that they would do."""

Blockers = tuple[tuple[str, ...], Vram | None]
SolveQuery = Callable[[PreparedScenario, WhyNotQuery], ResolvedPlan | None]


def matches_query(recipe: Recipe, wish: WhyNotQuery) -> bool:
    """Whether a recipe is as wished."""
    if "quant" in wish.techniques and recipe.weight_bits != 4:
        return False
    return all(getattr(recipe, field) == value for field, value in wish.techniques.items())


def pin_techniques(prepared: PreparedScenario, wish: WhyNotQuery) -> Job:
    """The wish's job with its techniques as wished and every other one free."""
    job = prepared.scenario.jobs[wish.job]
    update = {field: (value,) for field, value in wish.techniques.items()}
    return job.model_copy(update={"techniques": unrestricted_techniques(job.techniques).model_copy(update=update)})


def find_blockers(prepared: PreparedScenario, wish: WhyNotQuery) -> Blockers:
    """What stands in the way whatever the limits are, with the memory by part where it is memory."""
    offers = _offers(prepared, wish)
    if not offers:
        return _no_offer(prepared, wish), None
    machines = _machines(prepared, wish, offers)
    if not machines:
        counts = sorted({m.gpus for m in _machines(prepared, wish.drop("gpus"), offers)})
        said = ", ".join(f"{count:,}" for count in counts[:8])
        return (f"nobody rents {wish.gpus:,} of them together; counts to be had: {said}",), None
    if wish.market == "spot" and not any(offer.has_spot for offer in offers):
        return ("none of these offers is sold as spot for less than on demand",), None
    if wish.market == "on_demand" and all(offer.usd_per_hour is None for offer in offers):
        return ("these offers are sold as spot only",), None
    refused = _refusal(prepared, wish, machines)
    if refused:
        return (refused,), None
    misses = _memory_shortfalls(prepared, wish, machines)
    if misses:
        return _memory(prepared, wish, misses[0])
    if _fits_somewhere(prepared, wish, machines):
        return ("no set of limits that can be moved lets it in",), None
    batch = prepared.scenario.jobs[wish.job].global_batch
    wanted = ", ".join(f"{count:,}" for count in sorted({m.gpus for m in machines})[:8])
    return (f"the global batch of {batch:,} does not divide over {wanted} GPUs this way",), None


def _offers(prepared: PreparedScenario, wish: WhyNotQuery) -> list[Offer]:
    market = prepared.market
    return [offer for offer, label in zip(market.offers, market.labels, strict=True) if wish.permits(offer, label)]


def _machines(prepared: PreparedScenario, wish: WhyNotQuery, offers: list[Offer]) -> list[Machine]:
    market = prepared.market
    places = [i for i, offer in enumerate(market.offers) if offer in offers]
    machines = dict.fromkeys(machine for i in places for machine in market.machines[i])
    return [machine for machine in machines if wish.gpus in (None, machine.gpus)]


def _no_offer(prepared: PreparedScenario, wish: WhyNotQuery) -> tuple[str, ...]:
    """Nobody rents it: who rents what is nearest."""
    said = " ".join(f"{key} {value}" for key, value in wish.where.items())
    reasons = [f"nobody in the inventory rents {said}"]
    gpu, provider = wish.where.get("gpu"), wish.where.get("provider")
    others = dict.fromkeys(o.provider for o in prepared.scenario.offers if gpu and o.gpu == gpu)
    if gpu and not others:
        near = suggest_gpus(gpu, prepared.scenario.offers, prepared.library)
        reasons.append(f"of the cards that are rented, nearest are {_list_names(near)}")
    if others:
        reasons.append(f"{gpu} is rented by {_list_names(list(others))}")
    cards = dict.fromkeys(o.gpu for o in prepared.scenario.offers if o.gpu and provider and o.provider == provider)
    if cards:
        reasons.append(f"{provider} rents {_list_names(list(cards))}")
    return tuple(reasons)


def _list_names(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _refusal(prepared: PreparedScenario, wish: WhyNotQuery, machines: list[Machine]) -> str:
    """Why no recipe as wished works on any of the machines, the commonest reason; empty where one works."""
    job, library = pin_techniques(prepared, wish), prepared.library
    if job.kind == "pretrain" and wish.techniques.get("method") == "lora":
        return "pretraining trains every weight: its method is full"
    reasons: Counter[str] = Counter()
    for machine in machines:
        card = GpuClass.of(library.gpu(machine.gpu))
        recipes = [r for r in enumerate_recipes(job, card, machine.gpus > 1, library) if matches_query(r, wish)]
        found = [find_incompatibility(recipe, card, job.framework, library) for recipe in recipes]
        if any(reason is None for reason in found):
            return ""
        reasons.update(reason for reason in found if reason)
        if not recipes:
            reasons[_no_recipe(wish, job, machine, card, library)] += 1
    return reasons.most_common(1)[0][0]


def _no_recipe(wish: WhyNotQuery, job: Job, machine: Machine, card: GpuClass, library: Any) -> str:
    """No recipe is even made: techniques that exclude one another, or that the framework has not."""
    bits = wish.techniques.get("weight_bits", 16)
    if wish.techniques.get("method") == "full" and bits != 16:
        plain = Recipe("full", bits, "nf4" if bits == 4 else "int8", "bf16_mixed", "none", "none", "flash", "adamw")
        return find_incompatibility(plain, card, job.framework, library) or "quantised weights are not trained in full"
    sharding = wish.techniques.get("sharding")
    if sharding is not None and (machine.gpus > 1) == (sharding == "none"):
        return f"sharding {sharding} needs {'one GPU' if sharding == 'none' else 'more than one GPU'}"
    said = ", ".join(f"{field} {value}" for field, value in wish.techniques.items())
    return f"framework {job.framework} does not combine {said}"


def _physics(prepared: PreparedScenario, wish: WhyNotQuery, machines: list[Machine]) -> JobConfigurations:
    one, limits = prepared.candidates[wish.job], prepared.scenario.limits
    job = pin_techniques(prepared, wish)
    return enumerate_configurations(job, one.architecture, machines, prepared.library, limits.vram_headroom)


def _memory_shortfalls(prepared: PreparedScenario, wish: WhyNotQuery, machines: list[Machine]) -> list[MemoryShortfall]:
    """Recipes as wished that did not fit, nearest first."""
    misses = _physics(prepared, wish, machines).misses
    return sorted((one for one in misses if matches_query(one.recipe, wish)), key=lambda miss: miss.shortfall)


def _fits_somewhere(prepared: PreparedScenario, wish: WhyNotQuery, machines: list[Machine]) -> bool:
    ways = _physics(prepared, wish, machines).ways
    return any(matches_query(ways.recipes[int(index)], wish) for index in set(ways.recipe.tolist()))


def _probe(prepared: PreparedScenario, wish: WhyNotQuery, miss: MemoryShortfall) -> MemoryEvaluator:
    one = prepared.candidates[wish.job]
    return MemoryEvaluator.of(
        one.job, one.physics.shape, miss.recipe, miss.machine, prepared.scenario.limits.vram_headroom, prepared.library
    )


def _memory(prepared: PreparedScenario, wish: WhyNotQuery, miss: MemoryShortfall) -> Blockers:
    probe = _probe(prepared, wish, miss)
    vram = probe.vram(probe.at(1, MANY_STEPS))
    what = describe_method(miss.recipe)
    how = [f"{miss.recipe.activation_checkpointing} checkpointing", miss.recipe.optimizer]
    how += [miss.recipe.sharding] if miss.machine.gpus > 1 else []
    return (
        f"{what} on {miss.machine.gpus:,} x {miss.machine.gpu} needs {vram.peak:.1f} GiB per GPU at a micro-batch of 1"
        f" ({', '.join(how)}); {vram.usable:.1f} are usable: {vram.peak - vram.usable:.1f} short",
        *_more_gpus(prepared, wish, miss),
    ), vram


def _more_gpus(prepared: PreparedScenario, wish: WhyNotQuery, miss: MemoryShortfall) -> tuple[str, ...]:
    """What was tried beside: the other settings, and the machines that would hold it but that nobody rents together."""
    fields = {"activation_checkpointing": "checkpointing", "optimizer": "optimizer", "sharding": "sharding"}
    free = [word for field, word in fields.items() if field not in wish.techniques]
    reasons = [f"no other {' or '.join(free)} needs less"] if free else []
    sharded = {"sharding": "zero3", "optimizer": "adamw"}
    if miss.recipe.sharding == "none" and all(wish.techniques.get(key, to) == to for key, to in sharded.items()):
        miss = replace(miss, recipe=replace(miss.recipe, sharding="zero3", optimizer="adamw"))
    for times in MACHINE_FACTORS:
        more = replace(miss.machine, instances=miss.machine.instances * times)
        probe = _probe(prepared, wish, replace(miss, machine=more))
        if wish.gpus is None and probe.need_gib(1, MANY_STEPS) <= probe.usable_gib:
            reasons.append(f"{more.gpus:,} of them would hold it, but so many are not rented together")
            break
    return tuple(reasons)


def find_remedies(prepared: PreparedScenario, wish: WhyNotQuery, attempt: SolveQuery) -> tuple[Remedy, ...]:
    """Changes under which it can be within all limits, cheapest first, each held to by solving.

    Where the job's techniques do not let the wish in, each remedy says what must be let in as well.
    """
    found = []
    for change, setting, also, trial in _try_remedies(prepared, wish, attempt):
        if trial is not None:
            figures = {"plan": trial.description, "cost_usd": trial.cost_usd, "hours": trial.hours}
            found.append(Remedy(change=change, setting=setting, also=also, **figures))
    return tuple(sorted(found, key=lambda one: (not one.setting, one.cost_usd))[:MAX_REMEDIES])


def _try_remedies(
    prepared: PreparedScenario, wish: WhyNotQuery, attempt: SolveQuery
) -> Iterator[tuple[str, str, tuple[str, ...], ResolvedPlan | None]]:
    """Change, its setting, the settings that go with it, and the plan."""
    offers = _offers(prepared, wish)
    misses = _memory_shortfalls(prepared, wish, machines) if (machines := _machines(prepared, wish, offers)) else []

    def tried(asked: WhyNotQuery, *settings: str) -> tuple[tuple[str, ...], ResolvedPlan | None]:
        also = settings_to_allow(prepared, asked)
        try:
            return also, attempt(with_settings(prepared, [*settings, *also]), asked)
        except ScenarioError:  # values that do not go together
            return also, None

    for change, setting in _settings(prepared, wish, misses):
        yield change, setting, *tried(wish, setting)
    gpu = wish.where.get("gpu")
    if gpu and not offers and not any(offer.gpu == gpu for offer in prepared.market.offers):
        for name in suggest_gpus(gpu, prepared.scenario.offers, prepared.library):
            yield f"gpu={name} instead", "", *tried(replace(wish, where={**wish.where, "gpu": name}))
    keys = [*(["gpus"] if wish.gpus else []), *(["market"] if wish.market else []), *wish.where]
    for key in (*wish.techniques, *keys):
        less = wish.drop(key)
        if less.where or less.techniques or less.gpus or less.market:
            yield f"without {key}={_value(wish, key)}", "", *tried(less)


def settings_to_allow(prepared: PreparedScenario, wish: WhyNotQuery) -> tuple[str, ...]:
    """The settings that let the techniques of a wish into the lists of the job."""
    techniques = prepared.scenario.jobs[wish.job].techniques
    made = []
    for field, value in wish.techniques.items():
        given = getattr(techniques, field)
        of_adapters = field == "weight_bits" and wish.techniques.get("method") == "full"
        if isinstance(given, tuple) and value not in given and not of_adapters:
            made.append(f"jobs.{wish.job}.techniques.{field}=[{','.join(map(str, (*given, value)))}]")
    return tuple(made)


def _value(wish: WhyNotQuery, name: str) -> object:
    return wish.techniques.get(name, wish.where.get(name, {"gpus": wish.gpus, "market": wish.market}.get(name)))


def _settings(
    prepared: PreparedScenario, wish: WhyNotQuery, misses: list[MemoryShortfall]
) -> Iterator[tuple[str, str]]:
    """Settings of the job that save memory: shorter sequences, pure bf16, a fused loss."""
    if not misses:
        return
    job = prepared.scenario.jobs[wish.job]
    shape = prepared.candidates[wish.job].physics.shape
    if shape.unit == "tokens":
        longest = max(int(_probe(prepared, wish, miss).longest_sequence(1, MANY_STEPS)) for miss in misses[:3])
        longest = longest // STEP_TOKENS * STEP_TOKENS
        if 0 < longest < shape.sequence:
            yield (
                f"sequence_length {longest:,} instead of {shape.sequence:,}",
                f"jobs.{wish.job}.sequence_length={longest}",
            )
    if job.framework == "hf":
        yield "framework hf-fused (the loss in one kernel)", f"jobs.{wish.job}.framework=hf-fused"
    if any(miss.recipe.method == "full" for miss in misses) and "precision" not in wish.techniques:
        yield "pure bf16 without fp32 master weights", f"jobs.{wish.job}.techniques.precision=bf16"
