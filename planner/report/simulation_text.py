"""A simulation as text: replayed and planned figures, their distribution, and the other policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import words
from planner.report.explanation_text import render_infeasible
from planner.report.plan_sections import cut_lines
from planner.report.words import line_room
from planner.results.explanation import spot_percent
from planner.results.simulation import OPTIMUM, Histogram, JobReplays, PolicyFigures, Simulation
from planner.subjects import shown_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


HISTOGRAM_LINES = 5

NAME = 23
"""Columns of the name of a policy or a job."""

POLICY_NAMES = {OPTIMUM: "offline optimum"}
"""Names on the screen that differ from those of the data."""


def render_simulation(found: Simulation) -> str:
    """Return the text of a simulation without a final newline."""
    if not found.jobs or found.predicted is None or found.cost_usd is None or found.hours is None:
        first, *rest = render_infeasible(found.plan)
        return "\n".join([first, *cut_lines(found.plan.cut), *rest])
    lines = [*format_summary(found), *words.lines_below_first(found.fixed), *cut_lines(found.plan.cut), ""]
    cost, hours = found.cost_usd, found.hours
    spread = f"{words.usd_between(cost.p05, cost.p95)} in 90 % of runs, median {words.usd(cost.p50)}"
    lines += words.section("Cost", [spread, *_budget(found)])
    lines += _draw_histogram(found.cost_histogram, words.usd)
    spread = f"{words.between(hours.p05, hours.p95)} in 90 % of runs, median {words.hours(hours.p50)}"
    lines += words.section("Hours", [spread, *_deadline(found)])
    lines += _draw_histogram(found.hours_histogram, words.hours)
    if found.spot_share:
        lines += words.section("Spot", words.wrap_lines(_spot(found), line_room(), 3))
    if len(found.policies) > 1:
        lines += ["", *_policies(found.policies)]
    if any(job.end_at_hours for job in found.jobs):
        lines += ["", *_jobs_in_turn(found.jobs)]
    elif len(found.jobs) > 1:
        lines += ["", *_jobs(found.jobs)]
    lines += ["", *words.section("Sampled", words.wrap_lines("; ".join(_sources(found)), line_room(), 5))]
    if (subject := shown_by(found)) is not None:
        lines += ["", *subject.replays(found)]
    return "\n".join([*lines, *words.section("Notes", words.wrap_all(found.notes, line_room(), 3))])


def format_summary(found: Simulation) -> list[str]:
    """Return mean cost and share of met deadlines of the runs, each with the figure of the plan."""
    if found.cost_usd is None or found.predicted is None:
        return []
    cost = f"{words.usd(found.cost_usd.mean)} on average over {found.runs:,} {_runs(found)}"
    planned = f" (plan: {words.usd(found.predicted.cost_usd)})"
    met = ""
    if found.deadline_hit_rate is not None:
        several = "s" if sum(job.deadline_hours is not None for job in found.jobs) > 1 else ""
        rate = format_frequency(found.deadline_hit_rate)
        met = f", deadline{several} met in {rate} of runs{_format_guarantee(found)}"
    name = words.shorten(words.sanitise(found.scenario), 40)
    others = found.next_to_jobs_usd
    beside = "" if others is None else f"; the service below costs {words.usd(others)} more"
    return words.wrap_lines(f"{name}: {cost}{planned}{met}{beside}", words.width(), 4)


def _runs(found: Simulation) -> str:
    if any(job.market and job.market.source == "traces" for job in found.jobs):
        return "recorded windows" if found.runs > 1 else "recorded window"
    what = "market" if any(job.market for job in found.jobs) else "speed"
    return what if found.runs == 1 else f"{what}s"


def format_frequency(share: float) -> str:
    """Return a share of runs, such as `97.8 %`; only exact shares are shown as 0 or 100 %."""
    return f"{share * 100:.0f} %" if share in (0.0, 1.0) else f"{min(99.9, max(0.1, share * 100)):.1f} %"


def _format_guarantee(found: Simulation) -> str:
    plan = found.predicted
    if plan is None or plan.deadline_probability is None:
        return ""
    return f" (plan: {words.chance_text(plan.deadline_probability, plan.at_least)})"


def _budget(found: Simulation) -> list[str]:
    if found.budget_usd is None or found.budget_hit_rate is None:
        return []
    return [f"within the {words.usd(found.budget_usd)} budget in {format_frequency(found.budget_hit_rate)} of runs"]


def _deadline(found: Simulation) -> list[str]:
    """Return the mean hours, those of the plan, and the deadline if all jobs have the same."""
    if found.hours is None or found.predicted is None:
        return []
    planned = words.likely(found.predicted.hours)
    if found.plan.hours is not None:
        planned += f", {words.by(found.plan.hours.at_confidence)}"
    text = f"{words.hours(found.hours.mean)} on average (plan: {planned})"
    deadlines = {job.deadline_hours for job in found.jobs if job.deadline_hours is not None}
    return [text + (f"; deadline {words.given_hours(deadlines.pop())} h" if len(deadlines) == 1 else "")]


def _draw_histogram(histogram: Histogram | None, form: Callable[[float], str]) -> list[str]:
    """Return columns of `#` over an axis with its ends; nothing if all runs are equal."""
    if histogram is None or len(histogram.counts) < 2:
        return []
    most = max(histogram.counts)
    margin = " " * words.LABEL
    heights = [-(-HISTOGRAM_LINES * count // most) for count in histogram.counts]
    rows = ["".join("#" if height >= row else " " for height in heights) for row in range(HISTOGRAM_LINES, 0, -1)]
    low, high = (form(edge) for edge in (histogram.edges[0], histogram.edges[-1]))
    axis = f"{low}{high:>{len(histogram.counts) - len(low)}}"
    return [*(f"{margin}{row}".rstrip() for row in rows), f"{margin}{'-' * len(histogram.counts)}", f"{margin}{axis}"]


def _spot(found: Simulation) -> str:
    facts = [f"{percent(found.spot_share)} of the work"]
    if found.interruptions is not None:
        facts.append(f"{found.interruptions:,.1f} interruptions")
    for hours, what in ((found.wasted_hours, "of restarts and lost work"), (found.waiting_hours, "waiting")):
        facts += [f"{words.hours(hours)} {what}"] if hours is not None else []
    return ", ".join(facts)


def percent(share: float | None) -> str:
    """Return a share in whole percent; only exact shares are shown as 0 or 100 %."""
    return "-" if share is None else spot_percent(share)


def _policies(policies: dict[str, PolicyFigures]) -> list[str]:
    """Return a row per policy: cost, mean hours, cost above the offline optimum, share in time, share on spot."""
    lines = [f"  {'policy':<{NAME}}{'cost':>11}{'hours':>8}{'above optimum':>17}{'in time':>9}{'spot':>10}"]
    for name, figures in policies.items():
        cost = words.usd(figures.cost_usd.mean) if figures.cost_usd else "-"
        over = "-"
        if figures.usd_over_optimum is not None and figures.share_over_optimum is not None:
            over = f"{words.usd(figures.usd_over_optimum)} {figures.share_over_optimum * 100:5.1f} %"
        hours = f"{figures.hours.mean:,.1f}" if figures.hours else "-"
        met = "-" if figures.deadline_hit_rate is None else f"{figures.deadline_hit_rate * 100:.1f} %"
        label = POLICY_NAMES.get(name, name)
        share = percent(figures.spot_share)
        lines.append(f"  {label:<{NAME}}{cost:>11}{hours:>8}{over:>17}{met:>9}{share:>10}")
    return lines


def _jobs(jobs: Sequence[JobReplays]) -> list[str]:
    """Return a row per job."""
    lines = [f"  {'job':<{NAME}}{'cost':>11}{'plan':>11}{'hours':>8}{'likely':>8}{'in time':>9}{'spot':>8}"]
    for job in jobs:
        if job.cost_usd is None or job.hours is None:
            continue
        name = words.shorten(words.sanitise(job.name), NAME - 1)
        met = "-" if job.deadline_hit_rate is None else f"{job.deadline_hit_rate * 100:.1f} %"
        usd = (words.usd(job.cost_usd.mean), words.usd(job.predicted.cost_usd))
        hours = (f"{job.hours.mean:,.1f}", f"{job.predicted.hours:,.1f}")
        share = f"{(job.spot_share or 0.0) * 100:.0f} %"
        lines.append(f"  {name:<{NAME}}{usd[0]:>11}{usd[1]:>11}{hours[0]:>8}{hours[1]:>8}{met:>9}{share:>8}")
    return lines


def _jobs_in_turn(jobs: Sequence[JobReplays]) -> list[str]:
    """Return a row per job of a timetable: start and end with 95 % of the runs before it, share in time."""
    head = f"{'cost':>11}{'start':>9}{'end':>9}{'95 % by':>9}{'deadline':>10}{'in time':>9}"
    lines = [f"  {'job':<{NAME}}{head}"]
    for job in jobs:
        if job.cost_usd is None or job.start_at_hours is None or job.end_at_hours is None:
            continue
        times = (job.start_at_hours.mean, job.end_at_hours.mean, job.end_at_hours.p95)
        row = "".join(f"{hours:>9,.1f}" for hours in times)
        due = "-" if job.deadline_hours is None else words.given_hours(job.deadline_hours)
        met = "-" if job.deadline_hit_rate is None else f"{job.deadline_hit_rate * 100:.1f} %"
        name = words.shorten(words.sanitise(job.name), NAME - 1)
        lines.append(f"  {name:<{NAME}}{words.usd(job.cost_usd.mean):>11}{row}{due:>10}{met:>9}")
    cut = [job for job in jobs if job.outlasts_machines]
    for job in cut[:3]:
        rate = format_frequency(job.outlasts_machines or 0.0)
        lines.append(
            f"  {words.sanitise(job.name)} outlasts the window or reservation of its machines in {rate} of runs"
        )
    return lines


def _sources(found: Simulation) -> list[str]:
    """Return what was sampled: seed, speed and markets."""
    markets = [_market(job, len(found.jobs) > 1) for job in found.jobs if job.market is not None]
    speed = "speed with the error of the estimate (Student t, 2 degrees of freedom, cut at its 2.5 and 97.5 % ranks)"
    if found.exact_speed:
        speed = "every run at the expected speed"
    return [f"seed {found.seed}", speed, *markets]


def _market(job: JobReplays, several: bool) -> str:
    market = job.market
    if market is None:
        return ""
    name = f"{words.sanitise(job.name)}: " if several else ""
    group = f" of {market.instances} machines together" if market.instances > 1 else ""
    share = f"available {percent(market.availability)} of the time"
    tick = "each machine by itself"
    if market.tick_hours is not None:
        tick = f"a decision every {words.significant(market.tick_hours * 60, 2)} min"
    if market.source == "traces":
        count = f"{market.windows:,} window{'s' if market.windows != 1 else ''}"
        names = f"{len(market.traces)} trace{'s' if len(market.traces) > 1 else ''}"
        return f"{name}{names}{group}, {share}, {count} long enough for the job, {tick}"
    stays = "never interrupted"
    if market.mean_up_hours is not None and market.mean_outage_hours is not None:
        up, outage = words.hours(market.mean_up_hours), words.hours(market.mean_outage_hours)
        stays = f"mean up-time {up}, mean outage {outage}"
    return f"{name}market{group} {share}, {stays}, heavy-tailed, {tick}"
