"""Measured generation against its estimate: one factor on the speed of each engine on each GPU."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.configurations.replicas.adapters import adapter_weights, with_adapters
from planner.configurations.serving import ServingColumns, coefficient_factors, serving_of
from planner.estimates.inference.batching import cycle_seconds, makespan_seconds
from planner.estimates.inference.decode import decode_step_seconds
from planner.estimates.inference.kv_cache import mean_seen_tokens
from planner.estimates.inference.latency import first_token_seconds, seconds_per_token
from planner.estimates.inference.prefill import prefill_seconds, prompt_seconds

if TYPE_CHECKING:
    from planner.configurations.replicas.recipes import ServingRecipe
    from planner.library.schema import Architecture, Library
    from planner.scenario.inference import InferenceJob
    from planner.scenario.observed_run import ServedRun


class Generated(NamedTuple):
    """Speed and latency of one replica."""

    output_tokens_per_second: float
    ttft_seconds: float
    tpot_seconds: float


def predicted_run(run: ServedRun, job: InferenceJob, architecture: Architecture, library: Library) -> Generated:
    """Return the estimate of a measured run: its lengths, its requests in flight, its start and its tail."""
    division = (run.tensor_parallel or run.gpus, run.gpus // (run.tensor_parallel or run.gpus))
    plain = serving_of(
        architecture, library.gpu(run.gpu), library,
        engine=run.engine, weights=run.weight_format, kv_bits=run.kv_bits, division=division,
    )  # fmt: skip
    served = (job.adapter.served or 0) if job.adapter else 0
    serving = with_adapters(plain, adapter_weights(job, architecture), served)
    values = library.calibrations["inference"].values
    model, hardware, stack = ServingColumns([serving]).inputs(coefficient_factors([serving], values))
    prefix, own = float(run.prefix_tokens), max(run.input_tokens - run.prefix_tokens, 0.0)

    def cycle(sequences: float) -> float:
        return float(cycle_seconds(model, hardware, stack, sequences, own, run.output_tokens, prefix)[0])

    flight, requests = run.in_flight, run.requests or 1000 * run.in_flight
    seconds = float(makespan_seconds(requests, min(flight, requests), np.vectorize(cycle)))
    seen = mean_seen_tokens(model, run.input_tokens, run.output_tokens)
    step = decode_step_seconds(model, hardware, stack, flight, seen)
    alone = prefill_seconds(model, hardware, stack, max(own, 1.0), prefix)
    taken_in = prompt_seconds(model, hardware, own, prefix) + stack.request_seconds
    first = float(first_token_seconds(stack, alone, step, taken_in, flight - 1)[0])
    each = float(seconds_per_token(cycle(flight), first, run.output_tokens)) if run.output_tokens > 1 else 0.0
    return Generated(requests * run.output_tokens / seconds, first, each)


def speed_factors(job: InferenceJob, architecture: Architecture, library: Library) -> dict[tuple[str, str], float]:
    """Return measured over estimated speed by engine and GPU: the geometric mean of its runs.

    Runs of 1.2 and 1.5 times the estimate: 1.34. Other engines and GPUs keep their estimates.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for run in job.measured:
        predicted = predicted_run(run, job, architecture, library).output_tokens_per_second
        found.setdefault((run.engine, run.gpu), []).append(math.log(run.output_tokens_per_second / predicted))
    return {key: math.exp(math.fsum(logs) / len(logs)) for key, logs in found.items()}


def is_measured(job: InferenceJob, recipe: ServingRecipe, gpu: str) -> bool:
    """Return whether the job has a run of the engine on the GPU in the same formats of weights and cache."""
    here = (recipe.framework, gpu, recipe.quant, recipe.kv_bits)
    return any((run.engine, run.gpu, run.weight_format, run.kv_bits) == here for run in job.measured)
