"""Export on a machine of its own: merging on a CPU machine, quantising there or on one GPU.

The training machines send what they have trained, adapters or all weights, and are given back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.offer_terms import disk_rate, download_rate
from planner.candidates.shipping.export_work import ExportWork
from planner.candidates.stage_placement import Placement, separate_stage, undominated
from planner.errors import Fault, ScenarioError
from planner.estimates.time.data_stages import retained_gb_months
from planner.estimates.time.stages import StageCoefficients, boot_seconds, transfer_seconds
from planner.units import GB, HOUR, TERA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.arrays import Flags, Integers
    from planner.candidates.market import Market
    from planner.candidates.run_hours import RunHours
    from planner.candidates.stage_placement import SeparateStage
    from planner.library.schema import Architecture, Library
    from planner.scenario.job import Job
    from planner.scenario.offer import Offer


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
    for adapts in sorted({bool(one) for one in run_hours.adapts}):
        work = ExportWork.of(job, architecture, library, adapts)
        options: list[SeparateStage | None] = [None] if work is None or "machine" in wanted.places else []
        if work is not None:
            options += undominated(_options(job, work, market, library))
        found += [replace(one, export=export, adapts=adapts) for one in earlier for export in options]
    methods = ("full",) if job.kind == "pretrain" else job.techniques.method or library.techniques.tried("method")
    allowed = [one for one in found if any((method == "lora") == one.adapts for method in methods)]
    if earlier and not allowed and not market.services(job.kind, architecture.name):
        raise ScenarioError([export_fault(job, architecture, library)])
    return tuple(found)


def find_fitting(placements: Sequence[Placement], run_hours: RunHours, recipe: Integers, placement: Integers) -> Flags:
    """Return the rows (n,) whose placement is for what their recipe trains."""
    kind = np.asarray([-1 if one.adapts is None else int(one.adapts) for one in placements])[placement]
    return np.asarray((kind < 0) | (kind == np.asarray(run_hours.adapts, dtype=np.int64)[recipe]), dtype=bool)


def export_fault(job: Job, architecture: Architecture, library: Library) -> Fault:
    """Return the fault of a result that no machine has the memory to make."""
    works = (ExportWork.of(job, architecture, library, adapts) for adapts in (True, False))
    needed = max((one.ram_gb for one in works if one is not None), default=0.0)
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
        hours, fees = float(seconds) / HOUR, offer.fees
        kept = float(retained_gb_months(work.made_gb, job.stages.retention_hours or 0.0))
        moved = weights * (fees.ingress_usd_per_gb or 0.0) + work.made_gb * (fees.egress_usd_per_gb or 0.0)
        moved += kept * (fees.network_storage_usd_per_gb_month or 0.0)
        yield separate_stage("export", label, offer, hours, hours, moved)


def _can_make(work: ExportWork, offer: Offer, library: Library) -> bool:
    """Return whether an offer is at a place that the job allows, and is not known to have too little memory."""
    if ("cpu" if offer.is_cpu else "one_gpu") not in work.wanted.places:
        return False
    if offer.ram_gb is not None and offer.ram_gb < work.ram_gb:
        return False
    return offer.is_cpu or work.fits_gpu(library.gpu(offer.card))
