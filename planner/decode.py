"""From a chosen row and its spot share to the words and figures of a plan."""

from __future__ import annotations

import datetime
import math
from typing import Any

from planner.bills import FIXED, Chosen, bill
from planner.candidates import JobCandidates
from planner.estimates.bill import break_even_hours
from planner.estimates.uncertainty import display_factors
from planner.grid import Machine
from planner.library import Library
from planner.managed import service_of
from planner.markets import MANAGED, Market
from planner.peaks import setting_of
from planner.plan import (
    Assignment,
    Beside,
    BillItem,
    CommitmentUse,
    Hours,
    ObservedRun,
    SpotPlan,
    Spread,
    Techniques,
    Vram,
)
from planner.recipes import Recipe
from planner.remarks import age_in_days, remarks, service_remarks
from planner.scenario import Job, Limits, Offer
from planner.terms import link_of
from planner.units import HOUR
from planner.vram import MemoryProbe


def assignment(
    candidates: JobCandidates,
    chosen: Chosen,
    market: Market,
    limits: Limits,
    library: Library,
    as_of: datetime.date,
) -> Assignment:
    """The plan of one job, from the row that was chosen for it."""
    row, share, rounded, figures = chosen.row, chosen.share, chosen.rounded, chosen.figures
    if int(candidates.way[row]) < 0:
        return managed_assignment(candidates, chosen, market, limits, library, as_of)
    job, table, physics, h = candidates.job, candidates.table, candidates.physics, candidates.hours
    ways, shape, running = physics.ways, physics.shape, candidates.running
    way = int(candidates.way[row])
    offer = market.offers[int(table.offer[row])]
    recipe, machine = ways.recipes[int(ways.recipe[way])], ways.machines[int(ways.machine[way])]
    sigma, tail = float(running.sigma[way]), float(running.sigma_tail[way])
    hours, late = float(figures.hours(share)[0]), float(figures.late_hours(share)[0])
    lines = bill(candidates, chosen, market, library)
    low, high = (float(factor) for factor in display_factors(sigma))
    step = float(running.step_seconds[way])
    real = shape.tokens * (shape.units_per_token if shape.unit == "images" else 1.0)
    seen = float(ways.observed_hours[way])
    observed = None if math.isnan(seen) else seen
    rate = real / (observed * HOUR) if observed else real / (shape.steps * step)
    mixed = 0 < share < 1 and chosen.spot is None
    told = spot_plan(candidates, chosen, market, late) if chosen.spot else None
    vram = _vram(candidates, way, recipe, machine, limits, library)
    beside = candidates.placements[int(candidates.placement[row])].asides if observed is None else ()
    stages = stage_hours_of(candidates, row)
    start = float(h.start[row])
    return Assignment(
        **place_of(candidates, row, market),
        name=job.name,
        architecture=candidates.architecture.name,
        gpu=machine.gpu,
        gpus=machine.gpus,
        gpus_per_instance=machine.gpus_per_instance,
        instances=machine.instances,
        interconnect=link_of(offer, library.gpu(machine.gpu)),
        spot_share=share,
        switch_to_on_demand_at_hours=told.latest_on_demand_hours
        if told
        else _before_run(candidates, row) + share * float(h.spot_wall[row])
        if mixed
        else None,
        spot=told,
        techniques=techniques_of(recipe, job, int(ways.micro_batch[way]), int(ways.accumulation[way])),
        vram_gib=vram,
        tokens_per_second=rate,
        tokens_per_second_low=rate * low,
        tokens_per_second_high=rate * high,
        unit="images" if shape.unit == "images" else "tokens",
        sequence_length=shape.sequence,
        global_batch=job.global_batch,
        packing=job.packing,
        steps=int(shape.steps),
        step_seconds=step,
        sigma=sigma,
        sigma_tail=tail,
        hours=Hours(expected=hours, low=hours * low, high=hours * high, at_confidence=late),
        start_hours=start,
        training_hours=hours - start - math.fsum(stages.values()),
        stage_hours=stages,
        beside=tuple(
            Beside(stage=one.stage, provider=one.offer.provider, offer=one.label, hours=one.hours, usd=one.usd)
            for one in beside
        ),
        trials=job.trials.count,
        runs_at_once=job.trials.at_once,
        commitment=commitment_use(candidates, row, market),
        fed_by_storage=observed is None and step > float(ways.step_seconds[way]) / job.efficiency * (1 + 1e-9),
        observed_hours=observed,
        **_learned(candidates, recipe, machine, library),
        deadline_hours=job.deadline_hours,
        deadline_probability=deadline_probability(job.deadline_hours, hours, late, job.confidence),
        **costs_of(lines, bill(candidates, chosen, market, library, late=True), low, high),
        **prices_of(offer, as_of),
        notes=remarks(candidates, row, share, rounded, offer, vram, limits, library, as_of),
    )


def managed_assignment(
    candidates: JobCandidates, chosen: Chosen, market: Market, limits: Limits, library: Library, as_of: datetime.date
) -> Assignment:
    """The plan of a job that a service trains: no machines, no memory, hours that the service may not promise."""
    row = chosen.row
    job, table, shape = candidates.job, candidates.table, candidates.physics.shape
    offer = market.offers[int(table.offer[row])]
    recipe = candidates.recipes[int(table.recipe[row])]
    service = service_of(candidates, market, int(table.offer[row]), library)
    low, high = (float(factor) for factor in display_factors(service.sigma))
    lines = bill(candidates, chosen, market, library)
    hours, late = service.hours, service.late_hours
    return Assignment(
        **place_of(candidates, row, market),
        name=job.name,
        architecture=candidates.architecture.name,
        gpu=MANAGED,
        gpus=0,
        gpus_per_instance=0,
        instances=0,
        interconnect="",
        spot_share=0.0,
        switch_to_on_demand_at_hours=None,
        techniques=techniques_of(recipe, job, 0, 0),
        vram_gib=Vram(peak=0.0, allocated=0.0, usable=0.0, fit_probability=1.0, phase="", parts={}),
        tokens_per_second=service.tokens_per_second,
        tokens_per_second_low=service.tokens_per_second * low,
        tokens_per_second_high=service.tokens_per_second * high,
        unit="images" if shape.unit == "images" else "tokens",
        sequence_length=shape.sequence,
        global_batch=job.global_batch,
        packing=job.packing,
        steps=int(shape.steps),
        step_seconds=0.0,
        sigma=service.sigma,
        sigma_tail=service.sigma_tail,
        hours=Hours(expected=hours, low=hours * low, high=hours * high, at_confidence=late),
        start_hours=0.0,
        training_hours=hours,
        trials=job.trials.count,
        runs_at_once=job.trials.at_once,
        deadline_hours=job.deadline_hours,
        deadline_probability=deadline_probability(job.deadline_hours, hours, late, job.confidence),
        **costs_of(lines, bill(candidates, chosen, market, library, late=True), 1.0, 1.0),
        **prices_of(offer, as_of),
        notes=service_remarks(service.assumed_speed, offer, candidates, limits, as_of),
    )


def place_of(candidates: JobCandidates, row: int, market: Market) -> dict[str, Any]:
    """Where the machines are: provider, region, instance, offer and tier."""
    place = int(candidates.table.offer[row])
    offer, alike = market.offers[place], market.merged[place]
    return {
        "provider": offer.provider,
        "region": offer.region if alike == 1 else f"any of {alike}",
        "instance": offer.instance,
        "offer": market.labels[place],
        "tier": offer.tier,
    }


def costs_of(lines: tuple[BillItem, ...], late: tuple[BillItem, ...], low: float, high: float) -> dict[str, Any]:
    """The bill, its sum, and the interval: what does not hang on hours stays, the rest goes with them."""
    cost = math.fsum(line.usd for line in lines)
    fixed = math.fsum(line.usd for line in lines if line.item in FIXED)
    return {
        "cost": Spread(expected=cost, low=fixed + (cost - fixed) * low, high=fixed + (cost - fixed) * high),
        "cost_at_confidence": math.fsum(line.usd for line in late),
        "cost_usd": cost,
        "bill": lines,
    }


def prices_of(offer: Offer, as_of: datetime.date) -> dict[str, Any]:
    """How old the price is and where it is from."""
    return {
        "price_date": offer.date.isoformat() if isinstance(offer.date, datetime.date) else str(offer.date or ""),
        "price_age_days": age_in_days(offer, as_of),
        "price_source": offer.source,
    }


def stage_hours_of(candidates: JobCandidates, row: int) -> dict[str, float]:
    """Expected hours of the stages beside start and training, those on machines of their own among them."""
    h, told = candidates.hours, candidates.placements[int(candidates.placement[row])]
    beside = float(h.aside[row]) > 0
    found = {
        "prepare data": float(h.ingest[row]) + (told.ingest.hours if beside and told.ingest else 0.0),
        "evaluation": float(h.evaluation[row]) + (told.evaluation.hours if beside and told.evaluation else 0.0),
        "checkpoints": float(h.checkpoints[row]),
        "load between trials": float(h.reload[row]),
        "export": float(h.export[row]),
    }
    return {name: hours for name, hours in found.items() if hours > 0}


def _before_run(candidates: JobCandidates, row: int) -> float:
    """Hours until training begins: data prepared here or elsewhere, then the start."""
    h, there = candidates.hours, candidates.placements[int(candidates.placement[row])].ingest
    aside = there.hours if there and float(h.aside[row]) > 0 else 0.0
    return float(h.start[row]) + float(h.ingest[row]) + aside


def spot_plan(candidates: JobCandidates, chosen: Chosen, market: Market, late: float) -> SpotPlan:
    """What the policy of a choice promises and expects; hours from the order of the first machines on."""
    spot = chosen.spot
    if spot is None:
        raise ValueError("a choice without a policy")
    h, row, point, run = candidates.hours, chosen.row, spot.point, spot.run
    place = int(candidates.table.offer[row])
    before = float(h.ingest[row]) + beside_before(candidates, row)
    on_demand = (run.work_hours + run.restart_hours) * (run.on_demand_usd_per_hour + run.standing_usd_per_hour)
    return SpotPlan(
        guaranteed_hours=point.hours,
        latest_on_demand_hours=before + point.hours - run.work_hours - run.restart_hours,
        saving_usd=on_demand - point.usd,
        usd_sd=point.usd_sd,
        interruptions=point.interruptions,
        wasted_hours=point.wasted_hours,
        waiting_hours=point.waiting_hours,
        checkpoint_interval_hours=run.interval_hours,
        restart_hours=run.restart_hours,
        last_checkpoint=run.last_checkpoint,
        availability=spot.states.availability(),
        mean_up_hours=spot.states.up.mean(),
        mean_outage_hours=spot.states.down.mean(),
        basis=candidates.spot[place].basis,
    )


def beside_before(candidates: JobCandidates, row: int) -> float:
    """Hours of data preparation on a machine of its own, before the training machines are rented."""
    told = candidates.placements[int(candidates.placement[row])].ingest
    return told.hours if told and not candidates.running.observed[int(candidates.way[row])] else 0.0


def commitment_use(candidates: JobCandidates, row: int, market: Market) -> CommitmentUse | None:
    """What the commitment of a candidate costs, how much of it the job uses, and from when on it pays."""
    table, place = candidates.table, int(candidates.table.offer[row])
    offer, machines = market.offers[place], float(table.instances[row])
    if offer.commitment is None:
        return None
    price = hourly_alike(market, offer)
    used = float(candidates.hours.once[row]) * candidates.hours.gangs + float(candidates.hours.gang_run[row])
    committed = offer.committed_usd * machines
    return CommitmentUse(
        months=offer.commitment.months,
        usd=committed,
        used_hours=used * machines / candidates.hours.gangs,
        term_hours=offer.term_hours * machines,
        on_demand_usd_per_hour=price,
        break_even_hours=float(break_even_hours(committed, price)) if price else None,
    )


def hourly_alike(market: Market, offer: Offer) -> float | None:
    """Least price by the hour of the same cards in the same number, at the same provider if it has one."""
    alike = [
        one
        for one in market.offers
        if one.gpu == offer.gpu and one.gpus == offer.gpus and one.tier in ("secure", "community") and one.usd_per_hour
    ]
    here = [one for one in alike if one.provider == offer.provider]
    return min((one.usd_per_hour or 0.0 for one in here or alike), default=None)


def techniques_of(recipe: Recipe, job: Job, micro_batch: int, accumulation: int) -> Techniques:
    """A recipe and its batch as the answer says them."""
    adapts = recipe.method == "lora"
    return Techniques(
        method=recipe.method,
        weight_bits=recipe.weight_bits,
        quant=recipe.quant,
        precision=recipe.precision,
        activation_checkpointing=recipe.activation_checkpointing,
        micro_batch=micro_batch,
        accumulation_steps=accumulation,
        sharding=recipe.sharding,
        attention=recipe.attention,
        optimizer=recipe.optimizer,
        tensor_parallel=recipe.tensor_parallel,
        pipeline_parallel=recipe.pipeline_parallel,
        lora_rank=job.lora.rank if adapts else None,
        lora_targets=job.lora.targets if adapts else None,
    )


def _vram(
    candidates: JobCandidates, way: int, recipe: Recipe, machine: Machine, limits: Limits, library: Library
) -> Vram:
    """Memory by part of the one configuration, with the chance that it fits."""
    ways = candidates.physics.ways
    physics, headroom = candidates.physics, limits.vram_headroom
    probe = MemoryProbe.of(candidates.job, physics.shape, recipe, machine, headroom, library, physics.learned)
    micro, accumulation = int(ways.micro_batch[way]), int(ways.accumulation[way])
    vram = probe.vram(probe.at(micro, accumulation))
    if math.isnan(ways.observed_hours[way]):
        seen = physics.learned.did_run(recipe, machine, micro, accumulation, physics.shape.sequence)
        taken = {"peak": max(vram.peak, float(ways.fit_gib[way]))}
        return vram.model_copy(update={**taken, "fit_probability": 1.0} if seen else taken)
    return vram.model_copy(update={"peak": float(ways.fit_gib[way]), "fit_probability": 1.0})  # it did run


def _learned(candidates: JobCandidates, recipe: Recipe, machine: Machine, library: Library) -> dict[str, Any]:
    """The observed runs, and the factors that follow from them."""
    learned, job = candidates.physics.learned, candidates.job
    probed = learned.probed.get(setting_of(recipe, machine.gpus))
    return {
        "speed_factor": learned.speed_factor(library),
        "memory_factor": probed.scale if probed else 1.0,
        "observed_runs": tuple(
            ObservedRun(
                gpu=seen.run.gpu,
                gpus=seen.run.gpus,
                techniques=techniques_of(seen.recipe, job, seen.micro_batch, seen.accumulation),
                assumed=seen.assumed,
                tokens_per_second=seen.run.tokens_per_second,
                predicted_tokens_per_second=seen.predicted,
                peak_vram_gib=seen.run.peak_vram_gib,
                predicted_peak_vram_gib=seen.peak.predicted_gib(library) if seen.peak else None,
                peak_kind=seen.peak.kind if seen.peak else None,
            )
            for seen in learned.runs
        ),
    }


def budget_probability(budget: float | None, cost: float, late: float, confidence: float) -> float | None:
    """Chance that the bill stays within the budget, jobs being as late together: `late` is the cost at `confidence`."""
    return deadline_probability(budget, cost, late, confidence) if cost > 0 else None if budget is None else 1.0


def deadline_probability(deadline: float | None, hours: float, late: float, confidence: float) -> float | None:
    """Chance to end in time, from the spread that makes `late` the hours at `confidence`; capped where data end."""
    if deadline is None:
        return None
    if confidence == 0.5 or late <= hours:
        return 1.0 if hours <= deadline else 0.0
    # Student t with 2 degrees of freedom: t(p) = (2p - 1) / sqrt(2 p (1 - p)), and back.
    scale = math.log(late / hours) / ((2 * confidence - 1) / math.sqrt(2 * confidence * (1 - confidence)))
    t = math.log(deadline / hours) / scale
    return min(0.975, 0.5 * (1 + t / math.sqrt(2 + t * t)))
