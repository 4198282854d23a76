"""Assignments: from a chosen row and its spot share to the figures of a plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

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
from planner.decode.notes import build_notes, build_service_notes, is_fed_by_storage
from planner.decode.probability import deadline_probability
from planner.estimates.uncertainty import display_factors, interval
from planner.results.plan import Assignment, Hours, ObservedRun, SeparateMachine, SpotPlan, Vram
from planner.units import HOUR

if TYPE_CHECKING:
    import datetime

    from planner.candidates.job_candidates import JobCandidates
    from planner.configurations.grid import Machine
    from planner.configurations.recipe import Recipe
    from planner.library.schema import Library
    from planner.scenario.limits import Limits


def build_assignment(
    candidates: JobCandidates,
    chosen: ChosenCandidate,
    market: Market,
    limits: Limits,
    library: Library,
    as_of: datetime.date,
) -> Assignment:
    """Return the plan of one job from the row that was chosen for it."""
    row, job, shape = chosen.row, candidates.job, candidates.physics.shape
    if candidates.is_managed_service[row]:
        figures = _service_figures(candidates, chosen, market, limits, as_of)
    else:
        figures = _machine_figures(candidates, chosen, market, limits, library, as_of)
    recipe, hours, rate = candidates.recipes[int(candidates.table.recipe[row])], figures["hours"], figures["rate"]
    low, high = (float(factor) for factor in display_factors(figures["sigma"]))
    return Assignment(
        **describe_place(candidates, row, market),
        name=job.name,
        architecture=candidates.architecture.name,
        spot_share=chosen.share,
        techniques=techniques_of(recipe, job, *candidates.batch(row)),
        tokens_per_second=rate,
        tokens_per_second_low=rate * low,
        tokens_per_second_high=rate * high,
        unit="images" if shape.unit == "images" else "tokens",
        sequence_length=shape.sequence,
        global_batch=job.global_batch,
        packing=job.packing,
        steps=int(shape.steps),
        stage_hours=stage_hours_of(candidates, row),
        trials=job.trials.count,
        runs_at_once=job.trials.at_once,
        deadline_hours=job.deadline_hours,
        deadline_probability=deadline_probability(
            job.deadline_hours, hours.expected, hours.at_confidence, job.confidence
        ),
        **describe_prices(market.offers[int(candidates.table.offer[row])], as_of),
        **{name: value for name, value in figures.items() if name != "rate"},
    )


def _machine_figures(
    candidates: JobCandidates,
    chosen: ChosenCandidate,
    market: Market,
    limits: Limits,
    library: Library,
    as_of: datetime.date,
) -> dict[str, Any]:
    """Return what an assignment says of rented machines; `rate` is the speed in tokens or images per second."""
    row, share, h = chosen.row, chosen.share, candidates.hours
    ways, shape, run_hours = candidates.physics.ways, candidates.physics.shape, candidates.run_hours
    configuration = int(candidates.configuration[row])
    offer = market.offers[int(candidates.table.offer[row])]
    recipe, machine = ways.recipes[int(ways.recipe[configuration])], ways.machines[int(ways.machine[configuration])]
    sigma, step = float(run_hours.sigma[configuration]), float(run_hours.step_seconds[configuration])
    low, high = (float(factor) for factor in display_factors(sigma))
    hours, late_hours = float(chosen.figures.hours(share)[0]), float(chosen.figures.late_hours(share)[0])
    observed_hours = float(ways.observed_hours[configuration])
    observed = None if math.isnan(observed_hours) else observed_hours
    units = shape.tokens * (shape.units_per_token if shape.unit == "images" else 1.0)
    policy = spot_plan(candidates, chosen) if chosen.spot else None
    luck, spread = (policy.luck_hours, policy.hours_sd) if policy else (0.0, 0.0)
    earliest, latest = interval(hours, hours - luck, (low, high), spread)
    vram = _vram(candidates, configuration, recipe, machine, limits, library)
    bill, late_bill = (build_bill(candidates, chosen, market, late) for late in (False, True))
    start = float(h.start[row])
    return {
        "gpu": machine.gpu,
        "gpus": machine.gpus,
        "gpus_per_instance": machine.gpus_per_instance,
        "instances": machine.instances,
        "interconnect": interconnect_of(offer, library.gpu(machine.gpu)),
        "switch_to_on_demand_at_hours": _switch_hours(candidates, chosen, policy),
        "spot": policy,
        "vram_gib": vram,
        "rate": units / (observed * HOUR) if observed else units / (shape.steps * step),
        "step_seconds": step,
        "sigma": sigma,
        "sigma_tail": float(run_hours.sigma_tail[configuration]),
        "hours": Hours(expected=hours, low=earliest, high=latest, at_confidence=late_hours),
        "start_hours": start,
        "training_hours": hours - start - math.fsum(stage_hours_of(candidates, row).values()),
        "beside": tuple(
            SeparateMachine(stage=one.stage, provider=one.offer.provider, offer=one.label, hours=one.hours, usd=one.usd)
            for one in candidates.placement_of(row).separate_stages
        ),
        "commitment": build_commitment_use(candidates, row, market),
        "fed_by_storage": is_fed_by_storage(candidates, configuration),
        "observed_hours": observed,
        **_build_learned(candidates, recipe, machine, library),
        **build_costs(bill, late_bill, (low, high), policy),
        "notes": build_notes(candidates, chosen, offer, vram, limits, library, as_of),
    }


def _switch_hours(candidates: JobCandidates, chosen: ChosenCandidate, policy: SpotPlan | None) -> float | None:
    """Return the hours after which the run moves to on demand at the latest; None where it never moves."""
    if policy is not None:
        return policy.latest_on_demand_hours
    if not 0 < chosen.share < 1:
        return None
    return hours_before_run(candidates, chosen.row) + chosen.share * float(candidates.hours.spot_wall[chosen.row])


def _service_figures(
    candidates: JobCandidates, chosen: ChosenCandidate, market: Market, limits: Limits, as_of: datetime.date
) -> dict[str, Any]:
    """Return what an assignment says of a managed service: no machines, no memory, hours that may be assumed."""
    place = int(candidates.table.offer[chosen.row])
    service = candidates.services.run_at(place)
    low, high = (float(factor) for factor in display_factors(service.sigma))
    bill, late_bill = (build_bill(candidates, chosen, market, late) for late in (False, True))
    once = service.upload_hours + service.export_hours
    hours, late_hours = once + service.hours, once * service.late + service.late_hours
    return {
        "gpu": MANAGED,
        **dict.fromkeys(("gpus", "gpus_per_instance", "instances"), 0),
        "interconnect": "",
        "switch_to_on_demand_at_hours": None,
        "vram_gib": Vram(peak=0.0, allocated=0.0, usable=0.0, fit_probability=1.0, phase="", parts={}),
        "rate": service.tokens_per_second,
        "step_seconds": 0.0,
        "sigma": service.sigma,
        "sigma_tail": service.sigma,
        "hours": Hours(expected=hours, low=hours * low, high=hours * high, at_confidence=late_hours),
        "start_hours": service.upload_hours,
        "training_hours": service.hours,
        **build_costs(bill, late_bill, (1.0, 1.0)),
        "notes": build_service_notes(service.assumed_speed, market.offers[place], candidates, limits, as_of),
    }


def _vram(
    candidates: JobCandidates, configuration: int, recipe: Recipe, machine: Machine, limits: Limits, library: Library
) -> Vram:
    """Return the memory of one configuration by part, with the probability that it fits."""
    physics, headroom = candidates.physics, limits.vram_headroom
    ways, fit_gib = physics.ways, float(physics.ways.fit_gib[configuration])
    probe = MemoryEvaluator.of(candidates.job, physics.shape, recipe, machine, headroom, library, physics.learned)
    micro, accumulation = int(ways.micro_batch[configuration]), int(ways.accumulation[configuration])
    vram = probe.vram(probe.at(micro, accumulation))
    if math.isnan(ways.observed_hours[configuration]):
        seen = physics.learned.has_run(recipe, machine, micro, accumulation, physics.shape.sequence)
        peak = {"peak": max(vram.peak, fit_gib)}
        return vram.model_copy(update={**peak, "fit_probability": 1.0} if seen else peak)
    return vram.model_copy(update={"peak": fit_gib, "fit_probability": 1.0})  # the observed run did fit


def _build_learned(candidates: JobCandidates, recipe: Recipe, machine: Machine, library: Library) -> dict[str, Any]:
    """Return the observed runs and the factors that follow from them."""
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
