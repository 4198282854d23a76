"""Export of a result: seconds of merging and quantising, and the machine of its own that does it.

The training machines send what they have trained, adapters or all weights, and are given back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.arrays import Flags, Floats, Integers
from planner.candidates.market import Market, disk_rate, download_rate, fee_usd
from planner.candidates.run_hours import RunHours
from planner.candidates.stage_hours import Placement, SeparateStage, separate_stage, undominated
from planner.configurations.grid import network_of
from planner.errors import Fault, ScenarioError
from planner.estimates.inputs import Network, Numbers
from planner.estimates.time.export_work import (
    ExportCoefficients,
    gguf_bytes,
    gguf_seconds,
    gpu_quantise_bytes,
    gpu_quantise_seconds,
    grouped_bytes,
    merge_ram_bytes,
)
from planner.estimates.time.stage_seconds import (
    StageCoefficients,
    boot_seconds,
    merge_seconds,
    retained_gb_months,
    transfer_seconds,
)
from planner.library.schema import Architecture, GpuSpec, Library
from planner.records import record
from planner.scenario.job import Job
from planner.scenario.job_stages import Export
from planner.scenario.offer import Offer
from planner.units import GB, GIB, HOUR, TERA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Merging and quantising the result: seconds on a machine of an offer, and the memory that it must have.


@record(frozen=True)
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


def export_columns(job: Job, offers: Sequence[Offer], disks: Floats, library: Library) -> tuple[Floats, Flags]:
    """Return seconds and lack of memory (2, offers) of exporting on the machine that trained.

    First row: the result of full training; second: that of adapters.
    """
    seconds, lacks = np.zeros((2, len(offers))), np.zeros((2, len(offers)), dtype=bool)
    architecture = library.architecture(job.architecture)
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
    found = list[Placement]()
    for adapts in sorted({bool(adapt) for adapt in run_hours.adapts}):
        work = ExportWork.of(job, architecture, library, adapts)
        options: list[SeparateStage | None] = [None] if work is None or "machine" in wanted.places else []
        if work is not None:
            options += undominated(_options(job, work, market, library))
        found += [replace(placement, export=export, adapts=adapts) for placement in earlier for export in options]
    methods = ("full",) if job.kind == "pretrain" else job.techniques.method or library.techniques.tried("method")
    allowed = [placement for placement in found if any((method == "lora") == placement.adapts for method in methods)]
    if earlier and not allowed and not market.services(job.kind, architecture.name):
        raise ScenarioError([export_fault(job, architecture, library)])
    return tuple(found)


def find_fitting(placements: Sequence[Placement], run_hours: RunHours, recipe: Integers, placement: Integers) -> Flags:
    """Return the rows (n,) whose placement is for what their recipe trains."""
    kind = np.asarray([-1 if placed.adapts is None else int(placed.adapts) for placed in placements])[placement]
    return np.asarray((kind < 0) | (kind == np.asarray(run_hours.adapts, dtype=np.int64)[recipe]), dtype=bool)


def export_fault(job: Job, architecture: Architecture, library: Library) -> Fault:
    """Return the fault of a result that no machine has the memory to make."""
    works = (ExportWork.of(job, architecture, library, adapts) for adapts in (True, False))
    needed = max((work.ram_gb for work in works if work is not None), default=0.0)
    form, where = job.stages.export.form if job.stages.export else "", f"jobs.{job.name}.stages.export"
    what = f"merging needs {needed:.0f} GB of RAM" if needed else f"{form} needs a larger GPU"
    fix = "offer a machine with as much (ram_gb), allow another place (on), or format: adapters"
    return Fault(job.name, 0, where, f"{what}, which no offer has", fix)


def _options(job: Job, work: ExportWork, market: Market, library: Library) -> Iterator[SeparateStage]:
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
