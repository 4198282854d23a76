"""What a plan says of a job of generation: memory of a replica, requests in flight, latency, dollars by token."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from planner.configurations.replicas.adapters import served_priors
from planner.configurations.replicas.enumeration import ServedGpu, replica_speeds
from planner.configurations.replicas.evidence import ROUGH_BATCHES, prior_parts
from planner.configurations.replicas.measured import is_measured
from planner.configurations.replicas.recipes import ServingRecipe
from planner.decode.notes import on_hours, on_offer
from planner.estimates.inference.decode import decode_step_seconds
from planner.estimates.inference.latency import first_token_seconds, seconds_per_token
from planner.estimates.inference.prefill import prefill_seconds
from planner.estimates.inference.shares import time_shares
from planner.library.names import hosted_name
from planner.results.inference import ApiPrice, BulkGeneration
from planner.results.plan_parts import Vram
from planner.scenario.inference import InferenceJob
from planner.units import GIB, MEGA

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

    from planner.configurations.replicas.enumeration import ReplicaSpeeds
    from planner.decode.chosen import ChosenCandidate
    from planner.library.schema import Library
    from planner.results.plan_parts import BillItem
    from planner.scenario.limits import Limits


def build_generation(
    chosen: ChosenCandidate, limits: Limits, library: Library, bill: Sequence[BillItem]
) -> tuple[Vram, BulkGeneration]:
    """Return memory and speed of one replica of the candidate, and what its bill is by prompt and by token."""
    usd = math.fsum(line.usd for line in bill)
    job, recipe, machine = chosen.job, chosen.recipe, chosen.machine
    assert isinstance(job, InferenceJob) and isinstance(recipe, ServingRecipe)
    architecture = chosen.candidates.architecture
    speeds = replica_speeds(job, architecture, [ServedGpu(machine.gpu, recipe)], library, limits.vram_headroom)
    flight, _ = chosen.candidates.batch(chosen.row)
    together = recipe.tensor_parallel * recipe.pipeline_parallel
    run_hours, work = chosen.candidates.run_hours, job.work
    step = float(run_hours.step_seconds[chosen.configuration])
    priors = prior_parts(
        library.calibrations["inference"].coefficients,
        *(recipe.framework, recipe.engine.label, machine.gpu, recipe.quant),
    )
    seen = is_measured(job, recipe, machine.gpu)
    priors = () if seen else priors + served_priors(job)
    first, each, shares = _latency(speeds, job, flight)
    trials, requests = job.trials.count, work.total_requests
    taken_in = shares["prompts"] * usd / trials
    made = BulkGeneration(
        engine=recipe.framework,
        weight_format=recipe.quant,
        kv_bits=recipe.kv_bits,
        replicas=machine.gpus // together,
        gpus_per_replica=together,
        requests=requests,
        input_tokens=work.total_input_tokens / requests,
        output_tokens=work.total_output_tokens / requests,
        prefix_tokens=work.prefix_tokens,
        in_flight=flight,
        requests_that_fit=_fitting(speeds),
        binds=_binding(speeds, flight, recipe),
        time_shares=shares,
        output_tokens_per_second=work.total_output_tokens / (requests * step),
        ttft_seconds=first,
        tpot_seconds=each,
        usd_per_thousand_requests=usd / trials / requests * 1000.0,
        usd_per_million_input_tokens=taken_in / work.total_input_tokens * MEGA,
        usd_per_million_output_tokens=(usd / trials - taken_in) / work.total_output_tokens * MEGA,
        evidence="measured" if seen else "prior" if priors else "calibrated",
        api=_api_prices(chosen, job, bill),
        priors=priors,
    )
    return _vram(speeds, flight), made


def _api_prices(chosen: ChosenCandidate, job: InferenceJob, bill: Sequence[BillItem]) -> tuple[ApiPrice, ...]:
    """Return the services that answer prompts with the model, cheapest first.

    One machine costs its start and so much per request, a service so much per request alone: the machine pays from
    start / (service - machine) requests on. A start of $0.20, $0.02 and $0.04 per thousand: from 10,000 requests on.
    """
    work, requests = job.work, job.work.total_requests * job.trials.count
    answering = math.fsum(line.usd for line in bill if line.item.startswith("gpu "))
    machines = int(chosen.candidates.table.instances[chosen.row])
    start = (math.fsum(line.usd for line in bill) - answering) / machines
    found, name = [], hosted_name(chosen.candidates.architecture.name)
    for label, offer in zip(chosen.market.labels, chosen.market.offers, strict=True):
        service = offer.managed
        if service is None or not service.answers or name not in service.architectures:
            continue
        usd = service.answers_usd(work.total_input_tokens, work.total_output_tokens) * job.trials.count
        more = (usd - answering) / requests
        found.append(
            ApiPrice(
                offer=label,
                usd=usd,
                usd_per_thousand_requests=usd / requests * 1000.0,
                hosts_tuned=service.hosts_tuned,
                pays_from_requests=start / more if more > 0 else None,
                source=offer.source,
            )
        )
    return tuple(sorted(found, key=lambda one: (one.usd, one.offer)))


def _vram(speeds: ReplicaSpeeds, flight: int) -> Vram:
    """Return the memory of one GPU: the cache as far as the requests in flight fill it."""
    memory = speeds.memory[0]
    tokens = max(flight * float(speeds.means.cached_tokens[0]), float(speeds.means.longest_tokens[0]))
    parts = {**memory.parts, "kv_cache": min(memory.cache, tokens * float(speeds.token_bytes[0]))}
    used = sum(parts.values())
    return Vram(
        peak=used / GIB,
        allocated=used / GIB,
        usable=memory.usable / GIB,
        fit_probability=float(speeds.fit_probability[0]),
        phase="decode",
        parts={name: size / GIB for name, size in parts.items()},
    )


def _fitting(speeds: ReplicaSpeeds) -> int:
    """Return the requests of mean length that the cache of a replica holds."""
    return max(1, int(speeds.memory[0].cache / (speeds.means.cached_tokens[0] * speeds.token_bytes[0])))


def _binding(speeds: ReplicaSpeeds, flight: int, recipe: ServingRecipe) -> Literal["memory", "engine", "requests"]:
    """Return what holds the requests in flight."""
    if flight < speeds.flight[0]:
        return "requests"
    return "engine" if flight >= recipe.engine.sequences else "memory"


def _latency(speeds: ReplicaSpeeds, job: InferenceJob, flight: int) -> tuple[float, float, dict[str, float]]:
    """Return the seconds to the first token and per token after it, and what takes the time of a step."""
    (model, hardware, stack), means, work = speeds.inputs, speeds.means, job.work
    prompt = work.total_input_tokens / work.total_requests
    alone = prefill_seconds(model, hardware, stack, max(prompt - work.prefix_tokens, 1.0), float(work.prefix_tokens))
    step = decode_step_seconds(model, hardware, stack, flight, means.context)
    first = float(first_token_seconds(stack, alone, step, means.prompt_seconds, flight - 1)[0] / speeds.factor[0])
    cycle = float(speeds.cycle([0], np.full((1, 1), float(flight)))[0, 0])
    each = float(seconds_per_token(cycle, first, means.output)) if means.output > 1 else 0.0
    per_prompt = float(means.prompt_seconds[0])
    return first, each, time_shares(model, hardware, stack, flight, float(means.context[0]), per_prompt, means.output)


def build_generation_notes(
    chosen: ChosenCandidate, made: BulkGeneration, limits: Limits, as_of: datetime.date
) -> tuple[str, ...]:
    """Return the notes of a job of generation: what is a prior, what is rounded, market, limits."""
    form, notes = made.weight_format, []
    if made.priors:
        notes.append(f"no published measurements inform {', '.join(made.priors)}: its speed is a prior")
    if chosen.recipe.weight_bits < 16 and form != chosen.candidates.architecture.published[0]:
        notes.append(f"{form} rounds the weights: measure its quality on your task")
    if made.kv_bits < 16:
        notes.append(f"a cache of {made.kv_bits} bits rounds keys and values")
    if made.in_flight > 1:
        notes.append(ROUGH_BATCHES)
    if made.replicas > 1 and chosen.offer.stock is None:
        notes.append("machines work side by side without a common network; any number of them is assumed available")
    return (*notes, *on_offer(chosen, as_of), *on_hours(chosen, limits))
