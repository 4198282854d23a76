"""Lines of the bill of one job in plain floats: machines by use and market, payments, services, transfers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.estimates.billing import MILLION, count_terms, managed_usd
from planner.estimates.work import node_group_shares
from planner.evaluation.evaluated_hours import EvaluatedHours, EvaluatedPolicyRun, is_coarse
from planner.evaluation.evaluated_physics import Workload
from planner.evaluation.evaluated_stages import JobStages, SeparateStage, billed_hours
from planner.evaluation.named_run import RunContext
from planner.results.plan_parts import BillItem
from planner.scenario.fees import FEE_UNITS, Count, fee_items, fee_rate, fees_that_count
from planner.scenario.offer import Managed, Offer, usd_above_term
from planner.scenario.offer_terms import Own
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNKNOWN_FEE = "unknown: not included"
_SEPARATE_ITEMS = {"ingest": "prepare data", "evaluation": "evaluation", "export": "export"}
_MOVED_ITEMS = {"ingest": "raw data moved", "evaluation": "weights moved", "export": "result moved"}
AFTER_TERM = "on demand after the term"
FIXED = {
    *fee_items("GB in", "GB out", "GB kept"),
    *("data leaving", "commitment", AFTER_TERM, "training runs", "tokens trained"),
}
"""Items that do not grow with the hours, or not in proportion to them."""

Uses = dict[str, tuple[float, float]]  # machine hours by item, on demand and on spot


@dataclass(frozen=True)
class TermUse:
    """How often the commitment of a run is taken back to back, and what follows its last term."""

    terms: float
    paid_hours: float  # of each machine in its terms
    expected_hours: float
    late_hours: float  # at the confidence of the budget
    after: Offer | None  # by the hour, of the one run; None: the commitment is renewed as often as needed
    after_usd_per_hour: float

    @classmethod
    def of(cls, context: RunContext, expected: float, late: float, paid: float) -> TermUse | None:
        """Return the terms of a run, given its hours: expected, at the confidence of the job, and of the budget."""
        commitment = context.offer.commitment
        if commitment is None or context.named.is_reserved:
            return None
        after, term = context.scenario.offer_after_term(context.offer), commitment.term_hours
        usd = usd_above_term(context.offer, after) if after else math.nan
        terms, goes_on = count_terms(expected, late, term, context.offer.committed_usd, usd)
        terms = float(terms)
        return cls(terms, terms * term, expected, paid, after if goes_on else None, usd if goes_on else 0.0)

    def billed_after(self, hours: float) -> float:
        """Return the hours on demand that are billed after the last term of a run of so many hours."""
        left = hours - self.paid_hours
        return billed_hours(self.after, left) if self.after is not None and left > 0 else 0.0

    def added_usd(self, factor: float) -> float:
        """Return what the hours after the term cost more if the run takes `factor` times as long as expected."""
        hours = self.billed_after(self.expected_hours * factor) - self.billed_after(self.expected_hours)
        return self.after_usd_per_hour * hours


def usd_of_terms(offer: Offer, after: Offer | None, hours: float) -> float:
    """Return the dollars of one committed machine that is kept for so many hours, fees of machine hours left out.

    A month of 730 h for $1,022, then $2.00 an hour: 800 h cost $1,162; without hours on demand two months, $2,044.
    """
    usd = usd_above_term(offer, after) if after is not None else math.nan
    terms, goes_on = count_terms(hours, hours, offer.term_hours, offer.committed_usd, usd)
    left = hours - float(terms) * offer.term_hours
    return offer.committed_usd * float(terms) + (usd * billed_hours(after, left) if after and goes_on else 0.0)


def evaluate_bill(
    context: RunContext,
    stages: JobStages,
    hours: EvaluatedHours,
    policy: EvaluatedPolicyRun | None,
    term: TermUse | None,
    is_late: bool = False,
    resume: float = 0.0,
) -> tuple[BillItem, ...]:
    """Return every line of the bill, late at the asked confidence and the run in full; what is unused costs nothing.

    Each pause costs `resume` hours; disks are paid for while the run stands still.
    """
    every, longer = (hours.late, stages.stretch) if is_late else (1.0, 1.0)
    if policy is None:
        uses = _uses_of_shares(context, stages, hours, every, longer)
        rented = hours.rented(context.named.spot_share, is_late)
    else:
        uses, rented = _uses_of_policy(context, stages, policy, every, longer), policy.disk_hours(every, longer)
    offer, machines, groups = context.offer, context.machine.instances, context.job.trials.at_once
    if context.named.pauses:
        rounded = uses.pop("rounded up", None)
        uses["resume after a pause"] = (len(context.named.pauses) * resume * every * machines * groups, 0.0)
        uses |= {"rounded up": rounded} if rounded else {}
        rented += context.named.standstill_hours
    lines = [*_machine_lines(context, uses)]
    if term is not None and offer.commitment is not None:  # whole terms of every instance, however little is used
        months = offer.commitment.months
        unit = f"machine for {months} month{'s' if months > 1 else ''}"
        lines.append(bill_line("commitment", machines * groups * term.terms, unit, offer.committed_usd))
        after = term.billed_after(term.late_hours if is_late else term.expected_hours)
        lines.append(bill_line(AFTER_TERM, machines * after, "h", term.after_usd_per_hour))
    for stage in stages.separate:
        lines += _separate_lines(context, stage, every, is_late)
    paid_hours = math.fsum(hours for pair in uses.values() for hours in pair)
    lines += [
        *fee_lines(offer, {"machine hours": paid_hours}),
        *fee_lines(offer, {"GB on disk": stages.disk_gb * groups * rented / MONTH_HOURS}),
        *_transfer_lines(
            context,
            *(stages.moved_gb * machines * groups, stages.own_gb * machines * groups),
            *(stages.sent_gb, stages.result_gb + stages.kept_gb),
        ),
    ]
    if policy is not None and len(offer.regions) > 1:
        moved = policy.point.interruptions * policy.moved_gb * every * longer
        lines.append(bill_line("moves between regions", moved, "GB", fee_rate(offer.fees, "GB out")))
    return tuple(line for line in lines if line.quantity)


def _separate_lines(context: RunContext, stage: SeparateStage, every: float, is_late: bool) -> list[BillItem]:
    """Return the hours of a stage on a machine of its own, their fees, and what it moves; late hours at their rate."""
    provider, billed = stage.machine.provider, stage.billed_hours
    item, fees = _SEPARATE_ITEMS[stage.machine.stage], context.offers[stage.machine.offer].fees
    usd = billed[is_late] * stage.rate_usd * every
    lines = [
        BillItem(item=f"{item} at {provider}", usd=usd, quantity=billed[0] * every, unit="h", rate_usd=stage.rate_usd)
    ]
    for fee in fees_that_count("machine hours"):
        if rate := fee.rate(fees):
            paid = billed[is_late] * every
            lines.append(bill_line(f"{fee.item} at {provider}", paid, FEE_UNITS[fee.counts], rate))
    if stage.moved_usd:
        moved_item = f"{_MOVED_ITEMS[stage.machine.stage]} at {provider}"
        lines.append(BillItem(item=moved_item, usd=stage.moved_usd * every, quantity=1.0))
    return lines


def _uses_of_policy(
    context: RunContext, stages: JobStages, policy: EvaluatedPolicyRun, every: float, longer: float
) -> Uses:
    """Return hours of a run that follows a policy; what is outside the run waits for no market.

    Work is done for the policy's share on spot; what it pays beyond is starts, stalls and work that was lost.
    """
    x, point, n = policy.point.spot_share, policy.point, context.machine.instances * every

    def of_work(hours: float) -> tuple[float, float]:
        return (1 - x) * hours * longer * n, x * hours * longer * n

    return {
        "gpu": of_work(stages.training),
        "prepare data": (stages.prepare * n, 0.0),
        "evaluation": of_work(stages.evaluation),
        "checkpoints": of_work(stages.checkpoints),
        "export": (stages.export * n, 0.0),
        "starts on demand": ((point.on_demand_hours - (1 - x) * stages.run) * longer * n, 0.0),
        "starts and losses": (0.0, (point.spot_hours - x * stages.run) * longer * n),
    }


def _uses_of_shares(context: RunContext, stages: JobStages, hours: EvaluatedHours, every: float, longer: float) -> Uses:
    """Return hours over all runs and instances, each item at the spot share."""
    trials, n, share = context.job.trials, context.machine.instances, context.named.spot_share
    k, work = trials.at_once, context.trials.work / context.trials.wall * longer
    group_hours = {
        "gpu": stages.training * work,
        "start and load": k * stages.start,
        "prepare data": k * stages.prepare,
        "evaluation": stages.evaluation * work,
        "checkpoints": stages.checkpoints * work,
        "load between trials": stages.reloads * longer,
        "wait for trials": stages.waiting * longer,
        "export": k * stages.export,
    }
    uses = {
        item: ((1 - share) * group_hour * n * every, share * group_hour * n * every)
        for item, group_hour in group_hours.items()
    }
    paid = hours.paid_spot / stages.run if share > 0 else 0.0  # interruptions cost all runs alike
    if share > 0:
        uses["lost on spot"] = (0.0, share * stages.all_groups_hours * (paid - 1.0) * longer * n * every)
        uses["move to on demand"] = (share * k * hours.switch * n * every, 0.0)
    if is_coarse(context, stages):
        # The machines of each run are billed by themselves, for their own part of the work.
        shares = node_group_shares(trials.count, trials.at_once, trials.halving)
        added = [0.0, 0.0]
        for group_share in shares:
            run = stages.all_groups_hours * longer * group_share / sum(shares)
            used = (
                (1 - share) * (stages.outside_run_hours + run) + share * hours.switch,
                share * (stages.outside_run_hours + run * paid),
            )
            for market in (0, 1):
                added[market] += (billed_hours(context.offer, used[market] * every) - used[market] * every) * n
        uses["rounded up"] = (added[0], added[1])
    return uses


def own_parts(own: Own) -> dict[str, float]:
    """Return what an hour of one own machine costs: kW * PUE * price, what it loses in use, its monthly costs."""
    used = own.lifetime_hours if own.months is None else own.months * (own.hours_per_month or math.inf)
    parts = {
        "power": (own.power_watts or 0.0) * own.pue * own.usd_per_kwh / 1000,
        "wear of own machines": (own.purchase_usd - own.purchase_usd * own.residual_share) / (used or math.inf),
        "cost of capital": _capital_usd(own) / (used or math.inf),
        "standing costs": own.idle_usd_per_month / (own.hours_per_month or math.inf),
    }
    return {item: usd for item, usd in parts.items() if usd}


def _capital_usd(own: Own) -> float:
    """Return what a loan for one own machine costs in interest: equal payments at the end of each month."""
    if not own.interest or own.months is None:
        return 0.0
    monthly = math.expm1(math.log1p(own.interest) / 12)
    later = math.exp(-own.months * math.log1p(monthly))  # a dollar at the end, today
    owed = own.purchase_usd - own.purchase_usd * own.residual_share * later
    lost = own.purchase_usd - own.purchase_usd * own.residual_share
    return own.months * owed * monthly / (1 - later) - lost


def _machine_lines(context: RunContext, uses: Uses) -> list[BillItem]:
    """Return lines by what machines do in which market; own machines by what their hours cost the house."""
    offer = context.offer
    if offer.own is not None and offer.usd_per_hour is not None:
        hours = math.fsum(pair[0] for pair in uses.values())
        parts = own_parts(offer.own)
        # A what-if on the price of the hour moves both alike.
        factor = offer.usd_per_hour / sum(parts.values()) if sum(parts.values()) else 0.0
        return [bill_line(item, hours, "h", part * factor) for item, part in parts.items() if part]
    price, spot = 0.0 if offer.commitment else offer.usd_per_hour, offer.spot_usd_per_hour
    name = "gpu on demand" if offer.tier != "committed" else "gpu committed"
    lines = [bill_line(name, uses["gpu"][0], "h", price), bill_line("gpu spot", uses["gpu"][1], "h", spot)]
    for item, (on_demand, on_spot) in uses.items():
        if item != "gpu":
            quantity, usd = on_demand + on_spot, on_demand * (price or 0.0) + on_spot * (spot or 0.0)
            rate = usd / quantity if quantity else None
            lines.append(BillItem(item=item, usd=usd, quantity=quantity, unit="h", rate_usd=rate))
    return lines


def evaluate_managed_bill(
    context: RunContext, managed: Managed, work: Workload, result_gb: float, is_late: bool = False
) -> tuple[BillItem, ...]:
    """Return tokens and runs at their prices, what is missing to the minimum, and what moves and is kept."""
    job, runs = context.job, float(context.job.trials.count)
    share = 1.0 if is_late else job.early_stopping
    tokens = (work.real + work.evaluated) * context.trials.work * share
    per_token, per_run = managed.usd_per_million_tokens, managed.usd_per_run
    lines = []
    if per_token is not None:
        lines.append(bill_line("tokens trained", tokens / MILLION, "M tokens", per_token))
    if per_run is not None:
        lines.append(bill_line("training runs", runs, "runs", per_run))
    due = managed_usd(tokens, runs, per_token or 0.0, per_run or 0.0, managed.minimum_usd)
    missing = due - math.fsum(line.usd for line in lines)
    if missing > 1e-9:
        lines.append(BillItem(item="minimum charge", usd=missing, quantity=runs, unit="runs"))
    data = managed_data_gb(context)
    lines += _transfer_lines(context, data, data, result_gb, result_gb)
    return tuple(line for line in lines if line.quantity)


def managed_data_gb(context: RunContext) -> float:
    """Return what is sent to a service: the data, raw or not, once for all trials."""
    ingest = context.job.stages.ingest
    return context.job.data_gb + (ingest.raw_gb if ingest else 0.0)


def _transfer_lines(context: RunContext, gb: float, own_gb: float, sent_gb: float, kept_gb: float) -> list[BillItem]:
    """Return what is kept after the run, what of the user's data leaves its place, what comes in and what leaves."""
    offer, months = context.offer, (context.job.stages.retention_hours or 0.0) / MONTH_HOURS
    leaving = context.leaving_usd_per_gb(offer)
    return [
        *fee_lines(offer, {"GB kept": kept_gb * months}),
        bill_line("data leaving", own_gb if leaving > 0 else 0.0, "GB", leaving),
        *fee_lines(offer, {"GB in": gb, "GB out": sent_gb}),
    ]


def fee_lines(offer: Offer, amounts: Mapping[Count, float]) -> list[BillItem]:
    """Return the lines of all fees of the offer that count one of the amounts, in their order."""
    return [
        bill_line(fee.item, amount, FEE_UNITS[count], fee.rate(offer.fees))
        for count, amount in amounts.items()
        for fee in fees_that_count(count)
        if fee.is_shown(offer.fees)
    ]


def bill_line(item: str, quantity: float, unit: str, rate: float | None) -> BillItem:
    """Return a line of the bill; without dollars where the rate is unknown."""
    if rate is None:
        return BillItem(item=item, usd=0.0, quantity=quantity, unit=unit, basis=_UNKNOWN_FEE)
    return BillItem(item=item, usd=quantity * rate, quantity=quantity, unit=unit, rate_usd=rate)
