"""Measured generation in plain floats: the estimate of a measurement, whose ratio corrects an engine on a GPU."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.configurations.serving import ServingColumns, coefficient_factors, serving_of
from planner.estimates.adapters import lora_parameters
from planner.estimates.inference import batching

if TYPE_CHECKING:
    from planner.audit.context import AuditContext
    from planner.scenario.inference import InferenceJob
    from planner.scenario.observed_run import ServedRun


def next_to_adapters(plain: Any, context: AuditContext, job: InferenceJob) -> Any:
    """Return a configuration with the adapters that the job serves."""
    adapter = job.adapter
    if adapter is None or adapter.served is None:
        return plain
    # Every adapter lies in memory in 16 bits and is read in each step; a token meets one of them.
    each = float(lora_parameters(context.network, adapter.rank, adapter.targets).trainable)
    more, met = adapter.served * each * 2.0 / plain.weight_bytes, plain.model.met_weights + each
    stored, dense = plain.model.stored_weights + more, plain.model.dense_weights + more
    return replace(plain, model=replace(plain.model, stored_weights=stored, dense_weights=dense, met_weights=met))


def measured_factor(context: AuditContext, job: InferenceJob) -> float:
    """Return measured over estimated speed of the plan's engine on its GPU: the geometric mean; 1 without runs."""
    here = context.recipe.framework, context.gpu.name
    logs = [
        math.log(run.output_tokens_per_second / measured_rate(run, context, job))
        for run in job.measured
        if (run.engine, run.gpu) == here
    ]
    return math.exp(math.fsum(logs) / len(logs)) if logs else 1.0


def measured_rate(run: ServedRun, context: AuditContext, job: InferenceJob) -> float:
    """Return the estimated output tokens per second of a measurement: full rounds, and a last one of the rest."""
    tensor = run.tensor_parallel or run.gpus
    plain = serving_of(
        context.architecture, context.gpu, context.library, engine=run.engine, weights=run.weight_format,
        kv_bits=run.kv_bits, division=(tensor, run.gpus // tensor),
    )  # fmt: skip
    serving = next_to_adapters(plain, context, job)
    factors = coefficient_factors([serving], context.values("inference"))
    model, hardware, stack = ServingColumns([serving]).inputs(factors)
    own, prefix = max(run.input_tokens - run.prefix_tokens, 0.0), float(run.prefix_tokens)

    def cycle(flight: float) -> float:
        return float(batching.cycle_seconds(model, hardware, stack, flight, own, run.output_tokens, prefix)[0])

    if run.requests is None:
        return run.in_flight * run.output_tokens / cycle(run.in_flight)
    flight = min(run.in_flight, run.requests)
    rounds, rest = divmod(run.requests, flight)
    return run.requests * run.output_tokens / (rounds * cycle(flight) + (cycle(rest) if rest else 0.0))
