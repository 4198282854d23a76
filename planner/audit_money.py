"""Audit of the dollars of one job, in plain arithmetic: every line of the bill, and the cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.audit_ground import Ground, Tolerance, Violation, apart, unequal
from planner.audit_hours import Hours
from planner.audit_physics import Physics
from planner.plan import BillItem
from planner.units import GB, HOUR, MONTH_HOURS

IMAGE_GB = 10.0
"""Disk that a container image takes: the size of the stages calibration."""
UNKNOWN_FEE = "unknown: not included"
COARSE_STEP = 0.05
"""Billing steps up to this share of the run are not rounded."""


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
