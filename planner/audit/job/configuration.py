"""Audit of what is said in names and whole numbers: offer, recipe, batch, limits on one job."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from planner.audit.job.context import AssignmentContext, AuditContext, Figure, Violation, check_at_most, check_equal
from planner.configurations.recipe import HYBRID_ABOVE_GPUS, find_incompatibility, quantisations
from planner.library.techniques import TECHNIQUE_FIELDS

if TYPE_CHECKING:
    from planner.scenario.scenario import Offer


def check_names(ground: AuditContext) -> list[Violation]:
    """Card and link are those of the offer."""
    found = check_equal(ground.job.name, "gpu", ground.gpu.name, ground.plan.gpu)
    return found + check_equal(ground.job.name, "interconnect", link_of(ground), ground.plan.interconnect)


def check_offer(ground: AssignmentContext) -> list[Violation]:
    """Provider, region, instance, tier, and what is asked of the job, are those of the offer and the job."""
    plan, offer, job = ground.plan, ground.offer, ground.job
    said: dict[str, tuple[Figure, Figure]] = {
        "architecture": (ground.architecture.name, plan.architecture),
        "provider": (offer.provider, plan.provider),
        "region": (_region(ground), plan.region),
        "instance": (offer.instance, plan.instance),
        "tier": (_tier(offer), plan.tier),
        "trials": (job.trials.count, plan.trials),
        "runs_at_once": (job.trials.at_once, plan.runs_at_once),
        "global_batch": (job.global_batch, plan.global_batch),
        "packing": (job.packing, plan.packing),
        "deadline_hours": (job.deadline_hours, plan.deadline_hours),
        "unit": ("images" if ground.architecture.image else "tokens", plan.unit),
    }
    return [found for what, (wanted, is_) in said.items() for found in check_equal(job.name, what, wanted, is_)]


def _tier(offer: Offer) -> str:
    """In one word how the offer is paid for, or who stands behind it."""
    if offer.own is not None:
        return "own"
    if offer.managed is not None:
        return "managed"
    if offer.commitment is not None or offer.committed_hours is not None:
        return "committed"
    return "community" if offer.community else "secure"


def _region(ground: AssignmentContext) -> str:
    """The offer's region, or in how many the same is offered: equal in all but date, source and notes."""
    mine = ground.offer
    if ground.regional:
        return mine.region
    beside = {"region", "date", "source", "notes"}
    kind, what = (mine.provider, mine.instance, mine.gpu), mine.model_dump(exclude=beside)
    near = [offer for offer in ground.offers.values() if (offer.provider, offer.instance, offer.gpu) == kind]
    regions = {offer.region for offer in near if offer.model_dump(exclude=beside) == what}
    return mine.region if len(regions) == 1 else f"any of {len(regions)}"


def link_of(ground: AuditContext) -> str:
    """Between the cards of one instance: as the offer says, else what the form means; pcie where alone."""
    offer = ground.offer
    if offer.gpus == 1:
        return "pcie"
    return offer.interconnect or ("nvlink" if ground.gpu.nvlink_by_default else "pcie")


def check_gpu_counts(ground: AuditContext) -> list[Violation]:
    """GPUs are instances times GPUs per instance, and the offer lets that many instances work together."""
    plan, offer = ground.plan, ground.offer
    found = check_equal(plan.name, "gpus per instance", offer.gpus, plan.gpus_per_instance)
    found += check_equal(plan.name, "gpus", plan.instances * plan.gpus_per_instance, plan.gpus)
    if plan.instances < 1:
        found.append(Violation(plan.name, "instances", "at least 1", plan.instances))
    return found + check_at_most(plan.name, "instances of one job", offer.max_nodes, plan.instances)


def check_batch(ground: AuditContext) -> list[Violation]:
    """micro_batch * accumulation * data_parallel = global_batch exactly; the degrees divide the GPUs."""
    plan, said = ground.plan, ground.plan.techniques
    degrees = said.tensor_parallel * said.pipeline_parallel
    if degrees < 1 or plan.gpus % degrees:
        return [Violation(plan.name, "tensor * pipeline parallel", f"a divisor of {plan.gpus}", degrees)]
    found = check_at_most(plan.name, "tensor parallel", plan.gpus_per_instance, said.tensor_parallel)
    if min(said.micro_batch, said.accumulation_steps) < 1:
        found.append(Violation(plan.name, "micro batch and accumulation", "at least 1", said.micro_batch))
    product = said.micro_batch * said.accumulation_steps * (plan.gpus // degrees)
    return found + check_equal(
        plan.name, "micro_batch * accumulation * data_parallel", ground.job.global_batch, product
    )


def check_techniques(ground: AuditContext) -> list[Violation]:
    """Every technique is among those that the job, its framework and its card leave open."""
    plan, job, recipe, card = ground.plan, ground.job, ground.recipe, ground.card
    asked = job.techniques
    facts = {**vars(card), "method": recipe.method}
    table = ground.library.techniques
    choices = {field: getattr(asked, field) or table.tried(field, **facts) for field in TECHNIQUE_FIELDS} | {
        "method": ("full",) if job.kind == "pretrain" else asked.method or table.tried("method"),
        "weight_bits": (16,) if recipe.method == "full" else asked.weight_bits or table.tried("weight_bits", **facts),
        "quant": quantisations(recipe.weight_bits, asked.quant, ground.library),
        "sharding": _shardings(ground),
        "tensor_parallel": _degrees(ground, asked.tensor_parallel),
        "pipeline_parallel": _degrees(ground, asked.pipeline_parallel),
    }
    found = [
        Violation(plan.name, what, "one of " + ", ".join(map(str, allowed)), getattr(recipe, what))
        for what, allowed in choices.items()
        if getattr(recipe, what) not in allowed
    ]
    reason = find_incompatibility(recipe, card, job.framework, ground.library)
    if reason is not None:
        found.append(Violation(plan.name, "recipe", "techniques that work together", reason))
    return found + check_adapters(ground)


def _shardings(ground: AuditContext) -> tuple[str, ...]:
    """What may be done on several GPUs; on one there is nothing to shard."""
    plan, asked = ground.plan, ground.job.techniques.sharding
    if plan.gpus == 1:
        return ("none",)
    known = set(ground.framework.allowed)
    by_default = ground.framework.sharding
    several_large_nodes = plan.gpus > HYBRID_ABOVE_GPUS and plan.instances > 1
    return tuple(
        one for one in asked or by_default if one in known and one != "none" and (one != "hsdp" or several_large_nodes)
    )


def _degrees(ground: AuditContext, asked: tuple[int, ...] | None) -> tuple[int, ...]:
    """Parallel degrees: those asked for, else 1, else any where the framework can."""
    given = ground.job.techniques
    if given.tensor_parallel or given.pipeline_parallel:
        return tuple(asked or (1,))
    return tuple(range(1, ground.plan.gpus + 1)) if ground.framework.parallel else (1,)


def check_adapters(ground: AssignmentContext) -> list[Violation]:
    """Rank and place of the adapters are those that the job asks for, where there are any."""
    said, lora = ground.plan.techniques, ground.job.lora
    on = said.method == "lora"
    targets = said.lora_targets
    return [
        *check_equal(ground.plan.name, "lora_rank", lora.rank if on else None, said.lora_rank),
        *check_equal(ground.plan.name, "lora_targets", str(lora.targets) if on else "None", str(targets)),
    ]


def check_allow_lists(ground: AssignmentContext) -> list[Violation]:
    """Provider, card, region and tier pass the lists of the limits; a service has no card that they could name."""
    limits, offer, name = ground.limits, ground.offer, ground.plan.name
    lists = {
        "providers": (limits.providers, offer.provider),
        "regions": (limits.regions, offer.region),
        "tiers": (limits.tiers, _tier(offer)),
    }
    if offer.gpu is not None:
        lists["gpus"] = (limits.gpus, ground.library.gpu(offer.gpu).name)
    return [
        Violation(name, f"limits.{key}", "a name that is allowed", value)
        for key, (names, value) in lists.items()
        if not names.permits(value)
    ]


def check_spot_share(ground: AuditContext) -> list[Violation]:
    """The share lies in the limits; without a spot market it is 0, without on-demand 1."""
    plan, bounds, offer = ground.plan, ground.limits.spot_share, ground.offer
    low, high = bounds.min, bounds.max
    if not offer.has_spot:
        high = 0.0
    if offer.usd_per_hour is None:
        low = 1.0
    if low - 1e-6 <= plan.spot_share <= high + 1e-6:
        return []
    return [Violation(plan.name, "spot_share", f"between {low:g} and {high:g}", plan.spot_share)]


def check_price_date(ground: AssignmentContext, as_of: datetime.date) -> list[Violation]:
    """Date, age in days and source of the price are those of the offer."""
    plan, date = ground.plan, ground.offer.date
    day = datetime.date.fromisoformat(str(date)) if date else None
    return [
        *check_equal(plan.name, "price_date", str(date or ""), plan.price_date),
        *check_equal(plan.name, "price_age_days", (as_of - day).days if day else None, plan.price_age_days),
        *check_equal(plan.name, "price_source", ground.offer.source, plan.price_source),
    ]
