"""What machines are rented for, stage by stage, and the export of the result: bytes, hours, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner import generation
from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND, recipe_coefficients
from planner.estimates.stage_seconds import (
    ExportCoefficients,
    asynchronous_stall_seconds,
    checkpoint_seconds,
    checkpoint_stall_seconds,
    evaluation_seconds,
    forward_tokens_per_second_cpu,
    forward_tokens_per_second_gpu,
    gguf_bytes,
    gguf_seconds,
    goodput_factor,
    gpu_quantise_bytes,
    gpu_quantise_seconds,
    grouped_bytes,
    ingest_seconds,
    kept_checkpoint_bytes,
    load_seconds,
    machine_cores,
    merge_ram_bytes,
    merge_seconds,
)
from planner.estimates.weights import lora_parameters
from planner.evaluation.evaluated_physics import EvaluatedPhysics, RunContext, Workload
from planner.results.plan import DataPath, ExportedResult
from planner.results.plan_parts import SeparateMachine
from planner.scenario.offer import Offer, fee_rate, fees_usd
from planner.units import GB, GIB, HOUR, MONTH_HOURS, TERA

if TYPE_CHECKING:
    from collections.abc import Iterator


# The export of a result in plain floats: its bytes, what merging and quantising take, and the memory for it.


_QUANTISED = ("gguf", "gptq", "awq")


def _coefficients(context: RunContext) -> ExportCoefficients:
    return ExportCoefficients.of(context.values("stages"))


def _format(context: RunContext) -> tuple[str, int]:
    """Return what the job wants to leave, and its bits where it is quantised."""
    wanted = context.job.stages.export
    if wanted is None:
        return "adapters", 16
    name = wanted.format or ("merged" if wanted.merged else "adapters")
    return name, (wanted.bits or 4) if name in _QUANTISED else 16


def is_made(context: RunContext, method: str) -> bool:
    """Return whether the result is more than what training leaves: quantised, or adapters merged."""
    name, _ = _format(context)
    return name in _QUANTISED or (name == "merged" and method == "lora")


def trained_gb(context: RunContext, method: str) -> float:
    """Return the size of what training leaves: adapters, or all weights as the model is released."""
    if method == "full":
        return context.architecture.download_gb
    if not context.offer.is_managed:
        states = recipe_coefficients(context.recipe, context.job, context.network, context.library).states
        return float(states.trainable) * float(states.adapter_bytes) / GB
    lora = context.job.lora
    count = float(lora_parameters(context.network, lora.rank[0], lora.targets).trainable)
    return count * context.library.techniques.bytes.adapters[context.framework.adapters].adapter_bytes / GB


def result_gb(context: RunContext, method: str) -> float:
    """Return the size of what the job wants to leave; a service quantises nothing."""
    name, bits = _format(context)
    if name == "adapters":
        return trained_gb(context, method)
    if name == "merged" or context.offer.is_managed:
        return context.architecture.download_gb
    weights, coefficients = float(context.architecture.parameters), _coefficients(context)
    if name == "gguf":
        return float(gguf_bytes(weights, bits, coefficients)) / GB
    return grouped_bytes(context.network, weights, bits, coefficients) / GB


def made_hours(context: RunContext, offer: Offer) -> float:
    """Return hours of merging and quantising on one machine of an offer."""
    method = context.recipe.method
    if not is_made(context, method):
        return 0.0
    (name, bits), disk, whole = _format(context), context.disk_rate_of(offer), context.architecture.download_gb * GB
    seconds = float(merge_seconds(whole, disk)) if method == "lora" else 0.0
    weights, made, coefficients = (
        context.architecture.parameters,
        result_gb(context, method) * GB,
        _coefficients(context),
    )
    if name == "gguf":
        seconds += float(gguf_seconds(weights, made, disk, coefficients))
    elif bits < 16:
        peak = context.library.gpu(offer.card).matmul16_tflops * TERA
        seconds += float(gpu_quantise_seconds(weights, made, peak, disk, coefficients))
    return seconds / HOUR


def sent_hours(context: RunContext, offer: Offer, gb: float, is_final: bool = True) -> float:
    """Return hours until `gb` has left a machine; the user's own place may take a final result more slowly."""
    wanted, line = context.job.stages.export, context.download_rate_of(offer)
    if is_final and wanted is not None and wanted.gb_per_second is not None:
        line = min(line, wanted.gb_per_second * GB)
    return gb * GB / line / HOUR if wanted is not None else 0.0


def separate_export(context: RunContext, offer: Offer) -> tuple[float, float, float]:
    """Return hours (twice) and dollars of transfers: boot, image, all weights in, the result made, sent and kept."""
    made, weights = result_gb(context, context.recipe.method), context.architecture.download_gb
    boot = context.stages.boot_seconds + (context.stages.image_bytes + weights * GB) / context.download_rate_of(offer)
    hours = boot / HOUR + made_hours(context, offer) + sent_hours(context, offer, made)
    months = (context.job.stages.retention_hours or 0.0) / MONTH_HOURS
    return hours, hours, fees_usd(offer.fees, {"GB in": weights, "GB out": made, "GB kept": made * months})


def merge_ram_gb(context: RunContext) -> float:
    """Return GB of host memory of merging; 0 where nothing is merged."""
    if context.recipe.method != "lora" or not is_made(context, "lora"):
        return 0.0
    return float(merge_ram_bytes(context.architecture.download_gb * GB / 2.0, _coefficients(context))) / GB


def lacking_memory(context: RunContext, offer: Offer) -> Iterator[tuple[str, str]]:
    """Yield the memory that the export asks of a machine, and what that machine is known to have."""
    method, coefficients = context.recipe.method, _coefficients(context)
    if not is_made(context, method):
        return
    ram, needs = math.inf if offer.ram_gb is None else offer.ram_gb, merge_ram_gb(context)
    if needs > ram:
        yield f"{needs:.1f} GB of RAM", f"{ram:.1f}"
    if _format(context)[0] in ("gptq", "awq") and offer.rents_gpus:
        usable = context.library.gpu(offer.card).usable_gib * GIB
        layers = gpu_quantise_bytes(context.network, coefficients)
        if layers > usable:
            yield f"{layers / GB:.1f} GB of GPU memory", f"{usable / GB:.1f}"


def _stored_image(context: RunContext, side: float) -> float:
    """Return the bytes of one image as it is stored: as the job states them, else by the pixels of its side."""
    return context.job.image_bytes or side**2 * context.stages.image_bytes_per_pixel


def cached_latents(context: RunContext, physics: EvaluatedPhysics) -> tuple[float, float]:
    """Return hours and GB; none where images are encoded in every epoch, or where the whole run was observed.

    The encoders take a third as long per FLOP as the network that is trained, forward passes being a third of its work.
    """
    image, job = context.architecture.image, context.job
    if image is None or not context.recipe.caches_latents:
        return 0.0, 0.0
    size = image.size(*job.work.image_size)
    images = float(job.dataset_images)
    latent_bytes = image.cached_bytes(size)
    read = images * _stored_image(context, size.side)
    step = physics.computed_seconds * image.encoder_ratio(size)
    seconds = max(images / job.global_batch * step, (read + images * latent_bytes) / (job.storage_gb_per_second * GB))
    return seconds / HOUR, images * latent_bytes / GB


# What the machines of a job are rented for, stage by stage, and stages that have machines of their own.
#
# All hours are expected ones of the machines of one run on the wall clock, spot left out, unless a name says otherwise;
# trials side by side are several runs.


STAGES = ("ingest", "evaluation", "export")  # that may have a machine of their own
_MIN_RAM_GB = 32.0  # memory of a training machine whose offer does not say
_IMAGE_GB = 10.0  # disk that a container image takes: the size of the stages calibration
_BYTES_PER_TOKEN = 4.0  # of an answer as text


@dataclass(frozen=True)
class SeparateStage:
    """A stage on a machine that is rented for it alone; `late_` where the run does not stop early."""

    machine: SeparateMachine
    late_hours: float
    billed_hours: tuple[float, float]  # expected, and where the run does not stop early
    late_usd: float
    rate_usd: float  # of the hour, without fees
    moved_usd: float  # of the dollars, for data that move in and out


@dataclass(frozen=True)
class JobStages:
    """The hours of a job's stages, and the GB that they move and keep."""

    start: float  # boot, image, weights and data, load; 0 where the whole job was observed
    restart: float  # the same, however the hours are known: what an interruption costs
    prepare: float  # on the training machine
    export: float
    training: float  # the longest chain of trials, as the three that follow
    evaluation: float  # on the training machine
    checkpoints: float
    reload: float
    waiting: float  # machine hours of all runs
    reloads: float  # machine hours of all runs
    outside_run_hours: float  # before and after the run, in which the machines are rented
    run: float  # the longest chain of trials on demand
    stretch: float  # the run without early stopping over the run expected
    all_groups_hours: float  # machine hours of the work over all runs
    separate: tuple[SeparateStage, ...]
    disk_gb: float  # stored while the machines of one run are rented: their disks, and checkpoints that stay
    moved_gb: float  # onto each instance: weights and data
    own_gb: float  # of them what leaves the place where the user's data lie
    sent_gb: float  # that leaves the training machines
    result_gb: float  # kept where it was trained
    kept_gb: float  # checkpoints that stay, per run

    def separate_hours(self, stage: str) -> float:
        """Return hours of a stage on a machine of its own; 0 where it has none."""
        return math.fsum(separate.machine.hours for separate in self.separate if separate.machine.stage == stage)

    def by_name(self) -> dict[str, float]:
        """Return the hours of every stage but start and training, on whatever machines."""
        return {
            "prepare data": self.prepare + self.separate_hours("ingest"),
            "evaluation": self.evaluation + self.separate_hours("evaluation"),
            "checkpoints": self.checkpoints,
            "load between trials": self.reload,
            "export": self.export + self.separate_hours("export"),
        }


def evaluate_stages(context: RunContext, physics: EvaluatedPhysics) -> JobStages:
    """Return all stages of the one configuration that the plan names."""
    job, observed, trials, work = context.job, context.observed, context.trials, physics.setup.work
    separate = () if observed else _separate_stages(context, work)
    there = {stage.machine.stage for stage in separate}
    raw, tokens, made = _data_on_machine(context, work, "ingest" in there)
    is_made_elsewhere, method, weights = "export" in there, context.recipe.method, context.architecture.download_gb
    sent = trained_gb(context, method) if is_made_elsewhere else result_gb(context, method)
    load = _load_hours(context, physics)
    # Boot, image, weights and data from the outside; data prepared elsewhere flow freely, the user's own may not.
    pull, own_pull = context.download_rate_of(context.offer), context.download_rate_of(context.offer, of_own_data=True)
    boot = context.stages.boot_seconds + context.stages.image_bytes / pull
    restart = (boot + (weights + tokens) * GB / pull + (job.data_gb + raw) * GB / own_pull) / HOUR + load
    source, wanted = job.stages.transfer, job.stages.checkpoints
    kept = _checkpoint_bytes(context, physics) * wanted.keep / GB if wanted else 0.0
    lies_here = source is not None and (source.region,) == context.offer.regions
    live, early = 0.0 if observed else 1.0, job.early_stopping  # nothing is added to an observed run
    if observed:
        parts = (observed.hours or 0.0, 0.0, 0.0)
    else:
        steps = work.steps * physics.step_seconds / HOUR
        once = steps * float(goodput_factor(steps, context.machine.instances, 0, context.stages))
        evaluation = 0.0 if "evaluation" in there else _evaluation_hours(context, physics)
        parts = (once, evaluation, _checkpoint_hours(context, physics, once))
    training, evaluation, checkpoints = (part * trials.wall * early for part in parts)
    once_again, start = training + evaluation + checkpoints, restart * live
    uncut = evaluation * job.stages.answers_prompts
    cached_hours, cached = cached_latents(context, physics)
    prepare, export = (
        _prepare_hours(context, work, raw) + cached_hours,
        sent_hours(context, context.offer, sent, not is_made_elsewhere),
    )
    export += 0.0 if is_made_elsewhere else made_hours(context, context.offer)
    reload, reloads = live * load * trials.reloads_wall, live * load * trials.reloads
    waiting = once_again * trials.waiting / trials.wall
    return JobStages(
        start=start,
        restart=restart,
        prepare=live * prepare,
        export=live * export,
        training=training,
        evaluation=evaluation,
        checkpoints=checkpoints,
        reload=reload,
        waiting=waiting,
        reloads=reloads,
        outside_run_hours=start + live * (prepare + export),
        run=once_again + reload,
        stretch=((once_again - uncut) / early + uncut + reload) / (once_again + reload),
        all_groups_hours=once_again * trials.work / trials.wall + waiting + reloads,
        separate=separate,
        disk_gb=(2 * weights + job.data_gb + _IMAGE_GB + raw + made + cached) * context.machine.instances + kept,
        moved_gb=weights + job.data_gb + raw + tokens,
        own_gb=0.0 if lies_here else job.data_gb + raw,
        sent_gb=sent,
        result_gb=0.0 if is_made_elsewhere else sent,
        kept_gb=kept,
    )


def _evaluation_hours(context: RunContext, physics: EvaluatedPhysics) -> float:
    """Return the hours of evaluation on the machine that trains; what it answers is not cut by early stopping."""
    if context.job.stages.answers_prompts:
        return generation.hours_on_machine(context) / context.job.early_stopping
    codes = (physics.setup.inputs.states.frozen, physics.setup.inputs.activations.checkpointing)
    seconds = evaluation_seconds(physics.setup.work.evaluated, physics.rate, *codes, context.stages)
    return float(seconds) / HOUR


def _data_on_machine(context: RunContext, work: Workload, is_elsewhere: bool) -> tuple[float, float, float]:
    """Return GB of raw data and of data prepared elsewhere that come onto each instance, and GB that preparing makes.

    Token ids are made of text; images stay what they are.
    """
    ingest = context.job.stages.ingest
    if ingest is None:
        return 0.0, 0.0, 0.0
    per_token = context.stages.ingest_bytes_per_token
    made = ingest.raw_gb if context.job.work.images is not None else work.ingested * per_token / GB
    # Of an observed run the plan tells no places: what may be done on the machine is.
    is_elsewhere |= context.observed is not None and "machine" not in ingest.on
    return (0.0, made, made) if is_elsewhere else (ingest.raw_gb, 0.0, made)


def _load_hours(context: RunContext, physics: EvaluatedPhysics) -> float:
    """Return hours from disk to the GPUs; the job states how fast its disk is read, and the share that is reached."""
    job, size, machine = context.job, context.architecture.download_gb * GB, context.machine
    disk = job.storage_gb_per_second * GB * job.load_efficiency / context.stages.disk_efficiency
    slot, compiled = physics.setup.inputs.hardware.pcie, float(context.framework.compiled)
    if context.framework.compiles_graphs:  # longer than torch.compile
        compiled = context.stages.graph_compile_seconds / context.stages.compile_seconds
    quantised = context.network.parameters if context.recipe.weight_bits < 16 else 0
    seconds = load_seconds(size, machine.gpus, disk, slot, context.stages, quantised, compiled)
    return float(seconds) / HOUR


def _prepare_hours(context: RunContext, work: Workload, raw_gb: float) -> float:
    ingest, offer = context.job.stages.ingest, context.offer
    if ingest is None or raw_gb == 0:
        return 0.0
    cores = offer.cpu_cores or float(machine_cores(offer.gpus, context.stages))
    ram = (offer.ram_gb or max(_MIN_RAM_GB, ingest.ram_gb)) * GB
    disk = context.disk_rate_of(offer)
    return float(ingest_seconds(raw_gb * GB, work.ingested, cores, ram, disk, context.stages)) / HOUR


def _checkpoint_hours(context: RunContext, physics: EvaluatedPhysics, once: float) -> float:
    """Return what training of one run of `once` hours waits for the checkpoints that the job asks for."""
    wanted, coefficients = context.job.stages.checkpoints, context.stages
    if wanted is None:
        return 0.0
    stored, disk = _checkpoint_bytes(context, physics), context.job.storage_gb_per_second * GB
    written = float(checkpoint_seconds(stored, context.machine.instances, disk, math.inf, coefficients))
    copied = copy_stall_seconds(context, physics, stored)
    stall = checkpoint_stall_seconds(written, copied, once * HOUR / wanted.count, wanted.asynchronous)
    return wanted.count * float(stall) / HOUR


def copy_stall_seconds(context: RunContext, physics: EvaluatedPhysics, stored: float) -> float:
    """Return how long copying a checkpoint to host memory halts the run; even small adapters do for a moment."""
    slot, coefficients = physics.setup.inputs.hardware.pcie, context.stages
    copied = float(asynchronous_stall_seconds(stored, context.machine.gpus, slot, coefficients))
    return copied + coefficients.checkpoint_fixed_seconds


def _checkpoint_bytes(context: RunContext, physics: EvaluatedPhysics) -> float:
    """Return bytes of one checkpoint that the job asks for."""
    wanted, states, coefficients = context.job.stages.checkpoints, physics.setup.inputs.states, context.stages
    bytes_per_parameter = (
        states.adapter_bytes if context.recipe.method == "lora" else coefficients.weight_bytes_per_parameter
    )
    is_resumed = wanted is not None and wanted.contents == "resume"
    return float(kept_checkpoint_bytes(states.trainable, bytes_per_parameter, is_resumed, coefficients))


def _separate_stages(context: RunContext, work: Workload) -> tuple[SeparateStage, ...]:
    """Return the stages that the plan has on machines of their own, each once, on an offer of the scenario."""
    made: dict[str, SeparateStage] = {}
    for named in context.named.separate_machines:
        offer = context.offers.get(named.offer)
        if offer is not None and named.stage in STAGES and named.stage not in made:
            figures = {"ingest": _ingest, "evaluation": _evaluation, "export": _export}[named.stage]
            hours, late_hours, moved_usd = figures(context, work, offer)
            price, billed = offer.usd_per_hour or 0.0, billed_hours(offer, hours)
            late_billed, hourly = billed_hours(offer, late_hours), fee_rate(offer.fees, "machine hours") or 0.0
            usd, late_usd = (paid_hours * (price + hourly) + moved_usd for paid_hours in (billed, late_billed))
            place = {"stage": named.stage, "provider": offer.provider, "offer": named.offer}
            machine = SeparateMachine(**place, hours=hours, usd=usd)
            made[named.stage] = SeparateStage(machine, late_hours, (billed, late_billed), late_usd, price, moved_usd)
    return tuple(made.values())


def _ingest(context: RunContext, work: Workload, offer: Offer) -> tuple[float, float, float]:
    """Return hours (twice) and dollars of transfers: boot without an image, raw data in, token ids out."""
    wanted, coefficients = context.job.stages.ingest, context.stages
    raw, least_ram = (wanted.raw_gb, wanted.ram_gb) if wanted else (0.0, 0.0)
    ram, disk = (offer.ram_gb or least_ram) * GB, context.disk_rate_of(offer)
    worked = ingest_seconds(raw * GB, work.ingested, offer.cpu_cores or 1.0, ram, disk, coefficients)
    seconds = coefficients.boot_seconds + raw * GB / context.download_rate_of(offer, of_own_data=True) + float(worked)
    made_gb = raw if context.job.work.images is not None else work.ingested * coefficients.ingest_bytes_per_token / GB
    moved = raw * context.leaving_usd_per_gb(offer) + fees_usd(offer.fees, {"GB in": raw, "GB out": made_gb})
    return seconds / HOUR, seconds / HOUR, moved


def _evaluation(context: RunContext, work: Workload, offer: Offer) -> tuple[float, float, float]:
    """Return hours, hours in full and dollars of transfers: boot, image, weights, then the work of all trials."""
    job, coefficients, active = context.job, context.stages, context.network.active_parameters
    weights, pull = context.architecture.download_gb, context.download_rate_of(offer)
    slot, once = math.inf, 0.0
    if job.stages.answers_prompts:
        slot = PCIE_BYTES_PER_SECOND[context.library.gpu(offer.card).pcie_gen] if offer.rents_gpus else math.inf

        answered = generation.answering_seconds(context, offer, 1, ("bf16",)) if offer.rents_gpus else None
        once = math.inf if answered is None else answered + coefficients.compile_seconds
    elif offer.is_cpu:
        rate = forward_tokens_per_second_cpu(active, offer.cpu_cores or 1.0, coefficients)
        once = work.evaluated / float(rate)
    else:
        card, reached = context.library.gpu(offer.card), context.values("gpu_efficiency")
        slot, peak = PCIE_BYTES_PER_SECOND[card.pcie_gen], card.matmul16_tflops * TERA
        rate = forward_tokens_per_second_gpu(active, peak, reached[card.name], coefficients)
        once = work.evaluated / float(rate)
    disk = context.disk_rate_of(offer) * job.load_efficiency / coefficients.disk_efficiency
    ready = coefficients.boot_seconds + (coefficients.image_bytes + weights * GB) / pull
    ready += float(load_seconds(weights * GB, 1, disk, slot, coefficients))
    whole = once * context.trials.work
    moved = fees_usd(offer.fees, {"GB in": weights})
    cut = 1.0 if job.stages.answers_prompts else job.early_stopping
    return (ready + whole * cut) / HOUR, (ready + whole) / HOUR, moved


def _export(context: RunContext, work: Workload, offer: Offer) -> tuple[float, float, float]:
    """Return hours, hours in full and dollars of transfers of making the result, whatever the work was."""
    del work
    return separate_export(context, offer)


def billed_hours(offer: Offer, hours: float) -> float:
    """Return whole billing steps, at least the minimum; what is not rented costs nothing."""
    if hours <= 1e-9:
        return 0.0
    step = offer.billing.step_seconds / HOUR
    return max(offer.billing.minimum_hours, math.ceil(hours / step - 1e-9) * step)


def report_stages(context: RunContext, physics: Any, stages: JobStages) -> dict[str, Any]:
    """Return the fields `data_path` and `export` of an assignment; none of generation."""
    if not context.job.trains:
        return {}
    return {
        "data_path": None if context.observed else _data_path(context, physics, stages),
        "export": _exported(context),
    }


def _data_path(context: RunContext, physics: EvaluatedPhysics, stages: JobStages) -> DataPath:
    """Return the bytes that steps read and the cores that tokenising their text would keep busy."""
    job, image, offer, values = context.job, context.architecture.image, context.offer, context.stages
    seconds, training, saved = physics.step_seconds, stages.training, 0.0
    if image is None:
        read = job.global_batch * job.answers * physics.work.sequence * values.ingest_bytes_per_token
    else:
        size = image.size(*job.work.image_size)
        image_bytes = _stored_image(context, size.side)
        if context.recipe.caches_latents:
            image_bytes = image.cached_bytes(size)
        else:
            # What launches hide is not saved: a step of a small batch takes nearly as long without its encoders.
            encoders = (
                1 - physics.setup.without_encoders(1 / (1 + image.encoder_ratio(size))) / physics.setup.step_seconds()
            )
            saved = training * encoders * (1 - 1 / job.work.epochs)
        read = job.global_batch * image_bytes
    cores = offer.cpu_cores or values.cores_per_gpu * offer.gpus
    return DataPath(
        read_bytes_per_second=read / seconds,
        storage_bytes_per_second=job.storage_gb_per_second * GB,
        cores_used=None if image else physics.rate / values.tokenise_tokens_per_core_second,
        cores=cores * context.machine.instances,
        cores_known=offer.cpu_cores is not None,
        saved_hours=training * max(0.0, 1 - physics.computed_seconds / seconds),
        latents_saved_hours=saved,
    )


def _exported(context: RunContext) -> ExportedResult | None:
    wanted = context.job.stages.export
    if wanted is None:
        return None
    named = next((machine for machine in context.named.separate_machines if machine.stage == "export"), None)
    offer = context.offer if named is None else context.offers[named.offer]
    is_plain = wanted.format is None
    form = wanted.format or ("merged" if wanted.merged and is_plain else "adapters")
    return ExportedResult(
        format=form,
        bits=None if form in ("adapters", "merged") else wanted.bits or 4,
        gb=result_gb(context, context.recipe.method),
        ram_gb=merge_ram_gb(context),
        offer=named.offer if named is not None else None,
        ram_known=offer.ram_gb is not None,
    )


def start_of_replicas(context: RunContext, together: int) -> tuple[float, float]:
    """Return the hours from ordering a machine to its first answer, and those of loading the model among them."""
    job, coefficients, pull = context.job, context.stages, context.download_rate_of(context.offer)
    size, slot = context.architecture.release_gb * GB, PCIE_BYTES_PER_SECOND[context.gpu.pcie_gen]
    disk = job.storage_gb_per_second * GB * job.load_efficiency / coefficients.disk_efficiency
    load = float(load_seconds(size, together, disk, slot, coefficients, 0, 1))
    return (coefficients.boot_seconds + (coefficients.image_bytes + size) / pull + load) / HOUR, load / HOUR


def evaluate_replica_stages(context: RunContext, replicas: generation.EvaluatedReplicas) -> JobStages:
    """Return the stages: start, answering, loads between trials, answers on their way out."""
    job, trials, offer = replicas.replica.job, context.trials, context.offer
    weights, own_pull = context.architecture.release_gb, context.download_rate_of(offer, of_own_data=True)
    start, load = start_of_replicas(context, replicas.replica.together)
    start += job.data_gb * GB / own_pull / HOUR
    source, wanted = job.stages.transfer, job.stages.export
    lies_here = source is not None and (source.region,) == offer.regions
    result = wanted.gb if wanted and wanted.gb else job.work.total_output_tokens * _BYTES_PER_TOKEN / GB
    once = replicas.work.steps * replicas.step_seconds / HOUR
    answering, reload, reloads = once * trials.wall, load * trials.reloads_wall, load * trials.reloads
    waiting = answering * trials.waiting / trials.wall
    export = sent_hours(context, offer, result)
    return JobStages(
        start=start, restart=start, prepare=0.0, export=export,
        training=answering, evaluation=0.0, checkpoints=0.0, reload=reload, waiting=waiting, reloads=reloads,
        outside_run_hours=start + export, run=answering + reload, stretch=1.0,
        all_groups_hours=answering * trials.work / trials.wall + waiting + reloads,
        separate=(), disk_gb=(2 * weights + job.data_gb + _IMAGE_GB) * context.machine.instances,
        moved_gb=weights + job.data_gb, own_gb=0.0 if lies_here else job.data_gb,
        sent_gb=result, result_gb=result, kept_gb=0.0,
    )  # fmt: skip
