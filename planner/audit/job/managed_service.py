"""Audit of a job that a managed service trains: no machine, hours by the service's speed, dollars by its price list.

Data go in once for all trials, as they are; one result comes out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.audit.job.bill import RecomputedLine, check_bill, check_cost
from planner.audit.job.configuration import check_adapters
from planner.audit.job.context import AssignmentContext, Tolerance, Violation, check_close, check_equal
from planner.audit.job.hours import check_deadline_probability, check_hour_limits
from planner.audit.job.physics import Workload, recompute_workload
from planner.configurations.recipe import framework_of
from planner.estimates.billing import MILLION, service_tokens_per_second, service_usd
from planner.estimates.parameters import lora_parameters
from planner.estimates.trials import trial_work
from planner.estimates.uncertainty import confidence_factor
from planner.units import GB, HOUR, MONTH_HOURS

if TYPE_CHECKING:
    from planner.scenario.payment import Managed

NO_MACHINE_FIGURES = {
    "gpu": "managed",
    "gpus": 0,
    "gpus_per_instance": 0,
    "instances": 0,
    "interconnect": "",
    "spot_share": 0.0,
    "switch_to_on_demand_at_hours": None,
    "step_seconds": 0.0,
    "beside": (),
    "commitment": None,
    "fed_by_storage": False,
    "observed_hours": None,
    "observed_runs": (),
    "speed_factor": 1.0,
    "memory_factor": 1.0,
}
"""What a plan says of machines, where there are none."""
NO_TECHNIQUES = {
    "weight_bits": 16,
    "quant": "none",
    "precision": "managed",
    "activation_checkpointing": "none",
    "micro_batch": 0,
    "accumulation_steps": 0,
    "sharding": "none",
    "attention": "managed",
    "optimizer": "managed",
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
}
"""Techniques of a service, which tells its method alone."""


@dataclass(frozen=True)
class RecomputedService:
    """Speed and hours of all trials of a job at a service; `late` at the confidence, the run in full."""

    rate: float  # tokens (images) per second of one run
    sigma: float
    training: float
    upload: float
    export: float
    late_hours: float  # all of them

    @property
    def hours(self) -> float:
        """From the first byte that leaves to the last that is back."""
        return self.upload + self.training + self.export


def check_service(ground: AssignmentContext, managed: Managed, tolerance: Tolerance) -> list[Violation]:
    """Everything that a plan says of a job at a service."""
    work = recompute_workload(ground)
    result = _result_gb(ground, managed)
    service = _service(ground, managed, work, result)
    lines, late = ([*_lines(ground, managed, work, late), *_moved_lines(ground, result)] for late in (False, True))
    return [
        *_check_support(ground, managed),
        *_has_no_machine(ground),
        *_check_speed(ground, work, service, tolerance),
        *check_hour_limits(ground, service.late_hours, tolerance),
        *check_deadline_probability(ground, service.hours, service.late_hours, tolerance),
        *check_bill(ground, lines, tolerance),
        # What a service asks does not hang on how long it takes.
        *check_cost(ground, lines, late, 1.0, tolerance),
    ]


def _check_support(ground: AssignmentContext, managed: Managed) -> list[Violation]:
    """The service takes the network, and trains it in a way that the job allows."""
    plan, job = ground.plan, ground.job
    found = check_equal(plan.name, "method", managed.method, plan.techniques.method)
    if ground.architecture.name not in managed.architectures:
        wanted = "one of " + ", ".join(managed.architectures)
        found.append(Violation(plan.name, "architecture at the service", wanted, ground.architecture.name))
    methods = ("full",) if job.kind == "pretrain" else job.techniques.method or ("full", "lora")
    if managed.method not in methods:
        found.append(Violation(plan.name, "method at the service", " or ".join(methods), managed.method))
    if managed.method == "lora" and 16 not in (job.techniques.weight_bits or (16,)):
        found.append(Violation(plan.name, "weight_bits at the service", "among those asked for", 16))
    return found


def _has_no_machine(ground: AssignmentContext) -> list[Violation]:
    plan, said, vram = ground.plan, ground.plan.techniques, ground.plan.vram_gib
    found = []
    for what, wanted in NO_MACHINE_FIGURES.items():
        if getattr(plan, what) != wanted:
            found.append(Violation(plan.name, f"{what} of a service", str(wanted), str(getattr(plan, what))))
    for what, word in NO_TECHNIQUES.items():
        found += check_equal(plan.name, f"{what} of a service", str(word), str(getattr(said, what)))
    memory = (vram.peak, vram.allocated, vram.usable, *vram.parts.values())
    if any(memory) or vram.fit_probability != 1.0 or vram.phase:
        found.append(Violation(plan.name, "vram_gib of a service", "nothing to fit into", vram.peak))
    return found + check_adapters(ground)


def _result_gb(ground: AssignmentContext, managed: Managed) -> float:
    """The adapters that the job asks for, or all weights as the network is released."""
    job, export = ground.job, ground.job.stages.export
    if managed.method == "full" or (export and export.merged):
        return ground.architecture.download_gb
    count = lora_parameters(ground.network, job.lora.rank, job.lora.targets).trainable
    kept_as = framework_of(ground.library, job.framework).adapters
    return float(count) * ground.library.techniques.bytes.adapters[kept_as].adapter_bytes / GB


def _data_gb(ground: AssignmentContext) -> float:
    ingest = ground.job.stages.ingest
    return ground.job.data_gb + (ingest.raw_gb if ingest else 0.0)


def _service(ground: AssignmentContext, managed: Managed, work: Workload, result: float) -> RecomputedService:
    """Speed as told, else what a guess of the service's hardware makes of the network; images count as tokens do."""
    job, stages = ground.job, ground.values("stages")
    trials = trial_work(job.trials.count, job.trials.at_once, job.trials.halving)
    tokens_each = work.mean_length if ground.architecture.image is not None else 1.0
    guess = service_tokens_per_second(ground.network.active_parameters, stages["managed_flop_per_second"])
    rate = managed.tokens_per_second or guess / tokens_each
    sigma = stages["managed_sigma_told" if managed.tokens_per_second else "managed_sigma_assumed"]
    full = (work.real + work.evaluated) * trials.wall / rate / HOUR
    late = float(confidence_factor(sigma, job.confidence))
    upload = _data_gb(ground) * GB / ground.data_download_rate_of(ground.offer) / HOUR
    export, line = 0.0, ground.download_rate_of(ground.offer)
    if (wanted := job.stages.export) is not None:
        line = min(line, wanted.gb_per_second * GB) if wanted.gb_per_second else line
        export = result * GB / line / HOUR
    return RecomputedService(rate, sigma, full * job.early_stopping, upload, export, (upload + full + export) * late)


def _lines(ground: AssignmentContext, managed: Managed, work: Workload, late: bool) -> list[RecomputedLine]:
    """Tokens and runs at their prices, and what is missing to the minimum."""
    job, trials = ground.job, ground.job.trials
    share = 1.0 if late else job.early_stopping
    tokens = (work.real + work.evaluated) * trial_work(trials.count, trials.at_once, trials.halving).work * share
    runs = float(trials.count)
    per_token, per_run = managed.usd_per_million_tokens or 0.0, managed.usd_per_run or 0.0
    millions = tokens / MILLION
    lines = []
    if managed.usd_per_million_tokens is not None:
        lines.append(RecomputedLine("tokens trained", millions * per_token, millions, "M tokens", per_token))
    if managed.usd_per_run is not None:
        lines.append(RecomputedLine("training runs", runs * per_run, runs, "runs", per_run))
    due = service_usd(tokens, runs, per_token, per_run, managed.minimum_usd)
    missing = due - math.fsum(line.usd for line in lines)
    if missing > 1e-9:
        lines.append(RecomputedLine("minimum charge", missing, runs, "runs", None))
    return lines


def _moved_lines(ground: AssignmentContext, result: float) -> list[RecomputedLine]:
    """Data that leave their place and enter the service, the result that comes out and is kept; none of nothing."""
    fees, source, data = ground.offer.fees, ground.job.stages.transfer, _data_gb(ground)
    months = (ground.job.stages.retention_hours or 0.0) / MONTH_HOURS
    moved = [
        ("kept after", result * months, "GB-month", fees.network_storage_usd_per_gb_month),
        ("transfer in", data, "GB", fees.ingress_usd_per_gb),
        ("transfer out", result, "GB", fees.egress_usd_per_gb),
    ]
    if source is not None and source.region != ground.offer.region and source.egress_usd_per_gb > 0:
        moved.append(("data leaving", data, "GB", source.egress_usd_per_gb))
    return [
        RecomputedLine(item, amount * (rate or 0.0), amount, unit, rate, rate is None)
        for item, amount, unit, rate in moved
        if amount > 0
    ]


def _check_speed(
    ground: AssignmentContext, work: Workload, service: RecomputedService, tolerance: Tolerance
) -> list[Violation]:
    """Steps, speed and hours with their intervals."""
    plan = ground.plan
    reach = math.exp(1.28 * service.sigma)
    found = check_equal(plan.name, "steps", int(work.steps), plan.steps)
    found += check_equal(plan.name, "sequence_length", int(work.sequence), plan.sequence_length)
    for what, expected, told in (
        ("tokens_per_second", service.rate, plan.tokens_per_second),
        ("tokens_per_second_low", service.rate / reach, plan.tokens_per_second_low),
        ("tokens_per_second_high", service.rate * reach, plan.tokens_per_second_high),
        ("sigma", service.sigma, plan.sigma),
        ("sigma_tail", service.sigma, plan.sigma_tail),
        ("start_hours", service.upload, plan.start_hours),
        ("training_hours", service.training, plan.training_hours),
        ("stage_hours.export", service.export, plan.stage_hours.get("export", 0.0)),
        ("hours.expected", service.hours, plan.hours.expected),
        ("hours.low", service.hours / reach, plan.hours.low),
        ("hours.high", service.hours * reach, plan.hours.high),
        ("hours.at_confidence", service.late_hours, plan.hours.at_confidence),
    ):
        found += check_close(plan.name, what, expected, told, tolerance.hours)
    strange = sorted(set(plan.stage_hours) - {"export"})
    return found + [Violation(plan.name, "stage_hours", "a known stage of a service", stage) for stage in strange]
