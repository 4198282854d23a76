"""Assignments: from a chosen row and its spot share to the figures of a plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.candidates.market import MANAGED
from planner.candidates.offer_terms import interconnect_of
from planner.configurations.observed.memory_peaks import memory_setting
from planner.configurations.recipe import weights_to_make
from planner.decode.assignment_parts import (
    build_commitment_use,
    build_costs,
    build_spot_plan,
    hours_as_guessed,
    stage_hours_of,
    techniques_of,
)
from planner.decode.fallback import find_fallback
from planner.decode.memory_breakdown import MemoryEvaluator
from planner.decode.notes import age_in_days, build_notes, build_service_notes, is_fed_by_storage, on_fixed_shares
from planner.decode.probability import finish_probability
from planner.decode.stages.parts import build_data_path, build_export
from planner.estimates.uncertainty import display_factors, interval
from planner.results.odds import share_within
from planner.results.plan import Assignment
from planner.results.plan_parts import HostMemory, Hours, ObservedRun, SeparateMachine, SpotPlan, Vram
from planner.scenario.inference import InferenceJob
from planner.scenario.limits import may_pause
from planner.units import HOUR

if TYPE_CHECKING:
    import datetime

    from planner.configurations.observed.comparison import ComparedRun
    from planner.decode.chosen import ChosenCandidate
    from planner.library.schema import Library
    from planner.results.plan_parts import BillItem
    from planner.scenario.job import Job
    from planner.scenario.limits import Limits


def build_assignment(chosen: ChosenCandidate, limits: Limits, library: Library, as_of: datetime.date) -> Assignment:
    """Return the plan of one job from the row that was chosen for it."""
    chosen = chosen.in_full()
    candidates, offer, job, shape = chosen.candidates, chosen.offer, chosen.job, chosen.candidates.physics.shape
    if candidates.is_managed_service[chosen.row]:
        figures = _service_figures(chosen, limits, as_of)
    else:
        figures = _machine_figures(chosen, limits, library, as_of)
    hours, rate, alike = figures["hours"], figures.pop("rate"), chosen.market.merged[chosen.place]
    low, high = (float(factor) for factor in display_factors(figures["sigma"]))
    return Assignment(
        name=job.name,
        architecture=candidates.architecture.name,
        provider=offer.provider,
        region=offer.region if alike == 1 else f"any of {alike}",
        instance=offer.instance,
        offer=chosen.market.labels[chosen.place],
        tier=offer.tier,
        spot_share=chosen.share,
        framework=chosen.recipe.framework,
        techniques=techniques_of(chosen.recipe, job, *candidates.batch(chosen.row)),
        tokens_per_second=rate,
        tokens_per_second_low=rate * low,
        tokens_per_second_high=rate * high,
        unit="images" if shape.unit == "images" else "tokens",
        sequence_length=shape.sequence,
        global_batch=job.global_batch,
        packing=job.packing,
        steps=int(shape.steps),
        steps_before=getattr(job.work, "steps_before", 0),
        stage_hours=stage_hours_of(chosen),
        trials=job.trials.count,
        runs_at_once=job.trials.at_once,
        deadline_hours=job.deadline_hours,
        deadline_probability=finish_probability(
            left_hours(job, chosen.lead_hours), hours, figures.get("hours_of_runs", ()), job.confidence
        ),
        conversion=None
        if candidates.is_managed_service[chosen.row]
        else weights_to_make(job, chosen.recipe, candidates.architecture, library.gpu(chosen.machine.gpu)),
        price_date=offer.date_text,
        price_age_days=age_in_days(offer, as_of),
        price_source=offer.source,
        lead_hours=chosen.lead_hours,
        start_at_hours=chosen.lead_hours,
        end_at_hours=chosen.lead_hours + hours.at_confidence,
        resume_hours=_resume_hours(chosen, limits),
        **figures,
    )


def left_hours(job: Job, delay_hours: float) -> float | None:
    """Return the hours that a deadline leaves for a run that starts, or stands still, so many hours; None without one.

    What is kept for finding a machine is not left.
    """
    deadline = job.planned_deadline_hours
    return None if deadline is None else max(0.0, deadline - delay_hours)


def _machine_figures(chosen: ChosenCandidate, limits: Limits, library: Library, as_of: datetime.date) -> dict[str, Any]:
    """Return what an assignment says of rented machines; `rate` is the speed in tokens or images per second."""
    candidates, machine, share, configuration = chosen.candidates, chosen.machine, chosen.share, chosen.configuration
    ways, shape, run_hours = candidates.physics.ways, candidates.physics.shape, candidates.run_hours
    sigma, step = float(run_hours.sigma[configuration]), float(run_hours.step_seconds[configuration])
    low, high = (float(factor) for factor in display_factors(sigma))
    hours, late_hours = float(chosen.figures.hours(share)[0]), float(chosen.figures.late_hours(share)[0])
    observed_hours = float(ways.observed_hours[configuration])
    observed = None if math.isnan(observed_hours) else observed_hours
    units = shape.tokens * (shape.units_per_token if shape.unit == "images" else 1.0)
    policy = build_spot_plan(chosen, chosen.spot, limits) if chosen.spot else None
    luck, spread = (policy.luck_hours, policy.hours_sd) if policy else (0.0, 0.0)
    earliest, latest = interval(hours, hours - luck, (low, high), spread)
    if policy is not None and chosen.spot is not None and policy.basis:
        earliest, latest = hours_as_guessed((earliest, latest), hours, policy, chosen.spot, (low, high))
    start = float(candidates.hours.start[chosen.row])
    training = hours - start - math.fsum(stage_hours_of(chosen).values())
    costs = build_costs(chosen, (low, high), policy, chosen.spot_only_costs(library))
    if costs["hours_of_runs"]:  # the 80 % that lie between
        drawn = sorted(one for row in costs["hours_of_runs"] for one in row)
        earliest, latest = min(hours, share_within(drawn, 0.1)), max(hours, share_within(drawn, 0.9))
    own = _own_figures(chosen, training if not observed else None, costs["bill"], limits, library, as_of)
    own["notes"] = (*on_fixed_shares(chosen, costs["cost_at_confidence"], library), *own["notes"])
    return {
        "gpu": machine.gpu,
        "gpus": machine.gpus,
        "gpus_per_instance": machine.gpus_per_instance,
        "instances": machine.instances,
        "interconnect": interconnect_of(chosen.offer),
        "switch_to_on_demand_at_hours": _switch_hours(chosen, policy),
        "spot": policy,
        "rate": units / (observed * HOUR) if observed else units / (shape.steps * step),
        "step_seconds": step,
        "sigma": sigma,
        "sigma_tail": float(run_hours.sigma_tail[configuration]),
        "hours": Hours(expected=hours, low=earliest, high=latest, at_confidence=late_hours),
        "start_hours": start,
        "training_hours": training,
        "beside": tuple(
            SeparateMachine(stage=one.stage, provider=one.offer.provider, offer=one.label, hours=one.hours, usd=one.usd)
            for one in candidates.placement_of(chosen.row).separate_stages
        ),
        "commitment": build_commitment_use(chosen),
        "fed_by_storage": is_fed_by_storage(chosen),
        "observed_hours": observed,
        **_build_learned(chosen, library),
        **costs,
        **own,
    }


def _own_figures(
    chosen: ChosenCandidate,
    training_hours: float | None,
    bill: tuple[BillItem, ...],
    limits: Limits,
    library: Library,
    as_of: datetime.date,
) -> dict[str, Any]:
    """Return what only training, or only generation, says; `training_hours` are None of an observed run."""
    if isinstance(chosen.job, InferenceJob):
        from planner.decode.generation import (  # late: what only generation needs
            build_generation,
            build_generation_notes,
        )

        vram, generation = build_generation(chosen, limits, library, bill)
        notes = build_generation_notes(chosen, generation, limits, as_of)
        return {"vram_gib": vram, "inference": generation, "notes": notes}
    vram, host = _vram(chosen, limits, library), _host_memory(chosen, limits, library)
    if training_hours is not None:
        vram = vram.model_copy(update={"fallback": find_fallback(chosen, training_hours, limits, library)})
    own: dict[str, Any] = {"data_path": build_data_path(chosen), "export": build_export(chosen, library)}
    notes = build_notes(chosen, vram, host, limits, library, as_of)
    return own | {"vram_gib": vram, "host_memory": host, "notes": notes}


def _resume_hours(chosen: ChosenCandidate, limits: Limits) -> float:
    """Return the hours that a pause costs at the confidence; 0 where the run does not pause."""
    may = may_pause(chosen.job, chosen.offer, limits, chosen.share, chosen.rounded)
    if not may or chosen.is_reserved or chosen.spot is not None:
        return 0.0
    return chosen.candidates.resume_hours(chosen.row) * float(chosen.candidates.hours.late[chosen.row])


def _switch_hours(chosen: ChosenCandidate, policy: SpotPlan | None) -> float | None:
    """Return the hours after which the run moves to on demand at the latest; None where it never moves."""
    if policy is not None:
        return policy.latest_on_demand_hours
    if not 0 < chosen.share < 1:
        return None
    h, row = chosen.candidates.hours, chosen.row
    before = float(h.start[row]) + stage_hours_of(chosen).get("prepare data", 0.0)
    return before + chosen.share * float(h.spot_wall[row])


def _service_figures(chosen: ChosenCandidate, limits: Limits, as_of: datetime.date) -> dict[str, Any]:
    """Return what an assignment says of a managed service: no machines, no memory, hours that may be assumed."""
    service = chosen.candidates.services.run_at(chosen.place)
    low, high = (float(factor) for factor in display_factors(service.sigma))
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
        **build_costs(chosen, (1.0, 1.0)),
        "notes": build_service_notes(service.assumed_speed, chosen, limits, as_of),
    }


def _vram(chosen: ChosenCandidate, limits: Limits, library: Library) -> Vram:
    """Return the memory of one configuration by part, with the probability that it fits."""
    physics, recipe, machine, job = chosen.candidates.physics, chosen.recipe, chosen.machine, chosen.job
    batch, fit_gib = chosen.candidates.batch(chosen.row), float(physics.ways.fit_gib[chosen.configuration])
    key, kept = ("vram", chosen.configuration, limits.vram_headroom), chosen.candidates.kept
    if key not in kept:  # the plans of a frontier mostly differ in their hours alone
        probe = MemoryEvaluator.of(job, physics.shape, recipe, machine, limits.vram_headroom, library, physics.learned)
        kept[key] = probe.vram(probe.at(*batch))
    vram: Vram = kept[key]
    if chosen.candidates.observed[chosen.row]:
        return vram.model_copy(update={"peak": fit_gib, "fit_probability": 1.0})  # the observed run did fit
    seen = physics.learned.has_run(recipe, machine, *batch, physics.shape.sequence)
    chance = 1.0 if seen else vram.fit_probability
    return vram.model_copy(update={"peak": max(vram.peak, fit_gib), "fit_probability": chance})


def _host_memory(chosen: ChosenCandidate, limits: Limits, library: Library) -> HostMemory | None:
    """Return what states take of the memory of the host; None where they take none, and of an observed run."""
    physics, recipe, machine = chosen.candidates.physics, chosen.recipe, chosen.machine
    if not recipe.uses_host_memory or chosen.candidates.observed[chosen.row]:
        return None
    learned = physics.learned
    probe = MemoryEvaluator.of(chosen.job, physics.shape, recipe, machine, limits.vram_headroom, library, learned)
    return probe.host_memory(*chosen.candidates.batch(chosen.row), machine)


def _build_learned(chosen: ChosenCandidate, library: Library) -> dict[str, Any]:
    """Return the observed runs and the factors that follow from them."""
    learned = chosen.candidates.physics.learned
    probed = learned.probed.get(memory_setting(chosen.recipe, chosen.machine.gpus))
    return {
        "speed_factor": learned.speed_factor(library),
        "memory_factor": probed.scale if probed else 1.0,
        "observed_runs": tuple(describe_observed_run(seen, chosen.job, library) for seen in learned.runs),
    }


def describe_observed_run(seen: ComparedRun, job: Job, library: Library) -> ObservedRun:
    """Return an observed run with its prediction as a plan states it."""
    return ObservedRun(
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
