"""Files to download: the scenario with its changes, the plan, the report, the files that run the plan."""

from __future__ import annotations

import base64
import io
import zipfile
from typing import TYPE_CHECKING, Any

from planner.analysis.overview import overview
from planner.analysis.simulation.job_runs import policy_tables
from planner.documents.json_file import json_text
from planner.errors import Fault, InputError
from planner.exports.export import choose_job, export_all
from planner.exports.facts import Wishes
from planner.exports.kubernetes import export_all_services
from planner.exports.machine_names import slug
from planner.exports.served_kinds import choose_service
from planner.report.html.page import render_page
from planner.results.fleet_differences import jobs_alone, services_usd
from planner.scenario.jobs_and_services import without_services
from planner.scenario.open_job import OpenJob

if TYPE_CHECKING:
    from planner.results.plan import Plan
    from planner.scenario.scenario import Scenario, SolveOptions

PLAN_FILE = "plan.json"


def plan_file(plan: Plan) -> str:
    """Return the plan as `planner solve -o` writes it."""
    data: dict[str, Any] = plan.model_dump(mode="json", by_alias=True)
    return json_text(data, indent=1) + "\n"


def export_archive(scenario: Scenario, plan: Plan) -> str:
    """Return a ZIP archive in base64 with what `planner export --all` writes, a folder for each of several jobs.

    `left-out.txt` says which files are missing and why. Raises InputError where there is nothing to run, or no tool
    can express a job.
    """
    parts, missing, stream = _folders(scenario, plan), [], io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (name, (found, left_out)) in enumerate(parts.items()):
            same = [slug(one) for one in list(parts)[:number]].count(slug(name))
            folder = f"{slug(name)}{f'-{number + 1}' if same else ''}/" if len(parts) > 1 else ""
            missing += [f"{folder}{line}" for line in left_out]
            for path, text in found.items():
                archive.writestr(zipfile.ZipInfo(folder + path), text)
        archive.writestr(zipfile.ZipInfo(PLAN_FILE), plan_file(plan))
        if missing:
            archive.writestr(zipfile.ZipInfo("left-out.txt"), "\n".join(missing) + "\n")
    return base64.b64encode(stream.getvalue()).decode("ascii")


def _folders(scenario: Scenario, plan: Plan) -> dict[str, tuple[dict[str, str], list[str]]]:
    """Return files by path, and lines on what is left out, for each job of a plan."""
    if any(isinstance(job, OpenJob) for job in scenario.jobs):
        what = "the page writes no files for a model that the plan chose"
        raise InputError([Fault("", 0, "", what, f"use planner export {PLAN_FILE} --all -o run")])
    wishes, found = Wishes(), {}
    jobs, asked = plan, scenario
    if plan.services and plan.jobs:
        jobs, asked = jobs_alone(plan), without_services(scenario, services_usd(plan))
    policies = policy_tables(asked, jobs) if any(job.spot is not None for job in plan.jobs) else {}
    names: list[str | None] = [job.name for job in plan.jobs]
    for name in names or ([] if plan.services else [None]):
        chosen = choose_job(jobs, asked, PLAN_FILE, name)
        found[chosen.job.name] = export_all(chosen, wishes, PLAN_FILE, policies.get(chosen.job.name))
    for service in plan.services:
        served = choose_service(plan, scenario, PLAN_FILE, service.name)
        found[service.name] = export_all_services(served, wishes, PLAN_FILE)
    return found


def report_file(scenario: Scenario, plan: Plan, options: SolveOptions) -> str:
    """Return the report as `planner report` writes it, with the plan to copy."""
    return render_page(overview(scenario, plan, options=options), {PLAN_FILE: plan_file(plan)})
