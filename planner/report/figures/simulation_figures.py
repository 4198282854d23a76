"""Figures of a simulation: one replay over time, the distributions of cost and hours, and the policies."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from planner.drawing.axis import Axis
from planner.drawing.bars import Ranged, histogram, ranged
from planner.drawing.lanes import Lane, Stretch, lane_axis, lanes
from planner.drawing.panel import Labels, Trace, panel
from planner.drawing.scene import GAP, Caption, Scene, Text, headed, joined, wrap
from planner.report import words
from planner.report.figures.plan_figures import Figure, Table
from planner.report.simulation_text import POLICY_NAMES, format_frequency, format_summary
from planner.results.simulation import PLANNED, Distribution, Histogram, JobReplays, ReplayFigures, Simulation, Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

RUN_ROLES = {"spot": "c2", "on demand": "c0"}
"""Colours of what runs, those of a timetable."""
AVAILABLE = "soft"
REPLAY_HIGH = 190.0
"""Height of the work done over time."""


def simulation_scene(found: Simulation, width: float) -> Scene:
    """Return one replay, the distributions of cost and of hours next to each other, and the policies."""
    summary = words.sanitise(" ".join(format_summary(found)))
    rows: list[list[Scene]] = []
    job = next((job for job in found.jobs if job.told is not None), None)
    if job is not None and job.told is not None:
        rows += _replay(job, job.told, len(found.jobs) > 1, width)
    half = (width - GAP) / 2
    spreads = [figure for figure in simulation_figures(found) if figure.key in ("cost-runs", "hours-runs")]
    if spreads:
        rows.append([headed((spread.draw or _in_words(spread))(half), spread.title) for spread in spreads])
    if policies := list(_policy_bars(found)):
        title = "Mean cost of policies on the same markets"
        rows.append([headed(ranged(policies, Caption(title, title), width), title)])
    return joined(rows, summary, summary)


def _in_words(spread: Figure) -> Callable[[float], Scene]:
    """Return a function that draws the sentence of a distribution which is a single figure."""

    def draw(width: float) -> Scene:
        lines = wrap(spread.lead, width, 4)
        texts = tuple(Text(0, 14 + 18.0 * at, line) for at, line in enumerate(lines))
        return Scene(width, 8 + 18.0 * len(lines), spread.title, spread.lead, texts)

    return draw


def _policy_bars(found: Simulation) -> Iterator[Ranged]:
    """Yield a bar per policy with its cost, where there are several; the planned one in colour."""
    for name, figures in found.policies.items() if len(found.policies) > 1 else ():
        if figures.cost_usd is not None:
            met = figures.deadline_hit_rate
            in_time = f", {format_frequency(met)} in time" if met is not None else ""
            mean = figures.cost_usd.mean
            yield Ranged(POLICY_NAMES.get(name, name), mean, f"{words.usd(mean)}{in_time}", is_chosen=name == PLANNED)


def _replay(job: JobReplays, timeline: Timeline, several: bool, width: float) -> list[list[Scene]]:
    """Return the work done over time and the guard; below it the available market and what ran."""
    rows = list(_bands(timeline))
    end = max(timeline.stretches[-1].to_hours, timeline.ends_by_hours)
    axis = lane_axis(rows, (), width)
    axis = Axis(0.0, 1.04 * end, max(axis.start, 46.0), axis.end)
    done = timeline.stretches[-1].to_hours
    traces = [
        Trace(tuple(timeline.progress), "ink", "work done", width=1.8),
        Trace(((done, 1.0),), "ink", width=0.0, mark="dot"),
    ]
    if timeline.guard is not None:
        traces.append(Trace(tuple(timeline.guard), "accent", "guard: on demand to the right of it", dashed=True))
    due = words.hours(timeline.ends_by_hours)
    moments = ((timeline.ends_by_hours, f"done by {due}", "muted"),)
    replay = f"{words.sanitise(job.name)}: one replay" if several else "One replay"
    count = f"{timeline.interruptions} interruption{'' if timeline.interruptions == 1 else 's'}"
    machines = f"{words.gpus(job.gpus, job.gpu)} at {words.sanitise(job.provider)}"
    heading = f"{replay}, {machines}: {words.usd(timeline.usd)}, {count}"
    up = Axis(0.0, 1.0, 22.0 + REPLAY_HIGH, 26.0)
    labels = Labels("", up=lambda share: f"{share * 100:.0f} %", moments=moments)
    above = panel(traces, axis, up, labels, Caption(heading, heading), width)
    below = lanes(rows, (), (), Caption("", "", "hours since machines were ordered"), width, axis)
    return [[headed(above, heading)], [below]]


def _bands(timeline: Timeline) -> Iterator[Lane]:
    """Yield when machines were there and what ran, a lane per zone where there were several."""
    parts = timeline.stretches
    for zone in timeline.zones:
        ran = [Stretch(part.from_hours, part.to_hours, RUN_ROLES["spot"]) for part in parts if part.zone == zone.zone]
        up = tuple(Stretch(begin, end, AVAILABLE) for begin, end in zone.up)
        yield Lane(words.sanitise(zone.zone), tuple(ran), behind=up)
    if not timeline.zones:
        up = tuple(Stretch(part.from_hours, part.to_hours, AVAILABLE) for part in parts if part.market_up)
        yield Lane("market available", up)
    for running, role in RUN_ROLES.items():
        ran = [Stretch(part.from_hours, part.to_hours, role) for part in parts if part.running == running]
        if ran:
            yield Lane(f"runs on {running.removeprefix('on ')}", tuple(ran))


def simulation_figures(found: Simulation) -> list[Figure]:
    """Return the distributions of cost and of hours over the replays, with the figures of the plan."""
    if found.cost_usd is None or found.hours is None or found.predicted is None:
        return []
    summary = words.sanitise(" ".join(format_summary(found)))
    cost = [(found.predicted.cost_usd, f"plan {words.usd(found.predicted.cost_usd)}", "ink")]
    if found.budget_usd is not None:
        cost.append((found.budget_usd, f"budget {words.usd(found.budget_usd)}", "accent"))
    hours = [(found.predicted.hours, f"plan, {words.likely(found.predicted.hours)}", "ink")]
    deadlines = {job.deadline_hours for job in found.jobs if job.deadline_hours is not None}
    if len(deadlines) == 1:
        limit = deadlines.pop()
        hours.append((limit, f"deadline {words.plain_number(limit)} h", "accent"))
    figures = []
    for key, title, spread, bins, marks, show, axis_title in (
        ("cost-runs", "Simulated cost", found.cost_usd, found.cost_histogram, cost, words.usd, "dollars"),
        ("hours-runs", "Simulated finish", found.hours, found.hours_histogram, hours, words.hours, "hours until done"),
    ):
        figures += _spread(key, title, spread, bins, marks, show, f"{axis_title}, {found.runs:,} runs")
    if figures:
        table, notes = _policies(found), tuple(map(words.sanitise, found.notes))
        figures.append(Figure("policies", "Policies on the same markets", summary, None, table, notes))
    return figures


def _spread(
    key: str, title: str, spread: Distribution, bins: Histogram | None, marks: Sequence[tuple[float, str, str]],
    show: Callable[[float], str], axis_title: str,
) -> list[Figure]:  # fmt: skip
    """Return a distribution as a histogram; as its quantiles alone where all runs are equal."""
    lead = f"{show(spread.p05)} to {show(spread.p95)} in 90 of 100 runs, "
    lead += f"median {show(spread.p50)}, mean {show(spread.mean)}"
    lead += "".join(f"; {name}" for _, name, _ in marks)
    draw = None
    if bins is not None and len(bins.counts) > 1:
        draw = functools.partial(histogram, bins.edges, bins.counts, marks, Caption(title, lead, axis_title), show)
    notes = ("The first and the last bar take all runs beyond them.",) if draw else ()
    rows = (
        tuple(
            (f"{show(begin)} to {show(end)}", f"{count:,}")
            for begin, end, count in zip(bins.edges[:-1], bins.edges[1:], bins.counts, strict=True) if count
        )
        if bins is not None and len(bins.counts) > 1
        else ((show(spread.mean), "all"),)
    )  # fmt: skip
    return [Figure(key, title, f"{lead}.", draw, Table(("from, to", "runs"), rows), notes)]


def _policies(found: Simulation) -> Table:
    """Return the figures of each policy; of the plan alone where there is no spot."""
    rows = []
    policies: Mapping[str, ReplayFigures | Simulation] = found.policies or {PLANNED: found}
    for name, figures in policies.items():
        cost, hours, met = figures.cost_usd, figures.hours, figures.deadline_hit_rate
        rows.append(
            (
                POLICY_NAMES.get(name, name),
                f"{words.usd(cost.mean)} ({words.usd_between(cost.p05, cost.p95)})" if cost else "",
                f"{words.hours(hours.mean)} ({words.between(hours.p05, hours.p95)})" if hours else "",
                format_frequency(met) if met is not None else "",
                f"{figures.interruptions:,.1f}" if figures.interruptions is not None else "",
            )
        )
    head = ("policy", "cost: mean (5 to 95 %)", "hours: mean (5 to 95 %)", "deadline met", "interruptions")
    return Table(head, tuple(rows))
