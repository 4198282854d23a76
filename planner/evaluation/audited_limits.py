"""Limits on the plan's own figures, of each job, of all, and of what is in use at one time; what totals follow."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner import generation
from planner.configurations.recipe import (
    HYBRID_ABOVE_GPUS,
    GpuClass,
    enumerate_recipes,
    expand_paged,
    expand_parallel_degrees,
    find_incompatibility,
    is_allowed,
    sequence_of,
)
from planner.estimates.stage_seconds import evaluation_bytes
from planner.evaluation.comparison import Broken, Tolerance, at_most
from planner.evaluation.evaluate import Evaluation
from planner.evaluation.evaluated_hours import budget_odds, probability_within
from planner.evaluation.evaluated_physics import RunContext, hourly_price, unmeasured
from planner.evaluation.evaluated_stages import STAGES, is_made, lacking_memory
from planner.library.schema import Library
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import Hours, Reservation, Spread
from planner.scenario.inference_job import InferenceJob
from planner.scenario.job import Job
from planner.scenario.limits import PEAK_TOLERANCE, given_peaks
from planner.scenario.offer import Managed, Offer, offer_labels
from planner.scenario.scenario import Scenario
from planner.units import GB, GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Held:
    """Machines that are held at one time, as a plan names them."""

    offer: Offer | None  # None: the plan names an offer that is none, which is a fault of its own
    machines: float
    gpus: float
    usd_per_hour: float


def amount_of(key: str, held: Held, library: Library) -> float:
    """Return what machines use of the limit of a key, such as `max_gpus`.

    Raises ValueError for a limit that has no second computation here.
    """
    match key:
        case "max_gpus":
            return held.gpus
        case "max_usd_per_hour":
            return held.usd_per_hour
        case "max_kilowatts":
            return _kilowatts(held, library)
        case "outlay_usd":
            return held.machines * price_at_once(held.offer)
    raise ValueError(f"limits.{key} has no second computation")


_WATTS_PER_WATT_OF_GPU = 1.8 * 0.8
"""What a server draws in training: 80 % of its rated power, which is 1.8 times that of its GPUs."""


def _kilowatts(held: Held, library: Library) -> float:
    """Return the power that machines draw: as an own one states it, else from the TDP of the GPUs; inf if unknown."""
    offer = held.offer
    if offer is None or offer.gpu is None:
        return 0.0
    for machine in (offer.own, offer.buy):
        if machine is not None and machine.power_watts is not None:
            return held.machines * machine.power_watts / 1e3
    tdp = library.gpu(offer.gpu).tdp_w
    return math.inf if tdp is None else held.gpus * tdp * _WATTS_PER_WATT_OF_GPU / 1e3


def price_at_once(offer: Offer | None) -> float:
    """Return the price of one machine on the day of its order: bought, asked upfront, or as a block of hours."""
    if offer is None:
        return 0.0
    bought = offer.buy.purchase_usd if offer.buy else 0.0
    upfront = offer.commitment.upfront_usd if offer.commitment else 0.0
    return bought + upfront + (offer.block.usd if offer.block else 0.0)


def gpus_of(job: Assignment) -> int:
    """Return the GPUs that a job holds."""
    return job.gpus * job.runs_at_once


def machines_of(job: Assignment) -> int:
    """Return the machines that a job holds, or its place at a service."""
    return max(1, job.instances) * job.runs_at_once


def held_by(job: Assignment, offer: Offer | None) -> Held:
    """Return what a job holds from start to end; it spends its dollars at the confidence evenly over these hours."""
    rate = job.cost_at_confidence / max(job.held_hours, 1e-6)
    return Held(offer, machines_of(job), gpus_of(job), rate)


_MINUTE = 1 / 60
"""Hours of the grid of a timetable: a run is given whole minutes."""
_SLACK = 1e-6
"""Hours by which two moments may differ."""


def peak(jobs: Iterable[Assignment], amount: Callable[[Assignment], float]) -> float:
    """Return the most that jobs hold at one time; what ends in a moment makes room for what starts in it."""
    jobs = list(jobs)
    return max(
        (
            math.fsum(
                amount(b) for b in jobs if b.start_at_hours <= a.start_at_hours + _SLACK < b.finish_hours - _SLACK
            )
            for a in jobs
        ),
        default=0.0,
    )


def held_at_busiest(jobs: Iterable[Assignment]) -> Counter[tuple[str, str]]:
    """Return the GPUs by provider and model that jobs hold at the first moment of most GPUs in all."""
    users = sorted((job for job in jobs if job.gpus), key=lambda job: job.start_at_hours)
    most: Counter[tuple[str, str]] = Counter()
    for at in dict.fromkeys(job.start_at_hours for job in users):
        held: Counter[tuple[str, str]] = Counter()
        for job in users:
            if job.start_at_hours <= at + _SLACK < job.finish_hours - _SLACK:
                held[job.provider, job.gpu] += job.gpus * job.runs_at_once
        most = held if held.total() > most.total() else most
    return most


def times_of_plan(plan: Plan, scenario: Scenario, tolerance: Tolerance) -> Iterator[Broken]:
    """Yield times that the plan may not have: of jobs, between jobs, in windows and reservations, of spending."""
    by_name = {job.name: job for job in plan.jobs}
    offers = dict(scenario.labelled_offers())
    for wanted in scenario.jobs:
        if (job := by_name.get(wanted.name)) is None:
            continue
        yield from _times_of_job(wanted, job, by_name)
        if (offer := offers.get(job.offer)) is not None:
            if job.start_at_hours < offer.lead_hours - _SLACK:
                yield f"start of {wanted.name}", f"at least {offer.lead_hours:g}", job.start_at_hours
            yield from _in_window(job, offer)
            yield from _in_reservation(job, offer, plan.reservations)
    for place, reservation in enumerate(plan.reservations):
        yield from _reservation(place, reservation, plan, offers, tolerance)
    if plan.now not in ("", scenario.now_text):
        yield "now", scenario.now_text, plan.now
    if plan.zone != (zone := scenario.zone if plan.now else ""):
        yield "zone", zone, plan.zone
    if (simple := plan.baseline) is not None:
        if simple.compares != scenario.objective_kind:
            yield "baseline: compares", scenario.objective_kind, simple.compares
        figure = simple.cost_usd if scenario.objective_kind == "cost" else simple.hours
        yield from at_most("bound", figure, plan.bound or 0.0, tolerance.usd * len(plan.jobs))
    yield from _spending(plan, scenario, offers, tolerance)


def _times_of_job(wanted: Job, job: Assignment, by_name: dict[str, Assignment]) -> Iterator[Broken]:
    """Yield a start before the release or the end of a job that is waited for, and an end that is not the run's."""
    start, end, name = job.start_at_hours, job.finish_hours, wanted.name
    if start < wanted.release_hours - _SLACK:
        yield f"start of {name}", f"at least {wanted.release_hours:g}", start
    ends = start + job.hours.at_confidence + job.paused_hours
    if abs(end - ends) > _SLACK:
        yield f"end of {name}", ends, end
    if job.pauses and not job.resume_hours:
        yield f"pauses of {name}", "none: it cannot go on after one", len(job.pauses)
    for predecessor in wanted.after:
        earliest = by_name[predecessor.job].finish_hours + predecessor.lag_hours if predecessor.job in by_name else 0.0
        if start < earliest - _SLACK:
            yield f"start of {name} after {predecessor.job}", f"at least {earliest:g}", start


def _in_window(job: Assignment, offer: Offer) -> Iterator[Broken]:
    """Yield a job that runs outside the windows of its machine; between its pauses it is in one each time."""
    begins = [job.start_at_hours, *(pause.to_hours for pause in job.pauses)]
    ends = [*(pause.from_hours for pause in job.pauses), job.finish_hours]
    for start, end in zip(begins, ends, strict=True):
        yield from _stretch_in_window(job, offer, start, end)


def _stretch_in_window(job: Assignment, offer: Offer, start: float, end: float) -> Iterator[Broken]:
    """Yield a stretch of a run that no window of its machine holds, or that ends before it begins."""
    if end < start - _SLACK:
        yield f"pauses of {job.name}", "in their order", f"{start:g} to {end:g} h"
    if not offer.available or any(
        begin - _SLACK <= start and end <= last + _SLACK
        for window in offer.available
        for begin, last in window.turns(end)
    ):
        return
    if not _in_joined_windows(start, end, offer):
        yield f"window of {job.offer}", "open from start to end", f"{start:g} to {end:g} h of {job.name}"


def _in_joined_windows(start: float, end: float, offer: Offer) -> bool:
    """Return whether windows that adjoin or overlap hold a time together, minute by minute."""
    at = start
    while at < end - _SLACK:
        reach = max(
            (
                last
                for window in offer.available
                for begin, last in window.turns(end)
                if begin <= at + _MINUTE and last > at + _SLACK
            ),
            default=at,
        )
        if reach <= at:
            return False
        at = reach
    return True


def _in_reservation(job: Assignment, offer: Offer, reservations: Sequence[Reservation]) -> Iterator[Broken]:
    """Yield a job on reserved machines that no reservation pays for, or at another time."""
    if job.reservation is None:  # a commitment of one job alone is on its bill
        if offer.block is not None:
            yield f"reservation of {job.name}", "one", None
        return
    if not 0 <= job.reservation < len(reservations) or reservations[job.reservation].offer != job.offer:
        yield f"reservation of {job.name}", f"a reservation of {job.offer}", job.reservation
        return
    paid = reservations[job.reservation]
    if job.start_at_hours < paid.start_hours - _SLACK or job.finish_hours > paid.end_hours + _SLACK:
        yield f"time of {job.name}", f"{paid.start_hours:g} to {paid.end_hours:g}", job.start_at_hours


def _reservation(
    place: int, reservation: Reservation, plan: Plan, offers: dict[str, Offer], tolerance: Tolerance
) -> Iterator[Broken]:
    """Yield what is wrong with a reservation: its offer, term, dollars, use, and more machines in use than bought."""
    offer, subject = offers.get(reservation.offer), f"reservation {place}"
    if offer is None or not offer.is_reservation:
        yield subject, "an offer that is reserved", reservation.offer
        return
    terms = reservation.terms
    if terms < 1 or (terms > 1 and offer.commitment is None):
        yield f"{subject}: terms", "one, or several of a commitment", terms
        return
    term_hours, usd = offer.term_hours * terms, offer.committed_usd * reservation.count * terms
    if abs(reservation.end_hours - reservation.start_hours - term_hours) > _SLACK:
        yield f"{subject}: term", term_hours, reservation.end_hours - reservation.start_hours
    if offer.block is not None and abs(reservation.start_hours - offer.block.start_hours) > _MINUTE:
        yield f"{subject}: start", offer.block.start_hours, reservation.start_hours
    if abs(reservation.usd - usd) > tolerance.usd:
        yield f"{subject}: usd", usd, reservation.usd
    at_once = price_at_once(offer) * reservation.count
    if abs(reservation.outlay_usd - at_once) > tolerance.usd:
        yield f"{subject}: outlay_usd", at_once, reservation.outlay_usd
    users = [job for job in plan.jobs if job.reservation == place]
    yield from at_most(f"machines of {subject}", reservation.count, peak(users, machines_of))
    used = math.fsum(machines_of(job) * (job.finish_hours - job.start_at_hours) for job in users)
    share = used / (term_hours * reservation.count) if reservation.count else 0.0
    if abs(used - reservation.used_hours) > 1e-6 * max(1.0, used) or abs(share - reservation.used_share) > 1e-6:
        yield f"{subject}: used_hours", used, reservation.used_hours
    price = hourly_price(offer, offers.values())
    pays = usd / price if price else None
    if (pays is None) != (reservation.pays_from_hours is None) or abs(
        (pays or 0.0) - (reservation.pays_from_hours or 0.0)
    ) > _SLACK:
        yield f"{subject}: pays_from_hours", pays, reservation.pays_from_hours


def _spending(plan: Plan, scenario: Scenario, offers: dict[str, Offer], tolerance: Tolerance) -> Iterator[Broken]:
    """Yield dollars in a period above their limits, and more reserved machines than there are.

    What a job spends in a period is charged evenly over the whole minutes that the timetable gives to its run.
    """
    given = [_whole_minutes(job.held_hours) for job in plan.jobs]
    last = max(job.start_at_hours + hours for job, hours in zip(plan.jobs, given, strict=True))
    for number, budget in enumerate(scenario.limits.budgets):
        for start, end in budget.periods(last):
            spent = math.fsum(
                job.cost_at_confidence
                * max(0.0, min(end, job.start_at_hours + hours) - max(start, job.start_at_hours))
                / hours
                for job, hours in zip(plan.jobs, given, strict=True)
            )
            spent += math.fsum(
                reservation.usd for reservation in plan.reservations if start <= reservation.start_hours < end
            )
            path = f"limits.budgets.{number} from {start:g} to {end:g} h"
            yield from at_most(path, budget.usd, spent, tolerance.usd * len(plan.jobs))
    reserved = Counter[str]()
    for reservation in plan.reservations:
        reserved[reservation.offer] += reservation.count
    for label, count in reserved.items():
        if label in offers:
            yield from at_most(f"reserved machines of {label}", offers[label].stock, count)


def _whole_minutes(hours: float) -> float:
    """Return hours rounded up to a whole minute, one at least."""
    return max(1, math.ceil(hours / _MINUTE - 1e-6)) * _MINUTE


def waited_hours(job: Assignment, scenario: Scenario) -> float:
    """Return the hours between the release of a job and its end in which it does not run."""
    wanted = next((scenario_job for scenario_job in scenario.jobs if scenario_job.name == job.name), None)
    return job.start_at_hours + job.paused_hours - (wanted.release_hours if wanted else 0.0)


def idle_hours(plan: Plan, scenario: Scenario) -> dict[str, float]:
    """Return the hours of own machines until the last end in which no job runs; nothing without a timetable.

    Machines that may be bought, or that the limits forbid, have none.
    """
    if not plan.is_timetable:
        return {}
    last = max(job.finish_hours for job in plan.jobs)
    hours_by_label = {}
    for label, offer in zip(offer_labels(scenario.offers), scenario.offers, strict=True):
        if offer.own is None or offer.buy is not None or not scenario.limits.permits(offer):
            continue
        if offer.stock is not None:
            users = [job for job in plan.jobs if job.offer == label]
            busy = math.fsum(machines_of(job) * job.held_hours for job in users)
            hours_by_label[label] = max(0.0, offer.stock * _open_hours(offer, last) - busy)
    return hours_by_label


def _open_hours(offer: Offer, last: float) -> float:
    """Return the hours up to a time in which a machine may be used; what windows share counts once."""
    if not offer.available:
        return last
    times = sorted((max(0.0, start), min(last, end)) for window in offer.available for start, end in window.turns(last))
    hours = reach = 0.0
    for start, end in times:
        hours += max(0.0, end - max(start, reach))
        reach = max(reach, end)
    return hours


def lateness_usd(plan: Plan, scenario: Scenario) -> float:
    """Return what jobs that end after their due date cost."""
    dues = {job.name: (job.due_hours, job.late_usd_per_hour) for job in scenario.jobs}
    late = 0.0
    for job in plan.jobs:
        due, usd = dues.get(job.name, (None, 0.0))
        late += usd * max(0.0, job.finish_hours - due) if due is not None else 0.0
    return late


_MAX_HOURS = {"finetune": 720.0, "pretrain": 2160.0, "inference": 720.0}  # longest run where the limits do not say


def choices_of_job(context: RunContext) -> Iterator[Broken]:
    """Yield what the plan names for one job and may not: lists, counts, batch, techniques, share, places of stages."""
    limits, offer, plan = context.scenario.limits, context.offer, context.named
    places = [name for name, _ in offer.zones] or [offer.region]
    named = [("providers", offer.provider), *(("regions", place) for place in places), ("tiers", offer.tier)]
    if offer.gpu is not None:  # a service has no card that a list could name
        named.append(("gpus", context.gpu.name))
    for key, name in named:
        if not getattr(limits, key).permits(name):
            yield f"limits.{key}", "a name that is allowed", name
    if offer.gpu is not None and not context.observed and (reason := unmeasured(context)) is not None:
        yield "limits.unmeasured", "a chip and a method that published runs have", reason
    if limits.is_outdated(offer):
        yield "limits.max_price_age", "a price that is not too old", f"of {offer.date_text}"
    if not limits.has_stock(offer):
        yield "limits.stock_status", limits.stock_status or "some stock", offer.stock_status
    if offer.managed is not None:
        yield from _managed_service(context, offer.managed)
        return
    if isinstance(context.job, InferenceJob):
        yield from generation.choices_of_replicas(context, context.job)
    else:
        yield from _batch(context)
        yield from _techniques(context)
        yield from _refused_by_tools(context)
    low = 1.0 if offer.usd_per_hour is None else limits.spot_share.min
    high = limits.spot_share.max if offer.has_spot else 0.0
    if not low - 1e-6 <= plan.spot_share <= high + 1e-6:
        yield "spot_share", f"between {low:g} and {high:g}", plan.spot_share
    yield from _places(context)


def _managed_service(context: RunContext, managed: Managed) -> Iterator[Broken]:
    """Yield where the service does not take the model, or trains it as the job does not allow."""
    asked, job = context.job.techniques, context.job
    if context.architecture.name not in managed.architectures:
        yield "architecture at the service", "one of " + ", ".join(managed.architectures), context.architecture.name
    if job.tuning != "sft":
        yield "method at the service", "sft", job.tuning
    methods = ("full",) if job.kind == "pretrain" else asked.method or context.library.techniques.tried("method")
    if managed.method not in methods:
        yield "method at the service", " or ".join(methods), managed.method
    if managed.method == "lora" and 16 not in (asked.weight_bits or (16,)):
        yield "weight_bits at the service", "among those the job allows", 16


def _batch(context: RunContext) -> Iterator[Broken]:
    """Yield counts that do not work out: instances, degrees that divide the GPUs, the global batch exactly."""
    plan, asked, offer = context.named, context.named.techniques, context.offer
    if plan.instances < 1:
        yield "instances", "at least 1", plan.instances
    yield from at_most("instances of one job", offer.max_nodes, plan.instances)
    degrees = asked.tensor_parallel * asked.pipeline_parallel * asked.context_parallel
    if degrees < 1 or plan.gpus % degrees:
        yield "tensor * pipeline * context parallel", f"a divisor of {plan.gpus}", degrees
        return
    yield from at_most("tensor parallel", plan.gpus_per_instance, asked.tensor_parallel)
    # Experts are cut by tensor parallelism too, or whole on each GPU: the weaker condition is that of the second.
    stage, experts = plan.gpus // asked.pipeline_parallel, context.architecture.experts
    if asked.expert_parallel > 1 and (stage % asked.expert_parallel or not experts or experts % asked.expert_parallel):
        yield "expert parallel", f"a divisor of {stage} GPUs and {experts} experts", asked.expert_parallel
    if min(asked.micro_batch, asked.accumulation_steps) < 1:
        yield "micro batch and accumulation", "at least 1", asked.micro_batch
    if asked.accumulation_steps > 1 and not context.recipe.accumulates:
        yield "accumulation", f"1 with {asked.optimizer}, which uses up each gradient", asked.accumulation_steps
    product = asked.micro_batch * asked.accumulation_steps * (plan.gpus // degrees)
    if product != context.job.global_batch:
        yield "micro_batch * accumulation * data_parallel", context.job.global_batch, product


def _techniques(context: RunContext) -> Iterator[Broken]:
    """Yield techniques that the job, its framework or its card do not leave open, and those that do not go together."""
    plan, job, recipe, library = context.named, context.job, context.recipe, context.library
    card = GpuClass.of(context.gpu)
    allowed = [recipe for recipe in enumerate_recipes(job, card, plan.gpus > 1, library) if is_allowed(recipe, job)]
    allowed += [*expand_parallel_degrees(job, allowed, card, library), *expand_paged(job, allowed, library)]
    for key in vars(recipe):
        values = dict.fromkeys(getattr(allowed_recipe, key) for allowed_recipe in allowed)
        if getattr(recipe, key) not in values:
            yield key, "one of " + ", ".join(map(str, values)), getattr(recipe, key)
    if recipe.is_hybrid and not (plan.gpus > HYBRID_ABOVE_GPUS and plan.instances > 1):
        yield "sharding", f"more than {HYBRID_ABOVE_GPUS} GPUs on several machines", recipe.sharding
    if plan.spot_share > 0 and not recipe.resumes and not context.observed:
        yield "spot_share", f"0: {recipe.framework} cannot go on with adapters from a checkpoint", plan.spot_share
    reason = find_incompatibility(recipe, card, library, context.architecture)
    if reason is not None or recipe not in allowed:
        yield "recipe", "techniques that work together", reason


def _refused_by_tools(context: RunContext) -> Iterator[Broken]:
    """Yield why tools that the plan is for cannot carry it: each map is asked about this one run, as an export does."""
    if not context.scenario.limits.tools:
        return
    from planner.exports.facts import technique_facts
    from planner.exports.field_map import field_maps, first_able, launch_maps

    plan, offer, tools = context.named, context.offer, context.scenario.limits.tools
    wish, techniques = "a plan that each of the tools can carry", plan.techniques.model_dump()
    sequence = sequence_of(context.job, context.architecture)
    facts = technique_facts(techniques, context.job, context.architecture, offer.card, sequence)
    trainers = [field_maps()[name] for name in tools if name in field_maps()] or [first_able(facts)]
    yield from (("limits.tools", wish, why) for tool in trainers for _, why, _ in tool.refusals(facts))
    for tool in (launch_maps()[name] for name in tools if name in launch_maps()):
        if (refused := tool.refuses(offer)) is not None:
            yield "limits.tools", wish, refused
        elif tool.keeps_nothing(offer.provider, plan.spot_share > 0, plan.instances):
            yield "limits.tools", wish, f"{tool.label} keeps nothing of a run on spot at {offer.provider}"
        elif tool.machines and tool.machine(offer.card, offer.gpus, offer.instance, plan.instances) is None:
            yield "limits.tools", wish, f"{tool.label} has no job on {plan.gpus} GPUs of {offer.label}"


def _places(context: RunContext) -> Iterator[Broken]:
    """Yield stages at a place that may not or cannot do them, and stages that have no place."""
    wanted, there = context.job.stages, {named.stage for named in context.named.separate_machines}
    for named in context.named.separate_machines:
        offer, place = context.offers.get(named.offer), f"separate machine: {named.stage} at {named.offer}"
        if offer is None or named.stage not in STAGES or len(there) < len(context.named.separate_machines):
            yield place, "one offer of the scenario for each stage", named.offer
        else:
            yield from ((place, wish, actual) for wish, actual in _unfit(context, named.stage, offer))
    if context.observed:
        return
    ram, least = context.offer.ram_gb, wanted.ingest.ram_gb if wanted.ingest else 0.0
    if "ingest" not in there and ram is not None and ram < least:
        yield "place of ingest", f"at least {least:g} GB of RAM", ram
    for stage in STAGES:
        on = _allowed_places(context, stage)
        if on and "machine" not in on and stage not in there:
            yield f"place of {stage}", " or ".join(on), "machine"
    if "export" not in there:
        yield from (("place of export", wish, actual) for wish, actual in lacking_memory(context, context.offer))


def _allowed_places(context: RunContext, stage: str) -> tuple[str, ...]:
    """Return where a stage may happen; nowhere without it, or where the result is only sent."""
    asked = getattr(context.job.stages, stage)
    if asked is None or stage != "export":
        return () if asked is None else tuple(asked.on)
    return tuple(asked.places) if is_made(context, context.recipe.method) else ()


def _above_alone(context: RunContext, offer: Offer) -> Iterator[tuple[str, str]]:
    """Yield the limits on what is used at one time that one machine of an offer breaks alone."""
    alone = Held(offer, 1.0, float(offer.gpus), 0.0)
    for limit, most in given_peaks(context.scenario.limits):
        if not limit.is_of_dollars and amount_of(limit.key, alone, context.library) > most * (1.0 + PEAK_TOLERANCE):
            yield f"a machine within {limit.path}", offer.label


def _unfit(context: RunContext, stage: str, offer: Offer) -> Iterator[tuple[str, str]]:
    """Yield what is wanted of a machine of its own and what is: a place that is allowed, rented by the hour, room."""
    asked, place = getattr(context.job.stages, stage), "cpu" if offer.is_cpu else "one_gpu"
    on = _allowed_places(context, stage)
    if place not in on:
        yield " or ".join(on) if on else "no such stage", place
        return
    if not context.scenario.limits.permits(offer):
        yield "an offer that the limits permit", offer.label
    yield from _above_alone(context, offer)
    by_the_hour = offer.usd_per_hour is not None and offer.committed_hours is None
    if not by_the_hour or offer.is_reservation or offer.buy is not None:
        yield "a price by the hour", offer.tier
    if offer.stock == 0:
        yield "a machine in stock", "none"
    if stage == "export":
        yield from lacking_memory(context, offer)
        return
    if stage == "ingest":
        room, needs = offer.ram_gb or asked.ram_gb, asked.ram_gb
    else:
        room = offer.ram_gb or 0.0 if offer.is_cpu else context.library.gpu(offer.card).usable_gib * GIB / GB
        needs = float(evaluation_bytes(context.network.parameters, context.stages)) / GB
        if context.architecture.image is not None or (not offer.is_cpu and offer.gpus != 1):
            yield "one GPU, and text to evaluate", offer.label
    if needs > room:
        yield f"{needs:.1f} GB of memory", f"{room:.1f}"


def _memory(context: RunContext, reference: Assignment, tolerance: Tolerance) -> Iterator[Broken]:
    """Yield where memory is too small, or fits with less than the probability that the job asks for."""
    if context.offer.managed is not None or context.observed:  # an observed run fits by itself
        return
    vram, wanted = reference.vram_gib, context.job.memory_confidence
    if reference.host_memory is not None:
        host = reference.host_memory
        yield from at_most("host memory in GB", host.total_gb, host.taken_gb)
    yield from at_most("VRAM need in GiB", vram.usable, vram.peak, tolerance.gib * vram.usable)
    # What a run was seen to take proves more than a probability can.
    replaced = context.scenario.limits.vram_headroom is not None or context.job.measured
    if not replaced and not vram.fit_probability >= wanted - 1e-6:
        yield "vram_gib.fit_probability", f"at least {wanted:g}", vram.fit_probability


def figures_of_job(
    context: RunContext, plan: Assignment, evaluation: Evaluation, tolerance: Tolerance
) -> Iterator[Broken]:
    """Yield figures of one job that break a limit: memory, hours, chance of the deadline, term, use of spot."""
    job, reference = context.job, evaluation.assignment
    yield from _memory(context, reference, tolerance)
    bill, parts = math.fsum(line.usd for line in plan.bill), math.fsum(plan.vram_gib.parts.values())
    if not abs(bill - plan.cost_usd) <= tolerance.usd:
        yield "sum of the bill", bill, plan.cost_usd
    if not abs(parts - plan.vram_gib.allocated) <= tolerance.gib * parts:
        yield "sum of vram_gib.parts", parts, plan.vram_gib.allocated
    longest = context.scenario.limits.max_hours or _MAX_HOURS[job.kind]
    for key, limit in (("deadline_hours", job.deadline_hours), ("max_hours", longest)):
        late = plan.hours.at_confidence
        late += plan.delay_hours + job.start_slack_hours if key == "deadline_hours" else 0.0
        yield from at_most(f"{key} at confidence", limit, late, tolerance.hours * (limit or 0.0))
    chance = plan.deadline_probability
    if job.deadline_hours is not None and (chance is None or not job.confidence - 1e-6 <= chance <= 1):
        yield "deadline_probability", f"at least {job.confidence:g}", chance
    if (term := context.offer.use_hours) is not None:
        yield from at_most("hours of block or horizon", term, evaluation.late_term_hours, tolerance.hours * term)
    if plan.spot_share > 0 and not evaluation.may_use_spot:
        yield "spot_share", "0: on this market the run never ends", plan.spot_share
    # A policy whose starts take longer than its work may use spot and still do none of the work there.
    should_follow = evaluation.may_follow_policy and (plan.spot_share > 0 or plan.spot is not None)
    # A mix may reach a floor on the share that no policy asks for.
    if (plan.spot is not None) != should_follow and (
        plan.spot is not None or context.scenario.limits.spot_share.min == 0
    ):
        yield "a policy on spot", should_follow, plan.spot is not None


def limits_of_plan(
    plan: Plan, scenario: Scenario, library: Library, used_hours: Sequence[float], tolerance: Tolerance
) -> Iterator[Broken]:
    """Yield what all jobs together break: placement, limits at one time, stock, hours left, budget, objective.

    Each job holds its machines from start to end, all trials at once of each. `used_hours`: machine hours at the
    confidence, by job.
    """
    wanted, placed = Counter(job.name for job in scenario.jobs), Counter(job.name for job in plan.jobs)
    for name in dict.fromkeys([*wanted, *placed]):
        if wanted[name] != placed[name]:
            yield "times placed", f"{name}: {wanted[name]}", f"{name}: {placed[name]}"
    yield from times_of_plan(plan, scenario, tolerance)
    limits, rented = scenario.limits, {job.offer for job in plan.jobs}
    gpus = dict.fromkeys((job.provider for job in plan.jobs), 0.0)
    hours: dict[str, float] = defaultdict(float)
    for job, used in zip(plan.jobs, used_hours, strict=True):
        hours[job.offer] += used
    for provider in gpus:
        gpus[provider] = peak([job for job in plan.jobs if job.provider == provider], gpus_of)
    offers = dict(scenario.labelled_offers())
    for limit, most in given_peaks(limits):
        if limit.stays:
            yield from at_most(limit.path, most, paid_at_once(plan, offers), tolerance.usd)
            continue
        used = peak(plan.jobs, lambda job, key=limit.key: amount_of(key, held_by(job, offers.get(job.offer)), library))  # type: ignore[misc]
        cents = 0.01 * len(plan.jobs)  # each job's rate is rounded to a cent
        yield from at_most(limit.path, most, used, cents if limit.is_of_dollars else 1e-6 * most)
    for provider, count in gpus.items():
        yield from at_most(f"limits.quota.{provider}", limits.quota.get(provider), count)
    for label, offer in zip(offer_labels(scenario.offers), scenario.offers, strict=True):
        if label not in rented:
            continue
        # A service has no machines; what it has in stock is places for one run.
        machines = peak([job for job in plan.jobs if job.offer == label], machines_of)
        yield from at_most(f"stock of {label}", offer.stock, machines)
        left = offer.committed_hours
        yield from at_most(f"hours left of {label}", left, hours[label], tolerance.hours * (left or 0.0))
    yield from _typical_stock(plan, scenario, offers)
    # What all jobs need together keeps the limit, or what each needs by itself does and the plan says what is short.
    added = math.fsum(
        (*(job.cost_at_confidence for job in plan.jobs), *(reservation.usd for reservation in plan.reservations))
    )
    late = min(added, plan.cost_at_confidence or 0.0)
    yield from at_most("limits.budget_usd", limits.budget_usd, late, tolerance.usd)


def paid_at_once(plan: Plan, offers: Mapping[str, Offer]) -> float:
    """Return what a plan costs on the day of its orders: the most machines of each offer at one time, and its terms."""
    own = [job for job in plan.jobs if job.reservation is None]
    machines = {label: peak([job for job in own if job.offer == label], machines_of) for label in offers}
    for reservation in plan.reservations:
        machines[reservation.offer] = machines.get(reservation.offer, 0.0) + reservation.count
    paid = (count * price_at_once(offers.get(label)) for label, count in machines.items())
    return math.fsum(paid)


def _typical_stock(plan: Plan, scenario: Scenario, offers: dict[str, Offer]) -> Iterator[Broken]:
    """Yield GPUs of a model at a provider that are more than typical, and needs that the plan states otherwise.

    The limit is on training jobs, where the stock is not stated, and on several of them: one that needs more than is
    typical has all of it. A plan that says that no plan keeps it may exceed it.
    """
    kinds = dict[tuple[str, str], list[Assignment]]()
    for job in plan.jobs:
        if job.gpus:
            kinds.setdefault((job.provider, job.gpu), []).append(job)
    several = plan.jobs if len(plan.jobs) > 1 else ()
    busiest = held_at_busiest(several)
    of_each = {kind: peak(users, gpus_of) for kind, users in kinds.items()} if several else {}
    differs = of_each != busiest
    for key, stated, needs in (
        ("at_one_time", plan.at_one_time, busiest),
        ("most_of_each", plan.most_of_each, of_each if differs else {}),
    ):
        said = {(peak_use.provider, peak_use.gpu): peak_use.gpus for peak_use in stated}
        for provider, gpu in dict.fromkeys([*needs, *said]):
            if said.get((provider, gpu), 0) != needs.get((provider, gpu), 0):
                yield f"{key} of {gpu} at {provider}", needs.get((provider, gpu)), said.get((provider, gpu))
    trained = {job.name for job in scenario.jobs if job.trains}
    if len(trained) < 2 or not plan.keeps_typical_stock:
        return
    for (provider, gpu), users in kinds.items():
        limited = [
            (job, most)
            for job in users
            if job.name in trained
            and (offer := offers.get(job.offer)) is not None
            and (most := scenario.limits.typical_gpus(offer)) is not None
        ]
        for most in {most for _, most in limited}:
            together = [job for job, its_most in limited if its_most == most]
            used = peak(together, lambda job, most=most: min(gpus_of(job), most))  # type: ignore[misc]
            yield from at_most(f"limits.typical_stock of {gpu} at {provider}", most, used)


def totals(plan: Plan, scenario: Scenario) -> dict[str, object]:
    """Return what follows from the jobs of a plan: sums of dollars, hours of the last job to end, the objective."""
    jobs, late = plan.jobs, math.fsum(job.cost_at_confidence for job in plan.jobs)
    paid = math.fsum(reservation.usd for reservation in plan.reservations)
    late += paid
    cost = {name: paid + math.fsum(getattr(job.cost, name) for job in jobs) for name in Spread.model_fields}
    hours = {name: max(job.delay_hours + getattr(job.hours, name) for job in jobs) for name in Hours.model_fields}
    confidence = scenario.limits.budget_confidence
    expected = paid + math.fsum(job.cost_usd for job in jobs)
    odds, chance = budget_odds(jobs, confidence, paid, scenario.limits.budget_usd)
    if odds is not None:
        late = odds
    if chance is None:
        chance = probability_within(scenario.limits.budget_usd, expected, late, confidence)
    ages = [job.price_age_days for job in jobs if job.price_age_days is not None]
    return {
        "price_age_days": max(ages, default=None),
        "cost": Spread(**cost),
        "cost_at_confidence": late,
        "outlay_usd": paid_at_once(plan, dict(scenario.labelled_offers())),
        "hours": Hours(**hours),
        "idle_hours": idle_hours(plan, scenario),
        "budget_usd": scenario.limits.budget_usd,
        "budget_probability": chance,
    }
