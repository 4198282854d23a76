"""A service in the report and on the page, alone or next to jobs: words, changes, analyses and their figures."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from planner.analysis.overview import TORNADO, job_tasks, left_to_what_if, price_series, run_tasks, tornado_of
from planner.library.schema import Library
from planner.report import report_page, words
from planner.report.explanation_text import limit_name
from planner.report.frontier_figure import frontier_figure
from planner.report.plan_figures import Figure, Table, alternative_figures, bill_figure, memory_figure
from planner.report.report_page import Fact, Group, analysis_groups, deadline_of
from planner.report.what_if_text import format_difference, shown_difference
from planner.results.explanation import Explanation
from planner.results.fleet import Service
from planner.results.plan import Plan
from planner.results.service_results import (
    BINDING_WORDS,
    FLEET_FEATURES,
    KindBasis,
    ServiceFrontier,
    ServicePoint,
    jobs_alone,
    replicas_text,
    seconds_text,
    span,
)
from planner.results.what_if import Overview, Section, WhatIf
from planner.scenario.scenario import Scenario, SolveOptions
from planner.services.fleet_optimise import remembering_fleets
from planner.services.fleet_problem import services_alone
from planner.services.fleet_text import EQUAL_GAP, percent_up, proven, sections
from planner.services.service_changes import SERVICE_POINTS, frontier_of_service, service_frontier
from planner.services.service_figures import (
    fleet_alternatives,
    load_figure,
    month_bill_figure,
    replica_memory_figure,
    service_frontier_figure,
    simpler_figure,
)
from planner.services.service_reasons import ServiceTrial, explain_service
from planner.services.service_simulation import kind_bases, simulate_service
from planner.services.service_texts import month_usd, relaxed, summary
from planner.solving.solve import solve
from planner.subjects import SubjectCurve
from planner.units import MILLISECONDS, MONTH_HOURS
from planner.web.app_page import figure_data, machines_of, scene_data, totals

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from planner.analysis.overview import Task

FIGURE_SECTIONS = ("Hours", "Simpler", "Service")
"""Sections of the text that are figures of the page."""


def tiles(plan: Plan) -> list[tuple[str, str, str]]:
    """Return the key figures: name, figure, and what it is measured against; what all cost where jobs run, too."""
    shown = []
    if plan.jobs and plan.cost is not None:
        budget = "" if plan.budget_usd is None else f"of a budget of {words.usd(plan.budget_usd)}"
        shown.append(("jobs and service", words.usd(plan.cost.expected), budget))
    for service in plan.services:
        fleet = service.fleet
        proof = proven(service.gap)
        shown.append(("a month", words.usd(fleet.usd_per_month), proof))
        replicas = span(min(fleet.replicas_by_hour), max(fleet.replicas_by_hour))
        shown.append(("replicas", replicas, f"mean use {words.percent(fleet.use)}"))
        for limit in fleet.limits:
            name = "per token" if limit.name == "tpot" else "first token"
            most = "no limit" if limit.limit_seconds is None else f"limit {seconds_text(limit.limit_seconds)}"
            share = f"{words.share_text(fleet.within_limits_share)} of the requests, {most}"
            shown.append((name, seconds_text(limit.predicted_seconds), share))
        price = words.rate(fleet.usd_per_million_tokens)
        shown.append(("per million tokens", price, f"{words.rate(fleet.usd_per_thousand_requests)} per 1,000 requests"))
    return shown


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
    facts = [("Proof", proof)]
    if explanation is None or explanation.service is None:
        return facts
    hours = explanation.hours or MONTH_HOURS
    for kind in explanation.service.kinds:
        price = f"{words.rate(kind.usd_per_capacity, 1)} an hour for a unit of {explanation.service.unit}"
        facts.append(("Limited by", f"{kind.machine}: {BINDING_WORDS[kind.binds]}, {price}"))
    for step in explanation.next_steps:
        if step.change_to is None:
            continue
        saved = words.usd(month_usd(-(step.delta_usd or 0.0), hours))
        text = f"{relaxed(step, explanation.scenario)} saves {saved} a month (--set {step.setting})"
        facts.append(("Relaxing", text))
    idle = [limit_name(step.limit, explanation.scenario) for step in explanation.next_steps if step.change_to is None]
    if idle:
        facts.append(("No gain", f"from relaxing {', '.join(idle)}"))
    return [(label, words.sanitise(text)) for label, text in facts]


def reasons_of_all(overview: Overview) -> list[Fact]:
    """Return why a plan with services is as it is, that of the jobs first."""
    plan = overview.plan
    if not plan.jobs:
        return reasons(plan, overview.explanation)
    of_jobs, of_service = parts_explained(overview.explanation)
    return [*report_page.reasons(jobs_alone(plan), of_jobs), *reasons(plan, of_service)]


def parts_explained(explanation: Explanation | None) -> tuple[Explanation | None, Explanation | None]:
    """Return the explanations of jobs and of a service next to them; those of limits of both stand with the jobs."""
    if explanation is None or not explanation.parts:
        return None, None
    jobs, service = explanation.parts
    shared = (step for step in explanation.next_steps if step.limit.startswith("limits."))
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
        for basis in of_service:
            source = ", ".join(
                part for part in (basis.price_source, basis.price_date, _age(basis.price_age_days)) if part
            )
            rows[f"price of {basis.offer}", "as offered", source] = None
        for basis in of_service:
            rest = (
                f"prior: no published measurements inform {', '.join(basis.priors)}"
                if basis.priors
                else "calibrated on published measurements"
            )
            speed = f"estimated times x {basis.slow:.3g}, to hold at the confidence"
            rows[f"speed of {basis.machine}", speed, "observed runs" if basis.is_measured else rest] = None
        for kind in service.fleet.kinds:
            start = f"takes {kind.start_hours * 60:.0f} minutes, {words.usd(kind.start_usd)}"
            rows[f"start of {kind.offer}", start, "cold_start, or the stages of a start"] = None
            if kind.market == "spot":
                share = f"available {kind.availability * 100:.0f} % of the time"
                rows[f"spot market of {kind.offer}", share, "stated by the offer, or the prior"] = None
        for note in service.notes:
            rows["note", note, ""] = None
    cells = [tuple(map(words.sanitise, row)) for row in rows]
    versions = plan.inputs.versions if plan.inputs else {}
    if versions:
        cells.append(("versions", words.sanitise(", ".join(" ".join(pair) for pair in versions.items())), ""))
    cells.append(("ages counted to", plan.as_of, f"solver {plan.solver}"))
    return Table(("assumption", "value", "source"), tuple(cells))


def _age(days: int | None, most: str = "") -> str:
    return "unknown age" if days is None else f"{most}{days:,} days old"


Row = tuple[str, ...]
"""A label, before, after, and the difference."""


def chips(plan: Plan) -> list[tuple[str, str, str]]:
    """Return what is proven of each service: tone (`good` or `attention`), text, and its name."""
    return [proof_chip(service.gap, service.name) for service in plan.services]


def proof_chip(gap: float | None, name: str) -> tuple[str, str, str]:
    """Return what is proven of a service."""
    if gap is not None and gap < NO_GAP:
        return "good", "proven optimal", words.sanitise(name)
    text = "no bound" if gap is None else f"within {words.percent(gap)} of the bound"
    return "attention", text, words.sanitise(name)


NO_GAP = 0.0005
"""A gap that is none on the screen."""


def change_of_services(before: Plan, after: Plan, answer: WhatIf | None) -> dict[str, Any]:
    """Return what changed and what it cost; None for `answer` where the plans alone are compared."""
    said = service_summary(answer) if answer is not None else [""]
    return {"summary": said[0], "rows": _joint_rows(before, after), "reasons": said[1:]}


def _joint_rows(before: Plan, after: Plan) -> list[Row]:
    """Return the rows of a service, and of the jobs next to it: what all cost, and the machines of each job."""
    rows = service_rows(before, after)
    if not (before.jobs or after.jobs):
        return rows
    old, new = ({job.name: machines_of(job) for job in plan.jobs} for plan in (before, after))
    machines = [(name, old.get(name, ""), new.get(name, "")) for name in dict.fromkeys((*old, *new))]
    of_jobs = [(f"{words.sanitise(name)}: machines", was, now, "changed") for name, was, now in machines if was != now]
    return [("jobs and service", *totals(before, after)[0][1:]), *rows, *of_jobs]


def service_rows(before: Plan, after: Plan) -> list[Row]:
    """Return dollars and whatever differs of the fleet of the only service; a side without a fleet is said to be."""
    old, new = (next(iter(plan.services), None) for plan in (before, after))
    known = new or old
    assert known is not None
    rows = [
        _dollars("a month", *(service.fleet.usd_per_month if service else None for service in (old, new))),
        _dollars(words.duration(known.for_hours), *(service.cost_usd if service else None for service in (old, new))),
        _dollars(
            "per million tokens", *(service.fleet.usd_per_million_tokens if service else None for service in (old, new))
        ),
        ("proven", *(proven(service.gap).removeprefix("proven ") if service else "" for service in (old, new)), ""),
    ]
    for name, describe in FLEET_FEATURES:
        first, last = (describe(service) if service else "" for service in (old, new))
        if first != last:
            rows.append((name, first, last, "changed"))
    return [tuple(map(words.sanitise, row)) for row in rows]


def _dollars(label: str, before: float | None, after: float | None) -> Row:
    """Return a row of dollars; small ones with three digits, as those of a million tokens."""
    shown = words.usd if label != "per million tokens" else words.rate
    texts = ["no plan" if usd is None else shown(usd) for usd in (before, after)]
    if before is None or after is None:
        return (label, *texts, "")
    if shown is words.usd:
        return (label, *texts, format_difference(shown_difference(before, after)))
    return (label, *texts, "" if texts[0] == texts[1] else "changed")


def service_summary(answer: WhatIf) -> list[str]:
    """Return what changed as the first line of `what-if` without the scenario's name, then what is not proven."""
    if answer.before.cost_usd is None or answer.after.cost_usd is None:
        return [""]
    if answer.unchanged:
        return ["nothing changes"]
    with words.unwrapped():
        first, *rest = summary(answer)
    start = f"{words.sanitise(answer.scenario)}: "
    return [first.removeprefix(start), *(line.strip() for line in rest)]


def service_compared(plan: Plan) -> list[tuple[str, str]]:
    """Return the rows of a pinned plan with a service: what jobs and service cost, then those of each service."""
    whole = [("jobs and service", words.usd(plan.cost.expected))] if plan.jobs and plan.cost else []
    return [*whole, *(row for service in plan.services for row in _compared(service))]


def _compared(service: Service) -> list[tuple[str, str]]:
    fleet = service.fleet
    rows = [
        ("a month", words.usd(fleet.usd_per_month)),
        ("per million tokens", words.rate(fleet.usd_per_million_tokens)),
        ("replicas", replicas_text(min(fleet.replicas_by_hour), max(fleet.replicas_by_hour)).partition(" replica")[0]),
    ]
    told = {"load", "per token", "first token", "spot", "fleet"}
    rows += [(name, describe(service)) for name, describe in FLEET_FEATURES if name in told]
    return [(label, words.sanitise(text)) for label, text in rows]


class ServiceCurve(SubjectCurve):
    """The curve of a service as far as it is computed, and the fleets behind it by their limit."""

    def __init__(self) -> None:
        self.fleets: dict[float | None, ServiceTrial] = {}
        self.found: ServiceFrontier | None = None
        self.points = 0
        """That were asked for."""

    def answer(self, scenario: Scenario, options: SolveOptions, points: int | None, width: float) -> dict[str, Any]:
        """Return dollars of a month against the limit on the time per token, each point solved."""
        points = SERVICE_POINTS if points is None else int(points)
        if self.found is None or self.points < points:
            self.found = service_frontier(services_alone(scenario), options, points=points, known=self.fleets)
            self.points = points
        if not self.found.points:
            return {"empty": "no fleet at any limit on the time per token, within the other limits"}
        is_whole = self.points >= SERVICE_POINTS or self.found.solved < self.points
        return {**steps_data(self.found, width), "whole": is_whole}


def steps_data(frontier: ServiceFrontier, width: float) -> dict[str, Any]:
    """Return the curve of a service, and its points as the page moves along them.

    No point is marked as asked: the page marks the plan itself, whose limit may be another one by then.
    """
    points = tuple(point.model_copy(update={"asked": False}) for point in frontier.points)
    figure = service_frontier_figure(frontier.model_copy(update={"points": points}))
    assert figure.draw is not None
    return {
        "figure": figure_data(figure),
        "scene": scene_data(figure.draw(width)),
        "steps": [_step(point) for point in points],
    }


def _step(point: ServicePoint) -> dict[str, Any]:
    """Return a point: its limit as a field has it, in milliseconds, its dollars, and its replicas."""
    return {
        "value": point.setting.partition("=")[2],
        "ms": point.tpot_seconds * MILLISECONDS,
        "usd": point.usd_per_month,
        "replicas": replicas_text(point.least_replicas, point.most_replicas),
    }


HOUR_REQUESTS, MOST_REQUESTS = 10_000, 1_000_000
"""Requests of each distinct hour of a service, as many as `simulate` takes, and most of all hours of a stream."""
MOST_SERVICE_CHOICES = 300
"""Kinds of machines times loads of a service above which the tornado, twenty fleets or more, is left to `what-if`."""


def overview_of_services(
    scenario: Scenario,
    plan: Plan | None,
    options: SolveOptions,
    library: Library | None,
    wanted: Collection[Section] | None,
    runs: int | None,
    seed: int,
) -> Overview:
    """Return the plan of services, and of jobs next to them, with the analyses around it."""
    with remembering_fleets():
        return _overview(scenario, plan, options, library, wanted, runs, seed)


def _overview(
    scenario: Scenario,
    plan: Plan | None,
    options: SolveOptions,
    library: Library | None,
    wanted: Collection[Section] | None,
    runs: int | None,
    seed: int,
) -> Overview:
    given = plan is not None
    plan = solve(scenario, options, library) if plan is None else plan
    if not plan.planned:
        return Overview(plan=plan, of_file=given)
    tasks = job_tasks(scenario, plan, options, library, runs, seed) if plan.jobs else []
    if plan.services:
        tasks += _service_tasks(scenario, plan, options, library, runs, seed)
    left = f"takes a minute or more for so many kinds of machines: {TORNADO}"
    has_many = any(_choices(service) > MOST_SERVICE_CHOICES for service in plan.services)
    answers = run_tasks(tasks, wanted, {"tornado": left if has_many else left_to_what_if(plan)})
    return Overview(plan=plan, of_file=given, bases=kind_bases(scenario, plan, library), **answers)


def _choices(service: Service) -> int:
    """Return how many kinds of machines there are to choose from, times the different loads."""
    return service.kinds_left * len(set(service.fleet.load))


def _hour_requests(plan: Plan) -> int:
    """Return how many requests of each distinct hour are simulated: fewer where there are many such hours."""
    hours = 1
    for service in plan.services:
        replicas = zip(*(kind.by_hour for kind in service.fleet.kinds), strict=True)
        hours = max(hours, len(set(zip(service.fleet.load, replicas, strict=True))))
    return min(HOUR_REQUESTS, MOST_REQUESTS // hours)


def _service_tasks(
    scenario: Scenario, plan: Plan, options: SolveOptions, library: Library | None, runs: int | None, seed: int
) -> list[Task]:
    """Return the analyses of a service; of one next to jobs that which theirs do not have."""

    def frontier() -> object:
        return (frontier_of_service if plan.jobs else service_frontier)(scenario, options, library)

    def reasons() -> object:
        return explain_service(scenario, options=options, library=library)

    def simulation() -> object:
        requests = runs or _hour_requests(plan)
        return simulate_service(scenario, plan, options=options, library=library, runs=requests, seed=seed)

    tasks: list[Task] = [("frontier", "service_frontier", frontier)]
    if not plan.jobs:
        tasks.append(("reasons", "explanation", reasons))
        tasks.append(("tornado", "tornado", lambda: tornado_of(scenario, plan, options, library)))
        tasks.append(("simulation", "service_simulation", simulation))
        tasks.append(("prices", "prices", lambda: price_series(scenario, plan)))
    return tasks


# The figures under their headings.


def groups_of_services(overview: Overview) -> list[Group]:
    """Return the figures of a report on services in their order."""
    plan = overview.plan
    loads = tuple(load_figure(service) for service in plan.services)
    groups = [Group("load", "Load and replicas", loads)]
    curves: list[Figure] = []
    if overview.frontier is not None and overview.frontier.points:
        of_jobs = frontier_figure(overview.frontier, deadline_of(plan))
        curves.append(dataclasses.replace(of_jobs, title="Cost of the jobs against time"))
    if overview.service_frontier is not None and overview.service_frontier.points:
        curves.append(service_frontier_figure(overview.service_frontier))
    if curves:
        groups.append(Group("cost-time", curves[0].title if len(curves) == 1 else "Frontiers", tuple(curves)))
    bill, simpler = (month_bill_figure(plan), tuple(simpler_figure(service) for service in plan.services))
    bills, table, others = Group("bill", bill.title, (bill,)), assumptions(plan, overview.bases), list[Figure]()
    of_service = overview.explanation
    if plan.jobs:
        alone = jobs_alone(plan)
        of_service = parts_explained(overview.explanation)[1]
        of_jobs = dataclasses.replace(bill_figure(alone), key="bill-jobs", title="Bill of the jobs")
        bills = Group("bill", "Bills", (bill, of_jobs))
        others = alternative_figures(alone, parts_explained(overview.explanation)[0])
        memory, rows = memory_figure(alone), (*report_page.assumptions(alone).rows, *table.rows)
        groups += [Group(memory.key, memory.title, (memory,))] if memory is not None else []
        table = Table(table.header, tuple(dict.fromkeys(rows)))
    replica = replica_memory_figure(overview.bases)
    others += fleet_alternatives(of_service)
    title = "Alternatives" if others else "Simpler fleets and services"
    groups += [bills, *([Group("replica-memory", "Memory of a replica", (replica,))] if replica is not None else [])]
    groups += [Group("alternatives", title, (*others, *simpler)), *analysis_groups(overview)]
    lead = "What the figures rest on, with source and age."
    return [*groups, Group("assumptions", "Assumptions", (Figure("assumptions", "Assumptions", lead, None, table),))]
