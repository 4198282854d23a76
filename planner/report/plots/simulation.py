"""A simulation as a picture: one replay over time, the distributions of cost and hours, and the policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.report import format as words
from planner.report.plots.style import ACCENT_COLOR, COLORS, MUTED_COLOR, TEXT_COLOR, open_picture, tick
from planner.report.simulation import POLICY_NAMES, format_summary
from planner.results.simulation import OPTIMUM, PLANNED, Histogram, JobReplays, Simulation, Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

AVAILABLE_COLOR = "#b9c9a8"
RUN_COLORS = {"spot": COLORS[0], "on demand": COLORS[1]}
MARKET_AT, MACHINES_AT, BAND = -0.14, -0.29, 0.11
"""Positions of the two bands below the work, and their height, as shares of the work."""


def draw_simulation(found: Simulation, path: str | Path, caption: Sequence[str]) -> None:
    """Draw a simulation into a file; `caption` is the text that an HTML page shows below it.

    Raises like `open_picture`.
    """
    job = next((job for job in found.jobs if job.told is not None), None)
    rows = [["cost", "hours"]]
    heights = [1.0]
    if job is not None:
        rows, heights = [["replay", "replay"], *rows], [1.8, *heights]
    if len(found.policies) > 1:
        rows, heights = [*rows, ["policies", "policies"]], [*heights, 0.9]
    title = " ".join(format_summary(found))
    with open_picture(path, caption, 9.0, 1.0 + 2.2 * sum(heights), title=title) as (figure, whole):
        whole.remove()
        axes = figure.subplot_mosaic(rows, height_ratios=heights)
        if job is not None and job.told is not None:
            _replay(axes["replay"], job, job.told, len(found.jobs) > 1)
        if found.predicted is not None:
            lines = [(found.predicted.cost_usd, "plan", TEXT_COLOR, "-")]
            _spread(axes["cost"], found.cost_histogram, "dollars", lines)
            lines = [(found.predicted.hours, "plan", TEXT_COLOR, "-")]
            deadlines = {job.deadline_hours for job in found.jobs if job.deadline_hours is not None}
            lines += [(limit, "deadline", ACCENT_COLOR, "--") for limit in deadlines if len(deadlines) == 1]
            _spread(axes["hours"], found.hours_histogram, "hours until done", lines)
        if "policies" in axes:
            _policies(axes["policies"], found)


def _replay(axes: Any, job: JobReplays, timeline: Timeline, several: bool) -> None:
    """Draw the work done over time and the guard; below it the available market and what ran."""
    end = max(timeline.stretches[-1].to_hours, timeline.ends_by_hours)
    axes.plot(*zip(*timeline.progress, strict=True), color=TEXT_COLOR, linewidth=1.6, label="work done")
    if timeline.guard is not None:
        axes.plot(*zip(*timeline.guard, strict=True), color=ACCENT_COLOR, linestyle="--", linewidth=1.2)
        axes.annotate(
            "guard: on demand runs\nright of this line",
            timeline.guard[0], xytext=(-6, 12), textcoords="offset points", ha="right", fontsize=8, color=ACCENT_COLOR,
        )  # fmt: skip
    axes.axvline(timeline.ends_by_hours, color=MUTED_COLOR, linewidth=0.8, linestyle=":")
    axes.annotate(
        f"must be done\nby {words.hours(timeline.ends_by_hours)}", (timeline.ends_by_hours, 1.0),
        xytext=(4, -4), textcoords="offset points", va="top", fontsize=8, color=TEXT_COLOR,
    )  # fmt: skip
    bands = [(MARKET_AT, AVAILABLE_COLOR, "", [part for part in timeline.stretches if part.market_up])]
    for running, color in RUN_COLORS.items():
        bands.append((MACHINES_AT, color, running, [part for part in timeline.stretches if part.running == running]))
    for middle, color, label, stretches in bands:
        bars = [(part.from_hours, part.to_hours - part.from_hours) for part in stretches]
        axes.broken_barh(bars, (middle - BAND / 2, BAND), facecolor=color, linewidth=0, label=label)
    done = timeline.stretches[-1].to_hours
    axes.plot([done], [1.0], "o", color=TEXT_COLOR, markersize=5)
    axes.set_ylim(MACHINES_AT - BAND, 1.06)
    axes.set_xlim(0, end * 1.1)
    shares = [0.0, 0.25, 0.5, 0.75, 1.0]
    axes.set_yticks([*shares, MARKET_AT, MACHINES_AT])
    axes.set_yticklabels([*(f"{share * 100:.0f} % done" for share in shares), "market available", "running"])
    axes.xaxis.set_major_formatter(tick)
    axes.grid(True, axis="x", color=MUTED_COLOR, alpha=0.2, linewidth=0.6)
    axes.set_xlabel("hours since the first machines were ordered")
    replay = f"{words.sanitise(job.name)}: one replay" if several else "One replay"
    machines = words.gpus(job.gpus, job.gpu)
    count = f"{timeline.interruptions} interruption{'' if timeline.interruptions == 1 else 's'}"
    title = f"{replay}, {machines} at {words.sanitise(job.provider)}: {words.usd(timeline.usd)}, {count}"
    axes.set_title(title, fontsize=10)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 0.985))


def _spread(axes: Any, histogram: Histogram | None, label: str, lines: Sequence[tuple[float, str, str, str]]) -> None:
    """Draw runs per bin, and the figure of the plan."""
    if histogram is None:
        return
    edges, counts = histogram.edges, histogram.counts
    if len(counts) > 1:
        axes.stairs(counts, edges, fill=True, color=COLORS[0], alpha=0.45)
    else:
        axes.axvline(edges[0], color=COLORS[0], alpha=0.45, linewidth=6)
    for at, name, color, style in lines:
        axes.axvline(at, color=color, linewidth=1.2, linestyle=style, label=name)
    axes.set_xlabel(label)
    axes.set_ylabel("runs")
    axes.set_ylim(0, None)
    axes.xaxis.set_major_formatter(tick)
    axes.yaxis.set_major_formatter(tick)
    axes.legend(frameon=False, fontsize=8)


def _policies(axes: Any, found: Simulation) -> None:
    """Draw a bar per policy with its cost, the planned one in colour."""
    known = [
        (name, figures, figures.cost_usd) for name, figures in found.policies.items() if figures.cost_usd is not None
    ]
    names = [POLICY_NAMES.get(name, name) for name, _, _ in known]
    means = [cost.mean for _, _, cost in known]
    colors = [COLORS[0] if name == PLANNED else TEXT_COLOR if name == OPTIMUM else MUTED_COLOR for name, _, _ in known]
    axes.barh(range(len(known)), means, color=colors, alpha=0.75, height=0.62)
    for row, (_, figures, cost) in enumerate(known):
        met = f", {figures.deadline_hit_rate * 100:.1f} % in time" if figures.deadline_hit_rate is not None else ""
        axes.annotate(
            f"{words.usd(cost.mean)}{met}", (cost.mean, row), xytext=(5, 0), textcoords="offset points",
            va="center", fontsize=8, color=TEXT_COLOR,
        )  # fmt: skip
    axes.set_yticks(range(len(known)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, max(means, default=1.0) * 1.3)
    axes.set_xlabel("mean dollars on the same markets at the same speeds")
    axes.xaxis.set_major_formatter(tick)
