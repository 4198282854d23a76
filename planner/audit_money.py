"""Audit of hours and dollars of one job, in plain arithmetic: start, run, spot, bill."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.audit_ground import Ground, Tolerance, Violation, apart, beyond, unequal
from planner.audit_physics import Physics, Workload
from planner.estimates.preemption import GangCoefficients, gang_market, interrupted_run, wall_quantile_factor
from planner.estimates.stages import (
    StageCoefficients,
    asynchronous_stall_seconds,
    boot_seconds,
    checkpoint_bytes,
    download_seconds,
    goodput_factor,
    load_seconds,
)
from planner.estimates.uncertainty import late_factor
from planner.jobs import MAX_CONFIDENCE
from planner.plan import BillItem
from planner.units import GB, HOUR, MONTH_HOURS

IMAGE_GB = 10.0
"""Disk that a container image takes: the size of the stages calibration."""
UNKNOWN_FEE = "unknown: not included"
COARSE_STEP = 0.05
"""Billing steps up to this share of the run are not rounded."""
DEFAULT_MAX_HOURS = {"finetune": 720.0, "pretrain": 2160.0}


@dataclass(frozen=True)
class Hours:
    """Wall and paid hours of all the work in each market; `late_` at the asked confidence."""

    start: float
    on_demand: float
    spot: float  # wall, the switch included
    switch: float
    late_start: float
    late_on_demand: float
    late_spot: float
    paid_spot: float  # machine hours, the start left out
    wall_spot: float  # wall, the switch left out
    late: float  # factor on hours of compute at the confidence

    def expected(self, share: float) -> float:
        """Wall hours at a spot share."""
        return self.start + _mixed(share, self.on_demand, self.spot)

    def at_confidence(self, share: float) -> float:
        """Wall hours at a spot share that the asked confidence holds for."""
        return self.late_start + _mixed(share, self.late_on_demand, self.late_spot)


def _mixed(share: float, on_demand: float, spot: float) -> float:
    """A market that gets no work does not count, however it behaves."""
    return (on_demand * (1 - share) if share < 1 else 0.0) + (spot * share if share > 0 else 0.0)


def hours_of(ground: Ground, work: Workload, physics: Physics) -> Hours:
    """All hours of the job on its machines."""
    job, plan, offer = ground.job, ground.plan, ground.offer
    stages = ground.values("stages")
    coefficients = StageCoefficients.of(stages)
    start = _start_hours(ground, physics, coefficients)
    step_hours = work.steps * physics.step_seconds / HOUR / job.efficiency
    run = step_hours * float(goodput_factor(step_hours, plan.instances, 0, coefficients))
    late = float(late_factor(physics.sigma_tail, job.confidence))
    up, share = stages["spot_mean_up_hours"], stages["spot_availability"]
    if offer.spot is not None:
        up, share = offer.spot.mean_up_hours, offer.spot.availability
    gang = GangCoefficients.of(stages)
    saved = checkpoint_bytes(physics.trainable, coefficients)
    stall = float(asynchronous_stall_seconds(saved, plan.gpus, physics.pcie_bytes_per_second, coefficients))
    stall += coefficients.checkpoint_fixed_seconds  # even small adapters halt the run for a moment
    interrupted = interrupted_run(
        run,
        start,
        stall / HOUR,
        gang_market(up, share, plan.instances, gang),
        gang,
        stages["spot_outage_cv"],
    )
    switch = 0.0 if offer.usd_per_hour is None else start
    wall = float(interrupted.wall)
    spread = wall_quantile_factor(job.confidence, ground.values("uncertainty")["wall_spread"])
    return Hours(
        start=start,
        on_demand=run,
        spot=wall + switch,
        switch=switch,
        late_start=start * late,
        late_on_demand=run * late,
        late_spot=wall * late * spread + switch * late,
        paid_spot=float(interrupted.paid),
        wall_spot=wall,
        late=late,
    )


def _start_hours(ground: Ground, physics: Physics, coefficients: StageCoefficients) -> float:
    """Boot, image, weights and data from the outside, then weights from disk to the GPUs."""
    job, plan = ground.job, ground.plan
    stages = ground.values("stages")
    pull = stages["community_pull_bytes_per_second" if ground.offer.community else "pull_bytes_per_second"]
    weights = ground.architecture.download_gb * GB
    seconds = float(boot_seconds(pull, coefficients))
    seconds += float(download_seconds(weights + job.data_gb * GB, pull))
    # The job states how fast its disk is read, and the share of that which loading reaches.
    disk = job.storage_gb_per_second * GB * job.load_efficiency / coefficients.disk_efficiency
    seconds += float(
        load_seconds(
            weights,
            plan.gpus,
            math.inf,
            disk,
            physics.pcie_bytes_per_second,
            coefficients,
            quantised_weights=ground.network.parameters if ground.recipe.weight_bits < 16 else 0,
            compiled=int(bool(ground.framework.get("compiled"))),
        )
    )
    return seconds / HOUR


def hours_are_told(ground: Ground, hours: Hours, physics: Physics, tolerance: Tolerance) -> list[Violation]:
    """Start, training, expected, interval and at-confidence hours are what comes out again."""
    plan, share = ground.plan, ground.plan.spot_share
    expected, reach = hours.expected(share), math.exp(1.28 * physics.sigma)
    found: list[Violation] = []
    for what, wanted, told in (
        ("start_hours", hours.start, plan.start_hours),
        ("training_hours", expected - hours.start, plan.training_hours),
        ("hours.expected", expected, plan.hours.expected),
        ("hours.low", expected / reach, plan.hours.low),
        ("hours.high", expected * reach, plan.hours.high),
        ("hours.at_confidence", hours.at_confidence(share), plan.hours.at_confidence),
    ):
        found += apart(plan.name, what, wanted, told, tolerance.hours)
    return found


def hours_hold(ground: Ground, hours: Hours, tolerance: Tolerance) -> list[Violation]:
    """At the asked confidence the job ends before its deadline and the longest run."""
    job, late = ground.job, hours.at_confidence(ground.plan.spot_share)
    longest = ground.limits.max_hours or DEFAULT_MAX_HOURS[job.kind]
    found: list[Violation] = []
    for what, limit in (("deadline_hours", job.deadline_hours), ("max_hours", longest)):
        if limit is not None:
            found += beyond(job.name, f"{what} at confidence", limit, late, tolerance.hours * limit)
    return found


def deadline_chance_is_told(ground: Ground, hours: Hours, tolerance: Tolerance) -> list[Violation]:
    """The chance to end in time is the one that the spread of the hours gives, at least the confidence."""
    job, plan, told = ground.job, ground.plan, ground.plan.deadline_probability
    if job.deadline_hours is None:
        return unequal(plan.name, "deadline_probability", None, told)
    if told is None or not job.confidence - 1e-6 <= told <= 1:
        return [Violation(plan.name, "deadline_probability", f"at least {job.confidence:g}", told)]
    expected, late = hours.expected(plan.spot_share), hours.at_confidence(plan.spot_share)
    if job.confidence <= 0.5:
        return []  # the hours at this confidence say nothing about how wide the spread is
    # Late hours go as exp(scale * t), t the quantile of Student's t with 2 degrees of freedom.
    p = job.confidence
    quantile = (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    t = math.log(job.deadline_hours / expected) / (math.log(late / expected) / quantile)
    chance = min(MAX_CONFIDENCE, 0.5 * (1 + t / math.sqrt(2 + t * t)))
    return apart(plan.name, "deadline_probability", chance, told, tolerance.hours)


@dataclass(frozen=True)
class Line:
    """One line of the bill as it should be."""

    item: str
    usd: float
    quantity: float
    unit: str
    rate_usd: float | None  # None: unknown fee

    @property
    def by_the_hour(self) -> bool:
        """Whether it grows with the hours."""
        return not self.item.startswith("transfer")


def bill_of(ground: Ground, hours: Hours, physics: Physics, late: bool = False) -> list[Line]:
    """Every line of the bill: machines by market, storage, transfers; `late` at the asked confidence."""
    plan, offer, job, n = ground.plan, ground.offer, ground.job, ground.plan.instances
    share, factor = plan.spot_share, hours.late if late else 1.0
    on_demand = factor * ((1 - share) * (hours.start + hours.on_demand) + share * hours.switch)
    spot = factor * share * (hours.start + hours.paid_spot)
    if is_coarse(ground, hours):
        on_demand, spot = _rounded(ground, on_demand), _rounded(ground, spot)
    weights = ground.architecture.download_gb
    adapters = physics.trainable * _adapter_bytes(ground) / GB
    out = adapters if ground.recipe.method == "lora" else weights
    disk = (2 * weights + job.data_gb + IMAGE_GB) * n
    kept = hours.at_confidence(share) if late else hours.expected(share)
    fees = offer.fees
    return [
        _line("gpu on demand", on_demand * n, "h", offer.usd_per_hour),
        _line("gpu spot", spot * n, "h", offer.spot_usd_per_hour),
        _line("storage", disk * kept / MONTH_HOURS, "GB-month", fees.storage_usd_per_gb_month),
        _line("transfer in", (weights + job.data_gb) * n, "GB", fees.ingress_usd_per_gb),
        _line("transfer out", out, "GB", fees.egress_usd_per_gb),
    ]


def _line(item: str, quantity: float, unit: str, rate: float | None) -> Line:
    return Line(item, quantity * rate if rate is not None else 0.0, quantity, unit, rate)


def is_coarse(ground: Ground, hours: Hours) -> bool:
    """Whether the billing step or minimum is too large to be left out of the sums."""
    billing = ground.offer.billing
    too_long = billing.step_seconds / HOUR > COARSE_STEP * hours.on_demand
    return too_long or billing.minimum_hours > hours.start + hours.on_demand


def _rounded(ground: Ground, hours: float) -> float:
    if hours <= 0:
        return 0.0
    step = ground.offer.billing.step_seconds / HOUR
    return max(ground.offer.billing.minimum_hours, math.ceil(hours / step - 1e-9) * step)


def _adapter_bytes(ground: Ground) -> float:
    """Bytes per adapter weight as they are kept and exported."""
    return float(ground.library.tables["bytes"]["adapters"][ground.framework["adapters"]]["w"])


def bill_is_told(ground: Ground, lines: list[Line], tolerance: Tolerance) -> list[Violation]:
    """Every line to half a cent; none missing, none twice, none invented; the sum is the cost."""
    plan = ground.plan
    told = {one.item: one for one in plan.bill}
    found = unequal(plan.name, "lines of the bill", len(plan.bill), len(told))
    for line in lines:
        one = told.pop(line.item, None)
        if one is not None:
            found += _line_is_told(plan.name, line, one, tolerance)
        else:
            # What costs nothing because nothing is used need not be said.
            found += apart(plan.name, f"bill: {line.item}", line.quantity, 0.0, tolerance.hours)
    found += [Violation(plan.name, "bill", "a known item", item) for item in told]
    total = math.fsum(one.usd for one in plan.bill)
    return found + apart(plan.name, "sum of the bill", total, plan.cost_usd, absolute=tolerance.usd)


def _line_is_told(job: str, line: Line, told: BillItem, tolerance: Tolerance) -> list[Violation]:
    what = f"bill: {line.item}"
    found = apart(job, what, line.usd, told.usd, absolute=tolerance.usd)
    found += apart(job, f"{what}, quantity", line.quantity, told.quantity, tolerance.hours)
    found += unequal(job, f"{what}, unit", line.unit, told.unit)
    if line.rate_usd is None:
        found += unequal(job, f"{what}, rate", None, told.rate_usd)
    else:
        found += apart(job, f"{what}, rate", line.rate_usd, told.rate_usd, tolerance.hours)
    basis = UNKNOWN_FEE if line.rate_usd is None else ""
    return found + unequal(job, f"{what}, basis", basis, told.basis)


def cost_is_told(
    ground: Ground, lines: list[Line], hours: Hours, physics: Physics, tolerance: Tolerance
) -> list[Violation]:
    """Expected cost, its interval, and the cost at the asked confidence."""
    plan = ground.plan
    total = math.fsum(line.usd for line in lines)
    fixed = math.fsum(line.usd for line in lines if not line.by_the_hour)
    reach = math.exp(1.28 * physics.sigma)
    late = math.fsum(line.usd for line in bill_of(ground, hours, physics, late=True))
    found: list[Violation] = []
    for what, wanted, told in (
        ("cost_usd", total, plan.cost_usd),
        ("cost.expected", total, plan.cost.expected),
        ("cost.low", fixed + (total - fixed) / reach, plan.cost.low),
        ("cost.high", fixed + (total - fixed) * reach, plan.cost.high),
        ("cost_at_confidence", late, plan.cost_at_confidence),
    ):
        found += apart(plan.name, what, wanted, told, absolute=tolerance.usd)
    return found


def spot_end_is_told(ground: Ground, hours: Hours, tolerance: Tolerance) -> list[Violation]:
    """When a run moves from spot to on demand: after its spot share; never, where it is all one market."""
    plan, share = ground.plan, ground.plan.spot_share
    if not 0 < share < 1:
        return unequal(plan.name, "switch_to_on_demand_at_hours", None, plan.switch_to_on_demand_at_hours)
    at = hours.start + share * hours.wall_spot
    return apart(plan.name, "switch_to_on_demand_at_hours", at, plan.switch_to_on_demand_at_hours, tolerance.hours)
