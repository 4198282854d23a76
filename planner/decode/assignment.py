"""From a chosen row and its spot share to the words and figures of a plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.candidates.managed_service import build_service_run
from planner.candidates.market import MANAGED, Market
from planner.candidates.offer_terms import interconnect_of
from planner.configurations.observed.memory_peaks import memory_setting
from planner.decode.assignment_parts import (
    build_commitment_use,
    build_costs,
    describe_place,
    describe_prices,
    hours_before_run,
    spot_plan,
    stage_hours_of,
    techniques_of,
)
from planner.decode.bill import ChosenCandidate, build_bill
from planner.decode.memory_breakdown import MemoryEvaluator
from planner.decode.notes import build_notes, build_service_notes
from planner.decode.probability import deadline_probability
from planner.estimates.uncertainty import display_factors, interval
from planner.results.plan import Assignment, Hours, ObservedRun, SeparateMachine, Vram
from planner.units import HOUR

if TYPE_CHECKING:
    import datetime

    from planner.candidates.enumeration import JobCandidates
    from planner.configurations.grid import Machine
    from planner.configurations.recipe import Recipe
    from planner.library.schema import Library
    from planner.scenario.scenario import Limits


def build_assignment(
    candidates: JobCandidates,
    chosen: ChosenCandidate,
    market: Market,
    limits: Limits,
    library: Library,
    as_of: datetime.date,
) -> Assignment:
    """The plan of one job, from the row that was chosen for it."""
    row, share, rounded, figures = chosen.row, chosen.share, chosen.rounded, chosen.figures
    if int(candidates.configuration[row]) < 0:
        return build_managed_assignment(candidates, chosen, market, limits, library, as_of)
    job, table, physics, h = candidates.job, candidates.table, candidates.physics, candidates.hours
    ways, shape, running = physics.ways, physics.shape, candidates.run_hours
    way = int(candidates.configuration[row])
    offer = market.offers[int(table.offer[row])]
    recipe, machine = ways.recipes[int(ways.recipe[way])], ways.machines[int(ways.machine[way])]
    sigma, tail = float(running.sigma[way]), float(running.sigma_tail[way])
    hours, late = float(figures.hours(share)[0]), float(figures.late_hours(share)[0])
    lines = build_bill(candidates, chosen, market, library)
    low, high = (float(factor) for factor in display_factors(sigma))
    step = float(running.step_seconds[way])
    real = shape.tokens * (shape.units_per_token if shape.unit == "images" else 1.0)
    seen = float(ways.observed_hours[way])
    observed = None if math.isnan(seen) else seen
    rate = real / (observed * HOUR) if observed else real / (shape.steps * step)
    mixed = 0 < share < 1 and chosen.spot is None
    told = spot_plan(candidates, chosen) if chosen.spot else None
    luck, spread = (told.luck_hours, told.hours_sd) if told else (0.0, 0.0)
    soonest, latest = interval(hours, hours - luck, (low, high), spread)
    vram = _vram(candidates, way, recipe, machine, limits, library)
    beside = candidates.placements[int(candidates.placement[row])].separate_stages if observed is None else ()
    stages = stage_hours_of(candidates, row)
    start = float(h.start[row])
    return Assignment(
        **describe_place(candidates, row, market),
        name=job.name,
        architecture=candidates.architecture.name,
        gpu=machine.gpu,
        gpus=machine.gpus,
        gpus_per_instance=machine.gpus_per_instance,
        instances=machine.instances,
        interconnect=interconnect_of(offer, library.gpu(machine.gpu)),
        spot_share=share,
        switch_to_on_demand_at_hours=told.latest_on_demand_hours
        if told
        else hours_before_run(candidates, row) + share * float(h.spot_wall[row])
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
        hours=Hours(expected=hours, low=soonest, high=latest, at_confidence=late),
        start_hours=start,
        training_hours=hours - start - math.fsum(stages.values()),
        stage_hours=stages,
        beside=tuple(
            SeparateMachine(stage=one.stage, provider=one.offer.provider, offer=one.label, hours=one.hours, usd=one.usd)
            for one in beside
        ),
        trials=job.trials.count,
        runs_at_once=job.trials.at_once,
        commitment=build_commitment_use(candidates, row, market),
        fed_by_storage=observed is None and step > float(ways.step_seconds[way]) / job.efficiency * (1 + 1e-9),
        observed_hours=observed,
        **_build_learned(candidates, recipe, machine, library),
        deadline_hours=job.deadline_hours,
        deadline_probability=deadline_probability(job.deadline_hours, hours, late, job.confidence),
        **build_costs(lines, build_bill(candidates, chosen, market, library, late=True), (low, high), told),
        **describe_prices(offer, as_of),
        notes=build_notes(candidates, row, share, rounded, offer, vram, limits, library, as_of),
    )


def build_managed_assignment(
    candidates: JobCandidates,
    chosen: ChosenCandidate,
    market: Market,
    limits: Limits,
    library: Library,
    as_of: datetime.date,
) -> Assignment:
    """The plan of a job that a service trains: no machines, no memory, hours that the service may not promise."""
    row = chosen.row
    job, table, shape = candidates.job, candidates.table, candidates.physics.shape
    offer = market.offers[int(table.offer[row])]
    recipe = candidates.recipes[int(table.recipe[row])]
    service = build_service_run(candidates, market, int(table.offer[row]), library)
    low, high = (float(factor) for factor in display_factors(service.sigma))
    lines = build_bill(candidates, chosen, market, library)
    once = service.upload_hours + service.export_hours
    hours, late = once + service.hours, once * service.late + service.late_hours
    return Assignment(
        **describe_place(candidates, row, market),
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
        start_hours=service.upload_hours,
        training_hours=service.hours,
        stage_hours=stage_hours_of(candidates, row),
        trials=job.trials.count,
        runs_at_once=job.trials.at_once,
        deadline_hours=job.deadline_hours,
        deadline_probability=deadline_probability(job.deadline_hours, hours, late, job.confidence),
        **build_costs(lines, build_bill(candidates, chosen, market, library, late=True), (1.0, 1.0)),
        **describe_prices(offer, as_of),
        notes=build_service_notes(service.assumed_speed, offer, candidates, limits, as_of),
    )


def _vram(
    candidates: JobCandidates, way: int, recipe: Recipe, machine: Machine, limits: Limits, library: Library
) -> Vram:
    """Memory by part of the one configuration, with the chance that it fits."""
    ways = candidates.physics.ways
    physics, headroom = candidates.physics, limits.vram_headroom
    probe = MemoryEvaluator.of(candidates.job, physics.shape, recipe, machine, headroom, library, physics.learned)
    micro, accumulation = int(ways.micro_batch[way]), int(ways.accumulation[way])
    vram = probe.vram(probe.at(micro, accumulation))
    if math.isnan(ways.observed_hours[way]):
        seen = physics.learned.has_run(recipe, machine, micro, accumulation, physics.shape.sequence)
        taken = {"peak": max(vram.peak, float(ways.fit_gib[way]))}
        return vram.model_copy(update={**taken, "fit_probability": 1.0} if seen else taken)
    return vram.model_copy(update={"peak": float(ways.fit_gib[way]), "fit_probability": 1.0})  # it did run


def _build_learned(candidates: JobCandidates, recipe: Recipe, machine: Machine, library: Library) -> dict[str, Any]:
    """The observed runs, and the factors that follow from them."""
    learned, job = candidates.physics.learned, candidates.job
    probed = learned.probed.get(memory_setting(recipe, machine.gpus))
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
