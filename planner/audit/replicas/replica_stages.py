"""Stages of a job of generation in plain floats: start, answering, loads between trials, answers on their way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.audit.shipping.export import sent_hours
from planner.audit.stages import JobStages
from planner.configurations.hardware import PCIE_BYTES_PER_SECOND
from planner.estimates.time.stages import load_seconds
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from planner.audit.context import AuditContext
    from planner.audit.replicas.generation import RecomputedReplicas

_IMAGE_GB = 10.0  # disk that a container image takes
_BYTES_PER_TOKEN = 4.0  # of an answer as text


def recompute_replica_stages(context: AuditContext, found: RecomputedReplicas) -> JobStages:
    """Return the stages: start, answering, loads between trials, answers on their way out."""
    job, trials, offer = found.replica.job, context.trials, context.offer
    weights, pull = context.architecture.release_gb, context.download_rate_of(offer)
    own_pull = context.download_rate_of(offer, of_own_data=True)
    disk = job.storage_gb_per_second * GB * job.load_efficiency / context.stages.disk_efficiency
    slot = PCIE_BYTES_PER_SECOND[context.gpu.pcie_gen]
    load = float(load_seconds(weights * GB, found.replica.together, disk, slot, context.stages, 0, 1)) / HOUR
    boot = context.stages.boot_seconds + context.stages.image_bytes / pull
    start = (boot + weights * GB / pull + job.data_gb * GB / own_pull) / HOUR + load
    source, wanted = job.stages.transfer, job.stages.export
    lies_here = source is not None and (source.region,) == offer.regions
    result = wanted.gb if wanted and wanted.gb else job.work.total_output_tokens * _BYTES_PER_TOKEN / GB
    once = found.work.steps * found.step_seconds / HOUR
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
