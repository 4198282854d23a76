"""The figures of one named run and its bill, in plain floats: every plan is made here, and a check computes it again.

Only what names the run is given: job, offer, instances, techniques, batch, places of stages, spot share or guaranteed
time. Nothing of how it was found is known here but the passes of its policy, which are not computed a second time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planner import generation
from planner.configurations.recipe import Recipe, weights_to_make
from planner.estimates.billing import MILLION, count_terms, managed_tokens_per_second, managed_usd
from planner.estimates.uncertainty import Sigmas, confidence_factor, interval, time_factors
from planner.estimates.work import node_group_shares
from planner.evaluation.evaluated_hours import (
    Cases,
    EvaluatedHours,
    EvaluatedPolicyRun,
    Pair,
    around,
    can_follow_policy,
    evaluate_hours,
    evaluate_policy_run,
    evaluate_resume,
    finish_chance,
    fixed_share_figures,
    fixed_share_run,
    is_coarse,
    market_ends,
    probability_within,
    usd_of_policy,
)
from planner.evaluation.evaluated_physics import (
    EvaluatedPhysics,
    RunContext,
    Workload,
    evaluate_physics,
    evaluate_smaller_runs,
    evaluate_work,
    hourly_price,
    techniques_of,
)
from planner.evaluation.evaluated_stages import (
    JobStages,
    SeparateStage,
    billed_hours,
    evaluate_replica_stages,
    evaluate_stages,
    report_stages,
    result_gb,
    sent_hours,
)
from planner.results.plan import Assignment
from planner.results.plan_parts import BillItem, CommitmentUse, Fallback, Hours, SpotPlan, Spread, Vram
from planner.scenario.inference_job import InferenceJob
from planner.scenario.offer import (
    FEE_UNITS,
    FeeCount,
    Managed,
    Offer,
    fee_items,
    fee_rate,
    fees_that_count,
    usd_above_term,
)
from planner.scenario.offer_terms import Own
from planner.units import GB, HOUR, MONTH_HOURS

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping

    from planner.evaluation.evaluated_hours import Physics


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


def fee_lines(offer: Offer, amounts: Mapping[FeeCount, float]) -> list[BillItem]:
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


_EQUAL_SLOWDOWN = 1e-9
"""Relative, of two changes that cost equally much time."""


@dataclass(frozen=True)
class Evaluation:
    """The reference assignment, and what limits need besides."""

    assignment: Assignment
    may_use_spot: bool = True  # whether a run on spot comes to an end
    may_follow_policy: bool = False
    late_term_hours: float = 0.0  # of one run at the confidence, on demand
    late_machine_hours: float = 0.0  # of all instances of all runs at the confidence, on demand


def evaluate(context: RunContext, as_of: datetime.date) -> Evaluation:
    """Return the figures of the configuration that the plan names, on machines or at a service.

    Raises ValueError, KeyError, IndexError, ZeroDivisionError or OverflowError where its counts make no sense.
    """
    if context.offer.managed is not None:
        return Evaluation(_at_managed_service(context, context.offer.managed, as_of))
    physics, stages = _physics_and_stages(context)
    markets = evaluate_hours(context, stages, physics, context.job.confidence)
    may_use_spot = market_ends(stages, markets)
    can_follow = may_use_spot and can_follow_policy(context, stages)
    policy = evaluate_policy_run(context, stages, physics) if can_follow else None
    may_follow = can_follow and context.scenario.objective_kind == "cost"  # a frontier has policies of any objective
    resume = evaluate_resume(context, stages, physics) if policy is None else 0.0
    run = _Run(context, physics, stages, policy, markets, resume, may_use_spot)
    assignment = _on_machines(run, as_of)
    return Evaluation(
        assignment, may_use_spot, may_follow, *_late_hours(context, stages, markets, resume * markets.late)
    )


@dataclass(frozen=True, eq=False)
class _Run:
    """What the figures of a run on machines follow from."""

    context: RunContext
    physics: Physics
    stages: JobStages
    policy: EvaluatedPolicyRun | None
    markets: EvaluatedHours  # at the confidence of the job, at any share
    resume_hours: float  # expected, of each pause
    may_use_spot: bool

    @cached_property
    def hours(self) -> EvaluatedHours:
        """Hours at the confidence of the job."""
        return self.policy.hours(self.markets, self.stages.stretch) if self.policy else self.markets

    @cached_property
    def paid(self) -> EvaluatedHours:
        """Hours at the confidence of the budget."""
        context = self.context
        hours = evaluate_hours(context, self.stages, self.physics, context.scenario.limits.budget_confidence)
        return self.policy.hours(hours, self.stages.stretch) if self.policy else hours

    @property
    def share(self) -> float:
        """Share of the work that is done on spot."""
        return self.policy.point.spot_share if self.policy else self.context.named.spot_share

    def bill(self, is_late: bool = False) -> tuple[BillItem, ...]:
        """Return the bill, late at the confidence of the budget."""
        return evaluate_bill(self.context, self.stages, self.paid, self.policy, self.term, is_late, self.resume_hours)

    @cached_property
    def term(self) -> TermUse | None:
        """What the run takes of a commitment."""
        outside, late = self.stages.outside_run_hours, self.markets.outside_run[1] + self.markets.on_demand[1]
        paid = self.paid.outside_run[1] + self.paid.on_demand[1]
        return TermUse.of(self.context, outside + self.stages.run, late, paid)

    def unpaused_bill(self) -> tuple[BillItem, ...]:
        """Return the bill of the same run without pauses."""
        unpaused = replace(self.context, named=replace(self.context.named, pauses=()))
        return evaluate_bill(unpaused, self.stages, self.paid, self.policy, self.term)

    def figures(self) -> _Figures:
        """Return speed, hours and dollars, over drawn runs where they depend on the luck of a market."""
        context, stages, physics, policy, hours = self.context, self.stages, self.physics, self.policy, self.hours
        totals, bills = (hours.total(self.share), hours.total(self.share, is_late=True)), (self.bill(), self.bill(True))
        mixed = fixed_share_run(context, stages, physics) if self.may_use_spot and policy is None else None
        odds: tuple[float, Cases, Cases] | None = None
        middle: tuple[Pair, Pair] | None = None
        if policy is not None:
            fixed = math.fsum(line.usd for line in bills[0] if line.item in FIXED)
            odds = (*usd_of_policy(context, stages, policy, hours, physics.sigmas.tail, fixed), ())
        if mixed is not None:
            fee = fee_rate(context.offer.fees, "machine hours") or 0.0
            rounded = (line.usd + fee * (line.quantity or 0.0) for line in bills[0] if line.item == "rounded up")
            extra = math.fsum((*rounded, *(line.usd for line in bills[1] if line.item in FIXED)))
            switch = stages.start + self.share * hours.wall_spot if self.share < 1 else math.inf
            fixed_share = fixed_share_figures(context, stages, *mixed, switch, physics.sigmas.tail, extra)
            totals, odds = (
                (totals[0], fixed_share.late_hours),
                (fixed_share.late_usd, fixed_share.usd, fixed_share.hours),
            )
            middle = fixed_share.middle_hours, fixed_share.middle_usd
            if self.share == 1:
                expected = fixed_share.alone_hours - self.paid.outside_run[0] - self.paid.separate_machines[0]
                drawn = replace(self.paid, spot=(expected, self.paid.spot[1]))
                totals = fixed_share.alone_hours, fixed_share.late_hours
                bills = (evaluate_bill(context, stages, drawn, None, self.term, False, self.resume_hours), bills[1])
        return _Figures(
            *(physics.rate, physics.sigmas, stages.start, stages.by_name(), totals, bills, odds, middle),
            spot=policy.report(context, stages) if policy else None,
            policy_hours=policy.point.finish_hours if policy else 0.0,
            resume_hours=self.resume_hours * hours.late,
            term=self.term,
        )


def _on_machines(run: _Run, as_of: datetime.date) -> Assignment:
    """Return a run on machines."""
    context, physics, figures = run.context, run.physics, run.figures()
    machine, asked, observed, lines = context.machine, context.named.techniques, context.observed, figures.bills[0]
    reported = figures.report(context, physics.work) | physics.reported
    if isinstance(physics, EvaluatedPhysics) and observed is None:
        run_lines = run.unpaused_bill() if context.named.pauses else lines
        fallback = _when_out_of_memory(context, physics, reported["training_hours"], figures.hours[0], run_lines)
        reported["vram_gib"] = reported["vram_gib"].model_copy(update={"fallback": fallback})
    spot = figures.spot
    return Assignment(
        **_named(context, as_of),
        **reported,
        **{name: getattr(machine, name) for name in ("gpu", "gpus", "gpus_per_instance", "instances")},
        **report_stages(context, physics, run.stages),
        step_seconds=physics.step_seconds,
        interconnect=machine.link,
        spot_share=run.share,
        switch_to_on_demand_at_hours=(
            spot.latest_on_demand_hours if spot else _switch_hours(run.stages, run.hours, run.share)
        ),
        techniques=techniques_of(context.recipe, context.job, asked.micro_batch, asked.accumulation_steps),
        separate_machines=tuple(stage.machine for stage in run.stages.separate),
        commitment=_commitment_use(context, run.stages, run.term),
        spot=spot,
        observed_hours=observed.hours if observed else None,
        inference=None if isinstance(physics, EvaluatedPhysics) else physics.replica.generation(lines),
    )


def _switch_hours(stages: JobStages, hours: EvaluatedHours, share: float) -> float | None:
    """Return the hour at which a fixed share of spot ends; None without a mix of both markets."""
    before = stages.separate_hours("ingest") + stages.start + stages.prepare
    return before + share * hours.wall_spot if 0 < share < 1 else None


def _late_hours(
    context: RunContext, stages: JobStages, markets: EvaluatedHours, resume_hours: float
) -> tuple[float, float]:
    """Return the hours at the confidence on demand, of one run and of all machines of all runs with their pauses."""
    late_outside, late_run = markets.outside_run[1], markets.on_demand[1]
    late_all = late_outside * context.job.trials.at_once + late_run / stages.run * stages.all_groups_hours
    late_all += len(context.named.pauses) * resume_hours * context.job.trials.at_once
    return late_outside + late_run, late_all * context.machine.instances


def _physics_and_stages(context: RunContext) -> tuple[Physics, JobStages]:
    """Return memory and speed of the configuration, and the stages of the job: of training, or of generation."""
    if isinstance(context.job, InferenceJob):
        replicas = generation.evaluate_replicas(context, context.job)
        return replicas, evaluate_replica_stages(context, replicas)
    physics = evaluate_physics(context)
    return physics, evaluate_stages(context, physics)


def _when_out_of_memory(
    context: RunContext, physics: EvaluatedPhysics, training: float, hours: float, lines: tuple[BillItem, ...]
) -> Fallback | None:
    """Return what a run that is out of memory changes: what costs least time; training takes that much longer.

    Of changes that cost equally little the one that the plan names counts. `lines`: the bill without pauses.
    """
    smaller, named = evaluate_smaller_runs(context, physics), context.named.fallback
    if not smaller:
        return None
    least = min(fallback.slowdown for fallback in smaller)
    equal = [fallback for fallback in smaller if fallback.slowdown <= least * (1 + _EQUAL_SLOWDOWN)]
    best = next((fallback for fallback in equal if fallback.change == named), equal[0])
    longer = training * max(best.slowdown - 1, 0.0)
    run_usd = math.fsum(line.usd for line in lines if line.item not in FIXED)
    return Fallback(
        change=best.change,
        micro_batch=best.batch[0],
        accumulation_steps=best.batch[1],
        activation_checkpointing=best.recipe.activation_checkpointing,
        fit_probability=best.fit_probability,
        hours=longer,
        usd=longer * run_usd / hours,
    )


def _named(context: RunContext, as_of: datetime.date) -> dict[str, Any]:
    """Return the fields that follow from job and offer by name."""
    job, offer = context.job, context.offer
    date = offer.first_date
    return {
        "architecture": context.architecture.name,
        **{name: getattr(offer, name) for name in ("provider", "instance", "tier")},
        **{name: getattr(job, name) for name in ("name", "global_batch", "packing", "deadline_hours")},
        "region": _region(context),
        "offer": context.named.offer,
        "framework": "managed" if offer.is_managed else context.recipe.framework,
        "unit": context.architecture.trained_unit(job.work.frames),
        "conversion": None
        if offer.is_managed
        else weights_to_make(job, context.recipe, context.architecture, context.gpu),
        "trials": job.trials.count,
        "runs_at_once": job.trials.at_once,
        "steps_before": getattr(job.work, "steps_before", 0),
        "lead_hours": offer.lead_hours,
        "outlay_usd": _outlay_usd(context),
        "price_date": offer.date_text,
        "price_age_days": (as_of - date).days if date else None,
        "price_source": offer.source,
    }


def _outlay_usd(context: RunContext) -> float:
    """Return what the machines of a run cost at once; nothing where the plan reserves them, or at a service."""
    if context.offer.is_managed or context.named.is_reserved:
        return 0.0
    return context.offer.outlay_usd * context.machine.instances * context.job.trials.at_once


def _region(context: RunContext) -> str:
    """Return the offer's region, or in how many the same is offered: equal in all but date, source and notes.

    What is finite, a stock or hours that are paid for, is each region's own.
    """
    mine, apart_from = context.offer, {"region", "date", "dates", "source", "notes"}
    if mine.stock is not None or mine.committed_hours is not None:
        return mine.region
    facts = mine.model_dump(exclude=apart_from)
    kind = (mine.provider, mine.instance, mine.gpu)
    is_outdated = context.scenario.limits.is_outdated
    near = [offer for offer in context.offers.values() if (offer.provider, offer.instance, offer.gpu) == kind]
    near = [offer for offer in near if is_outdated(offer) == is_outdated(mine)]
    regions = {offer.region for offer in near if offer.model_dump(exclude=apart_from) == facts}
    lists, sources = context.scenario.limits.regions, (job.stages.transfer for job in context.scenario.jobs)
    matters = any(source and source.region for source in sources) or lists.allow is not None or lists.forbid
    return mine.region if matters or len(regions) == 1 else f"any of {len(regions)}"


@dataclass(frozen=True)
class _Figures:
    """Speed, hours and dollars of a run, on machines or at a service."""

    rate: float  # tokens (images) per second
    sigmas: Sigmas  # of ln(time)
    start: float
    stage_hours: dict[str, float]
    hours: Pair
    bills: tuple[tuple[BillItem, ...], tuple[BillItem, ...]]  # expected and late
    odds: tuple[float, Cases, Cases] | None = None  # of a run with luck: dollars at the confidence, cases, hours
    middle: tuple[Pair, Pair] | None = None  # hours and dollars between which 80 % of drawn runs end
    spot: SpotPlan | None = None
    policy_hours: float = 0.0  # expected, of a run that follows a policy
    resume_hours: float = 0.0  # of each pause, at the confidence
    term: TermUse | None = None

    def _chance(self, limit: float | None, confidence: float) -> float | None:
        """Return the chance of ending within a limit, None without one."""
        if limit is None or self.odds is None or not self.odds[2]:
            return probability_within(limit, *self.hours, confidence)
        return finish_chance(self.odds[2], limit, self.hours[1], confidence)

    def report(self, context: RunContext, work: Workload) -> dict[str, Any]:
        """Return the fields with their intervals; training is what start and stages leave of the hours."""
        job, spot = context.job, self.spot
        delay = context.named.delay_hours(self.resume_hours)
        quick, slow = (float(factor) for factor in time_factors(self.sigmas))
        (expected, late), (lines, late_lines) = self.hours, self.bills
        luck_hours, hours_sd, luck_usd, usd_sd = (
            (spot.outage_hours, spot.hours_sd, spot.outage_usd, spot.usd_sd) if spot else (0.0,) * 4
        )
        low, high = interval(expected, expected - luck_hours, (quick, slow), hours_sd)
        if spot and spot.basis:  # from machines at any time to none at all, when the guarantee is needed in full
            low = min(low, (expected - luck_hours) * quick)
            high = max(high, (expected + spot.guaranteed_hours - self.policy_hours) * slow)
        if self.middle is not None:
            low, high = around(expected, self.middle[0])
        total = math.fsum(line.usd for line in lines)
        fixed = math.fsum(line.usd for line in lines if line.item in FIXED)
        of_dollars = (1.0, 1.0) if context.offer.is_managed else (quick, slow)  # a service is not paid by the hour
        least, most = interval(total - fixed, total - fixed - luck_usd, of_dollars, usd_sd)
        if self.middle is not None:
            least, most = (usd - fixed for usd in around(total, self.middle[1]))
        if self.term is not None:  # hours after a term grow by more than their share
            machines = context.machine.instances
            least += machines * self.term.added_usd(quick)
            most += machines * self.term.added_usd(slow)
        if spot and spot.basis:
            least = min(least, (total - fixed - luck_usd) * quick)
            most = max(most, (total - fixed + spot.saving_usd) * slow)
        return {
            "sequence_length": work.sequence,
            "steps": int(work.steps),
            "tokens_per_second": self.rate,
            "tokens_per_second_low": self.rate / slow,
            "tokens_per_second_high": self.rate / quick,
            "sigma": self.sigmas.display,
            "sigma_in_tails": self.sigmas.tail,
            "start_hours": self.start,
            "training_hours": expected - self.start - math.fsum(self.stage_hours.values()),
            "stage_hours": {name: hours for name, hours in self.stage_hours.items() if hours > 0},
            "hours": Hours(expected=expected, low=low, high=high, at_confidence=late),
            "deadline_probability": self._chance(_time_left(context, delay), job.confidence),
            "bill": lines,
            "cost_usd": total,
            "cost": Spread(expected=total, low=fixed + least, high=fixed + most),
            "cost_at_confidence": self.odds[0] if self.odds else math.fsum(line.usd for line in late_lines),
            "usd_of_runs": self.odds[1] if self.odds else (),
            "hours_of_runs": self.odds[2] if self.odds else (),
            "start_at_hours": context.named.start_at_hours,
            "end_at_hours": late + delay,
            "pauses": context.named.pauses,
            "resume_hours": self.resume_hours,
        }


def _time_left(context: RunContext, delay_hours: float) -> float | None:
    """Return the hours of a run that keep its deadline: less what it starts later, waits for windows, or is kept."""
    deadline, kept = context.job.deadline_hours, context.job.start_slack_hours
    return None if deadline is None else max(0.0, deadline - kept - delay_hours)


def _commitment_use(context: RunContext, stages: JobStages, used: TermUse | None) -> CommitmentUse | None:
    """Return what the commitment of the plan's offer costs, how much of it is used, and from when on it pays."""
    mine, n, groups = context.offer, context.machine.instances, context.job.trials.at_once
    if mine.commitment is None or used is None:
        return None
    price, machines = hourly_price(mine, context.offers.values()), n * groups * used.terms
    due, term = mine.committed_usd * machines, mine.term_hours * machines
    hours = (stages.outside_run_hours * groups + stages.all_groups_hours) * n
    return CommitmentUse(
        months=mine.commitment.months,
        terms=int(used.terms),
        usd=due,
        used_hours=hours if used.after is None else min(hours, term),
        term_hours=term,
        after_hours=used.billed_after(used.expected_hours) * n,
        on_demand_usd_per_hour=price,
        break_even_hours=due / price if price else None,
        break_even_share=due / price / term if price else None,
    )


def _at_managed_service(context: RunContext, managed: Managed, as_of: datetime.date) -> Assignment:
    """Return a job at a managed service: no machine, hours by the service's speed, dollars by its price list.

    Data go in once for all trials, as they are; one result comes out. Images count as tokens do.
    """
    job, work, values = context.job, evaluate_work(context.job, context.architecture), context.values("stages")
    tokens_each = work.mean_length if context.architecture.image is not None else 1.0
    guess = managed_tokens_per_second(context.network.active_parameters, values["managed_flop_per_second"])
    rate = managed.tokens_per_second or guess / tokens_each
    sigma = values["managed_sigma_told" if managed.tokens_per_second else "managed_sigma_assumed"]
    full = (work.real + work.evaluated) * context.trials.wall / rate / HOUR
    upload = managed_data_gb(context) * GB / context.download_rate_of(context.offer, of_own_data=True) / HOUR
    result = result_gb(context, managed.method)
    export = sent_hours(context, context.offer, result)
    expected = upload + full * job.early_stopping + export
    late = (upload + full + export) * float(confidence_factor(sigma, job.confidence))
    # A service reports its method alone.
    recipe = Recipe(managed.method, 16, "none", "managed", "none", "none", "managed", "managed", framework="managed")
    lines, late_lines = (evaluate_managed_bill(context, managed, work, result, is_late) for is_late in (False, True))
    figures = _Figures(rate, Sigmas(sigma, sigma), upload, {"export": export}, (expected, late), (lines, late_lines))
    return Assignment(
        **_named(context, as_of),
        **figures.report(context, work),
        gpu="managed",
        **dict.fromkeys(("gpus", "gpus_per_instance", "instances"), 0),
        interconnect="",
        spot_share=0.0,
        switch_to_on_demand_at_hours=None,
        techniques=techniques_of(recipe, job, 0, 0),
        vram_gib=Vram(peak=0.0, allocated=0.0, usable=0.0, fit_probability=1.0, phase="", parts={}),
        step_seconds=0.0,
    )
