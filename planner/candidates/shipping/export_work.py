"""Merging and quantising the result: seconds on a machine of an offer, and the memory that it must have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from planner.configurations.network import network_of
from planner.estimates.time.data_stages import merge_seconds
from planner.estimates.time.export import (
    ExportCoefficients,
    gguf_bytes,
    gguf_seconds,
    gpu_quantise_bytes,
    gpu_quantise_seconds,
    grouped_bytes,
    merge_ram_bytes,
)
from planner.records import record
from planner.units import GB, GIB, TERA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.arrays import Flags, Floats
    from planner.estimates.inputs import Network, Numbers
    from planner.library.schema import Architecture, GpuSpec, Library
    from planner.scenario.job import Job
    from planner.scenario.offer import Offer
    from planner.scenario.stages import Export


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
    cards = [library.gpu(one.card) if one.rents_gpus else None for one in offers]
    peaks = np.asarray([card.matmul16_tflops * TERA if card else np.nan for card in cards], dtype=float)
    ram_gb = np.asarray([np.nan if one.ram_gb is None else one.ram_gb for one in offers], dtype=float)
    for adapts in (False, True):
        work = ExportWork.of(job, architecture, library, adapts)
        if work is None:
            continue
        seconds[int(adapts)] = work.seconds(peaks, disks)
        fits = [card is None or work.fits_gpu(card) for card in cards]
        lacks[int(adapts)] = (ram_gb < work.ram_gb) | ~np.asarray(fits, dtype=bool)  # nan, which is unknown, is enough
    return seconds, lacks
