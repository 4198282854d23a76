"""Audit of what a job's machines are rented for, stage by stage, in plain arithmetic.

A gang is the machines of one run. All hours are expected ones of one gang on the wall clock, spot left out, unless a
name says otherwise; trials side by side are several gangs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.audit.job.context import AuditContext, Tolerance, Violation, check_close
from planner.estimates.time.data_stages import ingest_seconds, machine_cores, merge_seconds, upload_seconds
from planner.estimates.time.stages import (
    StageCoefficients,
    asynchronous_stall_seconds,
    boot_seconds,
    checkpoint_seconds,
    checkpoint_stall_seconds,
    download_seconds,
    evaluation_seconds,
    goodput_factor,
    kept_checkpoint_bytes,
    load_seconds,
)
from planner.estimates.trials import TrialWork, trial_work
from planner.units import GB, HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.audit.job.physics import RecomputedPhysics, Workload
    from planner.audit.job.stage_placement import RecomputedStage

MIN_RAM_GB = 32.0
"""Memory of a training machine whose offer does not say."""
IMAGE_GB = 10.0
"""Disk that a container image takes: the size of the stages calibration."""


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
    waiting: float  # machine hours of all gangs
    reloads: float  # machine hours of all gangs
    trials: TrialWork
    early: float  # share of the run after which it is expected to stop; 1 where it was observed
    separate_stages: tuple[RecomputedStage, ...]
    raw_gb: float  # raw data on the disk of each instance
    moved_gb: float  # onto each instance: weights and data
    own_gb: float  # of them what leaves the place where the user's data lie
    result_gb: float
    kept_gb: float  # checkpoints that stay, per gang

    @property
    def outside_run_hours(self) -> float:
        """Hours beside the run in which the machines are rented."""
        return self.start + self.prepare + self.export

    @property
    def work(self) -> float:
        """What early stopping shortens and trials repeat."""
        return self.training + self.evaluation + self.checkpoints

    @property
    def run(self) -> float:
        """Hours of the longest chain of trials on demand."""
        return self.work + self.reload

    @property
    def ratio(self) -> float:
        """Machine hours of all gangs over those of the longest chain, waiting and loading left out."""
        return self.trials.work / self.trials.wall

    @property
    def all_groups_hours(self) -> float:
        """Machine hours of the run over all gangs."""
        return self.work * self.ratio + self.waiting + self.reloads

    @property
    def stretch(self) -> float:
        """The run without early stopping over the run expected."""
        return (self.work / self.early + self.reload) / self.run

    @property
    def separate_hours(self) -> float:
        """Hours of stages on machines of their own."""
        return math.fsum(one.hours for one in self.separate_stages)

    @property
    def late_separate_hours(self) -> float:
        """The same where the run does not stop early."""
        return math.fsum(one.late_hours for one in self.separate_stages)


def recompute_stages(
    ground: AuditContext, work: Workload, physics: RecomputedPhysics, elsewhere: Sequence[RecomputedStage]
) -> JobStages:
    """All stages of the one configuration that the plan names, given those on machines of their own."""
    job, seen = ground.job, ground.observed_hours
    coefficients = StageCoefficients.of(ground.values("stages"))
    trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)
    there = {one.stage for one in elsewhere}
    raw, tokens, made = _data_on_machine(ground, work, there)
    load = _load_hours(ground, physics, coefficients)
    restart = _restart_hours(ground, job.data_gb + raw, tokens, load, coefficients)
    result = result_gb(ground, physics)
    source, weights = job.stages.transfer, ground.architecture.download_gb
    beside_data = source is not None and source.region == ground.offer.region
    stay = (
        (checkpoint_size_bytes(ground, physics, coefficients) * job.stages.checkpoints.keep)
        if job.stages.checkpoints
        else 0.0
    )
    if seen is None:
        step_hours = work.steps * physics.step_seconds / HOUR
        once = step_hours * float(goodput_factor(step_hours, ground.plan.instances, 0, coefficients))
        evaluated = 0.0 if "evaluation" in there else _evaluation_hours(ground, work, physics, coefficients)
        parts = (once, evaluated, _checkpoint_hours(ground, physics, once, coefficients))
    else:
        parts = (seen, 0.0, 0.0)
    early = job.early_stopping if seen is None else 1.0
    training, evaluation, checkpoints = (one * trials.wall * early for one in parts)
    live = 1.0 if seen is None else 0.0  # an observed run is seen from start to end: nothing is added
    return JobStages(
        start=restart * live,
        restart=restart,
        prepare=live * _prepare_hours(ground, work, raw, coefficients),
        export=live * _export_hours(ground, result),
        training=training,
        evaluation=evaluation,
        checkpoints=checkpoints,
        reload=live * load * trials.reloads_wall,
        waiting=(training + evaluation + checkpoints) * trials.waiting / trials.wall,
        reloads=live * load * trials.reloads,
        trials=trials,
        early=early,
        separate_stages=tuple(elsewhere),
        raw_gb=raw + made,
        moved_gb=weights + job.data_gb + raw + tokens,
        own_gb=0.0 if beside_data else job.data_gb + raw,
        result_gb=result,
        kept_gb=stay / GB,
    )


def _data_on_machine(ground: AuditContext, work: Workload, there: set[str]) -> tuple[float, float, float]:
    """GB of raw data, and of what was made elsewhere, that come onto each instance; GB that preparing makes.

    Token ids are made of text; images stay what they are.
    """
    ingest = ground.job.stages.ingest
    if ingest is None:
        return 0.0, 0.0, 0.0
    # Of an observed run the plan tells no places: what may be done on the machine is.
    here = "ingest" not in there and (ground.observed_hours is None or "machine" in ingest.on)
    per_token = ground.values("stages")["ingest_bytes_per_token"]
    made = ingest.raw_gb if ground.job.work.images is not None else work.ingested * per_token / GB
    return (ingest.raw_gb, 0.0, made) if here else (0.0, made, made)


def _restart_hours(
    ground: AuditContext, own_gb: float, made_gb: float, load: float, coefficients: StageCoefficients
) -> float:
    """Boot, image, weights and data from the outside, then weights from disk to the GPUs.

    The user's data leave their place no faster than that lets them; what was made elsewhere flows freely.
    """
    pull = ground.download_rate_of(ground.offer)
    seconds = float(boot_seconds(pull, coefficients))
    seconds += float(download_seconds(ground.architecture.download_gb * GB, pull))
    seconds += float(download_seconds(own_gb * GB, ground.data_download_rate_of(ground.offer)))
    seconds += float(download_seconds(made_gb * GB, pull))
    return seconds / HOUR + load


def _load_hours(ground: AuditContext, physics: RecomputedPhysics, coefficients: StageCoefficients) -> float:
    job = ground.job
    # The job states how fast its disk is read, and the share of that which loading reaches.
    disk = job.storage_gb_per_second * GB * job.load_efficiency / coefficients.disk_efficiency
    seconds = load_seconds(
        ground.architecture.download_gb * GB,
        ground.plan.gpus,
        disk,
        physics.pcie_bytes_per_second,
        coefficients,
        quantised_weights=ground.network.parameters if ground.recipe.weight_bits < 16 else 0,
        compiled=int(ground.framework.compiled),
    )
    return float(seconds) / HOUR


def _prepare_hours(ground: AuditContext, work: Workload, raw_gb: float, coefficients: StageCoefficients) -> float:
    ingest, offer = ground.job.stages.ingest, ground.offer
    if ingest is None or raw_gb == 0:
        return 0.0
    seconds = ingest_seconds(
        raw_gb * GB,
        work.ingested,
        offer.cpu_cores or float(machine_cores(offer.gpus, coefficients)),
        (offer.ram_gb or max(MIN_RAM_GB, ingest.ram_gb)) * GB,
        ground.disk_rate_of(offer),
        coefficients,
    )
    return float(seconds) / HOUR


def _evaluation_hours(
    ground: AuditContext, work: Workload, physics: RecomputedPhysics, coefficients: StageCoefficients
) -> float:
    """Of one run, on the training machine."""
    rate = work.real / (work.steps * physics.step_seconds)
    told = evaluation_seconds(work.evaluated, rate, physics.frozen, physics.checkpointing, coefficients)
    return float(told) / HOUR


def _checkpoint_hours(
    ground: AuditContext, physics: RecomputedPhysics, once: float, coefficients: StageCoefficients
) -> float:
    """Of one run of `once` hours: what training waits for the checkpoints that the job asks for."""
    wanted = ground.job.stages.checkpoints
    if wanted is None:
        return 0.0
    stored = checkpoint_size_bytes(ground, physics, coefficients)
    disk = ground.job.storage_gb_per_second * GB
    written = float(checkpoint_seconds(stored, ground.plan.instances, disk, math.inf, coefficients))
    slot = physics.pcie_bytes_per_second
    copied = float(asynchronous_stall_seconds(stored, ground.plan.gpus, slot, coefficients))
    copied += coefficients.checkpoint_fixed_seconds
    stall = checkpoint_stall_seconds(written, copied, once * HOUR / wanted.count, wanted.asynchronous)
    return wanted.count * float(stall) / HOUR


def checkpoint_size_bytes(ground: AuditContext, physics: RecomputedPhysics, coefficients: StageCoefficients) -> float:
    """One checkpoint that the job asks for."""
    wanted = ground.job.stages.checkpoints
    if wanted is None:
        return 0.0
    each = physics.adapter_bytes if ground.recipe.method == "lora" else coefficients.weight_bytes_per_parameter
    return float(kept_checkpoint_bytes(physics.trainable, each, wanted.contents == "resume", coefficients))


def result_gb(ground: AuditContext, physics: RecomputedPhysics) -> float:
    """The adapters, or all weights as the network is released."""
    export = ground.job.stages.export
    if ground.recipe.method == "lora" and not (export and export.merged):
        return physics.trainable * physics.adapter_bytes / GB
    return ground.architecture.download_gb


def _export_hours(ground: AuditContext, result: float) -> float:
    wanted = ground.job.stages.export
    if wanted is None:
        return 0.0
    line = ground.download_rate_of(ground.offer)
    if wanted.gb_per_second is not None:
        line = min(line, wanted.gb_per_second * GB)
    seconds = float(upload_seconds(result * GB, line))
    if wanted.merged and ground.recipe.method == "lora":
        seconds += float(merge_seconds(ground.architecture.download_gb * GB, ground.disk_rate_of(ground.offer)))
    return seconds / HOUR


def disk_gb_of_group(ground: AuditContext, course: JobStages) -> float:
    """What is stored while the machines of one run are rented: their disks, and the checkpoints that stay."""
    each = 2 * ground.architecture.download_gb + ground.job.data_gb + IMAGE_GB + course.raw_gb
    return each * ground.plan.instances + course.kept_gb


def check_stages(ground: AuditContext, course: JobStages, tolerance: Tolerance) -> list[Violation]:
    """Hours of start and of every stage beside training; one that takes no time need not be said."""
    plan, told = ground.plan, dict(ground.plan.stage_hours)
    there = {one.stage: one.hours for one in course.separate_stages}
    found = check_close(plan.name, "start_hours", course.start, plan.start_hours, tolerance.hours)
    for stage, hours in (
        ("prepare data", course.prepare + there.get("ingest", 0.0)),
        ("evaluation", course.evaluation + there.get("evaluation", 0.0)),
        ("checkpoints", course.checkpoints),
        ("load between trials", course.reload),
        ("export", course.export),
    ):
        found += check_close(plan.name, f"stage_hours.{stage}", hours, told.pop(stage, 0.0), tolerance.hours)
    return found + [Violation(plan.name, "stage_hours", "a known stage", stage) for stage in told]
