"""A replayed plan as text: what came of it against what it said, the other policies, and how the runs spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report.infeasible import render_infeasible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.results.simulation import Distribution, Histogram, JobReplays, PolicyFigures, Simulation

ROOM = words.WIDTH - words.LABEL
ROWS = 5
"""Lines of a histogram."""
NAME = 23
"""Columns of a policy's name."""


def render_simulation(found: Simulation) -> str:
    """The text of a simulation, without a final newline."""
    if not found.jobs or found.predicted is None or found.cost_usd is None or found.hours is None:
        return "\n".join(render_infeasible(found.plan))
    lines = [*format_summary(found), ""]
    lines += words.section("Cost", [_range(found.cost_usd), *_budget(found)])
    lines += _draw_histogram(found.cost_histogram, found.cost_usd, words.usd)
    lines += words.section("Hours", [_hours(found.hours), *_deadline(found)])
    lines += _draw_histogram(found.hours_histogram, found.hours, words.hours)
    if found.spot_share:
        lines += words.section("Spot", words.wrap_lines(_spot(found), ROOM, 3))
    if len(found.policies) > 1:
        lines += ["", *_policies(found.policies)]
    if len(found.jobs) > 1:
        lines += ["", *_jobs(found.jobs)]
    lines += ["", *words.section("Drawn", words.wrap_lines("; ".join(_sources(found)), ROOM, 5))]
    notes = [line for note in found.notes for line in words.wrap_lines(note, ROOM, 3)]
    return "\n".join([*lines, *words.section("Notes", notes)])


def format_summary(found: Simulation) -> list[str]:
    """What the runs cost on average and how often they were in time, beside what the plan says."""
    if found.cost_usd is None or found.predicted is None:
        return []
    cost = f"{words.usd(found.cost_usd.mean)} on average over {found.runs:,} {_runs(found)}"
    said = f"{cost} (plan says {words.usd(found.predicted.cost_usd)})"
    met = ""
    if found.deadline_hit_rate is not None:
        several = "s" if sum(job.deadline_hours is not None for job in found.jobs) > 1 else ""
        met = f", deadline{several} met in {format_frequency(found.deadline_hit_rate)}{_format_guarantee(found)}"
    return words.wrap_lines(f"{words.shorten(words.sanitise(found.scenario), 40)}: {said}{met}", words.WIDTH, 3)


def _runs(found: Simulation) -> str:
    if any(job.market and job.market.source == "traces" for job in found.jobs):
        return "recorded windows" if found.runs > 1 else "recorded window"
    what = "market" if any(job.market for job in found.jobs) else "speed"
    return what if found.runs == 1 else f"{what}s"


def format_frequency(share: float) -> str:
    """A share of runs, such as `97.8 of 100`; what did not always happen is not told as if it had."""
    if share in (0.0, 1.0):
        return "every one" if share else "none"
    return f"{min(99.9, max(0.1, share * 100)):.1f} of 100"


def _format_guarantee(found: Simulation) -> str:
    told = found.predicted
    if told is None or told.deadline_probability is None:
        return ""
    least = "at least " if told.at_least else ""
    return f" (plan promises {least}{words.probability_text(told.deadline_probability).removesuffix(' of 100 cases')})"


def _range(cost: Distribution) -> str:
    return f"{words.usd_between(cost.p05, cost.p95)} in 90 of 100 runs, {words.usd(cost.p50)} in the median"


def _hours(hours: Distribution) -> str:
    median = words.hours(hours.p50)
    return f"{words.between(hours.p05, hours.p95)} in 90 of 100 runs, {median} in the median"


def _budget(found: Simulation) -> list[str]:
    if found.budget_usd is None or found.budget_hit_rate is None:
        return []
    return [f"the {words.usd(found.budget_usd)} budget held in {format_frequency(found.budget_hit_rate)}"]


def _deadline(found: Simulation) -> list[str]:
    """The deadline, where there is one, and the hours that the plan expects."""
    if found.hours is None or found.predicted is None:
        return []
    said = [f"{words.hours(found.hours.mean)} on average (plan says {words.hours(found.predicted.hours)})"]
    deadlines = {job.deadline_hours for job in found.jobs if job.deadline_hours is not None}
    said += [f"deadline {words.plain_number(limit)} h" for limit in deadlines] if len(deadlines) == 1 else []
    return ["; ".join(said)]


def _draw_histogram(histogram: Histogram | None, told: Distribution, form: object) -> list[str]:
    """Columns of `#` over an axis with its ends; nothing where every run is the same."""
    if histogram is None or len(histogram.counts) < 2:
        return []
    most = max(histogram.counts)
    margin = " " * words.LABEL
    heights = [-(-ROWS * count // most) for count in histogram.counts]
    rows = ["".join("#" if height >= row else " " for height in heights) for row in range(ROWS, 0, -1)]
    low, high = (f"{form(edge)}" for edge in (histogram.edges[0], histogram.edges[-1]))  # type: ignore[operator]
    axis = f"{low}{high:>{len(histogram.counts) - len(low)}}"
    return [*(f"{margin}{row}".rstrip() for row in rows), f"{margin}{'-' * len(histogram.counts)}", f"{margin}{axis}"]


def _spot(found: Simulation) -> str:
    said = [f"{percent(found.spot_share)} of the work"]
    if found.interruptions is not None:
        said.append(f"{found.interruptions:,.1f} interruptions")
    if found.wasted_hours is not None:
        said.append(f"{words.hours(found.wasted_hours)} paid for starts and lost work")
    if found.waiting_hours is not None:
        said.append(f"{words.hours(found.waiting_hours)} waiting")
    return ", ".join(said)


def percent(share: float | None) -> str:
    """A share in whole per cent; neither all nor nothing where it is not."""
    if share is None:
        return "-"
    if 0.995 <= share < 1:
        return "over 99 %"
    return f"{'under 1' if 0 < share < 0.005 else f'{share * 100:.0f}'} %"


def _policies(policies: dict[str, PolicyFigures]) -> list[str]:
    """A row per policy: cost, what it pays over the optimum, how often in time, how much on spot."""
    names = [f"  {'policy':<{NAME}}{'cost':>11}{'over optimum':>19}{'in time':>12}{'spot':>11}"]
    for name, one in policies.items():
        cost = words.usd(one.cost_usd.mean) if one.cost_usd else "-"
        over = "-"
        if one.usd_over_optimum is not None and one.share_over_optimum is not None:
            over = f"{words.usd(one.usd_over_optimum)} {one.share_over_optimum * 100:6.1f} %"
        met = "-" if one.deadline_hit_rate is None else f"{one.deadline_hit_rate * 100:.1f} %"
        names.append(f"  {name:<{NAME}}{cost:>11}{over:>19}{met:>12}{percent(one.spot_share):>11}")
    return names


def _jobs(jobs: Sequence[JobReplays]) -> list[str]:
    """A row per job."""
    lines = [f"  {'job':<{NAME}}{'cost':>11}{'plan':>11}{'hours':>8}{'plan':>8}{'in time':>9}{'spot':>8}"]
    for one in jobs:
        if one.cost_usd is None or one.hours is None:
            continue
        name = words.shorten(words.sanitise(one.name), NAME - 1)
        met = "-" if one.deadline_hit_rate is None else f"{one.deadline_hit_rate * 100:.1f} %"
        usd = (words.usd(one.cost_usd.mean), words.usd(one.predicted.cost_usd))
        hours = (f"{one.hours.mean:,.1f}", f"{one.predicted.hours:,.1f}")
        share = f"{(one.spot_share or 0.0) * 100:.0f} %"
        lines.append(f"  {name:<{NAME}}{usd[0]:>11}{usd[1]:>11}{hours[0]:>8}{hours[1]:>8}{met:>9}{share:>8}")
    return lines


def _sources(found: Simulation) -> list[str]:
    """What was drawn: the markets, the speed, the seed."""
    said = [_market(job, len(found.jobs) > 1) for job in found.jobs if job.market is not None]
    speed = "every run at the expected speed"
    if not found.exact_speed:
        speed = "speed by the error of the estimate (Student t, 2 degrees of freedom, held at its 2.5 and 97.5 % ranks)"
    return [f"seed {found.seed}", speed, *said]


def _market(job: JobReplays, several: bool) -> str:
    market = job.market
    if market is None:
        return ""
    whose = f"{words.sanitise(job.name)}: " if several else ""
    gang = f" of {market.instances} machines together" if market.instances > 1 else ""
    there = f"there {percent(market.availability)} of the time"
    tick = f"looked at every {_minutes(market.tick_hours)}"
    if market.source == "traces":
        count = f"{market.windows:,} window{'s' if market.windows != 1 else ''}"
        names = f"{len(market.traces)} trace{'s' if len(market.traces) > 1 else ''}"
        return f"{whose}{names}{gang}, {there}, {count} that the job fits into, {tick}"
    stays = "never taken"
    if market.mean_up_hours is not None and market.mean_outage_hours is not None:
        stays = f"up {words.hours(market.mean_up_hours)}, out {words.hours(market.mean_outage_hours)} on average"
    return f"{whose}market{gang} {there}, {stays}, heavy-tailed, {tick}"


def _minutes(hours: float) -> str:
    return f"{words.significant(hours * 60, 2)} min"
