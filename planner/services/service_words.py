"""The words of a report on a service: its plan in sections, its reasons, and what its figures rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import words
from planner.report.figures.plan_figures import Table
from planner.report.html import plan_words
from planner.report.html.plan_words import Fact
from planner.report.infeasible_text import limit_name
from planner.results.explanation import Explanation
from planner.results.plan import Plan
from planner.results.report_data import Overview
from planner.results.service_results import BINDING_WORDS, KindBasis, jobs_alone, seconds_text, span
from planner.services.fleet_text import EQUAL_GAP, percent_up, proven, sections
from planner.services.service_explanation_text import month_usd, relaxed
from planner.units import MONTH_HOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

FIGURE_SECTIONS = ("Hours", "Simpler", "Service")
"""Sections of the text that are figures of the page."""


def tiles(plan: Plan) -> list[tuple[str, str, str]]:
    """Return the key figures: name, figure, and what it is measured against; what all cost where jobs run, too."""
    found = []
    if plan.jobs and plan.cost is not None:
        budget = "" if plan.budget_usd is None else f"of a budget of {words.usd(plan.budget_usd)}"
        found.append(("jobs and service", words.usd(plan.cost.expected), budget))
    for service in plan.services:
        fleet = service.fleet
        proof = proven(service.gap)
        found.append(("a month", words.usd(fleet.usd_per_month), proof))
        replicas = span(min(fleet.replicas_by_hour), max(fleet.replicas_by_hour))
        found.append(("replicas", replicas, f"mean use {words.percent(fleet.use)}"))
        for one in fleet.limits:
            name = "per token" if one.name == "tpot" else "first token"
            limit = "no limit" if one.limit_seconds is None else f"limit {seconds_text(one.limit_seconds)}"
            share = f"{words.share_text(fleet.within_limits_share)} of the requests, {limit}"
            found.append((name, seconds_text(one.predicted_seconds), share))
        price = words.rate(fleet.usd_per_million_tokens)
        found.append(("per million tokens", price, f"{words.rate(fleet.usd_per_thousand_requests)} per 1,000 requests"))
    return found


def service_facts(plan: Plan) -> list[tuple[str, list[Fact]]]:
    """Return each service's name with its sections, as in the text of `solve`."""
    with words.unwrapped():
        return [
            (
                words.sanitise(service.name),
                [(label, "; ".join(map(words.sanitise, lines)))
                 for label, lines in [("Assumed", list(service.assumed)), *sections(service, plan)] if lines
                 and label not in FIGURE_SECTIONS],
            )
            for service in plan.services
        ]  # fmt: skip


def reasons(plan: Plan, explanation: Explanation | None) -> list[Fact]:
    """Return how far the plan is proven, what holds each kind, and what looser limits save."""
    gap = max(service.gap for service in plan.services)
    less = "" if gap <= EQUAL_GAP else f"more than {percent_up(gap)} "
    proof = proven(gap) if gap >= 1.0 else f"no fleet of these kinds costs {less}less"
    found = [("Proof", proof)]
    if explanation is None or explanation.service is None:
        return found
    hours = explanation.hours or MONTH_HOURS
    for kind in explanation.service.kinds:
        each = f"{words.rate(kind.usd_per_capacity, 1)} an hour for a unit of {explanation.service.unit}"
        found.append(("Limited by", f"{kind.machine}: {BINDING_WORDS[kind.binds]}, {each}"))
    for step in explanation.next_steps:
        if step.change_to is None:
            continue
        saved = words.usd(month_usd(-(step.delta_usd or 0.0), hours))
        text = f"{relaxed(step, explanation.scenario)} saves {saved} a month (--set {step.setting})"
        found.append(("Relaxing", text))
    idle = [limit_name(step.limit, explanation.scenario) for step in explanation.next_steps if step.change_to is None]
    if idle:
        found.append(("No gain", f"from relaxing {', '.join(idle)}"))
    return [(label, words.sanitise(text)) for label, text in found]


def reasons_of_all(found: Overview) -> list[Fact]:
    """Return why a plan with services is as it is, that of the jobs first."""
    plan = found.plan
    if not plan.jobs:
        return reasons(plan, found.explanation)
    of_jobs, of_service = parts_explained(found.explanation)
    return [*plan_words.reasons(jobs_alone(plan), of_jobs), *reasons(plan, of_service)]


def parts_explained(found: Explanation | None) -> tuple[Explanation | None, Explanation | None]:
    """Return the explanations of jobs and of a service next to them; those of limits of both stand with the jobs."""
    if found is None or not found.parts:
        return None, None
    jobs, service = found.parts
    shared = (step for step in found.next_steps if step.limit.startswith("limits."))
    return jobs.model_copy(update={"next_steps": (*jobs.next_steps, *shared)}), service


def assumptions(plan: Plan, bases: Sequence[KindBasis] = ()) -> Table:
    """Return what the figures rest on: prices and speeds with source and age, starts, spot markets, notes.

    Without `bases` the prices of a service have one row.
    """
    rows: dict[tuple[str, str, str], None] = {}
    for service in plan.services:
        of_service = [basis for basis in bases if basis.service == service.name]
        if not of_service:
            rows["prices", _age(service.price_age_days, "up to "), service.price_source] = None
        for one in of_service:
            source = ", ".join(part for part in (one.price_source, one.price_date, _age(one.price_age_days)) if part)
            rows[f"price of {one.offer}", "as offered", source] = None
        for one in of_service:
            rest = (
                f"prior: no published measurements inform {', '.join(one.priors)}"
                if one.priors
                else "calibrated on published measurements"
            )
            speed = f"estimated times x {one.slow:.3g}, to hold at the confidence"
            rows[f"speed of {one.machine}", speed, "observed runs" if one.is_measured else rest] = None
        for kind in service.fleet.kinds:
            start = f"takes {kind.start_hours * 60:.0f} minutes, {words.usd(kind.start_usd)}"
            rows[f"start of {kind.offer}", start, "cold_start, or the stages of a start"] = None
            if kind.market == "spot":
                share = f"available {kind.availability * 100:.0f} % of the time"
                rows[f"spot market of {kind.offer}", share, "stated by the offer, or the prior"] = None
        for note in service.notes:
            rows["note", note, ""] = None
    found = [tuple(map(words.sanitise, row)) for row in rows]
    versions = plan.inputs.versions if plan.inputs else {}
    if versions:
        found.append(("versions", words.sanitise(", ".join(" ".join(pair) for pair in versions.items())), ""))
    found.append(("ages counted to", plan.as_of, f"solver {plan.solver}"))
    return Table(("assumption", "value", "source"), tuple(found))


def _age(days: int | None, most: str = "") -> str:
    return "unknown age" if days is None else f"{most}{days:,} days old"
