"""The bill of one candidate, line by line: item, quantity, price.

At a spot share x, a share 1 - x of the work is done on demand and x on spot. Hours are machine hours of all node
groups. A line that both markets share has the price of the mix.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.offer_terms import UNKNOWN_FEE, moves_of
from planner.estimates.billing import MILLION, round_up_hours
from planner.estimates.time.data_stages import retained_gb_months
from planner.results.plan_parts import BillItem
from planner.units import HOUR, MONTH_HOURS

if TYPE_CHECKING:
    from planner.candidates.spot.choices import SpotChoice
    from planner.decode.chosen import ChosenCandidate
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

Uses = dict[str, tuple[float, float]]
"""Machine hours of each item on demand and on spot."""


def build_bill(chosen: ChosenCandidate, late: bool = False) -> tuple[BillItem, ...]:
    """Return the bill of a choice; `late` at the confidence of the budget, without early stopping."""
    if chosen.offer.managed is not None:
        lines = _service_lines(chosen, chosen.offer.managed, late)
    else:
        uses, wall_hours = _billed_hours(chosen, late)
        lines = [
            *_machine_lines(uses, chosen.offer),
            *_commitment_lines(chosen),
            *_separate_stage_lines(chosen, late),
            *_data_lines(chosen, wall_hours + chosen.standstill_hours),
            *_move_lines(chosen, late),
        ]
    return tuple(line for line in lines if line.quantity)


def _billed_hours(chosen: ChosenCandidate, late: bool) -> tuple[Uses, float]:
    """Return machine hours by item, and the hours in which machines are rented."""
    candidates, row, share = chosen.candidates, chosen.row, chosen.share
    h, n = candidates.hours, int(candidates.table.instances[row]) // candidates.hours.node_groups
    late_factor, stretch = (float(h.budget[row]), float(h.stretch[row])) if late else (1.0, 1.0)
    run, node_groups, group_run = float(h.run[row]), h.node_groups, float(h.group_run[row])
    waiting, reloads = float(h.waiting[row]), float(h.reload[row]) * candidates.run_hours.reload_share
    # Work hours of all node groups over those of the longest chain of trials.
    ratio = (group_run - waiting - reloads) / (run - float(h.reload[row])) * stretch
    machines = n * late_factor
    group_hours = {
        "gpu": float(h.training[row]) * ratio,
        "start and load": node_groups * float(h.start[row]),
        "prepare data": node_groups * float(h.ingest[row]),
        "evaluation": float(h.evaluation[row]) * ratio,
        "checkpoints": float(h.checkpoints[row]) * ratio,
        "load between trials": reloads * stretch,
        "wait for trials": waiting * stretch,
        "export": node_groups * float(h.export[row]),
    }
    uses = {item: ((1.0 - share) * hours * machines, share * hours * machines) for item, hours in group_hours.items()}
    if chosen.spot is not None:
        uses = _follow_policy(uses, chosen.spot, run, machines * stretch)
    elif share > 0:
        lost = float(h.spot_group_paid[row]) - group_run
        uses["lost on spot"] = (0.0, share * lost * stretch * machines)
        uses["move to on demand"] = (share * float(h.switch[row]) * node_groups * machines, 0.0)
    if chosen.pauses:
        resumed = chosen.pauses * candidates.resume_hours(row)
        uses["resume after a pause"] = (resumed * node_groups * machines, 0.0)
    if chosen.rounded:
        uses["rounded up"] = _rounded_hours(chosen, n, late_factor, stretch)
    if not late:
        return uses, float(chosen.figures.hours(share)[0] - h.separate[row])
    if chosen.spot is not None:  # storage of a late run, not of one that takes all the time it may
        return uses, (float(h.after_start[row]) + chosen.spot.point.finish_hours * stretch) * late_factor
    on_demand, spot = h.rows(np.asarray([row])).budget_run[0].tolist()
    run_hours = ((1.0 - share) * on_demand if share < 1 else 0.0) + (share * spot if share > 0 else 0.0)
    return uses, float(h.once[row]) * late_factor + run_hours


def _rounded_hours(chosen: ChosenCandidate, instances: int, late: float, stretch: float) -> tuple[float, float]:
    """Return the machine hours that billing steps and minimum charges add on demand and on spot."""
    step, least = chosen.offer.billing.step_seconds / HOUR, chosen.offer.billing.minimum_hours
    groups = chosen.candidates.hours.rows(np.asarray([chosen.row])).billed(chosen.share, late, stretch)
    on_demand, spot = (
        math.fsum(float(round_up_hours(hours, step, least)[0] - hours[0]) * instances for hours in of_market)
        for of_market in zip(*groups, strict=True)
    )
    return on_demand, spot


def _follow_policy(uses: Uses, spot: SpotChoice, run: float, machines: float) -> Uses:
    """Return the uses under a policy: beyond the work of `run` hours it pays starts, stalls on spot, and lost work.

    The spot share of the work is done on spot. What is outside the run is done on demand.
    """
    point = spot.point
    on_demand = point.on_demand_hours - (1.0 - point.spot_share) * run
    lost = point.spot_hours - point.spot_share * run
    kept = {item: (sum(hours), 0.0) if item in OUTSIDE_RUN_ITEMS else hours for item, hours in uses.items()}
    del kept["start and load"]
    return kept | {"starts on demand": (on_demand * machines, 0.0), "starts and losses": (0.0, lost * machines)}


def _machine_lines(uses: Uses, offer: Offer) -> list[BillItem]:
    """Return what machines cost by the hour: by item and market, or power and depreciation of own machines."""
    if offer.own is not None and offer.usd_per_hour is not None:
        hours = math.fsum(on_demand for on_demand, _ in uses.values())
        parts = offer.own.parts_usd_per_hour
        # A what-if on the price of the hour changes both in proportion.
        factor = offer.usd_per_hour / sum(parts.values()) if sum(parts.values()) else 0.0
        return [_line(name, hours, "h", part * factor) for name, part in parts.items() if part]
    price, spot_price = 0.0 if offer.commitment else offer.usd_per_hour, offer.spot_usd_per_hour
    committed = offer.tier == "committed"
    lines = []
    for item, (on_demand, spot) in uses.items():
        if item == "gpu":
            lines.append(_line("gpu committed" if committed else "gpu on demand", on_demand, "h", price))
            lines.append(_line("gpu spot", spot, "h", spot_price))
        elif quantity := on_demand + spot:  # both markets may share a line: its rate is that of the mix
            usd = on_demand * (price or 0.0) + spot * (spot_price or 0.0)
            lines.append(BillItem(item=item, usd=usd, quantity=quantity, unit="h", rate_usd=usd / quantity))
    return lines


def _commitment_lines(chosen: ChosenCandidate) -> list[BillItem]:
    """Return the line of a commitment, which is paid per machine."""
    if chosen.offer.commitment is None or chosen.is_reserved:
        return []
    months = f"{chosen.offer.commitment.months} month{'s' if chosen.offer.commitment.months > 1 else ''}"
    machines = float(chosen.candidates.table.instances[chosen.row])
    return [_line("commitment", machines, f"machine for {months}", chosen.offer.committed_usd)]


def _separate_stage_lines(chosen: ChosenCandidate, late: bool) -> list[BillItem]:
    """Return the lines of stages on separate machines, and of what moves to and from them.

    Late, the error of the estimate stretches both.
    """
    factor = float(chosen.candidates.hours.budget[chosen.row]) if late else 1.0
    names = {
        "ingest": ("prepare data", "raw data moved"),
        "evaluation": ("evaluation", "weights moved"),
        "export": ("export", "result moved"),
    }
    lines = []
    for one in chosen.candidates.placement_of(chosen.row).separate_stages:
        usd = (one.late_usd if late else one.usd) - one.moved_usd
        (what, moved), place = names[one.stage], one.offer.provider
        rate = None if late else one.offer.usd_per_hour
        hours = one.billed_hours * factor
        lines.append(BillItem(item=f"{what} at {place}", usd=usd * factor, quantity=hours, unit="h", rate_usd=rate))
        if one.moved_usd:
            lines.append(BillItem(item=f"{moved} at {place}", usd=one.moved_usd * factor, quantity=1.0))
    return lines


def _move_lines(chosen: ChosenCandidate, late: bool) -> list[BillItem]:
    """Return what a run that moves among zones pays for the copies of its checkpoint and data to other regions."""
    if chosen.spot is None or len(chosen.offer.regions) < 2:
        return []
    hours, row = chosen.candidates.hours, chosen.row
    move = moves_of(chosen.offer, *chosen.candidates.moved(row))
    losses = chosen.spot.point.interruptions * (float(hours.budget[row] * hours.stretch[row]) if late else 1.0)
    nodes = int(chosen.candidates.table.instances[row]) // hours.node_groups
    losses *= nodes / float(chosen.candidates.run_hours.gang(nodes))
    return [_line("moves between regions", losses * move.share * move.gb, "GB", chosen.offer.fees.egress_usd_per_gb)]


def _data_lines(chosen: ChosenCandidate, wall_hours: float) -> list[BillItem]:
    """Return the lines of storage and transfers; machines are rented for `wall_hours`."""
    candidates, row, offer = chosen.candidates, chosen.row, chosen.offer
    h, recipe, machines = candidates.hours, int(candidates.table.recipe[row]), int(candidates.table.instances[row])
    kept, sent = candidates.run_hours.kept_gb[recipe] + float(h.result_gb[row]), float(h.sent_gb[row])
    after = float(retained_gb_months(kept, chosen.job.stages.retention_hours or 0.0))
    stored, moved = float(h.stored_gb[row]) * wall_hours / MONTH_HOURS, float(h.moved_gb[row]) * machines
    return [
        _line("storage", stored, "GB-month", offer.fees.storage_usd_per_gb_month),
        *_transfer_lines(chosen.job, offer, after, float(h.own_gb[row]) * machines, moved, sent),
    ]


def _transfer_lines(
    job: Job, offer: Offer, kept_gb_months: float, own_gb: float, moved_gb: float, result_gb: float
) -> list[BillItem]:
    """Return the lines of what is kept after the run, of the user's data, and of transfers in and out."""
    fees, egress = offer.fees, job.stages.transfer.egress_usd_per_gb if job.stages.transfer else 0.0
    return [
        _line("kept after", kept_gb_months, "GB-month", fees.network_storage_usd_per_gb_month),
        _line("data leaving", own_gb if egress else 0.0, "GB", egress),
        _line("transfer in", moved_gb, "GB", fees.ingress_usd_per_gb),
        _line("transfer out", result_gb, "GB", fees.egress_usd_per_gb),
    ]


def _service_lines(chosen: ChosenCandidate, managed: Managed, late: bool) -> list[BillItem]:
    """Return the bill of a managed service: tokens, runs, at least the minimum charge; then what moves and is kept."""
    service = chosen.candidates.services.run_at(chosen.place)
    usd, tokens = (service.late_usd, service.late_tokens) if late else (service.usd, service.tokens)
    runs = float(chosen.job.trials.count)
    lines = []
    if managed.usd_per_million_tokens is not None:  # a price of 0 is on the bill, a missing price is not
        lines.append(_line("tokens trained", tokens / MILLION, "M tokens", managed.usd_per_million_tokens))
    if managed.usd_per_run is not None:
        lines.append(_line("training runs", runs, "runs", managed.usd_per_run))
    minimum = usd - math.fsum(line.usd for line in lines)
    if minimum > MIN_USD:
        lines.append(BillItem(item="minimum charge", usd=minimum, quantity=runs, unit="runs"))
    moved = (service.kept_gb_months, service.own_gb, service.data_gb, service.result_gb)
    return lines + _transfer_lines(chosen.job, chosen.offer, *moved)


def _line(item: str, quantity: float, unit: str, rate: float | None) -> BillItem:
    """Return a line; a rate of None is an unknown fee."""
    if rate is None:
        return BillItem(item=item, usd=0.0, quantity=quantity, unit=unit, basis=UNKNOWN_FEE)
    return BillItem(item=item, usd=quantity * rate, quantity=quantity, unit=unit, rate_usd=rate)
