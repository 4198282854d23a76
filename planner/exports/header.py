"""The comment at the top of every exported file: where it comes from and what the plan expects."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from planner.exports.quoting import comment
from planner.results.plan_parts import describe_machines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planner.exports.field_map import Tool
    from planner.results.plan import Assignment, Plan

_WIDTH = 110


def header(plan: Plan, job: Assignment, tool: Tool, run: str, remarks: Iterable[str]) -> list[str]:
    """Return the lines of the comment, without comment signs."""
    versions = ", ".join(f"{package} {version}" for package, version in tool.checked.items())
    cost, hours, vram = job.cost, job.hours, job.vram_gib
    lines = [
        f"Job {job.name} of plan {plan.scenario}, for {tool.label} {tool.version}"
        + (f" (fields of {versions})." if versions else "."),
        written_by(plan),
        f"Machines: {describe_machines(job.gpus, job.gpu)} at {job.provider}, {_market(job)}.",
        f"Expected: likely {hours.expected:.1f} h ({hours.low:.1f} to {hours.high:.1f}), "
        f"by {hours.at_confidence:.1f} h, "
        f"${cost.expected:,.2f} (${cost.low:,.2f} to {cost.high:,.2f}), "
        f"{vram.peak:.1f} of {vram.usable:.1f} GiB on each GPU.",
    ]
    if run:
        lines.append(f"Run: {run}")
    lines += [f"Note: {one}" for one in (*remarks, *_runs(job))]
    return wrapped(lines)


def wrapped(lines: Iterable[str]) -> list[str]:
    """Return lines that are no longer than a comment may be."""
    return [
        part for line in lines for part in textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    ]


def commented(lines: Iterable[str]) -> str:
    """Return lines as comments of YAML or a shell script."""
    return comment(lines)


def written_by(plan: Plan) -> str:
    """Return the version of the planner and the date of the plan."""
    from planner import __version__

    version = plan.inputs.versions.get("planner", __version__) if plan.inputs else __version__
    return f"Written by planner {version} from a plan of {plan.as_of}."


def _market(job: Assignment) -> str:
    if job.spot_share <= 0:
        return "on demand"
    latest = job.switch_to_on_demand_at_hours
    guard = f", on demand from hour {latest:.1f} if no spot capacity appears" if latest is not None else ""
    return f"on spot for {100 * job.spot_share:.0f} % of the run{guard}"


def _runs(job: Assignment) -> list[str]:
    found = []
    if job.trials > 1:
        found.append(
            f"the plan has {job.trials} runs of this kind, {job.runs_at_once} at once; hours and dollars are of all"
        )
    found += [f"{one.stage} happens on another machine ({one.offer})" for one in job.beside]
    return found
