"""Assignments: what a chosen row names, evaluated and compared with the row; and the price of buying."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.decode.chosen import ChosenCandidate
from planner.decode.notes import build_generation_notes, build_managed_notes, build_notes, on_quick_market
from planner.errors import AuditError
from planner.evaluation.comparison import Tolerance, Violation, compare, unit_of
from planner.evaluation.evaluate import evaluate
from planner.evaluation.evaluated_physics import techniques_of
from planner.evaluation.named_run import (
    NamedPolicy,
    NamedRun,
    NamedStage,
    RunContext,
    SearchedPolicy,
    hourly_price,
    resolve_names,
)
from planner.library.schema import Library
from planner.results.plan import Assignment
from planner.results.plan_parts import Purchase
from planner.scenario.fees import fee_items, fee_rate
from planner.scenario.limits import Limits
from planner.scenario.offer import Offer
from planner.scenario.offer_terms import Buy, Horizon, interest_usd
from planner.scenario.scenario import Scenario
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    import datetime


# Assignments: what a chosen row names, evaluated, and compared with what the search has of the row.


SEARCH_TOLERANCE = Tolerance(hours=1e-6, gib=1e-6, usd=1e-4)
"""How far the row of a search may be from the plan: it computes many rows at once, in arrays and in another order."""


def build_assignment(chosen: ChosenCandidate, scenario: Scenario, library: Library, as_of: datetime.date) -> Assignment:
    """Return the plan of one job: the figures of what the row names, and notes.

    Raises AuditError where the search has other figures of the row: one of the two is wrong.
    """
    named = name_run(chosen, scenario.limits)
    context, wrong = resolve_names(named, scenario, library)
    if context is None:
        raise AuditError(_text("cannot be evaluated", wrong))
    made = evaluate(_with_passes(context, chosen), as_of).assignment
    if wrong := compare_with_row(made, chosen):
        raise AuditError(_text("is not the row that the search chose", wrong))
    return made.model_copy(update={"notes": _notes(chosen, made, scenario.limits, library, as_of)})


def name_run(chosen: ChosenCandidate, limits: Limits) -> NamedRun:
    """Return what decides the figures of a chosen row."""
    candidates, row, recipe = chosen.candidates, chosen.row, chosen.recipe
    machine = None if candidates.is_managed_service[row] else chosen.machine
    waiting = chosen.waiting_usd + (limits.waiting_usd_per_hour or 0.0)
    return NamedRun(
        name=chosen.job.name,
        offer=chosen.market.labels[chosen.place],
        instances=machine.instances if machine else 0,
        gpus=machine.gpus if machine else 0,
        gpus_per_instance=machine.gpus_per_instance if machine else 0,
        techniques=techniques_of(recipe, chosen.job, *candidates.batch(row)),
        spot_share=chosen.share,
        beside=tuple(
            NamedStage(separate_stage.stage, separate_stage.label)
            for separate_stage in candidates.placement_of(row).separate_stages
        ),
        policy=NamedPolicy(chosen.spot.point.hours, waiting) if chosen.spot else None,
        kv_bits=getattr(recipe, "kv_bits", None),  # of an engine
        start_at_hours=chosen.lead_hours if chosen.start_at_hours is None else chosen.start_at_hours,
        pauses=chosen.pauses,
        is_reserved=chosen.is_reserved,
    )


def compare_with_row(made: Assignment, chosen: ChosenCandidate) -> list[Violation]:
    """Return where a plan has other hours, dollars or bytes than the row of the search."""
    figures, share = chosen.figures, chosen.share
    pairs = {
        "hours.expected": (figures.hours(share), made.hours.expected),
        "hours.at_confidence": (figures.late_hours(share), made.hours.at_confidence),
    }
    if made.inference is None:  # the cache of generation takes what is left
        pairs["vram_gib.peak"] = (figures.fit_gib, made.vram_gib.peak)
    if not made.pauses:  # a timetable adds what they cost
        terms, after, late_after = figures.term_usd[0] * chosen.is_reserved  # paid apart from the jobs
        pairs["cost_usd"] = (figures.cost_usd(share) - terms - after, made.cost_usd)
        if chosen.spot is None:  # of a policy they are drawn: the search bounds them where a budget asks for them
            pairs["cost_at_confidence"] = (figures.late_cost_usd(share) - terms - late_after, made.cost_at_confidence)
    return [
        broken
        for what, (row, plan) in pairs.items()
        for broken in compare(made.name, what, float(row[0]), plan, SEARCH_TOLERANCE, unit_of(what.partition(".")[0]))
    ]


def _with_passes(context: RunContext, chosen: ChosenCandidate) -> RunContext:
    """Return the context with what the search has computed of the machines and the policy of the row."""
    context = replace(context, kept=chosen.candidates.kept)
    if chosen.spot is None:
        return context
    spot, policies = chosen.spot, chosen.candidates.policies
    return replace(context, searched=SearchedPolicy(spot.run, spot.states, chosen.policy_costs(spot), policies))


def _notes(
    chosen: ChosenCandidate, made: Assignment, limits: Limits, library: Library, as_of: datetime.date
) -> tuple[str, ...]:
    if chosen.candidates.is_managed_service[chosen.row]:
        return build_managed_notes(chosen, limits, as_of)
    quick = on_quick_market(made, chosen.job)
    if made.inference is not None:
        return (*quick, *build_generation_notes(chosen, made.inference, limits, as_of))
    return (*quick, *build_notes(chosen, made.vram_gib, made.host_memory, limits, library, as_of))


def _text(what: str, wrong: list[Violation]) -> str:
    return f"the plan {what}: " + "; ".join(str(violation) for violation in wrong[:5])


# What buying the machines of a job costs, and from how many hours of such use it pays.
#
# Buying n machines for P dollars each, of which a share r(m) is left after m months, pays from the first m on at which
# the rent that h hours of use a month save is what they have lost by then, with the interest on it:
#
#     h*m*(rent - n*running) = n*(P*(1 - r(m)) + interest(m))
#
# where `rent` is what an hour of work is rented for, and `running` is power*PUE*price, the monthly costs over the hours
# of a month and the hourly fees of the machine. Two RTX 3090 at $2,500, half of it left at any age, rented at $0.22 an
# hour each, with 504 W at $0.18 per kWh: 2,500 / (0.44 - 0.18144) = 9,669 hours. The whole price is back after twice
# as many hours: published break-evens often count that, and call it the same.


RENTED = ("secure", "community")
"""Tiers whose hours are rented one by one."""
NO_WORK = {
    *("lost on spot", "move to on demand", "starts on demand", "starts and losses", "rounded up"),
    *fee_items("machine hours"),
}
"""Lines of the bill for hours that an own machine would not need, and fees of hours that another line has."""
SOON_MONTHS = 1e-6
"""Months that are none: what pays after them pays at once."""
LONGEST_MONTHS = 12_000.0
"""Age up to which a break-even of machines is sought whose life nobody states."""


def compare_purchase(job: Assignment, scenario: Scenario) -> Purchase | None:
    """Return the purchase of the machines of a job: of those that it buys, else of as many equal ones as it rents.

    None where none is for sale, or nothing is rented. `scenario.for_sale` is searched in its order for a machine with
    as many of the same GPUs.
    """
    if job.tier == "bought":
        offer = dict(scenario.labelled_offers()).get(job.offer)
    else:
        kind = job.gpu, job.gpus_per_instance
        offer = next((offer for offer in scenario.for_sale if (offer.gpu, offer.gpus) == kind), None)
    if offer is None or offer.buy is None or job.tier not in (*RENTED, "bought"):
        return None
    machines, buy = job.instances * job.runs_at_once, offer.buy
    hours, rent = _bought_hours(job, offer, scenario) if job.tier == "bought" else _rented_hours(job)
    if hours <= 0 or (rent is not None and rent <= 0):
        return None
    horizon = scenario.horizon if job.tier == "bought" else None
    monthly = horizon.hours_per_month if horizon is not None else MONTH_HOURS
    fees = fee_rate(offer.fees, "machine hours") or 0.0
    running = machines * (buy.power_usd_per_hour + buy.idle_usd_per_month / monthly + fees)
    saved, interest = 0.0 if rent is None else (rent - running) / machines, horizon.interest if horizon else 0.0
    months = [pays_from_months(buy, saved * monthly, interest, which) for which in range(3)]
    pays = [None if each is None else each * monthly for each in months]
    low, high = buy.purchase_range_usd or (buy.purchase_usd, buy.purchase_usd)
    return Purchase(
        is_bought=job.tier == "bought",
        offer=offer.label,
        machines=machines,
        usd=machines * buy.purchase_usd,
        low_usd=machines * low,
        high_usd=machines * high,
        date=offer.date_text,
        source=offer.source,
        rent_usd_per_hour=rent,
        hours_per_month=monthly,
        running_usd_per_hour=running,
        price_back_hours=buy.purchase_usd / saved if saved > 0 else None,
        life_months=buy.life_months,
        **_hour_of_it(buy, horizon, machines, fees),
        without=buy.without or "",
        interest=interest,
        pays_from_hours=pays[0],
        pays_from_hours_low=pays[1],
        pays_from_hours_high=pays[2],
        hours=hours,
    )


def _hour_of_it(buy: Buy, horizon: Horizon | None, machines: int, fees: float) -> dict[str, float]:
    """Return what an hour of machines that are bought costs at the use of the horizon, and at half of it."""
    if horizon is None:
        return {}
    half = horizon.model_copy(update={"hours_per_month": horizon.hours_per_month / 2})
    usd = [machines * (buy.owned(used).usd_per_hour + fees) for used in (horizon, half)]
    return {"usd_per_hour": usd[0], "half_use_usd_per_hour": usd[1]}


def _rented_hours(job: Assignment) -> tuple[float, float]:
    """Return the hours of work of rented machines, and the dollars of all of them for an hour of it."""
    lines = [line for line in job.bill if line.unit == "h" and " at " not in line.item]
    hours = math.fsum(line.quantity or 0.0 for line in lines if line.item not in NO_WORK)
    hours /= job.instances * job.runs_at_once
    if job.spot is not None:  # the starts of a policy are on lines of their own, of which one is needed
        hours += job.start_hours
    return hours, math.fsum(line.usd for line in lines) / hours if hours > 0 else 0.0


def _bought_hours(job: Assignment, offer: Offer, scenario: Scenario) -> tuple[float, float | None]:
    """Return the hours that bought machines work, and the dollars of as many equal ones by the hour; None without."""
    machines = job.instances * job.runs_at_once
    hours = max((line.quantity or 0.0 for line in job.bill if line.item == "wear of own machines"), default=0.0)
    offers = (other for _, other in scenario.labelled_offers())
    price = hourly_price(offer, (other for other in offers if other.tier in RENTED and scenario.limits.permits(other)))
    fees = fee_rate(offer.fees, "machine hours") or 0.0  # which `hourly_price` takes off
    return hours / machines, None if price is None else machines * (price + fees)


def pays_from_months(buy: Buy, saved_usd_per_month: float, interest: float, which: int) -> float | None:
    """Return the months from which on one machine that saves so many dollars of rent in each pays; None if never.

    `which`: 0 as stated, 1 the least and 2 the most that it may lose. No machine pays after its life.
    """
    price = (buy.purchase_usd, *(buy.purchase_range_usd or (buy.purchase_usd, buy.purchase_usd)))[which]

    def gain(months: float) -> float:
        lost = buy.lost_usd(months)[which]
        return saved_usd_per_month * months - lost - interest_usd(price, price - lost, months, interest)

    low, high = 0.0, buy.life_months or LONGEST_MONTHS
    if gain(high) < 0:
        return None
    if gain(SOON_MONTHS) >= 0:
        return 0.0
    for _ in range(60):  # what is lost grows ever more slowly, so that the gain is negative first and positive then
        middle = (low + high) / 2
        low, high = (low, middle) if gain(middle) >= 0 else (middle, high)
    return high
