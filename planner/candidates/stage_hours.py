"""Stages of a job: hours and data of each, on the machines that train or on machines of their own; the export.

The training machines send what they have trained, adapters or all weights, and are given back.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from planner import generation
from planner.arrays import Flags, Floats, Integers
from planner.candidates.market import (
    Market,
    data_egress_usd_per_gb,
    data_transfer_seconds,
    disk_rate,
    download_rate,
    fee_usd,
)
from planner.candidates.run_hours import Placement, RunHours, SeparateStage
from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND, efficiency_of
from planner.configurations.grid import JobShape, evaluated_tokens, network_of
from planner.errors import Fault, ScenarioError
from planner.estimates.billing import round_up_hours
from planner.estimates.inputs import Network, Numbers
from planner.estimates.stage_seconds import (
    ExportCoefficients,
    StageCoefficients,
    boot_seconds,
    evaluation_fits,
    forward_tokens_per_second_cpu,
    forward_tokens_per_second_gpu,
    gguf_bytes,
    gguf_seconds,
    gpu_quantise_bytes,
    gpu_quantise_seconds,
    grouped_bytes,
    ingest_seconds,
    load_seconds,
    merge_ram_bytes,
    merge_seconds,
    retained_gb_months,
    transfer_seconds,
)
from planner.estimates.work import trial_work
from planner.library.schema import Architecture, GpuSpec, Library
from planner.scenario.job import Job
from planner.scenario.job_stages import Export
from planner.scenario.offer import Offer
from planner.units import GB, GIB, HOUR, TERA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


# Stages on separate machines: preparing data on a CPU offer, evaluating on one GPU or on a CPU.
#
# The training machines are not rented meanwhile, so the hours and dollars of such a stage depend only on the job and
# the offer.


TOKEN_GB = 4.0 / GB
"""Size of a token id on disk."""


def enumerate_placements(
    job: Job, architecture: Architecture, shape: JobShape, market: Market, library: Library
) -> tuple[Placement, ...]:
    """Return every combination of places that may be the best one: no other takes less time and less money.

    Empty where no machine can run a stage but a managed service takes the job. Raises ScenarioError where none does.
    """
    ingest = _options(job, "ingest", _ingest_options(job, shape, market, library))
    evaluation = _options(job, "evaluation", _evaluation_options(job, architecture, shape, market, library))
    missing = [stage for stage, options in (("ingest", ingest), ("evaluation", evaluation)) if not options]
    if missing and not market.managed_services(job.kind, architecture.name):
        raise ScenarioError([no_machine_fault(job, stage) for stage in missing])
    return tuple(Placement(a, b) for a, b in itertools.product(ingest, evaluation))


def _options(job: Job, stage: str, stages: Iterable[SeparateStage]) -> list[SeparateStage | None]:
    """Return None where the training machine may run the stage (or there is none), then undominated machines."""
    wanted = getattr(job.stages, stage)
    if wanted is None:
        return [None]
    own: list[SeparateStage | None] = [None] if "machine" in wanted.on else []
    return [*own, *undominated(stages)]


def undominated(stages: Iterable[SeparateStage]) -> list[SeparateStage]:
    """Return the machines of a stage of which no other takes less time and less money."""
    best: list[SeparateStage] = []
    for stage in sorted(stages, key=lambda option: (option.hours, option.usd, option.label)):
        if not best or stage.usd < best[-1].usd:
            best.append(stage)
    return best


def no_machine_fault(job: Job, stage: str) -> Fault:
    """Return the fault of a stage that no offer can run."""
    wanted = getattr(job.stages, stage)
    places = " or ".join(place.replace("_", " ") for place in wanted.on)
    needs = f"{wanted.ram_gb:g} GB of RAM" if stage == "ingest" else "room for the weights"
    fix = f"offer a machine with {needs}, or allow it on the training machine: on: [machine]"
    if "machine" in wanted.on:  # then every place has too little memory
        fix = f"offer a machine with {needs}, or require less: ram_gb"
    return Fault(job.name, 0, f"jobs.{job.name}.stages.{stage}.on", f"no offer can run this stage on {places}", fix)


def _ingest_options(job: Job, shape: JobShape, market: Market, library: Library) -> Iterator[SeparateStage]:
    """Yield the CPU machines that can prepare the data."""
    wanted = job.stages.ingest
    if wanted is None or "cpu" not in wanted.on:
        return
    stages = StageCoefficients.of(library.calibrations["stages"].values)
    tokens = ingested_tokens(job, shape)
    for label, offer in zip(market.separate_labels, market.separate_offers, strict=True):
        if not offer.is_cpu or (offer.ram_gb is not None and offer.ram_gb < wanted.ram_gb):
            continue
        fetched = data_transfer_seconds(wanted.raw_gb, job, offer, download_rate(offer, library))
        worked = ingest_seconds(
            wanted.raw_gb * GB,
            tokens,
            offer.cpu_cores or 1.0,
            (offer.ram_gb or wanted.ram_gb) * GB,
            disk_rate(offer, library),
            stages,
        )
        hours = (stages.boot_seconds + fetched + float(worked)) / HOUR
        moved = wanted.raw_gb * (data_egress_usd_per_gb(job, offer) + fee_usd(offer, "GB in"))
        moved += prepared_gb(job, shape) * fee_usd(offer, "GB out")
        yield separate_stage("ingest", label, offer, hours, hours, moved)


def _evaluation_options(
    job: Job, architecture: Architecture, shape: JobShape, market: Market, library: Library
) -> Iterator[SeparateStage]:
    """Yield the machines with one GPU, or none, that can evaluate the model."""
    wanted = job.stages.evaluation
    if wanted is None or shape.unit == "images":
        return
    stages = StageCoefficients.of(library.calibrations["stages"].values)
    trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)
    tokens = evaluated_tokens(job, shape)
    weights = architecture.download_gb
    for label, offer in zip(market.separate_labels, market.separate_offers, strict=True):
        worked = _evaluation_seconds(job, architecture, shape.network, offer, library, tokens, stages)
        if worked is None:
            continue
        pull = download_rate(offer, library)
        slot = PCIE_BYTES_PER_SECOND[library.gpu(offer.card).pcie_gen] if offer.rents_gpus else float("inf")
        load = load_seconds(
            weights * GB, 1, disk_rate(offer, library) * job.load_efficiency / stages.disk_efficiency, slot, stages
        )
        ready = float(boot_seconds(pull, stages) + transfer_seconds(weights * GB, pull) + load)
        cut = 1.0 if wanted.answers_prompts else job.early_stopping
        hours, late = ((ready + share * worked * trials.work) / HOUR for share in (cut, 1.0))
        yield separate_stage("evaluation", label, offer, hours, late, weights * fee_usd(offer, "GB in"))


def _evaluation_seconds(
    job: Job,
    architecture: Architecture,
    network: Network,
    offer: Offer,
    library: Library,
    tokens: float,
    stages: StageCoefficients,
) -> float | None:
    """Return the seconds in which an offer evaluates one run; None where it cannot."""
    wanted = job.stages.evaluation
    if wanted is None or wanted.requests is None:
        rate = _forward_rate(job, network, offer, library, stages)
        return None if rate is None else tokens / rate
    if "one_gpu" not in wanted.on or not offer.rents_gpus or offer.gpus != 1 or offer.usd_per_hour is None:
        return None

    answering = generation.generating_on(job, architecture, offer.card, 1, library, only_16_bits=True)
    return None if answering is None else answering.seconds(1) + stages.compile_seconds


def _forward_rate(
    job: Job, network: Network, offer: Offer, library: Library, stages: StageCoefficients
) -> float | None:
    """Return the tokens per second that an offer evaluates; None where it cannot."""
    wanted = job.stages.evaluation
    assert wanted is not None
    if offer.is_cpu:
        ram = (offer.ram_gb or 0.0) * GB
        if "cpu" not in wanted.on or not evaluation_fits(network.parameters, ram, stages):
            return None
        return float(forward_tokens_per_second_cpu(network.active_parameters, offer.cpu_cores or 1.0, stages))
    if "one_gpu" not in wanted.on or offer.gpus != 1 or offer.usd_per_hour is None:
        return None
    card = library.gpu(offer.card)
    if not evaluation_fits(network.parameters, card.usable_gib * GIB, stages):
        return None
    peak = card.matmul16_tflops * TERA
    efficiency, _ = efficiency_of(card, library.calibrations["gpu_efficiency"])
    return float(forward_tokens_per_second_gpu(network.active_parameters, peak, efficiency, stages))


def ingested_tokens(job: Job, shape: JobShape) -> float:
    """Return the tokens that preparing the data makes: as stated, else those of one epoch; 0 for images."""
    wanted = job.stages.ingest
    if wanted is None or shape.unit == "images":
        return 0.0
    return float(wanted.tokens) if wanted.tokens is not None else shape.tokens / job.work.epochs


def prepared_gb(job: Job, shape: JobShape) -> float:
    """Return the GB that preparing the data makes: token ids, or the images themselves."""
    wanted = job.stages.ingest
    if wanted is None:
        return 0.0
    return wanted.raw_gb if shape.unit == "images" else ingested_tokens(job, shape) * TOKEN_GB


def separate_stage(
    stage: Literal["ingest", "evaluation", "export"],
    label: str,
    offer: Offer,
    hours: float,
    late_hours: float,
    moved_usd: float,
) -> SeparateStage:
    """Return the stage with hours as the offer bills them: whole steps, at least its minimum."""
    step, least = offer.billing.step_seconds / HOUR, offer.billing.minimum_hours
    billed, late = (float(round_up_hours(duration, step, least)) for duration in (hours, late_hours))
    price = (offer.usd_per_hour or 0.0) + fee_usd(offer, "machine hours")
    return SeparateStage(
        stage, label, offer, hours, late_hours, billed * price + moved_usd, late * price + moved_usd, billed, moved_usd
    )


# Merging and quantising the result: seconds on a machine of an offer, and the memory that it must have.


@dataclass(frozen=True)
class ExportWork:
    """What the export of a job asks of a machine: of a run that `adapts`, or of full training."""

    wanted: Export
    network: Network
    weights_gb: float  # of the whole model in 16 bit
    coefficients: ExportCoefficients
    adapts: bool

    @classmethod
    def of(cls, job: Job, architecture: Architecture, library: Library, adapts: bool) -> ExportWork | None:
        """Return the work; None where the result is only sent."""
        wanted = job.stages.export
        if wanted is None or not wanted.needs_work(adapts):
            return None
        values = ExportCoefficients.of(library.calibrations["stages"].values)
        return cls(wanted, network_of(architecture), architecture.download_gb, values, adapts)

    @property
    def made_gb(self) -> float:
        """Return the GB of what is made."""
        bits = self.wanted.quantised_bits
        if bits is None:
            return self.weights_gb
        weights = self.network.parameters
        if self.wanted.form == "gguf":
            return float(gguf_bytes(weights, bits, self.coefficients)) / GB
        return grouped_bytes(self.network, weights, bits, self.coefficients) / GB

    @property
    def ram_gb(self) -> float:
        """Return the GB of host memory that merging takes; 0 where nothing is merged."""
        weights = self.weights_gb * GB / 2.0
        return float(merge_ram_bytes(weights, self.coefficients)) / GB if self.adapts else 0.0

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU quantises."""
        return self.wanted.form in ("gptq", "awq")

    def fits_gpu(self, card: GpuSpec) -> bool:
        """Return whether a GPU holds what quantising layer by layer takes; nothing else needs one."""
        return not self.on_gpu or gpu_quantise_bytes(self.network, self.coefficients) <= card.usable_gib * GIB

    def seconds(self, peak_flops: Numbers, disk_bytes_per_second: Numbers) -> Any:
        """Return the seconds of merging and quantising on machines; `peak_flops` of one GPU in 16 bit."""
        weights, made, values = self.network.parameters, self.made_gb * GB, self.coefficients
        merged = merge_seconds(self.weights_gb * GB, disk_bytes_per_second) if self.adapts else 0.0
        if self.wanted.quantised_bits is None:
            return merged
        if not self.on_gpu:
            return merged + gguf_seconds(weights, made, disk_bytes_per_second, values)
        return merged + gpu_quantise_seconds(weights, made, peak_flops, disk_bytes_per_second, values)


def export_columns(job: Job, offers: Sequence[Offer], library: Library) -> tuple[Floats, Flags]:
    """Return seconds and lack of memory (2, offers) of exporting on the machine that trained.

    First row: the result of full training; second: that of adapters.
    """
    seconds, lacks = np.zeros((2, len(offers))), np.zeros((2, len(offers)), dtype=bool)
    architecture = library.architecture(job.architecture)
    disks = np.asarray([disk_rate(offer, library) for offer in offers], dtype=float)
    cards = [library.gpu(offer.card) if offer.rents_gpus else None for offer in offers]
    peaks = np.asarray([card.matmul16_tflops * TERA if card else np.nan for card in cards], dtype=float)
    ram_gb = np.asarray([np.nan if offer.ram_gb is None else offer.ram_gb for offer in offers], dtype=float)
    for adapts in (False, True):
        work = ExportWork.of(job, architecture, library, adapts)
        if work is None:
            continue
        seconds[int(adapts)] = work.seconds(peaks, disks)
        fits = [card is None or work.fits_gpu(card) for card in cards]
        lacks[int(adapts)] = (ram_gb < work.ram_gb) | ~np.asarray(fits, dtype=bool)  # nan, which is unknown, is enough
    return seconds, lacks


def place_exports(
    earlier: Sequence[Placement],
    job: Job,
    architecture: Architecture,
    run_hours: RunHours,
    market: Market,
    library: Library,
) -> tuple[Placement, ...]:
    """Return the placements of earlier stages joined with every place of the export that may be the best one.

    Adapters and full training leave other bytes, so each has its own. Raises ScenarioError where no place is left.
    """
    wanted = job.stages.export
    if wanted is None or set(wanted.places) == {"machine"}:
        return tuple(earlier)
    placements = list[Placement]()
    for adapts in sorted({bool(adapt) for adapt in run_hours.adapts}):
        work = ExportWork.of(job, architecture, library, adapts)
        options: list[SeparateStage | None] = [None] if work is None or "machine" in wanted.places else []
        if work is not None:
            options += undominated(_machine_options(job, work, market, library))
        placements += [replace(placement, export=export, adapts=adapts) for placement in earlier for export in options]
    methods = ("full",) if job.kind == "pretrain" else job.techniques.method or library.techniques.tried("method")
    allowed = [
        placement for placement in placements if any((method == "lora") == placement.adapts for method in methods)
    ]
    if earlier and not allowed and not market.managed_services(job.kind, architecture.name):
        raise ScenarioError([export_fault(job, architecture, library)])
    return tuple(placements)


def find_fitting(placements: Sequence[Placement], run_hours: RunHours, recipe: Integers, placement: Integers) -> Flags:
    """Return the rows (n,) whose placement is for what their recipe trains."""
    kind = np.asarray([-1 if placed.adapts is None else int(placed.adapts) for placed in placements])[placement]
    return np.asarray((kind < 0) | (kind == np.asarray(run_hours.adapts, dtype=np.int64)[recipe]), dtype=bool)


def export_fault(job: Job, architecture: Architecture, library: Library) -> Fault:
    """Return the fault of a result that no machine has the memory to make."""
    works = (ExportWork.of(job, architecture, library, adapts) for adapts in (True, False))
    needed = max((work.ram_gb for work in works if work is not None), default=0.0)
    form, where = job.stages.export.form if job.stages.export else "", f"jobs.{job.name}.stages.export"
    need = f"merging needs {needed:.0f} GB of RAM" if needed else f"{form} needs a larger GPU"
    fix = "offer a machine with as much (ram_gb), allow another place (on), or format: adapters"
    return Fault(job.name, 0, where, f"{need}, which no offer has", fix)


def _machine_options(job: Job, work: ExportWork, market: Market, library: Library) -> Iterator[SeparateStage]:
    """Yield the machines that can make the result.

    Each downloads all 16-bit weights, the base of adapters or what training has left; the seconds that adapters take
    are those of sending them. The result stays there where it is kept.
    """
    stages = StageCoefficients.of(library.calibrations["stages"].values)
    wanted, weights = work.wanted, work.weights_gb
    for label, offer in zip(market.separate_labels, market.separate_offers, strict=True):
        if not _can_make(work, offer, library):
            continue
        pull = line = download_rate(offer, library)
        if wanted.gb_per_second is not None:
            line = min(pull, wanted.gb_per_second * GB)
        peak = library.gpu(offer.card).matmul16_tflops * TERA if offer.rents_gpus else 0.0
        seconds = boot_seconds(pull, stages) + transfer_seconds(weights * GB, pull)
        seconds += work.seconds(peak, disk_rate(offer, library)) + transfer_seconds(work.made_gb * GB, line)
        hours = float(seconds) / HOUR
        kept = float(retained_gb_months(work.made_gb, job.stages.retention_hours or 0.0))
        moved = weights * fee_usd(offer, "GB in") + work.made_gb * fee_usd(offer, "GB out")
        moved += kept * fee_usd(offer, "GB kept")
        yield separate_stage("export", label, offer, hours, hours, moved)


def _can_make(work: ExportWork, offer: Offer, library: Library) -> bool:
    """Return whether an offer is at a place that the job allows, and is not known to have too little memory."""
    if ("cpu" if offer.is_cpu else "one_gpu") not in work.wanted.places:
        return False
    if offer.ram_gb is not None and offer.ram_gb < work.ram_gb:
        return False
    return offer.is_cpu or work.fits_gpu(library.gpu(offer.card))
