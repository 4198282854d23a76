"""Estimate of generation: the request checked, what fits, how fast it is, and what a token costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.configurations.compared_runs import GPUS_PER_MACHINE
from planner.configurations.grid import parts_of_card
from planner.documents.validation import Source, name_fix
from planner.errors import Fault, ScenarioError, raise_faults
from planner.estimates.generation import (
    ServedModel,
    ServingHardware,
    ServingStack,
    cycle_seconds,
    decode_step_seconds,
    kv_bytes_per_token,
    makespan_seconds,
    mean_seen_tokens,
    prefill_seconds,
    prompt_seconds,
    requests_per_second,
    requests_that_fit,
)
from planner.estimates.latency import first_token_seconds, seconds_per_token
from planner.estimates.parts import attention_stand_ins
from planner.estimates.uncertainty import time_factors_of_68_percent
from planner.generation.engine_recipes import (
    READS_IMAGES,
    Division,
    EngineStart,
    Network,
    ReplicaMemory,
    Serving,
    ServingColumns,
    asked_link,
    coefficient_factors,
    divisions,
    has_kernels,
    image_flop,
    replica_memory,
    serving_of,
    supports,
    without_images,
)
from planner.generation.replica_enumeration import ROUGH_BATCHES, coefficient_or, prior_parts, speed_sigma
from planner.library.engines import Engine, WeightFormat, read_engines
from planner.library.names import split_count
from planner.library.reading import conversion, describe_published, is_16_bit, release_bits, servable_formats
from planner.library.schema import Architecture, Coefficient, GpuSpec, Library
from planner.loading.question import resolve_cards
from planner.loading.scenario_file import MARKET, read_inventory
from planner.results.fleet import InferenceEstimate, RequestsThatFit, ServingMemory, TokenPrices
from planner.results.plan_parts import Spread
from planner.scenario.inference_job import InferenceRequest
from planner.scenario.job_stages import PromptImages
from planner.scenario.techniques import WHERE
from planner.units import GB, GIB, HOUR, MEGA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# The least price of a GPU on demand in the shipped market.


def least_usd_per_gpu_hour(gpu: str, library: Library) -> tuple[float, str] | None:
    """Return the least price per GPU-hour that is open to all, and whose it is; None where no offer has it."""
    faults: list[Fault] = []
    names = {name.casefold() for name in (gpu, *library.gpu(gpu).aliases)}
    prices = [
        (offer.usd_per_hour / offer.gpus, offer.provider)
        for offer in read_inventory(MARKET, Path(), faults)
        if offer.gpu and offer.gpus and offer.usd_per_hour and offer.gpu.casefold() in names
        if offer.tier in ("secure", "community") and not offer.commitment
    ]
    return min(prices) if prices else None


# What `estimate --inference` asks for, checked against the facts of engines, formats, GPUs and models.


@dataclass(frozen=True)
class Served:
    """The engine and format that are asked for, and what was not given."""

    name: str
    engine: Engine
    format_name: str
    form: WeightFormat
    tensor: int
    pipeline: int
    assumed: tuple[str, ...]


def resolve_request(asked: InferenceRequest, architecture: Architecture, gpu: GpuSpec) -> Served:
    """Return engine and format; `ScenarioError` with every reason why this cannot run."""
    table, faults = read_engines(), list[Fault]()

    def fault(where: str, wrong: str, fix: str) -> None:
        faults.append(Fault(WHERE, 0, where, wrong, fix))

    name = table.engine_behind(asked.engine)
    if name is None:
        fix = name_fix(asked.engine, table.engines)
        raise ScenarioError([Fault(WHERE, 0, "engine", f"unknown engine {asked.engine!r}", fix)])
    if architecture.image is not None:
        raise ScenarioError([Fault(WHERE, 0, "", f"{architecture.name} makes images", "choose a language model")])
    engine = table.engines[name]
    if not supports(engine, gpu):
        need = f"{' or '.join(engine.vendors)}, compute capability {engine.capability} or newer"
        fault("engine", f"{engine.label} does not support {gpu.name}", f"it needs {need}")
    format_name = _format(asked, name, architecture, gpu, faults)
    tensor, pipeline = _division(asked, engine, architecture, faults)
    if asked.kv_bits not in engine.kv_bits:
        have = " or ".join(map(str, engine.kv_bits))
        fault("kv_bits", f"{engine.label} has no cache of {asked.kv_bits} bits", f"choose {have}")
    if asked.prefix > asked.input:
        fault("prefix", f"{asked.prefix:,} exceeds the input of {asked.input:,} tokens", "the prefix is part of it")
    if asked.input + asked.output > architecture.max_sequence:
        wrong = f"{asked.input:,} + {asked.output:,} tokens exceed the context of {architecture.name}"
        fault("input", wrong, f"at most {architecture.max_sequence:,} together")
    for where, wrong, fix in _unused(asked, engine, gpu):
        fault(where, wrong, fix)
    if faults or format_name is None:
        raise ScenarioError(faults)
    given = asked.model_fields_set
    assumed = [
        f"{key} {value}" for key, value in (("input", asked.input), ("output", asked.output)) if key not in given
    ]
    assumed += [f"engine {name}"] if "engine" not in given else []
    assumed += [f"weight format {format_name}"] if asked.weight_format is None else []
    assumed += [f"kv-bits {asked.kv_bits}"] if "kv_bits" not in given else []
    form = table.formats[format_name]
    return Served(name, engine, format_name, form, tensor, pipeline, tuple(assumed))


def _unused(asked: InferenceRequest, engine: Engine, gpu: GpuSpec) -> Iterator[tuple[str, str, str]]:
    """Yield options that change nothing or are not modelled: place, what is wrong, what to do."""
    if asked.image_size is not None and read_engines().engine_behind(asked.engine) not in READS_IMAGES:
        yield "engine", *without_images(engine.label)
    release, known = asked.engine_release, engine.releases
    if release is not None and not engine.releases_of(release):
        wrong = f"{engine.label} {release} is not known: releases are from {known[0].version} on" if known else ""
        yield "engine_release", wrong or f"no releases of {engine.label} are known", "leave it out"
    if asked.use == "offline" and not known:
        yield "use", f"what a script changes in the memory of {engine.label} is not known", "leave it out"
    if gpu.lacks_link(asked.interconnect):
        yield "interconnect", f"{gpu.name} has no NVLink", "give pcie, or leave it out"


def _division(
    asked: InferenceRequest, engine: Engine, architecture: Architecture, faults: list[Fault]
) -> tuple[int, int]:
    """Return the GPUs that share each layer and those among which layers are divided; a fault where they cannot.

    A replica stays within a machine, as in every plan, unless the network that joins its machines is given.
    """
    machines = asked.instances or -(-asked.gpus // GPUS_PER_MACHINE)
    if machines > 1 and asked.network_gbps is None:
        wrong = f"{asked.gpus} GPUs are {machines} machines, and a replica stays within one"
        most = max(1, asked.gpus // machines)
        counts = (
            max((division for division in divisions(architecture) if division <= most), default=1)
            if engine.tensor
            else most
        )
        fix = f"estimate one of {counts} GPU{'s' * (counts != 1)}"
        if not engine.tensor or architecture.split_fault(asked.gpus) is None:
            fix += f", or give --instances 1 for a machine that has {asked.gpus}"
        fix += ", or --network-gbps of each machine"
        faults.append(Fault(WHERE, 0, "gpus", wrong, fix))
    wanted = asked.tensor_parallel
    if wanted is not None and asked.gpus % wanted:
        wrong, fix = f"{wanted} does not divide {asked.gpus} GPUs", "the rest of the GPUs divide the layers"
        faults.append(Fault(WHERE, 0, "tensor_parallel", wrong, fix))
    if wanted is not None and wanted > 1 and not engine.tensor:
        wrong, fix = f"{engine.label} does not split layers among GPUs", "leave it out, or choose vllm, sglang, trt-llm"
        faults.append(Fault(WHERE, 0, "tensor_parallel", wrong, fix))
    tensor = (wanted or asked.gpus) if engine.tensor else 1
    why = architecture.split_fault(tensor) if engine.tensor else None
    if why is not None and (machines == 1 or asked.network_gbps is not None):
        fix = f"give {' or '.join(map(str, divisions(architecture)))} GPUs for each replica"
        faults.append(Fault(WHERE, 0, "gpus" if wanted is None else "tensor_parallel", why, fix))
    return tensor, asked.gpus // tensor


def _format(
    asked: InferenceRequest, engine_name: str, architecture: Architecture, gpu: GpuSpec, faults: list[Fault]
) -> str | None:
    """Return the format of the weights; None with a fault where the model, the engine or the GPU does not have it."""
    table = read_engines()
    engine = table.engines[engine_name]
    wanted = asked.weight_format and table.format_behind(asked.weight_format)
    if asked.weight_format and (wanted is None or wanted not in engine.formats):
        wrong = f"{engine.label} does not load {asked.weight_format}"
        faults.append(Fault(WHERE, 0, "weight_format", wrong, name_fix(asked.weight_format, engine.formats)))
        return None
    if wanted and asked.weight_bits not in (None, table.formats[wanted].bits):
        wrong = f"{wanted} has {table.formats[wanted].bits} bits, not {asked.weight_bits}"
        faults.append(Fault(WHERE, 0, "weight_bits", wrong, "give one of the two"))
        return None
    there = servable_formats(engine, architecture)
    usual = release_bits(architecture.published)
    bits = asked.weight_bits or (usual or (16,))[0]
    possible = [form for form in there if (form == wanted if wanted else table.formats[form].bits == bits)]
    if not possible and not is_16_bit(architecture):
        needs = f"not in {wanted or f'{bits} bits'}" if there else f"and {engine.label} loads none of them"
        where = "weight_format" if wanted else "weight_bits" if there else "engine"
        fix = f"leave it out, or choose {', '.join(there)}" if there else "name another engine or release"
        faults.append(Fault(WHERE, 0, where, f"{describe_published(architecture)}, {needs}", fix))
        return None
    if not possible:
        have = sorted({table.formats[form].bits for form in engine.formats}, reverse=True)
        wrong = f"{engine.label} has no weights of {bits} bits"
        faults.append(Fault(WHERE, 0, "weight_bits", wrong, f"choose {' or '.join(map(str, have))}"))
        return None
    for form in possible:
        if has_kernels(table.formats[form], gpu):
            return form
    least = min(table.formats[form].capability for form in possible)
    wrong = f"{gpu.name} has no kernels for {' or '.join(possible)}"
    faults.append(Fault(WHERE, 0, "weight_bits", wrong, f"they need compute capability {least} or newer"))
    return None


class ReplicaSetup(NamedTuple):
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

    @property
    def memory(self) -> ServingMemory:
        """Memory of one GPU; `ScenarioError` where not one request fits."""
        return memory_of(self)[0]

    @property
    def seats(self) -> int:
        """Requests in flight at one time, by memory or by the engine's limit."""
        return _in_flight(self, memory_of(self)[1])[0]

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

    `settings` are the fields of `planner.scenario.inference_job.InferenceRequest`: `input` and `output` tokens per
    request, `prefix` tokens that all requests share, `engine`, `weight_bits`, `weight_format`, `kv_bits`, `gpus`,
    `concurrency` (at most in flight), `requests` (a finite batch), `usd_per_gpu_hour`.

    Raises `ScenarioError` for what cannot run, `LibraryError` for unknown names.

    >>> estimate_inference("llama-3.1-8b", "L40S", input=900, output=150).requests_that_fit.longest
    1
    """
    return _estimate(*resolve_replica(architecture, gpu, library, **settings))


def resolve_replica(
    architecture: str | Architecture, gpu: str, library: Library | None = None, **settings: Any
) -> tuple[ReplicaSetup, Library]:
    """Return one replica in the terms of the formulas, and the library that it was read from; raises as an estimate."""
    count, gpu = split_count(gpu)
    if count is not None and settings.setdefault("gpus", count) != count:
        wrong = f"{count} by the name of the GPU, {settings['gpus']} here"
        raise ScenarioError([Fault(WHERE, 0, "gpus", wrong, "give one of the two")])
    asked = Source(WHERE).validate(InferenceRequest, settings)
    network, card, library = resolve_cards(architecture, gpu, library)
    images = _images_of(asked, network)
    if images is not None:
        asked = asked.model_copy(update={"input": asked.input + (images.tokens or 0)})
    served = resolve_request(asked, network, card)
    serving = serving_of(
        network, card, library, engine=served.name, weights=served.format_name, kv_bits=asked.kv_bits,
        division=Division(served.tensor, served.pipeline, _link(asked, served, card)),
    )  # fmt: skip
    calibration = library.calibrations["inference"]
    serving = replace(serving, image_flop=image_flop(network, images))
    model, hardware, stack = ServingColumns([serving]).inputs(coefficient_factors([serving], calibration.values))
    coefficients = calibration.coefficients
    setup = ReplicaSetup(asked, served, network, card, serving, model, hardware, stack, coefficients)
    return setup, library


def _images_of(asked: InferenceRequest, architecture: Architecture) -> PromptImages | None:
    """Return the images of a prompt with their tokens; None without one, `ScenarioError` where the model reads none."""
    if asked.image_size is None:
        return None
    given = PromptImages(
        size=asked.image_size, count=asked.images_per_sample, max_pixels=asked.max_pixels, max_tiles=asked.max_tiles
    )
    faults = given.faults(architecture.name, architecture.tower)
    raise_faults([Fault(WHERE, 0, key or "image_size", wrong, fix) for key, wrong, fix in faults], ScenarioError)
    assert architecture.tower is not None
    return given.model_copy(update={"tokens": given.tokens_of(architecture.tower)})


def _link(asked: InferenceRequest, served: Served, gpu: GpuSpec) -> str | Network | None:
    """Return what joins the GPUs of one layer: the link of their machine, or the network of several machines."""
    machines = asked.instances or -(-asked.gpus // GPUS_PER_MACHINE)
    if served.tensor > asked.gpus // machines and asked.network_gbps is not None:
        return Network(asked.network_gbps * GB / 8.0)
    return asked_link(gpu, asked.interconnect)


def _estimate(setup: ReplicaSetup, library: Library) -> InferenceEstimate:
    asked, served, coefficients = setup.asked, setup.served, setup.coefficients
    memory, fits = memory_of(setup)
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
        output_tokens_per_second=_spread_of_rate(rate * asked.output, sigma),
        requests_per_second=rate,
        single_output_tokens_per_second=asked.output / float(setup.cycle(1)),
        ttft_seconds=_spread_of_seconds(first, coefficient_or(coefficients, "spread.ttft", 0.5)),
        tpot_seconds=_spread_of_seconds(per_token, sigma),
        requests=asked.requests,
        makespan_seconds=float(makespan_seconds(asked.requests, min(flight, asked.requests), setup.cycle))
        if asked.requests
        else None,
        prices=_prices(setup, flight, cycle, library),
        sigma=sigma,
        evidence="prior" if prior else "fitted",
        conversion=conversion(
            setup.architecture, served.format_name, served.engine, False, setup.gpu.usable_gib * asked.gpus
        ),
        assumed=served.assumed,
        notes=_notes(setup, prior, memory, fits, flight),
    )


def _spread_of_seconds(value: float, sigma: float) -> Spread:
    """Return seconds with the range that those of a plan have."""
    low, high = (float(factor) for factor in time_factors_of_68_percent(sigma))
    return Spread(expected=value, low=value * low, high=value * high)


def _spread_of_rate(value: float, sigma: float) -> Spread:
    low, high = (float(factor) for factor in time_factors_of_68_percent(sigma))
    return Spread(expected=value, low=value / high, high=value / low)


def memory_of(setup: ReplicaSetup) -> tuple[ServingMemory, RequestsThatFit]:
    """Return the memory of one GPU and the requests that fit; `ScenarioError` where not one does."""
    asked, served, model = setup.asked, setup.served, setup.model
    replica = _replica(setup, asked.engine_release)
    usable, cache = replica.usable, replica.cache
    per_token = float(kv_bytes_per_token(model, setup.stack.kv_bytes, served.tensor, served.pipeline)[0])

    def fitting(tokens: float) -> int:
        return int(requests_that_fit(cache, per_token, model, tokens)[0])

    whole = fitting(asked.input + asked.output)
    if whole < 1:
        need = replica.fixed + (asked.input + asked.output) * per_token
        wrong = (
            f"{need / GIB:,.1f} GiB per GPU for one request of {asked.input + asked.output:,} tokens, "
            f"{usable / GIB:,.1f} GiB usable on {setup.gpu.name}"
        )
        fix = "more --gpus, fewer --weight-bits or --kv-bits, a shorter --input, or a larger GPU"
        raise ScenarioError([Fault(WHERE, 0, "", wrong, fix)])
    # One prefix serves all requests: its blocks are in memory once.
    memory = ServingMemory(
        usable=usable / GIB,
        parts={name: size / GIB for name, size in replica.parts.items()},
        kv_bytes_per_token=per_token,
        kv_tokens=int(cache // per_token),
        kv_tokens_range=_cache_range(setup, cache, per_token),
        state_sequences=int(cache // state)
        if (state := float(np.atleast_1d(model.state_tokens)[0]) * per_token)
        else None,
    )
    typical = fitting(asked.input + asked.output * setup.serving.held_share)
    return memory, RequestsThatFit(
        typical=max(typical, whole), whole=whole, longest=fitting(setup.architecture.max_sequence)
    )


def _replica(setup: ReplicaSetup, release: str | None, bound: str = "value") -> ReplicaMemory:
    """Return the memory of one GPU with a release of the engine and a bound of what is not known of it."""
    asked = setup.asked
    start = EngineStart(release, asked.use, asked.memory_share, asked.vram_headroom or 0.0, bound)
    engine, known = setup.served.engine, setup.coefficients
    return replica_memory(setup.serving, setup.architecture, setup.gpu, engine, asked.input, known, start)


def _cache_range(setup: ReplicaSetup, cache: float, per_token: float) -> Spread:
    """Return the tokens of the cache: at least with the most that the engine may take besides, at most with the least.

    A release that is not given may be any of those that are known.
    """
    engine, given = setup.served.engine, setup.asked.engine_release
    releases = [given] if given else [None, *(row.version for row in engine.releases)]
    low, high = (
        choose(_replica(setup, release, bound).cache for release in releases)
        for choose, bound in ((min, "high"), (max, "low"))
    )
    return Spread(expected=cache // per_token, low=low // per_token, high=high // per_token)


def _in_flight(setup: ReplicaSetup, fits: RequestsThatFit) -> tuple[int, str]:
    """Return the sequences in flight and what holds their number."""
    most = setup.served.engine.limits_on(setup.gpu).sequences
    limits = [(fits.typical, "memory"), (most, f"default of {setup.served.engine.label}")]
    if setup.asked.concurrency is not None:
        limits[1:] = [(setup.asked.concurrency, "--concurrency")]
    if setup.asked.requests is not None:
        limits.append((setup.asked.requests, "--requests"))
    return min(limits, key=lambda limit: limit[0])


def _first_token(setup: ReplicaSetup, flight: int) -> float:
    asked, model, hardware, stack = setup.asked, setup.model, setup.hardware, setup.stack
    computed = max(setup.computed, 1)
    alone = prefill_seconds(model, hardware, stack, computed, asked.prefix)
    context = mean_seen_tokens(model, asked.input, asked.output)
    step = decode_step_seconds(model, hardware, stack, flight, context)
    added = prompt_seconds(model, hardware, computed, asked.prefix)
    return float(first_token_seconds(stack, alone, step, added, flight - 1)[0])


def _prices(setup: ReplicaSetup, flight: int, cycle: float, library: Library) -> TokenPrices | None:
    """Return dollars per million tokens: the GPU-seconds of prefill and of decode, each by its tokens."""
    asked = setup.asked
    price: tuple[float, str] | None = None
    if asked.usd_per_gpu_hour is not None:
        price = asked.usd_per_gpu_hour, "--usd-per-gpu-hour"
    elif rented := least_usd_per_gpu_hour(setup.gpu.name, library):
        price = rented[0], f"least on demand in the shipped market: {rented[1]}"
    if price is None:
        return None
    usd_per_second = price[0] / HOUR * asked.gpus  # dollars per second of the replica
    taken_in = prompt_seconds(setup.model, setup.hardware, setup.computed, asked.prefix) + setup.stack.request_seconds
    prefill = float(np.atleast_1d(taken_in)[0]) / setup.served.pipeline
    whole = cycle / flight
    return TokenPrices(
        usd_per_gpu_hour=price[0],
        basis=price[1],
        usd_per_million_input_tokens=usd_per_second * prefill / asked.input * MEGA if asked.input else None,
        usd_per_million_output_tokens=usd_per_second * max(whole - prefill, 0.0) / asked.output * MEGA,
        usd_per_thousand_requests=1000.0 * usd_per_second * whole,
    )


def _priors_of(setup: ReplicaSetup) -> list[str]:
    """Return what no published measurement informs: engine, GPU, format."""
    served = setup.served
    return list(prior_parts(setup.coefficients, served.name, served.engine.label, setup.gpu.name, served.format_name))


def _notes(
    setup: ReplicaSetup, prior: list[str], memory: ServingMemory, fits: RequestsThatFit, flight: int
) -> tuple[str, ...]:
    asked, served = setup.asked, setup.served
    notes = attention_stand_ins(parts_of_card(setup.architecture))
    if images := _images_of(asked, setup.architecture):
        notes.append(images.described)
    elif setup.architecture.tower:
        notes.append("the image tower lies on the GPU; prompts have no image: give --image-size")
    notes += [f"no published measurements inform {', '.join(prior)}: its speed is a prior"] if prior else []
    most, states = served.engine.limits_on(setup.gpu).sequences, memory.state_sequences
    if states is not None and states < most:
        states_fit = f"the state of linear attention of {states:,} sequences fits"
        notes.append(
            f"{states_fit}: {served.engine.label} does not start with its default of {most:,}, give it at most that"
        )
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
