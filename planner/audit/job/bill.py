"""Audit of the dollars of one job, in plain arithmetic: every line of the bill, and the cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.audit.job.context import AssignmentContext, AuditContext, Tolerance, Violation, check_close, check_equal
from planner.audit.job.hours import RecomputedHours, is_coarse
from planner.audit.job.stage_placement import billed_hours
from planner.audit.job.stages import JobStages, disk_gb_of_group
from planner.estimates.trials import node_group_shares
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.audit.job.spot import RecomputedPolicyRun
    from planner.results.plan import BillItem

UNKNOWN_FEE = "unknown: not included"
FIXED_ITEMS = (
    "transfer in",
    "transfer out",
    "data leaving",
    "kept after",
    "commitment",
    "training runs",
    "tokens trained",
)
"""Items that do not grow with the hours."""
SEPARATE_STAGE_ITEMS = {"ingest": "prepare data", "evaluation": "evaluation"}


@dataclass(frozen=True)
class RecomputedLine:
    """One line of the bill as it should be."""

    item: str
    usd: float
    quantity: float
    unit: str
    rate_usd: float | None  # None: no single price
    unknown_fee: bool = False


def recompute_bill(
    ground: AuditContext,
    course: JobStages,
    hours: RecomputedHours,
    followed: RecomputedPolicyRun | None = None,
    late: bool = False,
) -> list[RecomputedLine]:
    """Every line of the bill, `late` at the asked confidence and the run in full; what is not used costs nothing."""
    if followed is None:
        uses, rented = _usage_by_item(ground, course, hours, late), hours.rented(ground.plan.spot_share, late)
    else:
        every, longer = (hours.late, course.stretch) if late else (1.0, 1.0)
        uses, rented = (
            _policy_usage_by_item(ground, course, followed, every, longer),
            followed.disk_hours(every, longer),
        )
    lines = [
        *_machine_lines(ground, uses),
        *_commitment_lines(ground),
        *_separate_stage_lines(course, hours, late),
        *_byte_lines(ground, course, rented),
    ]
    return [line for line in lines if line.quantity != 0]


def _policy_usage_by_item(
    ground: AuditContext, course: JobStages, followed: RecomputedPolicyRun, every: float, longer: float
) -> dict[str, tuple[float, float]]:
    """Machine hours by item, on demand and on spot; what is beside the run waits for no market."""
    n = ground.plan.instances
    uses = {
        item: (on_demand * longer * n * every, spot * longer * n * every)
        for item, (on_demand, spot) in followed.machine_hours(course).items()
    }
    return uses | {"prepare data": (course.prepare * n * every, 0.0), "export": (course.export * n * every, 0.0)}


def _usage_by_item(
    ground: AuditContext, course: JobStages, hours: RecomputedHours, late: bool
) -> dict[str, tuple[float, float]]:
    """Machine hours by item, on demand and on spot, over all gangs and instances."""
    k, n, share = ground.job.trials.at_once, ground.plan.instances, ground.plan.spot_share
    every, longer = (hours.late, course.stretch) if late else (1.0, 1.0)
    work = course.ratio * longer
    gang_hours = {
        "gpu": course.training * work,
        "start and load": k * course.start,
        "prepare data": k * course.prepare,
        "evaluation": course.evaluation * work,
        "checkpoints": course.checkpoints * work,
        "load between trials": course.reloads * longer,
        "wait for trials": course.waiting * longer,
        "export": k * course.export,
    }
    uses = {item: ((1 - share) * one * n * every, share * one * n * every) for item, one in gang_hours.items()}
    if share > 0:
        # Interruptions cost all gangs alike, in proportion to their hours.
        lost = course.all_groups_hours * (hours.paid_spot / course.run - 1.0)
        uses["lost on spot"] = (0.0, share * lost * longer * n * every)
        uses["move to on demand"] = (share * k * hours.switch * n * every, 0.0)
    if is_coarse(ground, course):
        # Every gang is billed by itself, for its own part of the run.
        trials = ground.job.trials
        shares = node_group_shares(trials.count, trials.at_once, trials.halving)
        added = [0.0, 0.0]
        for one in shares:
            run = course.all_groups_hours * longer * one / sum(shares)
            paid = run * hours.paid_spot / course.run if share > 0 else 0.0
            billed = (
                (1 - share) * (course.outside_run_hours + run) + share * hours.switch,
                share * (course.outside_run_hours + paid),
            )
            for market in (0, 1):
                added[market] += (billed_hours(ground.offer, billed[market] * every) - billed[market] * every) * n
        uses["rounded up"] = (added[0], added[1])
    return uses


def _machine_lines(ground: AuditContext, uses: dict[str, tuple[float, float]]) -> list[RecomputedLine]:
    """By what machines do in which market; own machines by what their hours cost the house."""
    offer = ground.offer
    if offer.own is not None:
        return _own_lines(ground, math.fsum(pair[0] for pair in uses.values()))
    price = 0.0 if offer.commitment else offer.usd_per_hour
    spot = offer.spot_usd_per_hour
    paid_before = offer.commitment is not None or offer.committed_hours is not None
    lines = []
    for item, (on_demand, on_spot) in uses.items():
        if item == "gpu":
            lines.append(_line("gpu committed" if paid_before else "gpu on demand", on_demand, "h", price))
            lines.append(_line("gpu spot", on_spot, "h", spot))
            continue
        quantity, usd = on_demand + on_spot, on_demand * (price or 0.0) + on_spot * (spot or 0.0)
        lines.append(RecomputedLine(item, usd, quantity, "h", usd / quantity if quantity else None))
    return lines


def _own_lines(ground: AuditContext, hours: float) -> list[RecomputedLine]:
    """Electricity and wear; a what-if on the price of the hour moves both alike."""
    own, price = ground.offer.own, ground.offer.usd_per_hour
    if own is None or price is None:
        return []
    power = own.power_watts / 1000 * own.usd_per_kwh
    wear = own.purchase_usd / own.lifetime_hours if own.lifetime_hours else 0.0
    factor = price / (power + wear) if power + wear else 0.0
    named = (("power", power), ("wear of own machines", wear))
    return [_line(item, hours, "h", part * factor) for item, part in named if part]


def _commitment_lines(ground: AuditContext) -> list[RecomputedLine]:
    """The whole term of every instance, however little of it is used."""
    commitment = ground.offer.commitment
    if commitment is None:
        return []
    term = f"{commitment.months} month{'s' if commitment.months > 1 else ''}"
    due = commitment.upfront_usd + (ground.offer.usd_per_hour or 0.0) * commitment.months * MONTH_HOURS
    machines = ground.plan.instances * ground.job.trials.at_once
    return [_line("commitment", float(machines), f"machine for {term}", due)]


def _separate_stage_lines(course: JobStages, hours: RecomputedHours, late: bool) -> list[RecomputedLine]:
    every = hours.late if late else 1.0
    return [
        RecomputedLine(
            f"{SEPARATE_STAGE_ITEMS[one.stage]} at {one.provider}",
            (one.late_usd if late else one.usd) * every,
            one.billed_hours * every,
            "h",
            one.rate_usd,
        )
        for one in course.separate_stages
    ]


def _byte_lines(ground: AuditContext, course: JobStages, rented: float) -> list[RecomputedLine]:
    """Disks while machines are rented, what is kept after, what moves."""
    job, fees, node_groups = ground.job, ground.offer.fees, ground.job.trials.at_once
    machines = ground.plan.instances * node_groups
    stored = disk_gb_of_group(ground, course) * node_groups * rented / MONTH_HOURS
    after = (course.result_gb + course.kept_gb) * (job.stages.retention_hours or 0.0) / MONTH_HOURS
    source = job.stages.transfer
    lines = [
        _line("storage", stored, "GB-month", fees.storage_usd_per_gb_month),
        _line("kept after", after, "GB-month", fees.network_storage_usd_per_gb_month),
        _line("transfer in", course.moved_gb * machines, "GB", fees.ingress_usd_per_gb),
        _line("transfer out", course.result_gb, "GB", fees.egress_usd_per_gb),
    ]
    if source is not None and source.egress_usd_per_gb > 0:
        lines.append(_line("data leaving", course.own_gb * machines, "GB", source.egress_usd_per_gb))
    return lines


def _line(item: str, quantity: float, unit: str, rate: float | None) -> RecomputedLine:
    return RecomputedLine(item, quantity * rate if rate is not None else 0.0, quantity, unit, rate, rate is None)


def check_bill(ground: AssignmentContext, lines: Sequence[RecomputedLine], tolerance: Tolerance) -> list[Violation]:
    """Every line to half a cent; none missing, none twice, none invented; the sum is the cost."""
    plan = ground.plan
    told = {one.item: one for one in plan.bill}
    found = check_equal(plan.name, "lines of the bill", len(plan.bill), len(told))
    for line in lines:
        one = told.pop(line.item, None)
        if one is not None:
            found += _check_line(plan.name, line, one, tolerance)
        else:
            # What costs nothing because nothing is used need not be said.
            found += check_close(plan.name, f"bill: {line.item}", line.quantity, 0.0, tolerance.hours)
    found += [Violation(plan.name, "bill", "a known item", item) for item in told]
    total = math.fsum(one.usd for one in plan.bill)
    return found + check_close(plan.name, "sum of the bill", total, plan.cost_usd, absolute=tolerance.usd)


def _check_line(job: str, line: RecomputedLine, told: BillItem, tolerance: Tolerance) -> list[Violation]:
    what = f"bill: {line.item}"
    found = check_close(job, what, line.usd, told.usd, absolute=tolerance.usd)
    found += check_close(job, f"{what}, quantity", line.quantity, told.quantity, tolerance.hours)
    found += check_equal(job, f"{what}, unit", line.unit, told.unit)
    if line.rate_usd is None:
        found += check_equal(job, f"{what}, rate", None, told.rate_usd)
    else:
        found += check_close(job, f"{what}, rate", line.rate_usd, told.rate_usd, tolerance.hours)
    basis = UNKNOWN_FEE if line.unknown_fee else ""
    return found + check_equal(job, f"{what}, basis", basis, told.basis)


def check_cost(
    ground: AssignmentContext,
    lines: Sequence[RecomputedLine],
    late: Sequence[RecomputedLine],
    reach: float,
    tolerance: Tolerance,
) -> list[Violation]:
    """Expected cost, its interval a factor `reach` to both sides of what grows with hours, and the cost when late."""
    plan = ground.plan
    total = math.fsum(line.usd for line in lines)
    fixed = math.fsum(line.usd for line in lines if line.item in FIXED_ITEMS)
    spot = plan.spot  # held against the curve by itself
    luck, spread = (spot.luck_usd, spot.usd_sd) if spot else (0.0, 0.0)
    hourly = total - fixed
    low = max((hourly - luck) / reach, hourly - math.hypot(hourly * (1 - 1 / reach), 1.28 * spread))
    high = hourly + math.hypot(hourly * (reach - 1), 1.28 * spread)
    found: list[Violation] = []
    for what, wanted, told in (
        ("cost_usd", total, plan.cost_usd),
        ("cost.expected", total, plan.cost.expected),
        ("cost.low", fixed + low, plan.cost.low),
        ("cost.high", fixed + high, plan.cost.high),
        ("cost_at_confidence", math.fsum(line.usd for line in late), plan.cost_at_confidence),
    ):
        found += check_close(plan.name, what, wanted, told, absolute=tolerance.usd)
    return found
