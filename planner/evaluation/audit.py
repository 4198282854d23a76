"""Independent check of a plan: its figures, its sums, every limit, and the other ways that it names.

One configuration at a time in plain floats; nothing of how the plan was found is known here.
Not recomputed is what a plan says of other configurations than its own: the ladder of methods, runners-up, limits that
bind, notes, and the explanation of a question without a plan. Nothing in the plan depends on them.
"""

from __future__ import annotations

import datetime
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import numpy as np
from pydantic import ValidationError

from planner import open_choices
from planner.configurations.recipe import length_spread, mean_tokens
from planner.estimates.work import NEGLIGIBLE_CUT, VARIABLE, padded_length
from planner.evaluation.audited_limits import (
    choices_of_job,
    figures_of_job,
    lateness_usd,
    limits_of_plan,
    totals,
    waited_hours,
)
from planner.evaluation.comparison import Broken, Tolerance, Violation, at_most, compare, unit_of
from planner.evaluation.evaluate import evaluate
from planner.evaluation.evaluated_physics import NamedRun, evaluate_work, hourly_price, resolve_names
from planner.library.schema import Library
from planner.library.technique_tables import read_techniques
from planner.results.plan import Assignment, Plan, plan_figures
from planner.results.plan_parts import FurtherWay, Purchase
from planner.scenario.offer import Offer, fee_items, fee_rate
from planner.scenario.offer_terms import Buy
from planner.scenario.scenario import MOST_ABOVE_LEAST, Scenario, open_jobs
from planner.subjects import shown_by
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Check of the other ways that a plan names: further ways if its machines cannot be had, and their purchase.
#
# A further way is a plan of the scenario without the machines of the plan and of the ways before it, so it is audited
# as such a plan: its figures, its limits, and that it is at another provider or on another card.


_WASTED = {"lost on spot", "move to on demand", "starts on demand", "starts and losses", "rounded up"}
_WASTED |= fee_items("machine hours")  # of hours that another line has


class AuditPlan(Protocol):
    """The audit of the jobs and limits of a plan, whose objective is not claimed."""

    def __call__(self, plan: Plan, scenario: Scenario, /) -> list[Violation]:
        """Return what its jobs break, each by itself and together."""
        ...


def ways_of_plan(plan: Plan, scenario: Scenario, tolerance: Tolerance, audit_jobs: AuditPlan) -> Iterator[Violation]:
    """Yield what the further ways and purchases of a plan break; `audit_jobs` audits the jobs of one way."""
    wanted = scenario.limits.fallbacks
    free = scenario.model_copy(update={"limits": scenario.limits.model_copy(update={"fallbacks": 0})})
    for job in plan.jobs:
        if len(job.fallbacks) != wanted:
            yield Violation(job.name, "limits.fallbacks", f"{wanted} further ways", len(job.fallbacks))
        taken = [(job.provider, job.gpu)]
        for number, way in enumerate(job.fallbacks, 1):
            path = f"fallbacks[{number}]"
            reduced = free.model_copy(update={"offers": _others(free.offers, taken), "offers_inline": ()})
            yield from _way(path, job, way, plan, reduced, tolerance, audit_jobs)
            taken.append((way.provider, way.gpu))
        if job.purchase is not None:
            yield from (Violation(job.name, *broken) for broken in _purchase(job.purchase, job, scenario, tolerance))


def _others(offers: Sequence[Offer], taken: Sequence[tuple[str, str]]) -> tuple[Offer, ...]:
    """Return the offers of other providers, or with other cards."""
    return tuple(
        offer for offer in offers if (offer.provider, "managed" if offer.is_managed else offer.card) not in taken
    )


def _way(
    path: str,
    job: Assignment,
    way: FurtherWay,
    plan: Plan,
    reduced: Scenario,
    tolerance: Tolerance,
    audit_jobs: AuditPlan,
) -> Iterator[Violation]:
    """Yield what one further way of a job breaks, and where its summary is not that of its jobs."""
    try:
        jobs = tuple(Assignment.model_validate(stated) for stated in way.jobs)
    except ValidationError:
        yield Violation(job.name, f"{path}.jobs", "jobs as in the plan", "something else")
        return
    mine = next((way_job for way_job in jobs if way_job.name == job.name), None)
    if mine is None:
        yield Violation(job.name, f"{path}.jobs", f"the job {job.name}", None)
        return
    figures = plan_figures(jobs, way.reservations)
    update = {"baseline": None, "faster": (), "infeasible": None, "keeps_typical_stock": way.keeps_typical_stock}
    other = plan.model_copy(update={**figures, **update})
    for violation in audit_jobs(other, reduced):
        yield Violation(violation.job or job.name, f"{path}: {violation.what}", violation.expected, violation.found)
    for name in ("provider", "gpu", "gpus", "runs_at_once"):
        if getattr(way, name) != getattr(mine, name):
            yield Violation(job.name, f"{path}.{name}", getattr(mine, name), getattr(way, name))
    more = figures["cost"].expected - (plan.cost.expected if plan.cost else 0.0)
    hours = mine.delay_hours + mine.hours.expected
    for name, expected, room in (
        ("cost_usd", mine.cost_usd, tolerance.usd),
        ("more_usd", more, tolerance.usd * (1 + len(jobs))),
        ("hours", hours, tolerance.hours * hours),
    ):
        if not abs(getattr(way, name) - expected) <= room:
            yield Violation(job.name, f"{path}.{name}", expected, getattr(way, name))


def _purchase(purchase: Purchase, job: Assignment, scenario: Scenario, tolerance: Tolerance) -> Iterator[Broken]:
    """Yield where the purchase contradicts the bill of the job, or the offer where that is at hand."""
    machines, bought = job.instances * job.runs_at_once, job.tier == "bought"
    same = (offer for offer in scenario.for_sale if (offer.gpu, offer.gpus) == (job.gpu, job.gpus_per_instance))
    offer = dict(scenario.labelled_offers()).get(job.offer) if bought else next(same, None)
    if offer is None or offer.buy is None:
        yield "purchase", None, purchase.offer
        return
    buy, fees = offer.buy, fee_rate(offer.fees, "machine hours") or 0.0
    horizon = scenario.horizon if bought else None
    monthly = horizon.hours_per_month if horizon else MONTH_HOURS
    hours, rent = _bought(job, offer, scenario) if bought else _rented(job)
    rent = None if rent is None else rent * machines
    power = (buy.power_watts or 0.0) / 1000 * buy.pue * buy.usd_per_kwh
    running = machines * (power + buy.idle_usd_per_month / monthly + fees)
    saved = 0.0 if rent is None else rent - running
    hourly: list[float | None] = [None, None]
    if horizon is not None:
        months = min(horizon.months, buy.life_months or horizon.months)
        spread = (_lost(buy, months, 0, horizon.interest) + buy.idle_usd_per_month * months) / months / monthly
        hourly = [machines * (power + fees + spread), machines * (power + fees + 2 * spread)]
    low, high = buy.purchase_range_usd or (buy.purchase_usd, buy.purchase_usd)
    told: dict[str, str | float | None] = {
        "is_bought": bought,
        "offer": offer.label,
        "date": offer.date_text,
        "source": offer.source,
        "machines": machines,
        "hours": hours / machines,
        "rent_usd_per_hour": rent,
        "hours_per_month": monthly,
        "running_usd_per_hour": running,
        "usd": machines * buy.purchase_usd,
        "low_usd": machines * low,
        "high_usd": machines * high,
        "life_months": buy.life_months,
        "without": buy.without or "",
        "interest": horizon.interest if horizon else 0.0,
        "usd_per_hour": hourly[0],
        "half_use_usd_per_hour": hourly[1],
        "price_back_hours": machines * buy.purchase_usd / saved if saved > 0 else None,
    }
    for name, value in told.items():
        stated = getattr(purchase, name)
        if isinstance(value, float) and isinstance(stated, float):
            if abs(stated - value) <= tolerance.hours * max(1.0, abs(value)):
                continue
        elif stated == value:
            continue
        yield f"purchase.{name}", value, stated
    ends = (purchase.pays_from_hours, purchase.pays_from_hours_low, purchase.pays_from_hours_high)
    for which, (name, pays) in enumerate(zip(("", "_low", "_high"), ends, strict=True)):
        if not _breaks_even(buy, pays, saved / machines, monthly, which, horizon.interest if horizon else 0.0):
            yield f"purchase.pays_from_hours{name}", "hours at which the rent saved is what is lost", pays


def _rented(job: Assignment) -> tuple[float, float]:
    """Return the machine hours of work of a job, and the dollars of one machine for an hour of it."""
    machines = job.instances * job.runs_at_once
    paid = [line for line in job.bill if line.unit == "h" and not line.item.rpartition(" at ")[1]]
    hours = math.fsum(line.quantity or 0.0 for line in paid if line.item not in _WASTED)
    hours += machines * job.start_hours if job.spot else 0.0
    return hours, math.fsum(line.usd for line in paid) / hours


def _bought(job: Assignment, offer: Offer, scenario: Scenario) -> tuple[float, float | None]:
    """Return the machine hours of a job on bought machines, and the dollars of an equal one by the hour."""
    hours = next((line.quantity or 0.0 for line in job.bill if line.item == "wear of own machines"), 0.0)
    rented = [
        other
        for _, other in scenario.labelled_offers()
        if other.tier in ("secure", "community") and scenario.limits.permits(other)
    ]
    price = hourly_price(offer, rented)
    return hours, None if price is None else price + (fee_rate(offer.fees, "machine hours") or 0.0)


def _lost(buy: Buy, months: float, which: int, interest: float) -> float:
    """Return what one machine loses by an age, with interest: as stated (0), the least (1) or the most (2)."""
    price = buy.purchase_usd if which == 0 or not buy.purchase_range_usd else buy.purchase_range_usd[which - 1]
    if (resale := buy.resale) is None:
        left = buy.residual_share if which == 0 or not buy.residual_range else buy.residual_range[2 - which]
    elif resale.half_life_months is not None:
        half = (
            resale.half_life_months if which == 0 or not resale.half_life_range else resale.half_life_range[2 - which]
        )
        left = resale.used_share * math.exp(-math.log(2) * months / half)
    else:
        left = resale.share(months)
    monthly = (1 + interest) ** (1 / 12) - 1
    later = (1 + monthly) ** -months
    if 1 - later < 1e-12:
        return price * (1 - left)
    return float(months * price * (1 - left * later) * monthly / (1 - later))


def _breaks_even(buy: Buy, pays: float | None, saved: float, monthly: float, which: int, interest: float) -> bool:
    """Return whether the rent saved by some hours of use is what is lost by then; None: it is less all its life."""
    months = (buy.life_months or 12_000.0) if pays is None else pays / monthly
    gain, most = saved * monthly * months - _lost(buy, months, which, interest), 1e-6 * buy.purchase_usd
    return gain < most if pays is None else abs(gain) <= most or (gain > 0 and pays <= 1e-6)


_NO_PLAN = ("infeasible", "no_plan")  # statuses without jobs
_CUT_SLACK = 1e-3
"""How far the two ways of computing a share of cut tokens may be apart."""
_TIE_SLACK = {"cost": 0.005, "time": 0.001}
"""How far above the optimum (dollars, hours) a plan may lie that is better in what counts second, at the least."""


def audit(
    plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance | None = None, asked_gap: float = 0.0
) -> list[Violation]:
    """Return every disagreement between the plan and what follows from scenario and library; none for a sound plan.

    `asked_gap` is the relative gap at which the solver was allowed to stop.
    """
    tolerance = tolerance or Tolerance()
    with suppress(ValueError):  # a day that is none is told with the figures that rest on it
        scenario = scenario.on_day(datetime.date.fromisoformat(plan.as_of))
    violations = compare("", "scenario", scenario.name, plan.scenario, tolerance)
    violations += [Violation("", *broken) for broken in _verdict(plan, max(asked_gap, tolerance.gap))]
    if (subject := shown_by(plan)) is not None and plan.status not in _NO_PLAN:
        violations += subject.audit(plan, scenario, library, tolerance)
        plan, scenario = subject.rest(plan, scenario)
    if plan.status in _NO_PLAN or not plan.jobs:
        return violations
    decided: Scenario | None = scenario
    wrong: list[Violation] = []
    if open_jobs(scenario) or any(job.model is not None for job in plan.jobs):
        decided, wrong = open_choices.decided_scenario(plan, scenario, library)
    violations += wrong
    if decided is None:
        return violations
    scenario = decided
    violations += _audit_jobs(plan, scenario, library, tolerance)
    violations += [Violation("", *broken) for broken in _cut_samples(plan, scenario, library)]
    violations += ways_of_plan(plan, scenario, tolerance, lambda way, less: _audit_jobs(way, less, library, tolerance))
    for figure, expected in totals(plan, scenario).items():
        violations += compare("", figure, expected, getattr(plan, figure), tolerance, unit_of(figure))
    return violations + [Violation("", *broken) for broken in _objective(plan, scenario, tolerance)]


def _cut_samples(plan: Plan, scenario: Scenario, library: Library) -> Iterator[Broken]:
    """Yield where the plan states another share of cut tokens than follows from the lengths of samples and sequences.

    Here lengths stand on a grid and are cut one by one, where the plan has a closed form.
    """
    stated = {cut.job: cut for cut in plan.cut}
    for job in scenario.jobs:
        mean = mean_tokens(job, library.architecture(job.architecture)) if job.trains else job.tokens_per_sequence
        said = stated.pop(job.name, None)
        if mean is None:
            sequence, cut = 0, 0.0
        else:
            sequence = evaluate_work(job, library.architecture(job.architecture)).sequence
            table = job.sequence_lengths
            is_spread = job.packing in VARIABLE or bool(table)
            spread = length_spread(job, library.architecture(job.architecture))
            held = padded_length(mean, spread, 1, sequence, table) if is_spread else min(mean, sequence)
            cut = max(0.0, 1.0 - float(held) / mean)
        if said is None and cut > NEGLIGIBLE_CUT + _CUT_SLACK:
            yield f"cut of {job.name}", cut, None
        elif said is not None and (abs(said.share - cut) > _CUT_SLACK or said.sequence_length != sequence):
            yield f"cut of {job.name}", cut, said.share
    for name in stated:
        yield f"cut of {name}", "a job of the scenario", None


def describe_unstated(plan: Plan, violations: Sequence[Violation]) -> list[str]:
    """Return a line for each figure of a job that the file of a plan does not have at all: older versions knew none."""
    stated = {part.name: part.model_fields_set for part in plan.jobs}
    return [
        f"{wrong.job}: {wrong.what} is not in the file: an older version wrote it; solve again and check the new plan"
        for wrong in violations
        if wrong.job in stated and wrong.what in Assignment.model_fields and wrong.what not in stated[wrong.job]
    ]


def _audit_jobs(plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance) -> list[Violation]:
    """Return all violations of the jobs of a plan, and of the limits that they keep together."""
    all_violations, used_hours = list[Violation](), []
    wanted = {job.name: job.model_copy(update={"name": ""}) for job in scenario.jobs}
    sound: list[tuple[object, Assignment, float]] = []  # what differs in names alone is evaluated once
    for assignment in plan.jobs:
        job, nameless = wanted.get(assignment.name), assignment.model_copy(update={"name": ""})
        known = next((hours for other, same, hours in sound if same == nameless and other == job), None)
        if known is None:
            violations, known = _audit_job(assignment, plan, scenario, library, tolerance)
            all_violations += violations
            if not violations:
                sound.append((job, nameless, known))
        used_hours.append(known)
    return all_violations + [
        Violation("", *broken) for broken in limits_of_plan(plan, scenario, library, used_hours, tolerance)
    ]


def _audit_job(
    assignment: Assignment, plan: Plan, scenario: Scenario, library: Library, tolerance: Tolerance
) -> tuple[list[Violation], float]:
    """Return all violations of one job, and its machine hours at its confidence."""
    context, violations = resolve_names(NamedRun.of(assignment), scenario, library)
    if context is None:
        return violations, 0.0
    name = assignment.name
    try:
        violations += [Violation(name, *broken) for broken in choices_of_job(context)]
        with np.errstate(divide="ignore", invalid="ignore"):  # a plan of no GPUs or of no seconds per step
            evaluation = evaluate(context, datetime.date.fromisoformat(plan.as_of))
        violations += compare(name, "", evaluation.assignment, assignment, tolerance)
        figures = figures_of_job(context, assignment, evaluation, tolerance)
        violations += [Violation(name, *broken) for broken in figures]
        return violations, evaluation.late_machine_hours
    except (ValueError, KeyError, IndexError, ZeroDivisionError, OverflowError) as error:
        # A plan of nonsense counts or degrees has no figures to compare.
        return [*violations, Violation(name, "figures", "something to compute", repr(error))], 0.0


def _verdict(plan: Plan, gap: float) -> Iterator[Broken]:
    """Yield where status, objective, bound, gap and explanation contradict each other."""
    if plan.infeasible is not None and plan.status != "infeasible":
        yield "infeasible", None, f"an explanation of a plan that is {plan.status}"
    if plan.status in _NO_PLAN:
        if plan.jobs:
            yield f"jobs of a plan that is {plan.status}", 0, len(plan.jobs)
        for figure in ("objective", "cost", "cost_at_confidence", "hours"):
            if getattr(plan, figure) is not None:
                yield f"{figure} of a plan that is {plan.status}", None, "a figure"
    elif plan.objective is None or not plan.planned:
        yield "objective and jobs", "figures", None
    else:
        yield from _proof(plan, plan.objective, gap)


def _proof(plan: Plan, objective: float, gap: float) -> Iterator[Broken]:
    """Yield where bound and gap do not fit the objective; an optimal plan has a gap no larger than asked."""
    if plan.bound is None or plan.gap is None:
        if plan.status == "optimal" or (plan.bound is None) != (plan.gap is None):
            yield "bound and gap", "figures", None
        return
    yield from at_most("bound", objective, plan.bound, 1e-9 * max(1.0, abs(objective)))
    distance = max(0.0, objective - plan.bound)
    expected = distance / max(abs(objective), 1e-9)
    if not abs(expected - plan.gap) <= max(1e-6 * max(expected, abs(plan.gap)), 1e-9):
        yield "gap", expected, plan.gap
    # Below a millionth of a dollar (or hour) a gap is rounding, whatever it is relative to.
    if plan.status == "optimal" and distance > 1e-6:
        yield from at_most("gap of an optimal plan", gap, plan.gap, 1e-12)


def _objective(plan: Plan, scenario: Scenario, tolerance: Tolerance) -> Iterator[Broken]:
    """Yield an objective that is not that of the jobs, up to what a later pass may give up to break ties."""
    if scenario.objective_kind == "time":
        value = max(job.delay_hours + job.hours.at_confidence for job in plan.jobs)
    else:
        hours = math.fsum(waited_hours(job, scenario) + job.hours.expected for job in plan.jobs)
        value = math.fsum(job.cost_usd + _penalty_usd(job, scenario) for job in plan.jobs)
        value += math.fsum(reservation.usd for reservation in plan.reservations) + lateness_usd(plan, scenario)
        value += scenario.value_of_time_usd_per_hour * hours
    slack = tolerance.hours * max(1.0, abs(value))
    if plan.objective is None:
        return
    tie = _TIE_SLACK[scenario.objective_kind]
    if scenario.objective_kind == "cost":
        tie = max(tie, scenario.near_tie_usd(plan.objective))
    if scenario.waits_less and any(job.spot is not None for job in plan.jobs):
        tie = max(tie, MOST_ABOVE_LEAST * plan.objective)
    if not -slack - _TIE_SLACK[scenario.objective_kind] <= value - plan.objective <= tie + slack:
        yield "objective", value, plan.objective
    least = plan.objective if scenario.has_plain_dollars else None
    if plan.least_cost_usd != least:
        yield "least_cost_usd", least, plan.least_cost_usd


def _penalty_usd(assignment: Assignment, scenario: Scenario) -> float:
    """Return what avoiding the techniques in use would have been worth."""
    named = assignment.techniques
    in_use = read_techniques().in_use(vars(named), named.accumulation_steps > 1)
    job = next((job for job in scenario.jobs if job.name == assignment.name), None)
    penalties = job.techniques.penalty_usd if job else {}
    return math.fsum(usd for name, usd in penalties.items() if name in in_use)
