"""Generation in plain floats: speed and memory of one replica, request by request, and what it may name."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND
from planner.estimates import latency
from planner.estimates.generation import (
    CHUNK_TOKENS,
    activation_bytes,
    blocks_of,
    cycle_seconds,
    decode_step_seconds,
    kv_bytes_per_token,
    mean_seen_tokens,
    prefill_seconds,
    prompt_seconds,
    seen_tokens,
    time_shares,
)
from planner.estimates.memory_fit import fit_probability
from planner.estimates.stage_seconds import load_seconds
from planner.estimates.uncertainty import UNKNOWN_FRAMEWORK, Sigmas, class_sigmas, memory_spread, tail_of_68_percent
from planner.estimates.weights import lora_parameters
from planner.evaluation.comparison import Broken
from planner.evaluation.evaluated_physics import RunContext, Workload
from planner.generation.engine_recipes import ServingColumns, coefficient_factors, serving_of, supports
from planner.library.engines import Engine, WeightFormat, hosted_name, read_engines
from planner.library.reading import servable_formats
from planner.library.schema import GpuSpec
from planner.results.fleet import ApiPrice, BulkGeneration
from planner.results.plan_parts import BillItem, Vram
from planner.scenario.inference_job import InferenceJob
from planner.scenario.job import ServedRun
from planner.scenario.offer import Managed, Offer
from planner.scenario.scenario import Scenario
from planner.units import GB, GIB, HOUR, MEGA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


# A job of generation in plain floats: speed and memory of one replica, request by request, and its stages.


_PROMPTS_AT_ONCE = 64  # that one pass takes in


@dataclass(frozen=True)
class Replica:
    """One replica as the plan names it: engine, format, GPUs; one request length after the other."""

    context: RunContext
    job: InferenceJob

    @cached_property
    def together(self) -> int:
        """GPUs that hold the model together."""
        return self.context.recipe.tensor_parallel * self.context.recipe.pipeline_parallel

    @cached_property
    def kv_bits(self) -> int:
        """Bits of a value in the cache, as the plan names them."""
        return self.context.named.kv_bits or 16

    @cached_property
    def serving(self) -> Any:
        """What is known of the configuration."""
        recipe = self.context.recipe
        plain = serving_of(
            self.context.architecture, self.context.gpu, self.context.library, engine=recipe.framework,
            weights=recipe.quant, kv_bits=self.kv_bits, division=(recipe.tensor_parallel, recipe.pipeline_parallel),
        )  # fmt: skip
        return replace(next_to_adapters(plain, self.context, self.job), image_flop=self.tower_flop)

    @cached_property
    def tower_flop(self) -> float:
        """FLOP of the tower for the images of a prompt: of each patch with all weights, and with those of its tile."""
        tower, images = self.context.architecture.tower, self.job.work.image_input
        if tower is None or images is None:
            return 0.0
        view = tower.view(*images.edges, images.limits)
        seen = 4.0 * tower.layers * tower.hidden * view.patches
        return images.count * view.all_patches * (2.0 * tower.matrices + seen)

    @cached_property
    def inputs(self) -> Any:
        """Model, hardware and stack of the formulas."""
        values = self.context.values("inference")
        return ServingColumns([self.serving]).inputs(coefficient_factors([self.serving], values))

    @cached_property
    def factor(self) -> float:
        """Speed of the engine on the GPU as the job measured it, over its estimate; 1 where it did not."""
        return measured_factor(self.context, self.job)

    @cached_property
    def measured(self) -> bool:
        """Whether the job has a run of this engine and GPU in these formats."""
        here = self.context.recipe.framework, self.context.gpu.name, self.context.recipe.quant, self.kv_bits
        return here in {(run.engine, run.gpu, run.weight_format, run.kv_bits) for run in self.job.measured}

    @cached_property
    def priors(self) -> tuple[str, ...]:
        """What no published measurement informs: engine, GPU, format, adapters; nothing where the job has a run."""
        if self.measured:
            return ()
        recipe, table, gpu = self.context.recipe, read_engines(), self.context.gpu.name
        known = self.context.library.calibrations["inference"].coefficients
        keys = {
            f"engine {table.engines[recipe.framework].label}": f"spread.{recipe.framework}",
            f"GPU {gpu}": f"memory.{gpu}",
            f"format {recipe.quant}": f"reading.{table.fitted_as(recipe.quant)}",
        }
        coefficients = {words: known.get(key) for words, key in keys.items()}
        priors = tuple(words for words, entry in coefficients.items() if entry is None or entry.basis != "measured")
        serves_adapters = self.job.adapter is not None and self.job.adapter.served is not None
        return (*priors, "served adapters") if serves_adapters else priors

    @cached_property
    def sigmas(self) -> Sigmas:
        """Spread of the logarithm of its speed."""
        if self.measured:
            return class_sigmas(self.context.values("uncertainty"), "observed")
        values = self.context.values("inference")
        own = values.get(f"spread.{self.context.recipe.framework}", values.get("spread", 0.4))
        sigma = math.hypot(own, values.get("spread.prior", 0.2) if self.priors else 0.0)
        return Sigmas(sigma, float(tail_of_68_percent(sigma)))

    def cycle(self, flight: float) -> float:
        """Return the mean seconds of a request with so many in flight: that of each length, weighted."""
        work = self.job.work
        seconds = (requests.count * self._cycle_of(requests, flight) for requests in work.classes)
        return math.fsum(seconds) / work.total_requests

    def _cycle_of(self, lengths: Any, flight: float) -> float:
        prefix = self.job.work.prefix_tokens
        prompt, (model, hardware, stack) = lengths.input_tokens - prefix, self.inputs
        cycle = cycle_seconds(model, hardware, stack, flight, prompt, lengths.output_tokens, float(prefix))
        return float(cycle[0]) / self.factor

    def mean_over_seats(self, figure: Any) -> float:
        """Return the mean of a figure over the places in flight: a request holds one as long as its answer."""
        classes, whole = self.job.work.classes, self.job.work.total_output_tokens
        return math.fsum(
            requests.count * requests.output_tokens / whole * float(figure(requests)) for requests in classes
        )

    @cached_property
    def memory(self) -> dict[str, float]:
        """Bytes on one GPU: what the engine may use, weights, activations, its own, and the cache that is left."""
        a, library, recipe = self.context.architecture, self.context.library, self.context.recipe
        engine, headroom = read_engines().engines[recipe.framework], self.context.scenario.limits.vram_headroom
        weights = float(self.serving.model.stored_weights) * self.serving.weight_bytes / self.together
        width = a.ffn * max(1, a.experts_per_token) if a.experts else a.ffn
        widest = (3 if a.gated else 2) * width
        prompt = max(requests.input_tokens for requests in self.job.work.classes)
        limits, graphs = engine.limits_on(self.context.gpu), 0.0
        if not engine.releases:
            tokens, kind = min(CHUNK_TOKENS, prompt * min(limits.sequences, _PROMPTS_AT_ONCE)), ""
            active = activation_bytes(a.hidden, widest, tokens, a.vocab, limits.sequences, recipe.tensor_parallel)
        else:  # the engine tries a whole step, and then samples for all sequences
            kind = ".profiled" if self.together == 1 else ".profiled-shared"
            step = activation_bytes(a.hidden, widest, limits.server, 0.0, 0.0, recipe.tensor_parallel)
            step, logits = float(step), limits.sequences * a.vocab
            if tower := a.tower:  # and the largest image before, whose result it keeps
                kept = max(limits.server, tower.most_patches / tower.patches_per_token) * tower.outputs
                step += 2.0 * a.hidden * kept
                wide = (3 if tower.gated else 2) * tower.ffn / recipe.tensor_parallel
                step = max(step, tower.most_patches * (4.0 * tower.hidden + wide) * 2.0)
            starts = [(max(step, logits * row.logit_bytes), row.graph_gib * GIB) for row in engine.releases]
            active, graphs = max(starts, key=math.fsum)
        overhead = library.calibrations["inference"].values.get(f"overhead_bytes{kind}", 0.0) + graphs
        active, share = float(active), min(engine.share, 1.0 - (headroom or 0.0))
        usable = engine.usable(self.context.gpu.usable_gib * GIB, share, weights, active + overhead)
        cache = max(0.0, usable - weights - active - overhead)
        return {"usable": usable, "weights": weights, "activations": active, "overhead": overhead, "cache": cache}

    @cached_property
    def most(self) -> int:
        """Requests in flight that the engine allows by itself."""
        return read_engines().engines[self.context.recipe.framework].limits_on(self.context.gpu).sequences

    @cached_property
    def token_bytes(self) -> float:
        """Bytes of a token in the cache of one GPU."""
        model, hardware, stack = self.inputs
        return float(kv_bytes_per_token(model, stack.kv_bytes, hardware.tensor, hardware.pipeline)[0])

    def blocks(self, tokens: float) -> float:
        """Return the tokens of the whole blocks that a context takes."""
        return float(blocks_of(seen_tokens(self.inputs[0], tokens))[0])

    @cached_property
    def seat_tokens(self) -> float:
        """Tokens of the cache that a request in flight takes in the mean: all of its answer where it is reserved."""
        held = 1.0 if read_engines().engines[self.context.recipe.framework].reserves else 0.5
        return self.mean_over_seats(lambda one: self.blocks(one.input_tokens + one.output_tokens * held))

    @cached_property
    def longest_tokens(self) -> float:
        """Tokens of the cache that the longest request takes at its end."""
        return max(self.blocks(requests.input_tokens + requests.output_tokens) for requests in self.job.work.classes)

    @cached_property
    def fitting(self) -> int:
        """Requests in flight that memory holds; 0 where the longest does not fit."""
        if self.memory["cache"] < self.longest_tokens * self.token_bytes:
            return 0
        return max(1, int(self.memory["cache"] / (self.seat_tokens * self.token_bytes)))

    @cached_property
    def run(self) -> tuple[float, int]:
        """Seconds until all requests are answered, and requests in flight."""
        replicas = self.context.machine.gpus / self.together
        requests = math.ceil(self.job.work.total_requests / replicas)
        flight = min(self.fitting, self.most, requests)
        full, rest = divmod(requests, flight)
        seconds = full * self.cycle(flight) + (self.cycle(rest) if rest else 0.0)
        alone = self._cycle_of(max(self.job.work.classes, key=lambda one: one.output_tokens), 1.0)
        return max(seconds, alone), flight

    @cached_property
    def fit_probability(self) -> float:
        """Chance that the longest request fits alone: weights are known, all else may be larger than estimated."""
        held = self.memory
        least = held["activations"] + held["overhead"] + self.longest_tokens * self.token_bytes
        sigma = memory_spread(self.context.values("memory"), UNKNOWN_FRAMEWORK, False).sigma
        headroom = self.context.scenario.limits.vram_headroom or 0.0
        room = self.context.gpu.usable_gib * GIB * (1.0 - headroom) - held["weights"]
        return float(fit_probability(room / least - 1.0, sigma))

    def vram(self) -> Vram:
        """Return the memory of one GPU with the requests in flight."""
        held, flight = self.memory, self.run[1]
        cache = min(held["cache"], max(flight * self.seat_tokens, self.longest_tokens) * self.token_bytes)
        parts = {name: held[name] / GIB for name in ("weights", "activations", "overhead")} | {"kv_cache": cache / GIB}
        return Vram(
            peak=math.fsum(parts.values()),
            allocated=math.fsum(parts.values()),
            usable=held["usable"] / GIB,
            fit_probability=self.fit_probability,
            phase="decode",
            parts=parts,
        )

    def _api_prices(self) -> tuple[ApiPrice, ...]:
        """Return what each service that answers with the model takes; from where machines pay is not known here."""
        trials = self.job.trials.count
        requests, prices = self.job.work.total_requests * trials, []
        for label, offer, price, usd in usd_by_the_token(self.job, self.context.offers):
            usd *= (1.0 - price.batch_discount) * trials
            prices.append(
                ApiPrice(
                    offer=label, usd=usd, usd_per_thousand_requests=usd / requests * 1e3,
                    hosts_tuned=price.hosts_tuned, pays_from_requests=None, source=offer.source,
                )
            )  # fmt: skip
        return tuple(sorted(prices, key=lambda one: (one.usd, one.offer)))

    def generation(self, bill: Sequence[BillItem]) -> BulkGeneration:
        """Return what a plan says of the job, whose bill is given."""
        usd = math.fsum(line.usd for line in bill)
        (model, hardware, stack), work, flight = self.inputs, self.job.work, self.run[1]
        recipe, requests, prefix = self.context.recipe, work.total_requests, float(work.prefix_tokens)
        priors = self.priors
        mean = work.total_input_tokens / requests
        taken_in = math.fsum(
            kind.count * float(prompt_seconds(model, hardware, kind.input_tokens - prefix, prefix)[0])
            for kind in work.classes
        ) / requests + float(stack.request_seconds[0])  # fmt: skip
        seen = self.mean_over_seats(lambda one: mean_seen_tokens(model, one.input_tokens, one.output_tokens)[0])
        step = decode_step_seconds(model, hardware, stack, flight, seen)
        alone = prefill_seconds(model, hardware, stack, max(mean - prefix, 1.0), prefix)
        first = float(latency.first_token_seconds(stack, alone, step, taken_in, flight - 1)[0]) / self.factor
        written = work.total_output_tokens / requests
        tpot = (self.cycle(flight) - first) / (written - 1.0) if written > 1 else 0.0
        shares = time_shares(model, hardware, stack, flight, seen, taken_in, written)
        usd_each, usd_in = usd / self.job.trials.count, shares["prompts"] * usd / self.job.trials.count
        fitting, rest = max(1, self.fitting), min(self.fitting, self.most)
        return BulkGeneration(
            engine=recipe.framework, weight_format=recipe.quant, kv_bits=self.kv_bits,
            replicas=self.context.machine.gpus // self.together, gpus_per_replica=self.together,
            requests=requests, input_tokens=mean, output_tokens=written, prefix_tokens=work.prefix_tokens,
            in_flight=flight, requests_that_fit=fitting,
            binds="requests" if flight < rest else "engine" if flight >= self.most else "memory",
            time_shares=shares,
            output_tokens_per_second=work.total_output_tokens / (self.run[0] / self.job.efficiency),
            ttft_seconds=first, tpot_seconds=tpot,
            usd_per_thousand_requests=usd_each / requests * 1e3,
            usd_per_million_input_tokens=usd_in / work.total_input_tokens * 1e6,
            usd_per_million_output_tokens=(usd_each - usd_in) / work.total_output_tokens * 1e6,
            evidence="measured" if self.measured else "prior" if priors else "fitted",
            api=self._api_prices(), priors=priors,
        )  # fmt: skip


@dataclass(frozen=True)
class EvaluatedReplicas:
    """What the engine takes on the offer's machines."""

    replica: Replica
    work: Workload
    step_seconds: float  # per request, over all replicas
    rate: float  # output tokens per second
    sigmas: Sigmas
    reported: dict[str, Any]

    @property
    def cycle_hours(self) -> float:
        """Hours of a request among those in flight."""
        steps = math.ceil(self.work.steps / (self.replica.context.machine.gpus / self.replica.together))
        return self.work.steps * self.step_seconds / HOUR / max(1.0, steps / self.replica.run[1])


def evaluate_replicas(context: RunContext, job: InferenceJob) -> EvaluatedReplicas:
    """Return speed and memory of the configuration that the plan names."""
    replica, work = Replica(context, job), job.work
    longest = max(requests.input_tokens + requests.output_tokens for requests in work.classes)
    requests, written = float(work.total_requests), float(work.total_output_tokens)
    mean = (work.total_input_tokens + work.total_output_tokens) / requests
    step = replica.run[0] / requests / job.efficiency
    return EvaluatedReplicas(
        replica,
        Workload(longest, float(longest), mean, mean, written, requests, 0.0, 0.0),
        step,
        written / (requests * step),
        replica.sigmas,
        {"fed_by_storage": False, "vram_gib": replica.vram(), "speed_factor": 1.0, "memory_factor": 1.0},
    )


def usd_by_the_token(job: InferenceJob, offers: Mapping[str, Offer]) -> Iterator[tuple[str, Offer, Managed, float]]:
    """Yield each offer that answers with the model by the token: label, prices, dollars of all requests of the job."""
    work, name = job.work, hosted_name(job.architecture)
    for label, offer in offers.items():
        price = offer.managed
        if price is not None and price.answers and name in price.architectures:
            tokens_in = work.total_input_tokens * (price.usd_per_million_input_tokens or 0.0)
            tokens_out = work.total_output_tokens * (price.usd_per_million_output_tokens or 0.0)
            yield label, offer, price, (tokens_in + tokens_out) / MEGA


def next_to_adapters(plain: Any, context: RunContext, job: InferenceJob) -> Any:
    """Return a configuration with the adapters that the job serves."""
    adapter = job.adapter
    if adapter is None or adapter.served is None:
        return plain
    # Every adapter lies in memory in 16 bits and is read in each step; a token meets one of them.
    weights = float(lora_parameters(context.network, adapter.rank, adapter.targets).trainable)
    more, met = adapter.served * weights * 2.0 / plain.weight_bytes, plain.model.met_weights + weights
    stored, dense = plain.model.stored_weights + more, plain.model.dense_weights + more
    return replace(plain, model=replace(plain.model, stored_weights=stored, dense_weights=dense, met_weights=met))


def measured_factor(context: RunContext, job: InferenceJob) -> float:
    """Return measured over estimated speed of the plan's engine on its GPU: the geometric mean; 1 without runs."""
    here = context.recipe.framework, context.gpu.name
    logs = [
        math.log(run.output_tokens_per_second / measured_rate(run, context, job))
        for run in job.measured
        if (run.engine, run.gpu) == here
    ]
    return math.exp(math.fsum(logs) / len(logs)) if logs else 1.0


def measured_rate(run: ServedRun, context: RunContext, job: InferenceJob) -> float:
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
        return float(cycle_seconds(model, hardware, stack, flight, own, run.output_tokens, prefix)[0])

    if run.requests is None:
        return run.in_flight * run.output_tokens / cycle(run.in_flight)
    flight = min(run.in_flight, run.requests)
    rounds, rest = divmod(run.requests, flight)
    return run.requests * run.output_tokens / (rounds * cycle(flight) + (cycle(rest) if rest else 0.0))


_IMAGE_GB = 10.0  # disk that a container image takes
_BYTES_PER_TOKEN = 4.0  # of an answer as text


# Evaluation by generation, evaluated a second time: replicas that answer test prompts on the machines of the plan.


def answering_seconds(context: RunContext, offer: Offer, instances: int, forms: tuple[str, ...]) -> float | None:
    """Return the seconds of one run's prompts on machines of an offer; None where no division holds the weights.

    Replicas of as few GPUs as hold the model in the first of the formats that any holds.
    """
    wanted = context.job.stages.evaluation
    assert wanted is not None
    names = ("requests", "input_tokens", "output_tokens")
    job = InferenceJob.model_validate(
        {
            "name": context.job.name, "kind": "inference", "architecture": context.job.architecture,
            "work": {name: getattr(wanted, name) for name in names},
        }
    )  # fmt: skip
    engines, card = read_engines().engines, context.library.gpu(offer.card)
    engine = "vllm" if supports(engines["vllm"], card) else "hf"
    degree, last = 1, None
    degrees = []
    while degree <= min(offer.gpus, 64 if engines[engine].tensor else 1):
        degrees += [degree] if offer.gpus % degree == 0 and context.architecture.split_fault(degree) is None else []
        degree *= 2
    for form in forms:
        for tensor in degrees or [1]:
            used = {"framework": engine, "quant": form, "weight_bits": read_engines().formats[form].bits}
            used |= {"tensor_parallel": tensor, "pipeline_parallel": 1}
            named = context.named.techniques.model_copy(update=used)
            run = replace(context.named, techniques=named, kv_bits=None, instances=instances)
            last = Replica(replace(context, named=run, job=job, offer=offer, scenario=_unlimited(context)), job)
            if last.fitting:
                return float(last.run[0])
    if len(forms) == 1 or last is None:
        return None
    alone = last.cycle(1.0)  # one prompt after the other, as from host memory
    requests = -(-job.work.total_requests // (instances * offer.gpus // last.together))
    return requests * alone


def _unlimited(context: RunContext) -> Scenario:
    """Return the scenario without a share of memory that stays free: it is a limit of training."""
    limits = context.scenario.limits.model_copy(update={"vram_headroom": None})
    return context.scenario.model_copy(update={"limits": limits})


def hours_on_machine(context: RunContext) -> float:
    """Return the hours on the training machines: loading and compiling the trained weights, then the answers."""
    job, coefficients = context.job, context.stages
    disk = job.storage_gb_per_second * GB * job.load_efficiency / coefficients.disk_efficiency
    size, slot = context.architecture.download_gb * GB, PCIE_BYTES_PER_SECOND[context.gpu.pcie_gen]
    loading = float(load_seconds(size, 1, disk, slot, coefficients, 0, 1))
    answering = answering_seconds(context, context.offer, context.machine.instances, ("bf16", "nf4")) or 0.0
    return (loading + answering) / HOUR


_BY_THEMSELVES = ("vllm", "sglang", "trt-llm")  # engines that a job may use without naming them
_WITHOUT_ADAPTERS = ("gpt-fast", "autoawq")  # that serve no adapters next to the weights
_CDNA3_CAPABILITY = 9.0  # AMD's CDNA3 has what Hopper has


def choices_of_replicas(context: RunContext, job: InferenceJob) -> Iterator[Broken]:
    """Yield what the plan names of engine, formats and GPUs, and may not."""
    table, recipe, asked = read_engines(), context.recipe, job.techniques
    engine, form = table.engines.get(recipe.framework), table.formats.get(recipe.quant)
    if engine is None or form is None or recipe.framework not in (asked.engine or _BY_THEMSELVES):
        yield "engine", "an engine and a format that the job allows", recipe.framework
        return
    if job.adapter is not None and job.adapter.served is not None and recipe.framework in _WITHOUT_ADAPTERS:
        yield "engine", "one that serves adapters", recipe.framework
    yield from _formats(context, job, engine, form)
    yield from _division(context, job, engine)
    longest = max(requests.input_tokens + requests.output_tokens for requests in job.work.classes)
    if longest > context.architecture.max_sequence:
        yield "context", f"at most {context.architecture.max_sequence}", longest


def gpu_capability(gpu: GpuSpec) -> float:
    """Return the compute capability of a GPU; those of AMD count as CDNA3."""
    try:
        return float(gpu.compute_capability)
    except ValueError:
        return _CDNA3_CAPABILITY


def _formats(context: RunContext, job: InferenceJob, engine: Engine, form: WeightFormat) -> Iterator[Broken]:
    """Yield formats that the job does not allow, the engine does not load or the GPU does not compute."""
    gpu, recipe, asked, kv_bits = context.gpu, context.recipe, job.techniques, context.named.kv_bits
    capability = gpu_capability(gpu)
    if gpu.vendor not in engine.vendors or capability < max(engine.capability, form.capability):
        yield "engine on the GPU", f"{engine.capability} or newer", gpu.name
    if form.bits == 16 and not gpu.bf16 and gpu.tensor16_tflops is None:
        yield "weight_format", "one that the GPU computes", recipe.quant
    if recipe.quant not in servable_formats(engine, context.architecture) or recipe.weight_bits != form.bits:
        yield "weight_format", "one that the engine loads and the model exists in", recipe.quant
    if form.bits not in asked.weight_bits or (asked.weight_format and recipe.quant not in asked.weight_format):
        yield "weight_bits", " or ".join(map(str, asked.weight_bits)), form.bits
    if kv_bits not in asked.kv_bits or kv_bits not in engine.kv_bits:
        yield "kv_bits", " or ".join(map(str, asked.kv_bits)), kv_bits


def _division(context: RunContext, job: InferenceJob, engine: Engine) -> Iterator[Broken]:
    """Yield machines that do not divide into replicas as the engine and the job allow."""
    recipe, plan, asked = context.recipe, context.named, job.techniques
    together = recipe.tensor_parallel * recipe.pipeline_parallel
    unused = recipe.pipeline_parallel if engine.tensor else recipe.tensor_parallel
    if together < 1 or plan.gpus_per_instance % together or unused != 1:
        yield "GPUs per replica", f"a divisor of {plan.gpus_per_instance}", together
    fault = context.architecture.split_fault(together) if engine.tensor else None
    if fault is not None:
        yield "GPUs per replica", "a number that the layers divide by", fault
    if asked.tensor_parallel and together not in asked.tensor_parallel:
        yield "tensor_parallel", " or ".join(map(str, asked.tensor_parallel)), together
    if plan.instances < 1:
        yield "instances", "at least 1", plan.instances
