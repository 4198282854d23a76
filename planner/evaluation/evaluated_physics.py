"""A named run in plain floats: what its names mean, its speed and its memory.

Job, offer, card, recipe and machines are looked up once; from them follow work, seconds per step, bytes on one GPU and
their spread.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.configurations.coefficients import MIN_MEMORY_SAVING, efficiency_of, hardware_numbers, recipe_coefficients
from planner.configurations.compared_runs import (
    KINDS,
    ComparedRun,
    Correction,
    MemoryCorrection,
    job_of_run,
    learn_correction,
    memory_setting,
)
from planner.configurations.grid import network_of, with_tower
from planner.configurations.recipe import (
    GpuClass,
    Machine,
    Recipe,
    find_incompatibility,
    framework_of,
    length_spread,
    mean_tokens,
    sequence_of,
)
from planner.estimates.device import TimeCoefficients
from planner.estimates.inputs import Layout, Network, Stack, TimedSetup
from planner.estimates.memory_fit import PHASES, MemoryEstimate, estimate_memory, host_bytes, memory_lines, with_paging
from planner.estimates.memory_terms import MemoryCoefficients, with_host_room
from planner.estimates.stage_seconds import StageCoefficients, fed_step_seconds
from planner.estimates.step_time import step_time
from planner.estimates.uncertainty import (
    MemorySpread,
    Sigmas,
    class_sigmas,
    efficiency_sigma,
    log_speed_correction,
    memory_spread,
    student_2_deviations,
    time_sigmas,
)
from planner.estimates.work import (
    PACKED_FILL,
    VARIABLE,
    TrialWork,
    kept_length,
    longest_length,
    processed_length,
    step_count,
    trial_work,
)
from planner.evaluation.comparison import Violation
from planner.library.names import typical_ram_gb
from planner.library.schema import Architecture, GpuSpec, Library
from planner.library.technique_tables import FrameworkProfile
from planner.results.plan import Assignment
from planner.results.plan_parts import HostMemory, ObservedRun, Pause, SpotPlan, Techniques, Vram
from planner.scenario.job import Job, Measured
from planner.scenario.offer import Offer, usd_above_term
from planner.scenario.scenario import Scenario, token_sigma
from planner.spot.drawn_runs import PolicyCosts
from planner.spot.policy_cache import PolicyCache
from planner.spot.run import SpotRun
from planner.spot.states import SpotStates
from planner.spot.switching_policy import WaitingRule
from planner.units import GB, GIB, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


# What names a run: its job, offer and machines, techniques, places of stages, markets and times. No figures.


@dataclass(frozen=True)
class NamedStage:
    """A stage on a machine of its own."""

    stage: str
    offer: str  # label


@dataclass(frozen=True)
class NamedPolicy:
    """A policy on spot: the hours that it guarantees, what an hour of waiting counts, and a stated rule."""

    guaranteed_hours: float
    waiting_usd_per_hour: float
    rule: WaitingRule | None = None

    @classmethod
    def of(cls, stated: SpotPlan) -> NamedPolicy:
        """Return what a plan names of its policy."""
        return cls(
            stated.guaranteed_hours,
            stated.waiting_usd_per_hour,
            WaitingRule(stated.take_after_up_hours, stated.take_at_once_from_hours),
        )


@dataclass(frozen=True)
class NamedRun:
    """Everything that decides the figures of a run, as a search chooses it or as a plan states it."""

    name: str  # of the job
    offer: str  # label
    instances: int
    gpus: int  # of all instances
    gpus_per_instance: int
    techniques: Techniques
    spot_share: float
    separate_machines: tuple[NamedStage, ...] = ()
    policy: NamedPolicy | None = None
    kv_bits: int | None = None  # of the cache of generation
    fallback: str | None = None  # the change for a run out of memory, of changes that cost equally little time
    start_at_hours: float = 0.0
    pauses: tuple[Pause, ...] = ()
    is_reserved: bool = False  # its machines are paid by a reservation of the plan

    @classmethod
    def of(cls, stated: Assignment) -> NamedRun:
        """Return what an assignment names."""
        given = stated.vram_gib.fallback
        return cls(
            name=stated.name,
            offer=stated.offer,
            instances=stated.instances,
            gpus=stated.gpus,
            gpus_per_instance=stated.gpus_per_instance,
            techniques=stated.techniques,
            spot_share=stated.spot_share,
            separate_machines=tuple(NamedStage(machine.stage, machine.offer) for machine in stated.separate_machines),
            policy=NamedPolicy.of(stated.spot) if stated.spot else None,
            kv_bits=stated.inference.kv_bits if stated.inference else None,
            fallback=given.change if given else None,
            start_at_hours=stated.start_at_hours,
            pauses=stated.pauses,
            is_reserved=stated.is_reserved,
        )

    @property
    def standstill_hours(self) -> float:
        """Hours of closed windows in which the run stands still."""
        return math.fsum(pause.to_hours - pause.from_hours for pause in self.pauses)

    def delay_hours(self, resume_hours: float) -> float:
        """Return what the calendar adds to the hours of the run, where each pause costs `resume_hours`."""
        return self.start_at_hours + self.standstill_hours + len(self.pauses) * resume_hours


SAME = 1e-9
"""Relative difference of figures that differ by rounding alone: arrays and plain floats add in other orders."""


@dataclass(frozen=True, eq=False)
class SearchedPolicy:
    """The run, market and costs of a policy in a search, and the passes that the search has computed."""

    run: SpotRun
    states: SpotStates
    costs: PolicyCosts
    policies: PolicyCache


def is_same(mine: object, other: object) -> bool:
    """Return whether two records are the same but for rounding."""
    if isinstance(mine, float) and isinstance(other, (int, float)):
        return math.isclose(mine, other, rel_tol=SAME, abs_tol=SAME)
    if type(mine) is not type(other):
        return False
    if isinstance(mine, tuple) and isinstance(other, tuple):
        return len(mine) == len(other) and all(map(is_same, mine, other))
    if dataclasses.is_dataclass(mine):
        names = [field.name for field in dataclasses.fields(mine)]
        return all(is_same(getattr(mine, name), getattr(other, name)) for name in names)
    return mine == other


# What a run names, looked up once: its job, offer, card, recipe and machines.


@dataclass(frozen=True)
class RunContext:
    """A named run with everything behind its names; what concerns machines is an error for a managed service."""

    named: NamedRun
    job: Job
    scenario: Scenario
    architecture: Architecture
    offer: Offer  # at the prices of the what-if
    offers: Mapping[str, Offer]  # label -> every offer, at those prices
    library: Library
    searched: SearchedPolicy | None = None
    kept: dict[Any, Any] = field(default_factory=dict, compare=False)  # physics of machines that several plans have

    @cached_property
    def network(self) -> Network:
        """Shape of the architecture."""
        return with_tower(network_of(self.architecture), self.job, self.architecture)

    @cached_property
    def gpu(self) -> GpuSpec:
        """Card of the offer; KeyError where the library has none of that name."""
        return self.library.gpu(self.offer.card)

    @cached_property
    def framework(self) -> FrameworkProfile:
        """Profile of the plan's framework; of a service, whose own is unknown, that of Transformers."""
        return framework_of(self.library, "hf" if self.offer.is_managed else self.recipe.framework)

    @cached_property
    def recipe(self) -> Recipe:
        """The techniques of the plan."""
        return Recipe(
            **{technique.name: getattr(self.named.techniques, technique.name) for technique in fields(Recipe)}
        )

    @cached_property
    def machine(self) -> Machine:
        """Machines of one run: the link is the offer's, else the usual one of the card, and pcie for a single card."""
        offer, instances = self.offer, self.named.instances
        link = offer.interconnect or "pcie"
        network_gbps = offer.network_gbps if instances > 1 else None
        link = "pcie" if offer.gpus == 1 else link
        ram_gb, gpu_gib = offer.ram_gb, offer.gpus * self.gpu.vram_gib
        if ram_gb is None:
            ram_gb = typical_ram_gb(gpu_gib, offer.is_private_host)
        return Machine(self.gpu.name, offer.gpus, instances, link, network_gbps, ram_gb, offer.ram_gb is None)

    @property
    def prior_hosts(self) -> int:
        """Hosts of one instance, of which the prior of spot markets is: those of a slice go together."""
        return self.gpu.chip.hosts.get(self.offer.gpus, 1) if self.gpu.chip else 1

    @cached_property
    def trials(self) -> TrialWork:
        """What the trials of the job multiply one run by."""
        trials = self.job.trials
        return trial_work(trials.count, trials.at_once, trials.halving)

    @cached_property
    def stages(self) -> StageCoefficients:
        """Calibration of the stages."""
        return StageCoefficients.of(self.values("stages"))

    @property
    def observed(self) -> Measured | None:
        """The run of the whole job that was seen on the plan's hardware, which its hours must follow."""
        here = (self.gpu.name, self.machine.gpus)
        seen = (run for run in self.job.measured if run.hours is not None)
        return next((run for run in seen if (run.gpu, run.gpus) == here), None)

    def values(self, calibration: str) -> dict[str, float]:
        """Return the plain numbers of a calibration by key."""
        return self.library.calibrations[calibration].values

    def download_rate_of(self, offer: Offer, of_own_data: bool = False) -> float:
        """Return bytes per second from outside to a machine; own data leave no faster than their place lets them."""
        source, key = self.job.stages.transfer, "pull_bytes_per_second"
        stated = offer.download_gb_per_second
        pull = self.values("stages")[f"community_{key}" if offer.community else key] if stated is None else stated * GB
        is_limited = of_own_data and source is not None and (source.region,) != offer.regions
        return min(pull, (source.gb_per_second or math.inf) * GB) if is_limited and source else pull

    def disk_rate_of(self, offer: Offer) -> float:
        """Return bytes per second of a machine's own disk."""
        stated = offer.disk_gb_per_second
        return self.values("stages")["disk_bytes_per_second"] if stated is None else stated * GB

    def leaving_usd_per_gb(self, offer: Offer) -> float:
        """Return dollars per GB that the user's data cost to leave their place for a machine of the offer."""
        source = self.job.stages.transfer
        return 0.0 if source is None or (source.region,) == offer.regions else source.egress_usd_per_gb


def resolve_names(named: NamedRun, scenario: Scenario, library: Library) -> tuple[RunContext | None, list[Violation]]:
    """Return the things behind the names, or None and the names that lead nowhere."""
    name = named.name
    job = next((job for job in scenario.jobs if job.name == name), None)
    offers = dict(scenario.labelled_offers())
    offer = offers.get(named.offer)
    if job is None:
        return None, [Violation(name, "job", "a job of the scenario", name)]
    if offer is None or offer.is_cpu:
        return None, [Violation(name, "offer", "an offer of the scenario that trains", named.offer)]
    try:
        architecture = library.architecture(job.architecture)
    except KeyError as error:
        return None, [Violation(name, "architecture", "an architecture of the library", str(error.args[0]))]
    return RunContext(named, job, scenario, architecture, offer, offers, library), []


def hourly_price(mine: Offer, offers: Iterable[Offer]) -> float | None:
    """Return the least price per hour of as many equal GPUs, of the same provider if it has one; None without any.

    Fees of machine hours count as in `usd_above_term`. None where nothing is saved.
    """
    alike = [
        (offer.provider != mine.provider, usd_above_term(mine, offer))
        for offer in offers
        if (offer.gpu, offer.gpus) == (mine.gpu, mine.gpus) and offer.usd_per_hour
        if (offer.commitment, offer.committed_hours, offer.own, offer.block) == (None, None, None, None)
    ]
    return min(alike)[1] if alike and min(alike)[1] > 0 else None


# Chips other than NVIDIA's: what may be planned with, and how uncertain their speed is.


def unmeasured(context: RunContext) -> str | None:
    """Return why the plan may not use its chip: it is for estimates alone, or no published run is of such training."""
    chip = context.gpu.chip
    if chip is None or chip.estimate_only:
        return chip.estimate_only if chip else None
    if context.scenario.limits.unmeasured or not context.job.trains:
        return None
    method = context.named.techniques.method
    known = any(
        measurement.method == method and measurement.from_chips <= context.machine.gpus for measurement in chip.measured
    )
    return None if known else f"{method} on {context.machine.gpus} x {context.gpu.name}"


def of_another_kind(context: RunContext, values: Mapping[str, float]) -> Iterator[float]:
    """Yield what widens a speed: a chip whose published runs were of another kind, techniques that are a prior."""
    if context.library.techniques.values.precision.values[context.recipe.precision].prior:
        yield values["unmeasured_precision"]
    if context.recipe.dora or context.recipe.keeps_activations or context.framework.prior_speed:
        yield values["prior_technique"]
    whole = context.recipe.weight_bits == 16 or context.recipe.experts_16_bit
    grouped = context.framework.grouped_experts in ("all", *(["plain"] if whole else []))
    looped = context.values("kernels")[f"{context.framework.kernels}.naive_experts"] > 0
    many = context.architecture.experts > values["looped_experts.measured"]
    if many and looped and not grouped:
        yield values["looped_experts"]
    measured = context.gpu.chip.measured if context.gpu.chip else ()
    alike = [measurement for measurement in measured if measurement.method == context.recipe.method]
    if context.gpu.chip and not any(measurement.from_chips <= context.machine.gpus for measurement in alike):
        yield values["unmeasured_kind"]
    if alike and context.recipe.precision not in (measurement.precision for measurement in alike):
        yield values["unmeasured_precision"]


# Speed and memory of one configuration in plain floats: work, seconds per step, bytes on one GPU, spread.


_FARTHEST, _ROUNDS, _PARTS = 100.0, 9, 64
"""Reach in ln of the search for the chance that a configuration fits, and how often it is divided: to 12 digits."""


@dataclass(frozen=True)
class Workload:
    """A job in the units of the estimates; an image counts as one sequence of equivalent tokens."""

    sequence: int  # tokens per sequence, the cap where lengths differ
    longest: float  # tokens that set the memory peak
    mean_length: float  # tokens per sequence of a sample
    real_per_sample: float  # tokens (images) that one sequence counts as, or one pair
    real: float  # tokens (images) in all
    steps: float
    ingested: float  # token ids that preparing the data makes; none of images
    evaluated: float  # tokens (images) that one run evaluates


def evaluate_work(job: Job, architecture: Architecture) -> Workload:
    """Return lengths, steps and tokens of a job, from what the user said of the work and of the stages around it."""
    work, image, ingest, evaluation = job.work, architecture.image, job.stages.ingest, job.stages.evaluation
    if image is not None:
        size = image.size(*work.image_size)
        mean, longest, per_sample = image.tokens(size), image.memory_tokens(size), 1.0
        sequence, real = round(mean), float(work.images * work.epochs if work.images else 0)
        real = real or (work.steps or 0) * job.global_batch * per_sample
        steps = float(math.ceil(real / job.global_batch))
        if work.images and work.aspect_buckets > 1:  # each pass ends with an incomplete batch of every aspect
            missing = work.aspect_buckets * (1 - 1 / job.global_batch) / 2
            steps = float(math.ceil(work.epochs * min(work.images / job.global_batch + missing, work.images)))
    else:
        sequence = sequence_of(job, architecture)
        mean = kept_length(mean_tokens(job, architecture) or sequence, sequence, job.sequence_lengths)
        longest = longest_length(job.packing, sequence, mean, job.answers)
        per_sample = job.answers * (PACKED_FILL * sequence if job.packing == "packed" else mean)
        samples = work.samples * work.epochs if work.samples is not None else (work.tokens or 0) / (job.answers * mean)
        real = float(work.tokens if work.tokens is not None else samples * job.answers * mean)
        steps = float(work.steps or step_count(job.packing, real, samples, sequence, job.global_batch))
        real = steps * job.global_batch * per_sample if work.steps is not None else real
    ingested = float(ingest.tokens or real / work.epochs) if ingest and image is None else 0.0
    evaluated = float(evaluation.all_tokens or (evaluation.share or 0.0) * real) if evaluation else 0.0
    return Workload(sequence, longest, mean, per_sample, real, steps, ingested, evaluated)


@dataclass(frozen=True)
class TrainingSetup:
    """One recipe with one batch on one machine, as the estimates take it: scalars."""

    inputs: TimedSetup
    work: Workload
    library: Library

    def step_seconds(self) -> float:
        """Return seconds of one optimizer step, of which storage and the job's own factor know nothing."""
        values = TimeCoefficients.of(self.library.calibrations["time"].values)
        memory = MemoryCoefficients.of(self.library.calibrations["memory"].values)
        return float(step_time(with_paging(self.inputs, memory), values).seconds)

    def without_encoders(self, token_share: float) -> float:
        """Return seconds of one optimizer step that reads cached latents, which are `token_share` of its tokens."""
        activations = replace(self.inputs.activations, token_share=token_share)
        return replace(self, inputs=replace(self.inputs, activations=activations)).step_seconds()

    def memory(self, capped: bool = True) -> MemoryEstimate:
        """Return bytes on the fullest GPU, what is reserved capped by what it has."""
        values = MemoryCoefficients.of(self.library.calibrations["memory"].values)
        return estimate_memory(self.inputs, values, self.inputs.hardware.usable_bytes if capped else math.inf)


def build_setup(
    context: RunContext, job: Job, recipe: Recipe, machine: Machine, batch: tuple[int, int]
) -> TrainingSetup:
    """Return a recipe on a machine with its micro-batch and accumulation steps, for the job as it is set up there."""
    library, work, (micro_batch, accumulation) = context.library, evaluate_work(job, context.architecture), batch
    length = processed_length(
        *(job.packing, work.sequence, work.mean_length, length_spread(job, context.architecture)),
        *(micro_batch * job.answers, job.sequence_lengths),
    )
    gpu = library.gpu(machine.gpu)
    layout = Layout(
        micro_batch=micro_batch,
        accumulation=accumulation,
        sequence=float(length),
        longest_sequence=work.longest,
        gpus=machine.gpus,
        gpus_per_node=machine.gpus_per_instance,
        tensor=recipe.tensor_parallel,
        pipeline=recipe.pipeline_parallel,
        context=recipe.context_parallel,
        expert=recipe.expert_parallel,
        zero_stage=recipe.zero_stage,
        hybrid=int(recipe.is_hybrid),
        answers=job.answers,
        variable_length=work.mean_length / work.longest if job.packing in VARIABLE else 0.0,
    )
    network = with_tower(context.network, job, context.architecture)
    parts = recipe_coefficients(recipe, job, network, library)
    hardware = hardware_numbers(gpu, machine.link, machine.network_gbps, recipe.precision, library)
    inputs = TimedSetup(network, layout, parts.states, parts.activations, parts.stack, parts.kernels, hardware)
    ram_bytes = math.inf if machine.ram_gb is None else machine.ram_gb * GB
    values = MemoryCoefficients.of(library.calibrations["memory"].values)
    return TrainingSetup(with_host_room(inputs, ram_bytes, values), work, library)


@dataclass(frozen=True)
class EvaluatedPhysics:
    """What the recipe takes on the offer's machines, and what observed runs teach about it."""

    setup: TrainingSetup
    step_seconds: float  # per optimizer step, as fed by storage and with the job's own factor on speed
    rate: float  # real tokens (images) per second
    computed_seconds: float  # of a step, whatever storage delivers
    sigmas: Sigmas  # of ln(time)
    reported: dict[str, Any]  # other fields of the assignment

    @property
    def work(self) -> Workload:
        """Lengths and amounts of the job."""
        return self.setup.work


def evaluate_physics(context: RunContext) -> EvaluatedPhysics:
    """Return speed and memory of the configuration that the plan names."""
    asked = context.named.techniques
    key = ("physics", context.machine, context.recipe, asked.micro_batch, asked.accumulation_steps)
    if key not in context.kept:  # most plans of a frontier differ in their hours alone
        context.kept[key] = _physics(context)
    physics: EvaluatedPhysics = context.kept[key]
    return physics


def _physics(context: RunContext) -> EvaluatedPhysics:
    job, run, asked, library = context.job, context.observed, context.named.techniques, context.library
    learned = learn_correction(job, context.architecture, library)
    batch = (asked.micro_batch, asked.accumulation_steps)
    setup = build_setup(context, job, context.recipe, context.machine, batch)
    runs = tuple(_report(context, seen) for seen in learned.runs)
    ratios = [seen.tokens_per_second / seen.predicted_tokens_per_second for seen in runs if seen.tokens_per_second]
    half = context.values("pilot")["speed_half"]
    factor = math.exp(log_speed_correction([math.log(ratio) for ratio in ratios], half))
    image, work = context.architecture.image, setup.work
    size = image.size(*job.work.image_size) if image else None
    per_step = job.global_batch * (1 if image else job.answers * work.sequence)
    own = learned.own_speed_factor(context.recipe, context.machine, batch, int(work.sequence), library)
    computed = setup.step_seconds() / own / job.efficiency
    # Storage delivers no faster what a step works on: token ids, or images.
    latent_bytes = image.cached_bytes(size) if image and size and context.recipe.caches_latents else 0.0
    storage = job.storage_gb_per_second * GB
    side = size.side if size else 0
    fed = float(fed_step_seconds(computed, per_step, storage, context.stages, side, latent_bytes, job.image_bytes))
    seconds = run.hours * HOUR / work.steps if run and run.hours else fed
    probed = learned.probed.get(memory_setting(context.recipe, context.machine.gpus))
    return EvaluatedPhysics(
        setup=setup,
        step_seconds=seconds,
        rate=work.real / (work.steps * seconds),
        computed_seconds=computed,
        sigmas=_sigmas(context, setup, learned),
        reported={
            "fed_by_storage": run is None and fed > computed * (1 + 1e-9),
            "vram_gib": _vram(context, setup, learned, probed),
            "host_memory": _host_memory(context, setup, learned),
            "observed_runs": runs,
            "speed_factor": factor,
            "memory_factor": probed.scale if probed else 1.0,
        },
    )


def _report(context: RunContext, seen: ComparedRun) -> ObservedRun:
    """Return an observed run as a plan reports it: its prediction is that of its configuration, computed again."""
    run, job = seen.run, job_of_run(context.job, seen.run)
    setup = build_setup(context, job, seen.recipe, seen.machine, (seen.micro_batch, seen.accumulation))
    batch = float(setup.inputs.layout.micro_batch * seen.accumulation * setup.inputs.layout.data_parallel)
    kind = None if run.peak_vram_gib is None else run.peak_kind or "allocated"
    return ObservedRun(
        gpu=run.gpu,
        gpus=run.gpus,
        techniques=techniques_of(seen.recipe, job, seen.micro_batch, seen.accumulation),
        assumed=seen.assumed,
        tokens_per_second=run.tokens_per_second,
        predicted_tokens_per_second=batch * setup.work.real_per_sample / setup.step_seconds(),
        peak_vram_gib=run.peak_vram_gib,
        predicted_peak_vram_gib=float(getattr(setup.memory(capped=False), KINDS[kind])) / GIB if kind else None,
        peak_kind=kind,
    )


def techniques_of(recipe: Recipe, job: Job, micro_batch: int, accumulation: int) -> Techniques:
    """Return a recipe and its batch as a plan reports them; adapters only where there are any."""
    lora = job.lora if recipe.method == "lora" else None
    settings = {name: value for name, value in vars(recipe).items() if name in Techniques.model_fields}
    return Techniques(
        **{**settings, "lora_rank": (recipe.lora_rank or lora.rank[0]) if lora else None},
        micro_batch=micro_batch,
        accumulation_steps=accumulation,
        lora_targets=lora.targets if lora else None,
    )


def _vram(context: RunContext, setup: TrainingSetup, learned: Correction, probed: MemoryCorrection | None) -> Vram:
    """Return the need of the fit rule, its parts, and the chance that it fits, as observed peaks have them."""
    run, usable_gib, layout = context.observed, context.gpu.usable_gib, setup.inputs.layout
    micro, longest = int(layout.micro_batch), setup.work.longest
    estimate, chance = _fit(context, context.recipe, setup, learned)
    need = max(float(estimate.need) / GIB, probed.floor_gib(micro, longest) if probed else 0.0)
    if run:  # it did fit: what was seen, else at most the card
        need = run.peak_vram_gib or min(need, usable_gib)
    is_proven = learned.has_run(context.recipe, context.machine, micro, int(layout.accumulation), setup.work.sequence)
    return Vram(
        peak=need,
        allocated=float(estimate.allocated) / GIB,
        usable=usable_gib,
        fit_probability=1.0 if run or is_proven else chance,
        phase=PHASES[int(estimate.phase)],
        parts={name: float(part) / GIB for name, part in estimate.breakdown.items()},
        set_aside=setup.inputs.stack.encoders,
    )


def _host_memory(context: RunContext, setup: TrainingSetup, learned: Correction) -> HostMemory | None:
    """Return what states take of the memory of a machine, stated or assumed; None of an observed run, which had it."""
    machine = context.machine
    hosted = context.recipe.uses_host_memory or context.job.ema == "host"
    if context.observed or not hosted or machine.ram_gb is None:
        return None
    values = MemoryCoefficients.of(context.library.calibrations["memory"].values)
    inputs = with_paging(_as_observed(context, context.recipe, setup, learned), values)
    bytes_per_gpu = float(host_bytes(inputs, values))
    taken_gb = bytes_per_gpu * machine.gpus_per_instance / GB
    return HostMemory(taken_gb=taken_gb, total_gb=machine.ram_gb, assumed=machine.assumes_ram) if taken_gb else None


def _as_observed(context: RunContext, recipe: Recipe, setup: TrainingSetup, learned: Correction) -> TimedSetup:
    """Return the inputs of a recipe, what grows with the batch scaled by observed peaks."""
    probed = learned.probed.get(memory_setting(recipe, context.machine.gpus))
    inputs = setup.inputs
    return inputs if probed is None else replace(inputs, activations=replace(inputs.activations, scale=probed.scale))


def _fit(
    context: RunContext, recipe: Recipe, setup: TrainingSetup, learned: Correction
) -> tuple[MemoryEstimate, float]:
    """Return the memory of a recipe on the machines of the plan, and the chance that it fits, corrected by peaks."""
    inputs, stack = _as_observed(context, recipe, setup, learned), setup.inputs.stack
    probed = learned.probed.get(memory_setting(recipe, context.machine.gpus))
    if probed is not None:
        margin = probed.margin_on(context.gpu.name)
        stack = replace(stack, margin=margin, known_margin=probed.known_share * margin, phi=probed.phi)
    if context.scenario.limits.vram_headroom is not None:
        stack = stack.with_margin(context.scenario.limits.vram_headroom)
    estimate = replace(setup, inputs=replace(inputs, stack=stack)).memory()
    before = memory_spread(context.values("memory"), recipe.framework, context.framework.profiled, recipe.offloads)
    spread = learned.fit_spread(before, recipe, context.machine.gpus, context.library)
    chance = _chance_of_fitting(replace(setup, inputs=inputs), stack, spread)
    return estimate, chance


@dataclass(frozen=True)
class SmallerRun:
    """The recipe of a plan with a smaller micro-batch, or with more checkpointing, on the same machines."""

    change: str
    recipe: Recipe
    batch: tuple[int, int]  # micro-batch and accumulation steps
    slowdown: float  # seconds of a step over those of the plan
    fit_probability: float


def evaluate_smaller_runs(context: RunContext, physics: EvaluatedPhysics) -> list[SmallerRun]:
    """Return what may be changed in a run that is out of memory: each change that saves enough of it."""
    asked = context.named.techniques
    key = ("smaller", context.machine, context.recipe, asked.micro_batch, asked.accumulation_steps)
    if key not in context.kept:
        context.kept[key] = _smaller_runs(context, physics)
    changes: list[SmallerRun] = context.kept[key]
    return changes


def _smaller_runs(context: RunContext, physics: EvaluatedPhysics) -> list[SmallerRun]:
    techniques, asked, recipe = context.library.techniques, context.named.techniques, context.recipe
    local = asked.micro_batch * asked.accumulation_steps
    sizes = [size for size in range(1, asked.micro_batch) if local % size == 0 and recipe.accumulates]
    changes = [(f"micro-batch {size} x {local // size} steps", recipe, (size, local // size)) for size in sizes[-1:]]
    every = techniques.allowed("activation_checkpointing")
    allowed = context.job.techniques.activation_checkpointing or techniques.tried("activation_checkpointing")
    for more in every[every.index(recipe.activation_checkpointing) + 1 :]:
        other = replace(recipe, activation_checkpointing=more)
        if more in allowed and find_incompatibility(other, GpuClass.of(context.gpu), context.library) is None:
            changes.append((f"{more} checkpointing", other, (asked.micro_batch, asked.accumulation_steps)))
    learned = learn_correction(context.job, context.architecture, context.library)
    now, seconds = _fit(context, recipe, physics.setup, learned)[0], physics.setup.step_seconds()
    runs = []
    for change, other, batch in changes:
        setup = build_setup(context, context.job, other, context.machine, batch)
        estimate, chance = _fit(context, other, setup, learned)
        if estimate.need < now.need * (1 - MIN_MEMORY_SAVING):
            runs.append(SmallerRun(change, other, batch, setup.step_seconds() / seconds, chance))
    return runs


def _chance_of_fitting(setup: TrainingSetup, stack: Stack, spread: MemorySpread) -> float:
    """Return the highest confidence whose margins the fit rule still admits, by division into ever smaller parts.

    An error e is of the logarithm: the uncertain bytes are exp(e) times as large, and of the states only the known
    share grows so. Errors have the tails of Student's t with 2 degrees of freedom, as those of speed have;
    `spread.most` is the highest chance.
    """
    usable = float(setup.inputs.hardware.usable_bytes)
    values = MemoryCoefficients.of(setup.library.calibrations["memory"].values)
    low, high = -_FARTHEST, _FARTHEST
    for _ in range(_ROUNDS):
        ends = low + (high - low) * np.arange(_PARTS + 1) / _PARTS
        margin = np.exp(ends[1:-1]) - 1.0
        wider = replace(stack, margin=margin, known_margin=spread.known_share * margin)
        lines = memory_lines(replace(setup.inputs, stack=wider), values)
        need = np.broadcast_to(lines.need(setup.inputs.layout.micro_batch, usable), margin.shape)
        most = int(np.argmin(np.append(need <= usable, False)))  # those before it fit
        low, high = float(ends[most]), float(ends[most + 1])
    return float(min(student_2_deviations(spread.sigma, low), spread.most))


def _sigmas(context: RunContext, setup: TrainingSetup, learned: Correction) -> Sigmas:
    """Return the spread of the speed: profile, card, size, mixture, few tokens, unknown facts, observed runs."""
    layout, machine, library = setup.inputs.layout, context.machine, context.library
    values = context.values("uncertainty")
    if context.observed:
        return class_sigmas(values, "observed")
    profile = "unknown" if context.framework.unknown else context.framework.kernels
    before = time_sigmas(
        values,
        class_sigmas(values, profile),
        class_sigmas(values, context.gpu.name),
        machine.gpus,
        machine.instances,
        float(layout.micro_batch * layout.answers * layout.sequence),
        mixture=int(setup.inputs.network.experts > 0),
        offload=int(np.any(setup.inputs.states.host_optimizer)),
        efficiency=math.hypot(
            efficiency_sigma(values, efficiency_of(context.gpu, library.calibrations["gpu_efficiency"])[1]),
            *of_another_kind(context, values),
        ),
        network_unknown=int(machine.network_gbps is None),
    )
    several = np.asarray([machine.instances > 1])
    after = learned.spread(before, [machine.gpu], [context.recipe.method], several, library)
    work = token_sigma(context.job)  # of a law that decides the tokens: independent of the speed
    return Sigmas(*(math.hypot(float(np.ravel(sigma)[0]), work) for sigma in after))
