"""The bill of one candidate, line by line: what is paid for, how much of it, at what price.

At a spot share x the work is done for 1 - x on demand and for x on spot; hours are machine hours of all gangs.
A line that both markets share has the price of its mix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.managed_service import build_service_run
from planner.candidates.offer_terms import UNKNOWN_FEE, disk_gb
from planner.estimates.billing import round_up_hours
from planner.estimates.time.data_stages import retained_gb_months
from planner.results.plan import BillItem
from planner.units import HOUR, MONTH_HOURS

if TYPE_CHECKING:
    from planner.candidate_table import CandidateTable
    from planner.candidates.enumeration import JobCandidates
    from planner.candidates.market import Market
    from planner.candidates.spot_candidates import SpotChoice
    from planner.library.schema import Library
    from planner.scenario.scenario import Offer

FIXED_ITEMS = (
    "transfer in",
    "transfer out",
    "data leaving",
    "kept after",
    "commitment",
    "training runs",
    "tokens trained",
)
"""Lines that do not grow with hours."""
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
    """The hours of one candidate that its bill is made from, expected or at the confidence; x is the spot share."""

    uses: tuple[ItemHours, ...]
    rounded: tuple[float, float]  # machine hours that billing steps and minimum charges add, per market
    wall: float  # in which the machines are rented


@dataclass(frozen=True)
class ChosenCandidate:
    """A row of the uncut table as a plan takes it; `figures` is its row of the screened table."""

    row: int
    share: float
    rounded: bool
    figures: CandidateTable
    spot: SpotChoice | None = None


def build_bill(
    candidates: JobCandidates, chosen: ChosenCandidate, market: Market, library: Library, late: bool = False
) -> tuple[BillItem, ...]:
    """The lines of the bill of a choice; `late` at the asked confidence, the run in full."""
    row = chosen.row
    offer = market.offers[int(candidates.table.offer[row])]
    if offer.managed is not None:
        return _service_lines(candidates, row, market, library, late)
    times = compute_billed_hours(candidates, chosen, offer, late)
    lines = [
        *_machine_lines(times, offer),
        *_commitment_lines(candidates, row, offer),
        *_separate_stage_lines(candidates, row, late),
        *_byte_lines(candidates, row, offer, times.wall),
    ]
    return tuple(line for line in lines if line.quantity)


def compute_billed_hours(candidates: JobCandidates, chosen: ChosenCandidate, offer: Offer, late: bool) -> BilledHours:
    """Machine hours by what they are for, and the hours in which machines are rented."""
    row, share = chosen.row, chosen.share
    h, n = candidates.hours, int(candidates.table.instances[row]) // candidates.hours.node_groups
    every = float(h.late[row]) if late else 1.0
    longer = float(h.stretch[row]) if late else 1.0
    run, node_groups = float(h.run[row]), h.node_groups
    machine_hours = float(h.group_run[row])
    waiting, reload = float(h.waiting[row]), float(h.reload[row])
    reloads = machine_hours - waiting - (run - reload) * _works(candidates, row)
    od, spot = 1.0 - share, share

    def use(item: str, hours: float) -> ItemHours:
        return ItemHours(item, od * hours * n * every, spot * hours * n * every)

    ratio = _works(candidates, row) * longer
    uses = [
        use("gpu", float(h.training[row]) * ratio),
        use("start and load", node_groups * float(h.start[row])),
        use("prepare data", node_groups * float(h.ingest[row])),
        use("evaluation", float(h.evaluation[row]) * ratio),
        use("checkpoints", float(h.checkpoints[row]) * ratio),
        use("load between trials", reloads * longer),
        use("wait for trials", waiting * longer),
        use("export", node_groups * float(h.export[row])),
    ]
    if chosen.spot is not None:
        uses = _under_policy(uses, chosen.spot, float(h.run[row]), n * every, longer)
    elif share > 0:
        lost = float(h.spot_group_paid[row]) - machine_hours
        uses.append(ItemHours("lost on spot", 0.0, share * lost * longer * n * every))
        uses.append(ItemHours("move to on demand", share * float(h.switch[row]) * node_groups * n * every, 0.0))
    added = (0.0, 0.0)
    if chosen.rounded:
        step, least = offer.billing.step_seconds / HOUR, offer.billing.minimum_hours
        every_gang = h.rows(np.asarray([row])).billed(share, every, longer)
        on_demand, on_spot = (
            math.fsum(float(round_up_hours(gang[market], step, least)[0] - gang[market][0]) * n for gang in every_gang)
            for market in (0, 1)
        )
        added = (on_demand, on_spot)
    whole = float((chosen.figures.late_hours if late else chosen.figures.hours)(share)[0])
    if chosen.spot is not None and late:  # disks of a late run, not of one that takes all the time it may
        once = float(h.once[row] - h.start[row])
        whole = (once + chosen.spot.point.finish_hours * longer + float(h.late_separate[row])) * every
    aside = float(h.late_separate[row]) * every if late else float(h.aside[row])
    return BilledHours(tuple(uses), added, whole - aside)


def _under_policy(
    uses: list[ItemHours], spot: SpotChoice, run: float, machines: float, longer: float
) -> list[ItemHours]:
    """The uses where a policy has the run: what it pays beyond the work is starts, stalls on spot, and work lost.

    The work is `run` hours, its spot share done on spot. What is beside the run waits for no market: on demand.
    """
    point = spot.point
    each = machines * longer
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


def _works(candidates: JobCandidates, row: int) -> float:
    """Machine hours of all gangs over those of the longest chain of trials, waiting and loading left out."""
    h = candidates.hours
    work = float(h.run[row] - h.reload[row])
    reloads = float(h.reload[row]) * candidates.run_hours.reload_share
    return (float(h.group_run[row]) - float(h.waiting[row]) - reloads) / work


def _machine_lines(times: BilledHours, offer: Offer) -> list[BillItem]:
    """What machines cost by the hour: by what they do in which market, or as power and wear of own ones."""
    if offer.own is not None and offer.usd_per_hour is not None:
        hours = math.fsum(one.on_demand for one in times.uses) + times.rounded[0]
        parts = (offer.own.power_usd_per_hour, offer.own.depreciation_usd_per_hour)
        # A what-if on the price of the hour moves both alike.
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
    """A line that both markets may share; its rate is that of the mix."""
    quantity = on_demand + spot
    usd = on_demand * (price or 0.0) + spot * (spot_price or 0.0)
    if not quantity:
        return BillItem(item=item, usd=0.0, quantity=0.0, unit="h")
    return BillItem(item=item, usd=usd, quantity=quantity, unit="h", rate_usd=usd / quantity)


def _commitment_lines(candidates: JobCandidates, row: int, offer: Offer) -> list[BillItem]:
    if offer.commitment is None:
        return []
    months = f"{offer.commitment.months} month{'s' if offer.commitment.months > 1 else ''}"
    machines = float(candidates.table.instances[row])
    return [_line("commitment", machines, f"machine for {months}", offer.committed_usd)]


def _separate_stage_lines(candidates: JobCandidates, row: int, late: bool) -> list[BillItem]:
    """Stages on machines of their own; late, the error of the estimate stretches them too."""
    way = int(candidates.configuration[row])
    if candidates.run_hours.observed[way]:
        return []
    every = float(candidates.hours.late[row]) if late else 1.0
    names = {"ingest": "prepare data", "evaluation": "evaluation"}
    lines = []
    for one in candidates.placements[int(candidates.placement[row])].separate_stages:
        usd = (one.late_usd if late else one.usd) * every
        item = f"{names[one.stage]} at {one.offer.provider}"
        rate = one.offer.usd_per_hour if not late and one.moved_usd == 0 else None
        lines.append(BillItem(item=item, usd=usd, quantity=one.billed_hours * every, unit="h", rate_usd=rate))
    return lines


def _byte_lines(candidates: JobCandidates, row: int, offer: Offer, wall: float) -> list[BillItem]:
    """What lies somewhere and what moves: disks while machines are rented, what is kept after, transfers."""
    job, h, way = candidates.job, candidates.hours, int(candidates.configuration[row])
    recipe = int(candidates.physics.ways.recipe[way])
    machines, node_groups = int(candidates.table.instances[row]), h.node_groups
    kept, export = candidates.run_hours.kept_gb[recipe], candidates.run_hours.export_gb[recipe]
    disk = disk_gb(candidates.architecture, job.data_gb) + float(h.raw_gb[row])
    stored = (disk * machines + kept * node_groups) * wall / MONTH_HOURS
    after = float(retained_gb_months(export + kept, job.stages.retention_hours or 0.0))
    source = job.stages.transfer
    leaving = float(h.own_gb[row]) * machines if source and source.egress_usd_per_gb else 0.0
    return [
        _line("storage", stored, "GB-month", offer.fees.storage_usd_per_gb_month),
        _line("kept after", after, "GB-month", offer.fees.network_storage_usd_per_gb_month),
        _line("data leaving", leaving, "GB", source.egress_usd_per_gb if source else 0.0),
        _line("transfer in", float(h.moved_gb[row]) * machines, "GB", offer.fees.ingress_usd_per_gb),
        _line("transfer out", export, "GB", offer.fees.egress_usd_per_gb),
    ]


def _service_lines(
    candidates: JobCandidates, row: int, market: Market, library: Library, late: bool
) -> tuple[BillItem, ...]:
    """A managed service: tokens at their price and runs at theirs, at least the minimum; what moves and is kept."""
    place = int(candidates.table.offer[row])
    told = market.offers[place].managed
    if told is None:
        raise ValueError("no managed service")
    service = build_service_run(candidates, market, place, library)
    usd, tokens = (service.late_usd, service.late_tokens) if late else (service.usd, service.tokens)
    runs = float(candidates.job.trials.count)
    lines = [
        _line(item, amount, unit, price)
        for item, amount, unit, price in (
            ("tokens trained", tokens / 1e6, "M tokens", told.usd_per_million_tokens),
            ("training runs", runs, "runs", told.usd_per_run),
        )
        if price is not None  # what the service gives away is on its bill, what it does not sell is not
    ]
    least = usd - math.fsum(line.usd for line in lines)
    if least > 1e-9:
        lines.append(BillItem(item="minimum charge", usd=least, quantity=runs, unit="runs"))
    fees, source = market.offers[place].fees, candidates.job.stages.transfer
    moved = [
        _line("kept after", service.kept_gb_months, "GB-month", fees.network_storage_usd_per_gb_month),
        _line("data leaving", service.own_gb, "GB", source.egress_usd_per_gb if source else 0.0),
        _line("transfer in", service.data_gb, "GB", fees.ingress_usd_per_gb),
        _line("transfer out", service.result_gb, "GB", fees.egress_usd_per_gb),
    ]
    return (*lines, *(line for line in moved if line.quantity))


def _line(item: str, quantity: float, unit: str, rate: float | None) -> BillItem:
    if rate is None:
        return BillItem(item=item, usd=0.0, quantity=quantity, unit=unit, basis=UNKNOWN_FEE if quantity else "")
    return BillItem(item=item, usd=quantity * rate, quantity=quantity, unit=unit, rate_usd=rate)
