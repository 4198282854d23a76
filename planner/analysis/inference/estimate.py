"""Estimate of generation: what fits, how fast it is, and what a token costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.analysis.inference.price import least_usd_per_gpu_hour
from planner.analysis.inference.request import Served, resolve_request
from planner.configurations.replicas.evidence import ROUGH_BATCHES, coefficient_or, prior_parts, speed_sigma
from planner.configurations.replicas.memory import replica_memory
from planner.configurations.serving import ServingColumns, coefficient_factors, serving_of
from planner.documents.source_map import Source
from planner.errors import Fault, ScenarioError
from planner.estimates.inference.batching import cycle_seconds, makespan_seconds, requests_per_second
from planner.estimates.inference.decode import decode_step_seconds
from planner.estimates.inference.kv_cache import kv_bytes_per_token, mean_seen_tokens, requests_that_fit
from planner.estimates.inference.latency import first_token_seconds, seconds_per_token
from planner.estimates.inference.prefill import prefill_seconds, prompt_seconds
from planner.estimates.uncertainty import display_factors
from planner.library.names import split_count
from planner.library.releases import conversion
from planner.loading.arguments import resolve_cards
from planner.results.inference import InferenceEstimate, RequestsThatFit, ServingMemory, TokenPrices
from planner.results.plan_parts import Spread
from planner.scenario.configuration import WHERE
from planner.scenario.inference import InferenceRequest
from planner.units import GIB, HOUR, MEGA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.configurations.serving import Serving
    from planner.estimates.inference.inputs import ServedModel, ServingHardware, ServingStack
    from planner.library.schema import Architecture, Coefficient, GpuSpec, Library


class _Setup(NamedTuple):
    """One replica in the terms of the formulas; arrays of one element."""

    asked: InferenceRequest
    served: Served
    architecture: Architecture
    gpu: GpuSpec
    serving: Serving
    model: ServedModel
    hardware: ServingHardware
    stack: ServingStack
    coefficients: Mapping[str, Coefficient]

    @property
    def computed(self) -> int:
        """Prompt tokens that are not in the cache already."""
        return self.asked.input - self.asked.prefix

    def cycle(self, sequences: Any) -> Any:
        """Return the seconds of one request with so many in flight."""
        asked = self.asked
        return cycle_seconds(
            self.model, self.hardware, self.stack, sequences, self.computed, asked.output, asked.prefix
        )[0]


def estimate_inference(
    architecture: str | Architecture, gpu: str, library: Library | None = None, **settings: Any
) -> InferenceEstimate:
    """Return memory, speed and dollars of generation on one replica.

    `settings` are the fields of `planner.scenario.inference.InferenceRequest`: `input` and `output` tokens per
    request, `prefix` tokens that all requests share, `engine`, `weight_bits`, `weight_format`, `kv_bits`, `gpus`,
    `concurrency` (at most in flight), `requests` (a finite batch), `usd_per_gpu_hour`.

    Raises `ScenarioError` for what cannot run, `LibraryError` for unknown names.

    >>> estimate_inference("llama-3.1-8b", "L40S", input=900, output=150).requests_that_fit.longest
    1
    """
    count, gpu = split_count(gpu)
    if count is not None and settings.setdefault("gpus", count) != count:
        what = f"{count} by the name of the GPU, {settings['gpus']} here"
        raise ScenarioError([Fault(WHERE, 0, "gpus", what, "give one of the two")])
    asked = Source(WHERE).validate(InferenceRequest, settings)
    network, card, library = resolve_cards(architecture, gpu, library)
    served = resolve_request(asked, network, card)
    serving = serving_of(
        network, card, library, engine=served.name, weights=served.format_name, kv_bits=asked.kv_bits,
        division=(served.tensor, served.pipeline),
    )  # fmt: skip
    calibration = library.calibrations["inference"]
    model, hardware, stack = ServingColumns([serving]).inputs(coefficient_factors([serving], calibration.values))
    coefficients = calibration.coefficients
    setup = _Setup(asked, served, network, card, serving, model, hardware, stack, coefficients)
    return _estimate(setup, library)


def _estimate(setup: _Setup, library: Library) -> InferenceEstimate:
    asked, served, coefficients = setup.asked, setup.served, setup.coefficients
    memory, fits = _memory(setup)
    flight, binds = _in_flight(setup, fits)
    cycle = float(setup.cycle(flight))
    first = _first_token(setup, flight)
    rate = float(requests_per_second(flight, cycle))
    per_token = float(seconds_per_token(cycle, first, asked.output)) if asked.output > 1 else 0.0
    prior = _priors_of(setup)
    sigma = speed_sigma(coefficients, served.name, bool(prior))
    return InferenceEstimate(
        architecture=setup.architecture.name,
        gpu=setup.gpu.name,
        gpus=asked.gpus,
        tensor_parallel=served.tensor,
        pipeline_parallel=served.pipeline,
        engine=served.name,
        weight_format=served.format_name,
        weight_bits=served.form.bits,
        kv_bits=asked.kv_bits,
        input_tokens=asked.input,
        output_tokens=asked.output,
        prefix_tokens=asked.prefix,
        memory_gib=memory,
        requests_that_fit=fits,
        in_flight=flight,
        binds=binds,
        output_tokens_per_second=_spread(rate * asked.output, sigma),
        requests_per_second=rate,
        single_output_tokens_per_second=asked.output / float(setup.cycle(1)),
        ttft_seconds=_spread(first, coefficient_or(coefficients, "spread.ttft", 0.5)),
        tpot_seconds=_spread(per_token, sigma),
        requests=asked.requests,
        makespan_seconds=float(makespan_seconds(asked.requests, min(flight, asked.requests), setup.cycle))
        if asked.requests
        else None,
        prices=_prices(setup, flight, cycle, library),
        sigma=sigma,
        evidence="prior" if prior else "calibrated",
        conversion=conversion(
            setup.architecture, served.format_name, served.engine, False, setup.gpu.usable_gib * asked.gpus
        ),
        assumed=served.assumed,
        notes=_notes(setup, prior, fits, flight),
    )


def _spread(value: float, sigma: float) -> Spread:
    low, high = (float(factor) for factor in display_factors(sigma))
    return Spread(expected=value, low=value * low, high=value * high)


def _memory(setup: _Setup) -> tuple[ServingMemory, RequestsThatFit]:
    """Return the memory of one GPU and the requests that fit; `ScenarioError` where not one does."""
    asked, served, model = setup.asked, setup.served, setup.model
    found = replica_memory(setup.serving, setup.architecture, setup.gpu, served.engine, asked.input, setup.coefficients)
    usable, cache = found.usable, found.cache
    per_token = float(kv_bytes_per_token(model, setup.stack.kv_bytes, served.tensor, served.pipeline)[0])

    def fitting(tokens: float) -> int:
        return int(requests_that_fit(cache, per_token, model, tokens)[0])

    whole = fitting(asked.input + asked.output)
    if whole < 1:
        need = found.fixed + (asked.input + asked.output) * per_token
        what = (
            f"{need / GIB:,.1f} GiB per GPU for one request of {asked.input + asked.output:,} tokens, "
            f"{usable / GIB:,.1f} GiB usable on {setup.gpu.name}"
        )
        fix = "more --gpus, fewer --weight-bits or --kv-bits, a shorter --input, or a larger GPU"
        raise ScenarioError([Fault(WHERE, 0, "", what, fix)])
    # One prefix serves all requests: its blocks are in memory once.
    memory = ServingMemory(
        usable=usable / GIB,
        parts={name: size / GIB for name, size in found.parts.items()},
        kv_bytes_per_token=per_token,
        kv_tokens=int(cache // per_token),
    )
    typical = fitting(asked.input + asked.output * setup.serving.held_share)
    return memory, RequestsThatFit(
        typical=max(typical, whole), whole=whole, longest=fitting(setup.architecture.max_sequence)
    )


def _in_flight(setup: _Setup, fits: RequestsThatFit) -> tuple[int, str]:
    """Return the sequences in flight and what holds their number."""
    limits = [(fits.typical, "memory"), (setup.served.engine.sequences, f"default of {setup.served.engine.label}")]
    if setup.asked.concurrency is not None:
        limits[1:] = [(setup.asked.concurrency, "--concurrency")]
    if setup.asked.requests is not None:
        limits.append((setup.asked.requests, "--requests"))
    return min(limits, key=lambda limit: limit[0])


def _first_token(setup: _Setup, flight: int) -> float:
    asked, model, hardware, stack = setup.asked, setup.model, setup.hardware, setup.stack
    computed = max(setup.computed, 1)
    alone = prefill_seconds(model, hardware, stack, computed, asked.prefix)
    context = mean_seen_tokens(model, asked.input, asked.output)
    step = decode_step_seconds(model, hardware, stack, flight, context)
    added = prompt_seconds(model, hardware, computed, asked.prefix)
    return float(first_token_seconds(stack, alone, step, added, flight - 1)[0])


def _prices(setup: _Setup, flight: int, cycle: float, library: Library) -> TokenPrices | None:
    """Return dollars per million tokens: the GPU-seconds of prefill and of decode, each by its tokens."""
    asked = setup.asked
    price: tuple[float, str] | None = None
    if asked.usd_per_gpu_hour is not None:
        price = asked.usd_per_gpu_hour, "--usd-per-gpu-hour"
    elif found := least_usd_per_gpu_hour(setup.gpu.name, library):
        price = found[0], f"least on demand in the shipped market: {found[1]}"
    if price is None:
        return None
    each = price[0] / HOUR * asked.gpus  # dollars per second of the replica
    taken_in = prompt_seconds(setup.model, setup.hardware, setup.computed, asked.prefix) + setup.stack.request_seconds
    prefill = float(np.atleast_1d(taken_in)[0]) / setup.served.pipeline
    whole = cycle / flight
    return TokenPrices(
        usd_per_gpu_hour=price[0],
        basis=price[1],
        usd_per_million_input_tokens=each * prefill / asked.input * MEGA if asked.input else None,
        usd_per_million_output_tokens=each * max(whole - prefill, 0.0) / asked.output * MEGA,
        usd_per_thousand_requests=1000.0 * each * whole,
    )


def _priors_of(setup: _Setup) -> list[str]:
    """Return what no published measurement informs: engine, GPU, format."""
    served = setup.served
    return list(prior_parts(setup.coefficients, served.name, served.engine.label, setup.gpu.name, served.format_name))


def _notes(setup: _Setup, prior: list[str], fits: RequestsThatFit, flight: int) -> tuple[str, ...]:
    asked, served = setup.asked, setup.served
    notes = [f"no published measurements inform {', '.join(prior)}: its speed is a prior"] if prior else []
    if fits.longest < 1:
        longest = setup.architecture.max_sequence
        notes.append(f"not one request of the model's longest context ({longest:,} tokens) fits")
    if flight > 1:
        notes.append("time to the first token: of requests that come all at once; spread out they wait less")
        notes.append(ROUGH_BATCHES)
    if served.form.bits < 16 and served.format_name != setup.architecture.published[0]:
        notes.append(f"{served.format_name} rounds the weights: measure its quality on your task")
    if asked.kv_bits < 16:
        notes.append(f"a cache of {asked.kv_bits} bits rounds keys and values")
    if served.pipeline > 1:
        notes.append(f"{served.engine.label} divides layers among GPUs, which take turns")
    if not served.engine.pool:
        notes.append(f"{served.engine.label} fills its cache as requests come; shown is what it may grow to")
    return tuple(notes)
