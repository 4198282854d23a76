"""The words of the report: the plan in sections, its reasons, the assumptions with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner import generation
from planner.report import plan_alternatives, plan_sections, words
from planner.report.explanation_text import binding_line, past_line, step_lines
from planner.report.figures.plan_figures import Table
from planner.report.infeasible_text import format_near_miss, format_relaxation
from planner.report.risks import risks_of
from planner.results.explanation import Explanation
from planner.results.plan import Assignment, Plan
from planner.results.report_data import Overview
from planner.results.service_results import jobs_alone
from planner.subjects import shown_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Fact = tuple[str, str]
"""A label and its text."""
MOST_BLOCKS = 12
"""Most jobs with a block of their own; the table of the timetable has all."""


def headline(plan: Plan) -> str:
    """Return the plan in one sentence: what to rent, for how long, for how much."""
    if (subject := shown_by(plan)) is not None:
        return subject.headline(plan)
    if not plan.jobs or plan.cost is None or plan.hours is None:
        return "No plan: the scenario is infeasible." if plan.status == "infeasible" else "Stopped without a plan."
    cost, proof = words.usd(plan.cost.expected), plan_sections.format_optimality(plan)
    figures = f"{words.likely_and_by(plan.hours)}, {cost}, {proof}"
    if len(plan.jobs) > 1:
        return f"{len(plan.jobs)} jobs, {figures}"
    job = plan.jobs[0]
    return f"{plan_sections.format_place(job)}, {plan_sections.format_market(job.spot_share, job.tier)}, {figures}"


def warnings(plan: Plan) -> list[str]:
    """Return what the plan leaves out, and which figure is a guess: it stands right below the headline."""
    cut = [plan_sections.cut_text(cut) for cut in plan.cut]
    priors = [(job.name, text) for job in plan.jobs if (text := plan_sections.prior_text(job))]
    named = [text if len(plan.jobs) == 1 else f"{name}: {text}" for name, text in priors]
    if plan.only_job is not None:
        return [words.sanitise(risk.text) for risk in risks_of(plan, plan.only_job)]
    others = plan_sections.outlay_text(plan), plan_sections.assumed_market_text(plan)
    return [words.sanitise(text) for text in (*cut, *named, *filter(None, others))]


def tiles(plan: Plan) -> list[tuple[str, str, str]]:
    """Return the key figures: name, figure, and range or probability."""
    if (subject := shown_by(plan)) is not None:
        return subject.tiles(plan)
    if plan.cost is None or plan.hours is None:
        return []
    cost, hours = plan.cost, plan.hours
    found = [
        ("expected cost", words.usd(cost.expected), f"{words.usd_between(cost.low, cost.high)} with 80 % probability"),
        ("likely finish", words.hours(hours.expected), f"{words.between(hours.low, hours.high)} with 80 % probability"),
        ("ends by", words.hours(hours.at_confidence), "at the confidence asked for"),
    ]
    if plan.outlay_usd:
        found.insert(1, ("paid at once", f"${plan.outlay_usd:,.0f}", "purchases, upfront payments and blocks"))
    chances = [job for job in plan.jobs if job.deadline_probability is not None and job.deadline_hours is not None]
    if chances:
        worst = min(chances, key=lambda job: job.deadline_probability or 0.0)
        chance = words.chance_text(worst.deadline_probability or 0.0, at_least=worst.spot is not None)
        whose = f"{words.plain_number(worst.deadline_hours or 0.0)} h" + (
            f", {words.sanitise(worst.name)}" if len(plan.jobs) > 1 else ""
        )
        found.append(("meets the deadline", chance, whose))
    if plan.budget_usd is not None and plan.budget_probability is not None:
        found.append(("keeps the budget", words.chance_text(plan.budget_probability), words.usd(plan.budget_usd)))
    fits = [job.vram_gib.fit_probability for job in plan.jobs if job.gpus]
    if fits:
        found.append(
            ("fits in memory", words.probability_text(min(fits)), "least of all jobs" if len(fits) > 1 else "")
        )
    return found


def facts(plan: Plan) -> list[tuple[str, list[Fact]]]:
    """Return the name of each part of a plan with its sections: jobs first."""
    subject = shown_by(plan)
    return job_facts(plan) if subject is None else [*job_facts(plan), *subject.facts(plan)]


def job_facts(plan: Plan) -> list[tuple[str, list[Fact]]]:
    """Return each job's name with its sections, as in the text of `solve`."""
    with words.unwrapped():
        jobs = jobs_alone(plan)
        return [(words.sanitise(job.name), list(_sections(jobs, job))) for job in jobs.jobs[:MOST_BLOCKS]]


def _sections(plan: Plan, job: Assignment) -> Iterator[Fact]:
    single = len(plan.jobs) == 1
    found: Sequence[tuple[str, Sequence[str]]] = (
        ("Machines", [plan_sections.format_place(job) + ", " + plan_sections.format_market(job.spot_share, job.tier)]),
        ("Serve" if job.inference else "Train", plan_sections.train(job)),
        ("Speed", plan_sections.speed(job)),
        ("Price", generation.price_lines(job.inference) if job.inference else []),
        ("Time", plan_sections.time(job)),
        ("Spot", plan_sections.spot(job)),
        ("Memory risk", plan_alternatives.memory_risk(plan, job)),
        ("Term", plan_sections.commitment(job)),
        ("Weights", plan_alternatives.conversion(job)),
        ("Lossy", plan_alternatives.lossy(job)),
        ("Quality", plan_alternatives.quality(job)),
        ("Faster", plan_alternatives.faster(plan) if single else []),
        ("Service", plan_alternatives.services(job)),
        ("Evidence", plan_sections.evidence(job)),
        ("Next best", plan_alternatives.format_alternatives(job)),
        ("Binding limits", ["; ".join(job.binding) or "none binds"]),
    )
    for label, lines in found:
        if text := "; ".join(line.strip() for line in lines if line.strip()):
            yield label, words.sanitise(text)


def reasons_of(found: Overview) -> list[Fact]:
    """Return why the plan of a report is as it is; nothing where there is none."""
    if (subject := shown_by(found.plan)) is not None:
        return subject.reasons(found)
    return reasons(found.plan, found.explanation) if found.plan.jobs else []


def reasons(plan: Plan, explanation: Explanation | None) -> list[Fact]:
    """Return which limits bind, what it is worth to relax them, and how far the plan is proven."""
    with words.unwrapped():
        found = [("Proof", "; ".join(plan_alternatives.scope(plan)))]
        if plan.baseline is not None:
            found.append(
                (
                    "Simple rule",
                    f"{plan.baseline.name}: {words.usd(plan.baseline.cost_usd)}, {words.hours(plan.baseline.hours)}",
                )
            )
        if explanation is None or explanation.status == "infeasible":
            return [(label, words.sanitise(text)) for label, text in found if text]
        binds = [binding_line(limit, explanation) for limit in explanation.binding]
        found += [("Binds", text) for text in binds or ["none: relaxing a single limit does not lower the cost"]]
        paying = [step for step in explanation.next_steps if step.change_to is not None]
        for step in paying:
            text = "; ".join(line.strip() for line in step_lines(step, explanation))
            found.append(("Relaxing", f"{text} (--set {step.setting})" if step.setting else text))
        found += [("Earlier prices", past_line(past_cost, explanation)) for past_cost in explanation.past_costs]
    return [(label, words.sanitise(text)) for label, text in found if text]


def assumptions(plan: Plan) -> Table:
    """Return what the figures rest on: prices with their age, estimates with their error, terms without a price."""
    rows: dict[tuple[str, str, str], None] = {}
    for job in plan.jobs:
        age = "unknown age" if job.price_age_days is None else f"{job.price_age_days:,} days old"
        named = job.price_source.removesuffix(f", {job.price_date}")
        source = ", ".join(part for part in (named, job.price_date, age) if part)
        rows[f"price of {job.offer}", "as offered", source] = None
        if job.evidence is not None:
            rests = "; ".join((*plan_sections.evidence(job), *filter(None, [plan_sections.prior_text(job)])))
            rows[f"evidence of {job.name}", rests, "measured, fitted to measurements, or a prior"] = None
        speeds = (job.tokens_per_second_low, job.tokens_per_second_high)
        error = f"{' to '.join(map(words.significant, speeds))} {job.unit}/s with 80 % probability"
        rows[
            f"speed of {job.name}",
            error,
            f"{'observed runs' if job.observed_runs else 'calibrated estimates'} ({job.framework})",
        ] = None
        for line in job.bill:
            if line.basis:
                rows[f"bill: {line.item}", line.basis, "assumption where the offer states no price"] = None
        if job.spot is not None:
            market = f"up {words.hours(job.spot.mean_up_hours)} at a time, available {job.spot.availability:.0%}"
            rows[f"spot market of {job.offer}", market.replace("%", " %"), job.spot.basis or "stated by the offer"] = (
                None
            )
        for fact in job.quality:
            rows[fact.text, fact.setting, fact.source] = None
        if job.inference is not None:
            rows[f"engine {job.inference.engine}", job.inference.evidence, "; ".join(job.inference.priors)] = None
    notes = dict.fromkeys((*plan.warnings, *(note for job in plan.jobs for note in job.notes)))
    found = [tuple(map(words.sanitise, row)) for row in rows] + [("note", words.sanitise(note), "") for note in notes]
    versions = plan.inputs.versions if plan.inputs else {}
    if versions:
        found.append(("versions", words.sanitise(", ".join(" ".join(pair) for pair in versions.items())), ""))
    found.append(("ages counted to", plan.as_of, f"solver {plan.solver}"))
    return Table(("assumption", "value", "source"), tuple(found))


def relaxations(plan: Plan) -> list[tuple[str, str]]:
    """Return the smallest changes that give an infeasible scenario a plan: in words, and as settings."""
    found = plan.infeasible
    ways: dict[int, list[str]] = {}
    with words.unwrapped():
        for number in dict.fromkeys(relaxation.way for relaxation in (found.relax if found else ())):
            changes = [relaxation for relaxation in (found.relax if found else ()) if relaxation.way == number]
            ways[number] = format_relaxation(number, changes, plan.scenario)
    texts = []
    for lines in ways.values():
        typed = [line.strip().rstrip("\\").strip() for line in lines if line.strip().startswith("--set")]
        said = [line.strip() for line in lines if not line.strip().startswith("--set")]
        texts.append((words.sanitise(" ".join(said).partition(". ")[2]), " ".join(typed)))
    return texts


def near_misses(plan: Plan) -> list[str]:
    """Return the rejected candidates that come closest, each with what would make it feasible."""
    found = plan.infeasible.nearest if plan.infeasible else ()
    return [
        words.sanitise(
            f"{near_miss.job}: {format_near_miss(near_miss)}" if near_miss.job else format_near_miss(near_miss)
        )
        for near_miss in found
    ]
