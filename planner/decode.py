"""From a chosen row and its spot share to the words and figures of a plan."""

from __future__ import annotations

import datetime
import math
from typing import Any

from planner.candidates import JobCandidates
from planner.estimates.bill import rounded_hours
from planner.estimates.uncertainty import display_factors
from planner.grid import Machine
from planner.library import Library
from planner.markets import Market
from planner.peaks import setting_of
from planner.plan import Assignment, BillItem, Hours, ObservedRun, Spread, Techniques, Vram
from planner.recipes import Recipe
from planner.remarks import age_in_days, remarks
from planner.scenario import Job, Limits, Offer
from planner.table import ON_DEMAND, SPOT
from planner.terms import UNKNOWN_FEE, disk_gb, link_of
from planner.units import HOUR, MONTH_HOURS
from planner.vram import MemoryProbe


def assignment(
    candidates: JobCandidates,
    row: int,
    share: float,
    rounded: bool,
    market: Market,
    limits: Limits,
    library: Library,
    as_of: datetime.date,
) -> Assignment:
    """The plan of one job: `row` of the uncut table at a spot share; `rounded` where billing steps are coarse."""
    job, table, physics = candidates.job, candidates.table, candidates.physics
    ways, shape, running = physics.ways, physics.shape, candidates.running
    way = int(candidates.way[row])
    offer = market.offers[int(table.offer[row])]
    recipe, machine = ways.recipes[int(ways.recipe[way])], ways.machines[int(ways.machine[way])]
    sigma, tail = float(running.sigma[way]), float(running.sigma_tail[way])
    hours = float(table.hours(share)[row])
    late = float(table.late_hours(share)[row])
    bill = _bill(candidates, row, share, rounded, offer, 1.0)
    late_bill = _bill(candidates, row, share, rounded, offer, float(running.late_factor[way]))
    cost = math.fsum(item.usd for item in bill)
    transfers = math.fsum(item.usd for item in bill if item.item.startswith("transfer"))
    low, high = (float(factor) for factor in display_factors(sigma))
    start = float(table.start_h[row])
    step = float(ways.step_seconds[way])
    real = shape.tokens * (shape.units_per_token if shape.unit == "images" else 1.0)
    seen = float(ways.observed_hours[way])
    observed = None if math.isnan(seen) else seen
    rate = real / (observed * HOUR) if observed else real / (shape.steps * step) * job.efficiency
    mixed = 0 < share < 1
    vram = _vram(candidates, way, recipe, machine, limits, library)
    return Assignment(
        name=job.name,
        architecture=candidates.architecture.name,
        provider=offer.provider,
        region=offer.region
        if market.merged[int(table.offer[row])] == 1
        else f"any of {market.merged[int(table.offer[row])]}",
        instance=offer.instance,
        offer=market.labels[int(table.offer[row])],
        gpu=machine.gpu,
        gpus=machine.gpus,
        gpus_per_instance=machine.gpus_per_instance,
        instances=machine.instances,
        interconnect=link_of(offer, library.gpu(machine.gpu)),
        spot_share=share,
        switch_to_on_demand_at_hours=start + share * _spot_wall(candidates, row) if mixed else None,
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
        training_hours=hours - start,
        observed_hours=observed,
        **_learned(candidates, recipe, machine, library),
        deadline_hours=job.deadline_hours,
        deadline_probability=deadline_probability(job.deadline_hours, hours, late, job.confidence),
        cost=Spread(
            expected=cost,
            low=transfers + (cost - transfers) * low,
            high=transfers + (cost - transfers) * high,
        ),
        cost_at_confidence=math.fsum(item.usd for item in late_bill),
        cost_usd=cost,
        bill=bill,
        price_date=offer.date.isoformat() if isinstance(offer.date, datetime.date) else str(offer.date or ""),
        price_age_days=age_in_days(offer, as_of),
        price_source=offer.source,
        notes=remarks(candidates, way, share, rounded, offer, vram, limits, library, as_of),
    )


def _spot_wall(candidates: JobCandidates, row: int) -> float:
    """Wall hours of all the work on spot, the switch left out."""
    table = candidates.table
    switch = 0.0 if math.isnan(table.run_h[row, ON_DEMAND]) else float(table.start_h[row])
    return float(table.run_h[row, SPOT]) - switch


def _bill(
    candidates: JobCandidates, row: int, share: float, rounded: bool, offer: Offer, late: float
) -> tuple[BillItem, ...]:
    """The lines of the bill; `late` stretches the hours to the confidence (1: expected).

    At a share x: on demand (1 - x) (start + run) + x switch, spot x (start + paid), both times the instances.
    """
    table, way = candidates.table, int(candidates.way[row])
    n, start = int(table.instances[row]), float(table.start_h[row])
    od_hours = 0.0 if share >= 1 else (1 - share) * (start + float(table.run_h[row, ON_DEMAND]))
    if offer.usd_per_hour is not None:
        od_hours += share * start
    spot_hours = share * (start + _paid_hours(candidates, row, offer)) if share > 0 else 0.0
    od_hours, spot_hours = od_hours * late, spot_hours * late
    if rounded:
        step, least = offer.billing.step_seconds / HOUR, offer.billing.minimum_hours
        od_hours, spot_hours = (
            float(rounded_hours(od_hours, step, least)),
            float(rounded_hours(spot_hours, step, least)),
        )
    wall = float(table.hours(share)[row]) if late == 1.0 else float(table.late_hours(share)[row])
    architecture, job = candidates.architecture, candidates.job
    moved = (architecture.download_gb + job.data_gb) * n
    stored = disk_gb(architecture, job.data_gb) * n * wall / MONTH_HOURS
    export = candidates.running.export_gb[int(candidates.physics.ways.recipe[way])]
    lines = [
        _line("gpu on demand", od_hours * n, "h", offer.usd_per_hour),
        _line("gpu spot", spot_hours * n, "h", offer.spot_usd_per_hour),
        _line("storage", stored, "GB-month", offer.fees.storage_usd_per_gb_month),
        _line("transfer in", moved, "GB", offer.fees.ingress_usd_per_gb),
        _line("transfer out", export, "GB", offer.fees.egress_usd_per_gb),
    ]
    return tuple(line for line in lines if line.quantity)


def _line(item: str, quantity: float, unit: str, rate: float | None) -> BillItem:
    if rate is None:
        return BillItem(item=item, usd=0.0, quantity=quantity, unit=unit, basis=UNKNOWN_FEE if quantity else "")
    return BillItem(item=item, usd=quantity * rate, quantity=quantity, unit=unit, rate_usd=rate)


def _paid_hours(candidates: JobCandidates, row: int, offer: Offer) -> float:
    """Machine hours of all the work on spot, one instance, the start left out."""
    table, running, way = candidates.table, candidates.running, int(candidates.way[row])
    market = candidates.spot[int(table.offer[row])]
    run = running.interrupted(
        way,
        int(table.instances[row]),
        running.restart_hours(offer.community, way),
        market.mean_up_hours,
        market.availability,
    )
    return float(run.paid)


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
