"""The bill of one candidate, line by line: item, quantity, price.

At a spot share x, a share 1 - x of the work is done on demand and x on spot. Hours are machine hours of all node
groups. A line that both markets share has the price of the mix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.offer_terms import UNKNOWN_FEE
from planner.estimates.billing import round_up_hours
from planner.estimates.time.data_stages import retained_gb_months
from planner.results.plan import BillItem
from planner.units import HOUR, MONTH_HOURS

if TYPE_CHECKING:
    from planner.candidate_table import CandidateTable
    from planner.candidates.job_candidates import JobCandidates
    from planner.candidates.market import Market
    from planner.candidates.spot_candidates import SpotChoice
    from planner.scenario.job import Job
    from planner.scenario.offer import Offer
    from planner.scenario.payment import Managed

FIXED_ITEMS = (
    "transfer in",
    "transfer out",
    "data leaving",
    "kept after",
    "commitment",
    "training runs",
    "tokens trained",
)
"""Lines that do not depend on hours."""
MIN_USD = 1e-9
"""Amounts up to this are rounding errors."""
OUTSIDE_RUN_ITEMS = ("prepare data", "export")
"""What the machines do before and after the run."""


@dataclass(frozen=True)
class ItemHours:
    """Machine hours of one item in each market."""

    item: str
    on_demand: float
    spot: float


@dataclass(frozen=True)
class BilledHours:
    """The hours on the bill of one candidate, expected or at the confidence."""

    uses: tuple[ItemHours, ...]
    rounded: tuple[float, float]  # machine hours that billing steps and minimum charges add, per market
    wall: float  # hours in which the machines are rented


@dataclass(frozen=True)
class ChosenCandidate:
    """A row of the uncut table as a plan takes it; `figures` is its row of the screened table."""

    row: int
    share: float
    rounded: bool
    figures: CandidateTable
    spot: SpotChoice | None = None


def build_bill(
    candidates: JobCandidates, chosen: ChosenCandidate, market: Market, late: bool = False
) -> tuple[BillItem, ...]:
    """Return the bill of a choice; `late` at the confidence of the job, without early stopping."""
    row = chosen.row
    offer = market.offers[int(candidates.table.offer[row])]
    if offer.managed is not None:
        return _service_lines(candidates, row, offer, offer.managed, late)
    times = compute_billed_hours(candidates, chosen, offer, late)
    lines = [
        *_machine_lines(times, offer),
        *_commitment_lines(candidates, row, offer),
        *_separate_stage_lines(candidates, row, late),
        *_data_lines(candidates, row, offer, times.wall),
    ]
    return tuple(line for line in lines if line.quantity)


def compute_billed_hours(candidates: JobCandidates, chosen: ChosenCandidate, offer: Offer, late: bool) -> BilledHours:
    """Return machine hours by item, and the hours in which machines are rented."""
    row, share = chosen.row, chosen.share
    h, n = candidates.hours, int(candidates.table.instances[row]) // candidates.hours.node_groups
    late_factor, stretch = (float(h.late[row]), float(h.stretch[row])) if late else (1.0, 1.0)
    run, node_groups, group_run = float(h.run[row]), h.node_groups, float(h.group_run[row])
    waiting, ratio = float(h.waiting[row]), _group_work_ratio(candidates, row)
    reloads = group_run - waiting - (run - float(h.reload[row])) * ratio
    machines = n * late_factor

    def use(item: str, hours: float) -> ItemHours:
        """Return an item of `hours` of one instance per node group."""
        return ItemHours(item, (1.0 - share) * hours * machines, share * hours * machines)

    ratio *= stretch
    uses = [
        use("gpu", float(h.training[row]) * ratio),
        use("start and load", node_groups * float(h.start[row])),
        use("prepare data", node_groups * float(h.ingest[row])),
        use("evaluation", float(h.evaluation[row]) * ratio),
        use("checkpoints", float(h.checkpoints[row]) * ratio),
        use("load between trials", reloads * stretch),
        use("wait for trials", waiting * stretch),
        use("export", node_groups * float(h.export[row])),
    ]
    if chosen.spot is not None:
        uses = _follow_policy(uses, chosen.spot, run, machines, stretch)
    elif share > 0:
        lost = float(h.spot_group_paid[row]) - group_run
        uses.append(ItemHours("lost on spot", 0.0, share * lost * stretch * machines))
        uses.append(ItemHours("move to on demand", share * float(h.switch[row]) * node_groups * machines, 0.0))
    whole = float((chosen.figures.late_hours if late else chosen.figures.hours)(share)[0])
    if chosen.spot is not None and late:  # storage of a late run, not of one that takes all the time it may
        finish = chosen.spot.point.finish_hours
        whole = (float(h.after_start[row]) + finish * stretch + float(h.late_separate[row])) * late_factor
    separate = float(h.late_separate[row]) * late_factor if late else float(h.separate[row])
    rounded = _rounded_hours(candidates, chosen, offer, n, late_factor, stretch) if chosen.rounded else (0.0, 0.0)
    return BilledHours(tuple(uses), rounded, whole - separate)


def _rounded_hours(
    candidates: JobCandidates, chosen: ChosenCandidate, offer: Offer, instances: int, late: float, stretch: float
) -> tuple[float, float]:
    """Return the machine hours that billing steps and minimum charges add on demand and on spot."""
    step, least = offer.billing.step_seconds / HOUR, offer.billing.minimum_hours
    groups = candidates.hours.rows(np.asarray([chosen.row])).billed(chosen.share, late, stretch)
    on_demand, spot = (
        math.fsum(float(round_up_hours(hours, step, least)[0] - hours[0]) * instances for hours in of_market)
        for of_market in zip(*groups, strict=True)
    )
    return on_demand, spot


def _follow_policy(
    uses: list[ItemHours], spot: SpotChoice, run: float, machines: float, stretch: float
) -> list[ItemHours]:
    """Return the uses under a policy: beyond the work of `run` hours it pays starts, stalls on spot, and lost work.

    The spot share of the work is done on spot. What is outside the run is done on demand.
    """
    point = spot.point
    each = machines * stretch
    on_demand = point.on_demand_hours - (1.0 - point.spot_share) * run
    lost = point.spot_hours - point.spot_share * run
    kept = [
        ItemHours(one.item, one.on_demand + one.spot, 0.0) if one.item in OUTSIDE_RUN_ITEMS else one for one in uses
    ]
    return [
        *(one for one in kept if one.item != "start and load"),
        ItemHours("starts on demand", on_demand * each, 0.0),
        ItemHours("starts and losses", 0.0, lost * each),
    ]


def _group_work_ratio(candidates: JobCandidates, row: int) -> float:
    """Return the work hours of all node groups over those of the longest chain of trials."""
    h = candidates.hours
    work = float(h.run[row] - h.reload[row])
    reloads = float(h.reload[row]) * candidates.run_hours.reload_share
    return (float(h.group_run[row]) - float(h.waiting[row]) - reloads) / work


def _machine_lines(times: BilledHours, offer: Offer) -> list[BillItem]:
    """Return what machines cost by the hour: by item and market, or power and depreciation of own machines."""
    if offer.own is not None and offer.usd_per_hour is not None:
        hours = math.fsum(one.on_demand for one in times.uses) + times.rounded[0]
        parts = (offer.own.power_usd_per_hour, offer.own.depreciation_usd_per_hour)
        # A what-if on the price of the hour changes both in proportion.
        factor = offer.usd_per_hour / sum(parts) if sum(parts) else 0.0
        names = ("power", "wear of own machines")
        return [_line(name, hours, "h", part * factor) for name, part in zip(names, parts, strict=True) if part]
    price = 0.0 if offer.commitment else offer.usd_per_hour
    committed = offer.commitment is not None or offer.committed_hours is not None
    lines = []
    for one in times.uses:
        if one.item == "gpu":
            lines.append(_line("gpu committed" if committed else "gpu on demand", one.on_demand, "h", price))
            lines.append(_line("gpu spot", one.spot, "h", offer.spot_usd_per_hour))
        else:
            lines.append(_mixed_line(one.item, one.on_demand, one.spot, price, offer.spot_usd_per_hour))
    return [*lines, _mixed_line("rounded up", *times.rounded, price, offer.spot_usd_per_hour)]


def _mixed_line(item: str, on_demand: float, spot: float, price: float | None, spot_price: float | None) -> BillItem:
    """Return a line that both markets may share; its rate is that of the mix."""
    quantity = on_demand + spot
    usd = on_demand * (price or 0.0) + spot * (spot_price or 0.0)
    if not quantity:
        return BillItem(item=item, usd=0.0, quantity=0.0, unit="h")
    return BillItem(item=item, usd=usd, quantity=quantity, unit="h", rate_usd=usd / quantity)


def _commitment_lines(candidates: JobCandidates, row: int, offer: Offer) -> list[BillItem]:
    """Return the line of a commitment, which is paid per machine."""
    if offer.commitment is None:
        return []
    months = f"{offer.commitment.months} month{'s' if offer.commitment.months > 1 else ''}"
    machines = float(candidates.table.instances[row])
    return [_line("commitment", machines, f"machine for {months}", offer.committed_usd)]


def _separate_stage_lines(candidates: JobCandidates, row: int, late: bool) -> list[BillItem]:
    """Return the lines of stages on separate machines; late, the error of the estimate stretches them too."""
    factor = float(candidates.hours.late[row]) if late else 1.0
    names = {"ingest": "prepare data", "evaluation": "evaluation"}
    lines = []
    for one in candidates.placement_of(row).separate_stages:
        usd = (one.late_usd if late else one.usd) * factor
        item = f"{names[one.stage]} at {one.offer.provider}"
        rate = one.offer.usd_per_hour if not late and one.moved_usd == 0 else None
        lines.append(BillItem(item=item, usd=usd, quantity=one.billed_hours * factor, unit="h", rate_usd=rate))
    return lines


def _data_lines(candidates: JobCandidates, row: int, offer: Offer, wall: float) -> list[BillItem]:
    """Return the lines of storage and transfers; machines are rented for `wall` hours."""
    h, recipe = candidates.hours, int(candidates.table.recipe[row])
    machines = int(candidates.table.instances[row])
    kept, export = candidates.run_hours.kept_gb[recipe], candidates.run_hours.export_gb[recipe]
    after = float(retained_gb_months(export + kept, candidates.job.stages.retention_hours or 0.0))
    stored, moved = float(h.stored_gb[row]) * wall / MONTH_HOURS, float(h.moved_gb[row]) * machines
    return [
        _line("storage", stored, "GB-month", offer.fees.storage_usd_per_gb_month),
        *_transfer_lines(candidates.job, offer, after, float(h.own_gb[row]) * machines, moved, export),
    ]


def _transfer_lines(
    job: Job, offer: Offer, kept_gb_months: float, own_gb: float, moved_gb: float, result_gb: float
) -> list[BillItem]:
    """Return the lines of what is kept after the run, of the user's data, and of transfers in and out."""
    source, fees = job.stages.transfer, offer.fees
    charged = own_gb if source and source.egress_usd_per_gb else 0.0
    return [
        _line("kept after", kept_gb_months, "GB-month", fees.network_storage_usd_per_gb_month),
        _line("data leaving", charged, "GB", source.egress_usd_per_gb if source else 0.0),
        _line("transfer in", moved_gb, "GB", fees.ingress_usd_per_gb),
        _line("transfer out", result_gb, "GB", fees.egress_usd_per_gb),
    ]


def _service_lines(
    candidates: JobCandidates, row: int, offer: Offer, managed: Managed, late: bool
) -> tuple[BillItem, ...]:
    """Return the bill of a managed service: tokens, runs, at least the minimum charge; then what moves and is kept."""
    service = candidates.services.run_at(int(candidates.table.offer[row]))
    usd, tokens = (service.late_usd, service.late_tokens) if late else (service.usd, service.tokens)
    runs = float(candidates.job.trials.count)
    lines = [
        _line(item, amount, unit, price)
        for item, amount, unit, price in (
            ("tokens trained", tokens / 1e6, "M tokens", managed.usd_per_million_tokens),
            ("training runs", runs, "runs", managed.usd_per_run),
        )
        if price is not None  # a price of 0 is on the bill, a missing price is not
    ]
    minimum = usd - math.fsum(line.usd for line in lines)
    if minimum > MIN_USD:
        lines.append(BillItem(item="minimum charge", usd=minimum, quantity=runs, unit="runs"))
    moved = _transfer_lines(
        candidates.job, offer, service.kept_gb_months, service.own_gb, service.data_gb, service.result_gb
    )
    return (*lines, *(line for line in moved if line.quantity))


def _line(item: str, quantity: float, unit: str, rate: float | None) -> BillItem:
    """Return a line; a rate of None is an unknown fee."""
    if rate is None:
        return BillItem(item=item, usd=0.0, quantity=quantity, unit=unit, basis=UNKNOWN_FEE if quantity else "")
    return BillItem(item=item, usd=quantity * rate, quantity=quantity, unit=unit, rate_usd=rate)
