"""Audit of stages on machines of their own: whether the plan may do them there, their hours and their dollars."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.audit.job.context import AssignmentContext, AuditContext, Tolerance, Violation, check_close, check_equal
from planner.configurations.hardware import PCIE_BYTES_PER_SECOND
from planner.estimates.time.data_stages import (
    evaluation_bytes,
    forward_tokens_per_second_cpu,
    forward_tokens_per_second_gpu,
    ingest_seconds,
)
from planner.estimates.time.stages import StageCoefficients, boot_seconds, download_seconds, load_seconds
from planner.estimates.trials import trial_work
from planner.units import GB, GIB, HOUR, TERA

if TYPE_CHECKING:
    from planner.audit.job.physics import Workload
    from planner.results.plan import SeparateMachine
    from planner.scenario.scenario import Offer

STAGES = ("ingest", "evaluation")


@dataclass(frozen=True)
class RecomputedStage:
    """A stage on a machine that is rented for it alone; `late_` where the run does not stop early."""

    stage: str
    provider: str
    hours: float
    late_hours: float
    billed_hours: float
    usd: float
    late_usd: float
    rate_usd: float | None  # None: dollars are not hours times a price alone


def recompute_separate_stages(ground: AuditContext, work: Workload) -> tuple[list[RecomputedStage], list[Violation]]:
    """The stages that the plan has beside, recomputed, and what of them must not be."""
    found: list[Violation] = []
    made: list[RecomputedStage] = []
    for told in ground.plan.beside:
        place = f"beside: {told.stage} at {told.offer}"
        offer = ground.offers.get(told.offer)
        if offer is None or told.stage not in STAGES or any(one.stage == told.stage for one in made):
            found.append(Violation(ground.plan.name, place, "one offer of the scenario for each stage", told.offer))
            continue
        faults = [*_compare_placement(ground, told, offer), *_compare_capability(ground, told.stage, offer)]
        found += [Violation(ground.plan.name, place, wanted, is_) for wanted, is_ in faults]
        if not faults:
            made.append(_ingest(ground, work, offer) if told.stage == "ingest" else _evaluation(ground, work, offer))
    if ground.observed_hours is None:
        found += _check_all_placed(ground)
    elif ground.plan.beside:
        found.append(Violation(ground.plan.name, "beside", "nothing: the whole job was observed", len(made)))
    return made, found


def _check_all_placed(ground: AuditContext) -> list[Violation]:
    """A stage that may not be done on the training machine, or that asks for more memory than it has, is elsewhere."""
    there = {told.stage for told in ground.plan.beside}
    ingest, ram = ground.job.stages.ingest, ground.offer.ram_gb
    found = []
    if ingest is not None and "ingest" not in there and ram is not None and ram < ingest.ram_gb:
        found.append(Violation(ground.plan.name, "place of ingest", f"at least {ingest.ram_gb:g} GB of RAM", ram))
    return found + [
        Violation(ground.plan.name, f"place of {stage}", " or ".join(wanted.on), "machine")
        for stage in STAGES
        if (wanted := getattr(ground.job.stages, stage)) is not None and "machine" not in wanted.on
        if stage not in there
    ]


def _compare_placement(ground: AuditContext, told: SeparateMachine, offer: Offer) -> list[tuple[str, str]]:
    """Pairs of what is wanted and what is: the place is allowed, and the offer is rented by the hour."""
    wanted = getattr(ground.job.stages, told.stage)
    place = "cpu" if offer.is_cpu else "one_gpu"
    faults = []
    if wanted is None or place not in wanted.on:
        faults.append((" or ".join(wanted.on) if wanted else "no such stage", place))
    if told.provider != offer.provider:
        faults.append((offer.provider, told.provider))
    if not ground.limits.permits(offer):
        faults.append(("an offer that the limits permit", offer.label))
    if offer.usd_per_hour is None or offer.commitment is not None or offer.committed_hours is not None:
        faults.append(("a price by the hour", offer.tier))
    if offer.stock == 0:
        faults.append(("a machine in stock", "none"))
    return faults


def _compare_capability(ground: AuditContext, stage: str, offer: Offer) -> list[tuple[str, str]]:
    """The same for what the machine has: cores and memory, or one GPU that holds the network."""
    if stage == "ingest":
        asked = ground.job.stages.ingest.ram_gb if ground.job.stages.ingest else 0.0
        has = asked if offer.ram_gb is None else offer.ram_gb
        return [] if has >= asked else [(f"{asked:g} GB of RAM", f"{has:g}")]
    if ground.architecture.image is not None:
        return [("images evaluated on the training machine", offer.label)]
    needs = float(evaluation_bytes(ground.network.parameters, StageCoefficients.of(ground.values("stages"))))
    if offer.is_cpu:
        room = (offer.ram_gb or 0.0) * GB
    elif offer.gpus != 1:
        return [("one GPU", str(offer.gpus))]
    else:
        room = ground.library.gpu(offer.card).usable_gib * GIB
    return [] if needs <= room else [(f"{needs / GB:.1f} GB of memory", f"{room / GB:.1f}")]


def _ingest(ground: AuditContext, work: Workload, offer: Offer) -> RecomputedStage:
    """Boot without an image, raw data in, token ids out."""
    wanted, coefficients = ground.job.stages.ingest, StageCoefficients.of(ground.values("stages"))
    raw = wanted.raw_gb if wanted else 0.0
    ram = offer.ram_gb or (wanted.ram_gb if wanted else 0.0)
    seconds = coefficients.boot_seconds + raw * GB / ground.data_download_rate_of(offer)
    seconds += float(
        ingest_seconds(
            raw * GB, work.ingested, offer.cpu_cores or 1.0, ram * GB, ground.disk_rate_of(offer), coefficients
        )
    )
    made_gb = raw if ground.job.work.images is not None else work.ingested * coefficients.ingest_bytes_per_token / GB
    moved = raw * (offer.fees.ingress_usd_per_gb or 0.0) + made_gb * (offer.fees.egress_usd_per_gb or 0.0)
    source = ground.job.stages.transfer
    if source is not None and source.region != offer.region:
        moved += raw * source.egress_usd_per_gb
    return _build_stage("ingest", offer, seconds / HOUR, seconds / HOUR, moved)


def _evaluation(ground: AuditContext, work: Workload, offer: Offer) -> RecomputedStage:
    """Boot, image, weights in and into memory, then forward passes over what all trials ask for."""
    job, coefficients = ground.job, StageCoefficients.of(ground.values("stages"))
    weights, pull = ground.architecture.download_gb, ground.download_rate_of(offer)
    slot = math.inf if offer.is_cpu else PCIE_BYTES_PER_SECOND[ground.library.gpu(offer.card).pcie_gen]
    disk = ground.disk_rate_of(offer) * job.load_efficiency / coefficients.disk_efficiency
    ready = float(boot_seconds(pull, coefficients)) + float(download_seconds(weights * GB, pull))
    ready += float(load_seconds(weights * GB, 1, disk, slot, coefficients))
    tokens = work.evaluated * trial_work(job.trials.count, job.trials.at_once, job.trials.halving).work
    whole = tokens / _forward_rate(ground, offer, coefficients)
    moved = weights * (offer.fees.ingress_usd_per_gb or 0.0)
    return _build_stage("evaluation", offer, (ready + whole * job.early_stopping) / HOUR, (ready + whole) / HOUR, moved)


def _forward_rate(ground: AssignmentContext, offer: Offer, coefficients: StageCoefficients) -> float:
    """Tokens per second of forward passes on the offer's one GPU, or its cores."""
    active = ground.network.active_parameters
    if offer.is_cpu:
        return float(forward_tokens_per_second_cpu(active, offer.cpu_cores or 1.0, coefficients))
    card = ground.library.gpu(offer.card)
    reached = ground.values("gpu_efficiency")[card.name]
    return float(forward_tokens_per_second_gpu(active, card.matmul16_tflops * TERA, reached, coefficients))


def _build_stage(stage: str, offer: Offer, hours: float, late_hours: float, moved_usd: float) -> RecomputedStage:
    price, billed = offer.usd_per_hour or 0.0, billed_hours(offer, hours)
    return RecomputedStage(
        stage=stage,
        provider=offer.provider,
        hours=hours,
        late_hours=late_hours,
        billed_hours=billed,
        usd=billed * price + moved_usd,
        late_usd=billed_hours(offer, late_hours) * price + moved_usd,
        rate_usd=price if moved_usd == 0 else None,
    )


def billed_hours(offer: Offer, hours: float) -> float:
    """Whole billing steps, at least the minimum; what is not rented costs nothing."""
    if hours <= 1e-9:
        return 0.0
    step = offer.billing.step_seconds / HOUR
    return max(offer.billing.minimum_hours, math.ceil(hours / step - 1e-9) * step)


def check_separate_stages(
    ground: AuditContext, elsewhere: list[RecomputedStage], tolerance: Tolerance
) -> list[Violation]:
    """Hours and dollars of every stage that has a machine of its own."""
    told = {one.stage: one for one in ground.plan.beside}
    found = check_equal(ground.plan.name, "stages beside", len(elsewhere), len(ground.plan.beside))
    for one in elsewhere:
        said, what = told[one.stage], f"beside: {one.stage}"
        found += check_close(ground.plan.name, f"{what}, hours", one.hours, said.hours, tolerance.hours)
        found += check_close(ground.plan.name, f"{what}, dollars", one.usd, said.usd, absolute=tolerance.usd)
    return found
