"""A timetable as a picture: which job runs where and when, and below it what is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.report import format as words
from planner.report.plots.style import ACCENT_COLOR, COLORS, MUTED_COLOR, TEXT_COLOR, letters_on, open_picture, tick
from planner.report.timetable import render_timetable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.results.plan import Assignment, Plan

ROW_INCHES = 0.3
"""Height of one lane."""
LANE_LETTERS = 44
"""Letters that fit on a bar as long as the picture."""
MAX_LANES = 60
"""Most lanes of machines that are drawn."""


def draw_timetable(plan: Plan, path: str | Path, caption: Sequence[str]) -> None:
    """Draw a plan into a file; `caption` is the text that an HTML page shows below it. Raises like `open_picture`."""
    lanes = machine_lanes(plan)[:MAX_LANES]
    height = 2.9 + ROW_INCHES * len(lanes)
    with open_picture(path, caption, height=height, title=render_timetable(plan)[0]) as (figure, whole):
        whole.remove()
        upper, lower = figure.subplots(2, sharex=True, height_ratios=[max(1.5, ROW_INCHES * len(lanes)), 1.0])
        _jobs(upper, plan, lanes)
        _use(lower, plan)


def machine_lanes(plan: Plan) -> list[tuple[str, list[Assignment]]]:
    """Return lanes of jobs that do not overlap, with the offer of each: a machine, or jobs that could share one."""
    lanes: list[tuple[str, list[Assignment]]] = []
    by_place = {job.offer: f"{job.gpus} x {job.gpu}\n{job.provider}" for job in plan.jobs}
    for job in sorted(plan.jobs, key=lambda job: (job.offer, job.start_at_hours, job.name)):
        name = by_place[job.offer].replace("\n", ", ")
        free = (
            jobs
            for place, jobs in lanes
            if place == name and (jobs[-1].end_at_hours or 0.0) <= job.start_at_hours + 1e-9
        )
        lane = next(free, None)
        if lane is None:
            lanes.append((name, [job]))
        else:
            lane.append(job)
    return lanes


def stretches_of(job: Assignment) -> list[tuple[float, float]]:
    """Return from when to when a job runs: once, or before, between and after its pauses."""
    begins = [job.start_at_hours, *(one.to_hours for one in job.pauses)]
    return list(zip(begins, [*(one.from_hours for one in job.pauses), job.end_at_hours or 0.0], strict=True))


def _jobs(axes: Any, plan: Plan, lanes: Sequence[tuple[str, list[Assignment]]]) -> None:
    """Draw a bar per job, named where there is room, its deadline as a mark, reservations behind."""
    places = list(dict.fromkeys(name for name, _ in lanes))
    last = max(job.end_at_hours or 0.0 for job in plan.jobs)
    for row, (name, jobs) in enumerate(lanes):
        color = COLORS[places.index(name) % len(COLORS)]
        for number in {job.reservation for job in jobs if job.reservation is not None}:
            paid = plan.reservations[number]
            axes.broken_barh(
                [(paid.start_hours, min(paid.end_hours, last) - paid.start_hours)],
                (row - 0.45, 0.9),
                facecolor="#e8e0cc",
                linewidth=0,
            )
        for job in jobs:
            start, end = job.start_at_hours, job.end_at_hours or 0.0
            stretches = [(first, last - first) for first, last in stretches_of(job)]
            axes.broken_barh(stretches, (row - 0.36, 0.72), facecolor=color, edgecolor="white")
            axes.broken_barh([(start, end - start)], (row - 0.03, 0.06), facecolor=color, linewidth=0)
            if (end - start) / last * LANE_LETTERS > len(job.name):
                label = words.sanitise(job.name)
                axes.text((start + end) / 2, row, label, ha="center", va="center", color=letters_on(color))
            if _shows_deadline(job, last):
                axes.plot([job.deadline_hours] * 2, [row - 0.4, row + 0.4], color=ACCENT_COLOR, linewidth=1.5)
    axes.set_yticks(range(len(lanes)), [words.shorten(name, 24) for name, _ in lanes])
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, last * 1.02)
    axes.xaxis.set_major_formatter(tick)
    axes.xaxis.get_major_locator().set_params(integer=last > 4, steps=[1, 2, 5, 10])


def _shows_deadline(job: Assignment, last: float) -> bool:
    """Return whether the deadline of a job lies within the picture, which ends with the last job."""
    return job.deadline_hours is not None and job.deadline_hours <= last * 1.02


def _use(axes: Any, plan: Plan) -> None:
    """Draw the GPUs in use over time, and dollars spent so far."""
    changes: dict[float, int] = {}
    for job in plan.jobs:
        gpus = job.gpus * job.runs_at_once
        for start, end in stretches_of(job):
            changes[start] = changes.get(start, 0) + gpus
            changes[end] = changes.get(end, 0) - gpus
    times, level, levels = sorted(changes), 0, []
    for time in times:
        level += changes[time]
        levels.append(level)
    axes.step(times, levels, where="post", color=TEXT_COLOR, linewidth=1.2)
    axes.fill_between(times, levels, step="post", color=MUTED_COLOR, alpha=0.35, linewidth=0)
    axes.set_ylim(0, max(levels) * 1.15)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("GPUs in use")
    last = max(job.end_at_hours or 0.0 for job in plan.jobs)
    mark = "; red: deadline" if any(_shows_deadline(job, last) for job in plan.jobs) else ""
    axes.set_xlabel(f"hours from {plan.now.replace('T', ' ')}{mark}" if plan.now else f"hours{mark}")
