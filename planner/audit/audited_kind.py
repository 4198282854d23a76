"""One kind of machine of a fleet in plain floats, and what a plan of generation names and may not."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planner import generation
from planner.audit.audited_replica import ServiceReplica
from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND
from planner.estimates import generation as kv_cache
from planner.estimates.generation import CHUNK_TOKENS, activation_bytes
from planner.estimates.memory.memory_fit import fit_probability
from planner.estimates.preemption import NodeGroupCoefficients, node_group_market
from planner.estimates.time.stage_seconds import StageCoefficients, boot_seconds, load_seconds, transfer_seconds
from planner.estimates.uncertainty import UNKNOWN_FRAMEWORK, memory_spread
from planner.evaluation.comparison import Broken
from planner.evaluation.named_run import RunContext
from planner.library.engines import Engine, WeightFormat, read_engines
from planner.library.model_ladder import servable_formats
from planner.library.schema import GpuSpec, Library
from planner.records import record
from planner.results.fleet import FleetKind
from planner.scenario.fees import fee_rate
from planner.scenario.inference_job import InferenceJob
from planner.scenario.offer import Offer
from planner.scenario.scenario import Scenario
from planner.scenario.service_load import ServeJob
from planner.spot.market.states import Ages, SpotStates
from planner.spot.market.zones import any_zone_availability
from planner.units import GB, GIB, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator


# What a plan of generation names and may not: engine, formats, GPUs of a replica, and the context.


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
    longest = max(one.input_tokens + one.output_tokens for one in job.work.classes)
    if longest > context.architecture.max_sequence:
        yield "context", f"at most {context.architecture.max_sequence}", longest


def engine_faults(job: InferenceJob, name: str) -> Iterator[Broken]:
    """Yield an engine that the job does not allow, or that serves no adapters where it has some."""
    if name not in (job.techniques.engine or _BY_THEMSELVES):
        yield "engine", "one that the job allows", name
    if job.adapter is not None and job.adapter.served is not None and name in _WITHOUT_ADAPTERS:
        yield "engine", "one that serves adapters", name


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


CLOSE = 1e-6
"""Relative difference of two figures that are the same."""
CAPACITY_ROOM = 1e-4
"""Share below and above a capacity at which every limit holds, and one breaks."""
_PROMPTS_AT_ONCE = 64  # that one pass takes in


@record(frozen=True)
class AuditedKind:
    """One kind of a fleet with what is behind its names."""

    named: FleetKind
    offer: Offer
    job: ServeJob
    scenario: Scenario
    library: Library

    @cached_property
    def replica(self) -> ServiceReplica:
        """Speed of one replica, and the latency of its requests."""
        named, library = self.named, self.library
        return ServiceReplica(named, self.job, self.serving, library, self.gpu.name, self.memory["cache"], self.faster)

    @cached_property
    def gpu(self) -> GpuSpec:
        """GPU of the offer."""
        return self.library.gpu(self.offer.card)

    @cached_property
    def division(self) -> tuple[int, int]:
        """GPUs that share each layer, and groups among which the layers are divided."""
        return self.named.gpus_per_replica // self.named.pipeline_parallel, self.named.pipeline_parallel

    @cached_property
    def serving(self) -> generation.Serving:
        """What is known of the configuration, adapters among it."""
        context = self._context
        plain = generation.serving_of(
            context.architecture, self.gpu, self.library, engine=self.named.engine, weights=self.named.weight_format,
            kv_bits=self.named.kv_bits, division=self.division,
        )  # fmt: skip
        found: generation.Serving = generation.next_to_adapters(plain, context, self.job)
        return found

    @cached_property
    def _context(self) -> RunContext:
        """What the audit of measured runs reads; a service has no assignment."""
        architecture = self.library.architecture(self.job.architecture)
        none: Any = None
        return RunContext(none, self.job, self.scenario, architecture, self.offer, {}, self.library)

    @cached_property
    def faster(self) -> float:
        """Measured over estimated speed of the engine on the GPU; 1 without runs."""
        logs = [
            math.log(run.output_tokens_per_second / generation.measured_rate(run, self._context, self.job))
            for run in self.job.measured
            if (run.engine, run.gpu) == (self.named.engine, self.gpu.name)
        ]
        return math.exp(math.fsum(logs) / len(logs)) if logs else 1.0

    @cached_property
    def memory(self) -> dict[str, float]:
        """Bytes on one GPU: all that the engine may use, weights, the rest without the cache, and the cache."""
        a, values = self._context.architecture, self.library.calibrations["inference"].values
        engine, headroom = read_engines().engines[self.named.engine], self.scenario.limits.vram_headroom
        usable = self.gpu.usable_gib * GIB * min(engine.share, 1.0 - (headroom or 0.0))
        weights = float(self.serving.model.stored_weights) * self.serving.weight_bytes / self.named.gpus_per_replica
        width = a.ffn * max(1, a.experts_per_token) if a.experts else a.ffn
        prompt = max(one.input_tokens for one in self.job.work.classes)
        tokens = min(CHUNK_TOKENS, prompt * min(engine.sequences, _PROMPTS_AT_ONCE))
        matrices = 3 if a.gated else 2
        active = float(
            activation_bytes(a.hidden, matrices * width, tokens, a.vocab, engine.sequences, self.division[0])
        )
        rest = active + values.get("overhead_bytes", 0.0)
        return {"weights": weights, "rest": rest, "cache": max(0.0, usable - weights - rest)}

    @cached_property
    def fit(self) -> float:
        """Chance that the longest request fits; 0 where it does not by the estimate."""
        ends = max(one.input_tokens + one.output_tokens for one in self.job.work.classes)
        tokens = float(kv_cache.blocks_of(kv_cache.seen_tokens(self.replica.inputs[0], ends))[0])
        longest = tokens * self.replica.token_bytes
        if self.memory["cache"] < longest:
            return 0.0
        sigma = memory_spread(self.library.calibrations["memory"].values, UNKNOWN_FRAMEWORK, False).sigma
        headroom = self.scenario.limits.vram_headroom or 0.0
        room = self.gpu.usable_gib * GIB * (1.0 - headroom) - self.memory["weights"]
        return float(fit_probability(room / (self.memory["rest"] + longest) - 1.0, sigma))

    @property
    def answering(self) -> float:
        """Share of the time that the machine is there and has started since it came."""
        return self.market[0] * math.exp(-self.start_hours / self.market[1])

    @cached_property
    def market(self) -> tuple[float, float]:
        """Share of the time that the machine is there, and hours between its losses."""
        if self.named.market != "spot":
            return 1.0, math.inf
        stages, told = self.library.calibrations["stages"], self.offer.spot
        share, up = stages.value("spot_availability"), stages.value("spot_mean_up_hours")
        if told is None and self.gpu.chip is not None:  # any host of a slice that is lost takes all with it
            hosts = self.gpu.chip.hosts_of(self.offer.gpus)
            group = node_group_market(up, share, hosts, NodeGroupCoefficients.of(stages.values))
            share, up = float(group.availability), float(group.mean_up)
        if told is not None:
            share, up = told.availability, told.mean_up_hours
            if told.instances > 1:
                coefficients = NodeGroupCoefficients.of(stages.values)
                one = node_group_market(up, share, 1 / told.instances, coefficients)
                share, up = min(1.0, float(one.availability)), float(one.mean_up)
            elif told.up is not None and told.outage is not None:
                up_times, outages = (Ages(each.ages_hours, each.ends_per_hour) for each in (told.up, told.outage))
                share = SpotStates(up_times, outages, told.another_zone).availability()
        exponent = self.library.calibrations["spot"].values["zone_exponent"]
        zones = max(1, len(self.offer.zones))
        return (share if zones == 1 else any_zone_availability(share, zones, exponent)), up

    @cached_property
    def start_hours(self) -> float:
        """Hours from ordering a machine to its first answer."""
        job, offer, library = self.job, self.offer, self.library
        if job.cold_start_hours is not None:
            return job.cold_start_hours
        values = library.calibrations["stages"].values
        stages, told = StageCoefficients.of(values), offer.download_gb_per_second
        key = "community_pull_bytes_per_second" if offer.community else "pull_bytes_per_second"
        pull = values[key] if told is None else told * GB
        size = library.architecture(job.architecture).release_gb * GB
        disk = job.storage_gb_per_second * GB / stages.disk_efficiency * job.load_efficiency
        slot = PCIE_BYTES_PER_SECOND[library.gpu(offer.card).pcie_gen]
        loaded = load_seconds(size, self.named.gpus_per_replica, disk, slot, stages, 0, 1)
        return float(boot_seconds(pull, stages) + transfer_seconds(size, pull) + loaded) / HOUR

    @cached_property
    def price(self) -> tuple[float, float]:
        """Dollars of an hour, and of a start."""
        offer, named = self.offer, self.named
        fees = fee_rate(offer.fees, "machine hours") or 0.0
        if named.market == "committed":
            terms = math.ceil(self.job.for_hours / offer.term_hours) if offer.term_hours else math.nan
            return offer.committed_usd * terms / self.job.for_hours + fees, 0.0
        if named.market == "spot":
            share, up = self.market
            usd = (offer.spot_usd_per_hour or math.nan) + fees
            return usd * share * (1.0 + self.start_hours / up), usd * self.billed_hours[1]
        usd = math.nan if offer.usd_per_hour is None else offer.usd_per_hour + fees
        return usd, usd * self.billed_hours[1]

    @cached_property
    def billed_hours(self) -> tuple[float, float]:
        """Hours billed in an hour for which a machine is wanted, and for a start."""
        if self.named.market == "committed":
            return 1.0, 0.0
        share, up = self.market
        started = self.start_hours + max(0.0, self.offer.billing.minimum_hours - 1.0)
        return (share * (1.0 + self.start_hours / up) if self.named.market == "spot" else 1.0), started

    def broken(self, hours: int) -> Iterator[Broken]:
        """Yield what the scenario does not allow, and figures that are not those of the kind."""
        named, offer, limits = self.named, self.offer, self.scenario.limits
        place = f"fleet.{named.offer}"
        if not limits.permits(offer) or limits.is_outdated(offer):
            yield place, "an offer that the limits allow", offer.label
        if (named.market == "committed") != (offer.commitment is not None):
            yield f"{place}.market", "committed where the offer is a commitment", named.market
        if named.market == "committed" and len(set(named.by_hour)) > 1:
            yield f"{place}.by_hour", "the same number in every hour", "several"
        if len(named.by_hour) != hours or min(named.by_hour, default=0) < 0:
            yield f"{place}.by_hour", f"{hours} numbers of at least 0", len(named.by_hour)
        if named.gpus_per_replica < 1 or offer.gpus % named.gpus_per_replica:
            yield f"{place}.gpus_per_replica", f"a divisor of {offer.gpus}", named.gpus_per_replica
            return
        yield from self._choices(place)
        yield from self._figures(place)

    def _choices(self, place: str) -> Iterator[Broken]:
        """Yield an engine, format or memory that the job does not allow."""
        named, job = self.named, self.job
        table, asked = read_engines(), job.techniques
        engine, form = table.engines.get(named.engine), table.formats.get(named.weight_format)
        if engine is None or form is None:
            yield f"{place}.engine", "an engine and a format that are known", f"{named.engine} {named.weight_format}"
            return
        yield from ((f"{place}.{what}", wanted, found) for what, wanted, found in engine_faults(job, named.engine))
        capability = gpu_capability(self.gpu)
        if self.gpu.vendor not in engine.vendors or capability < max(engine.capability, form.capability):
            yield f"{place}.engine on the GPU", f"{engine.capability} or newer", self.gpu.name
        if form.bits == 16 and not self.gpu.bf16 and self.gpu.tensor16_tflops is None:
            yield f"{place}.weight_format", "one that the GPU computes", named.weight_format
        if named.weight_format not in servable_formats(engine, self._context.architecture) or (
            asked.weight_format is not None and named.weight_format not in asked.weight_format
        ):
            yield f"{place}.weight_format", "one that the engine loads and the job allows", named.weight_format
        if named.weight_bits != form.bits or form.bits not in asked.weight_bits:
            yield f"{place}.weight_bits", form.bits, named.weight_bits
        if named.kv_bits not in asked.kv_bits or named.kv_bits not in engine.kv_bits:
            yield f"{place}.kv_bits", " or ".join(map(str, asked.kv_bits)), named.kv_bits
        yield from self._division(place, engine.tensor)
        if self.fit <= 0.0 or (self.fit < job.memory_confidence and self.scenario.limits.vram_headroom is None):
            yield f"{place}.memory", job.memory_confidence, self.fit

    def _division(self, place: str, shares_layers: bool) -> Iterator[Broken]:
        """Yield GPUs that the engine or the job does not divide a replica among."""
        named, asked = self.named, self.job.techniques.tensor_parallel
        tensor, pipeline = self.division
        if tensor * pipeline != named.gpus_per_replica or (pipeline if shares_layers else tensor) != 1:
            yield f"{place}.pipeline_parallel", "a division that the engine knows", pipeline
        fault = self._context.architecture.split_fault(tensor) if shares_layers else None
        if fault is not None:
            yield f"{place}.gpus_per_replica", "a number that the layers divide by", fault
        if asked is not None and named.gpus_per_replica not in asked:
            yield f"{place}.gpus_per_replica", "one that the job allows", named.gpus_per_replica

    def _figures(self, place: str) -> Iterator[Broken]:
        """Yield figures that are not those of the kind."""
        named, offer = self.named, self.offer
        usd, start = self.price
        replicas = offer.gpus // named.gpus_per_replica
        yield from equal(f"{place}.replicas", replicas, named.replicas)
        yield from self._capacity(place, named.capacity / max(named.replicas, 1))
        yield from equal(f"{place}.usd_per_hour", usd, named.usd_per_hour)
        yield from equal(f"{place}.start_hours", self.start_hours, named.start_hours)
        yield from equal(f"{place}.start_usd", start, named.start_usd)
        yield from equal(f"{place}.availability", self.market[0], named.availability)
        committed = named.by_hour[0] if named.market == "committed" and named.by_hour else 0
        exact = (
            ("gpu", offer.card), ("gpus", offer.gpus), ("provider", offer.provider), ("region", offer.region),
            ("instance", offer.instance), ("committed", committed),
        )  # fmt: skip
        for name, value in exact:
            if getattr(named, name) != value:
                yield f"{place}.{name}", value, getattr(named, name)

    def _capacity(self, place: str, each: float) -> Iterator[Broken]:
        """Yield a capacity below which a limit breaks already, or above which all still hold, and what holds it."""
        if not each > 0:
            yield f"{place}.capacity", "more than 0", each
            return
        below, above = (
            self.replica.broken(self.rate_at(each * factor)) for factor in (1.0 - CAPACITY_ROOM, 1.0 + CAPACITY_ROOM)
        )
        if below:
            yield f"{place}.capacity", f"less: {', '.join(below)} breaks", each
        elif not above:
            yield f"{place}.capacity", "more: every limit holds", each
        elif self.named.binds not in above:
            yield f"{place}.binds", ", ".join(above), self.named.binds

    def rate_at(self, able: float) -> float:
        """Return the requests per second at a load in the unit of the job."""
        return able if self.job.load.concurrent is None else self.replica.rate(able)

    def pace(self) -> float:
        """Return the requests per second of a machine at its capacity, for each unit of it."""
        each = self.named.capacity / max(self.named.replicas, 1)
        return 1.0 if self.job.load.concurrent is None else self.replica.rate(each) / each


def equal(what: str, expected: float, found: float, room: float = CLOSE) -> Iterator[Broken]:
    """Yield a figure that is not the expected one."""
    if not abs(expected - found) <= room * max(abs(expected), abs(found)) + 1e-12:
        yield what, expected, found
