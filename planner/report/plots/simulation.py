"""A simulation as a picture: one replay over time, the distributions of cost and hours, and the policies."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.report import format as words
from planner.report.plots.style import (
    ACCENT_COLOR,
    COLORS,
    LETTERS_PER_INCH,
    MUTED_COLOR,
    PICTURE_WIDTH,
    TEXT_COLOR,
    open_picture,
    tick,
    tick_usd,
)
from planner.report.simulation import POLICY_NAMES, format_summary
from planner.results.simulation import OPTIMUM, PLANNED, Histogram, JobReplays, Simulation, Timeline

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

AVAILABLE_COLOR = "#b9c9a8"
GUARD_WORDS = 0.4
"""Height of the guard to the right of which its words have room below it."""
FAR_OFF = 3.0
"""Times the latest finish of all replays from which a deadline is named and not drawn."""
RUN_WORDS = {"spot": "on spot", "on demand": "on demand"}
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
        several = 0.12 * len(job.told.zones) if job.told is not None else 0.0
        rows, heights = [["replay", "replay"], *rows], [1.8 + several, *heights]
    if len(found.policies) > 1:
        rows, heights = [*rows, ["policies", "policies"]], [*heights, 0.9]
    title = " ".join(format_summary(found))
    with open_picture(path, caption, height=1.0 + 1.7 * sum(heights), title=title) as (figure, whole):
        whole.remove()
        axes = figure.subplot_mosaic(rows, height_ratios=heights)
        if job is not None and job.told is not None:
            _replay(axes["replay"], job, job.told, len(found.jobs) > 1)
        if found.predicted is not None:
            lines = [(found.predicted.cost_usd, "plan", TEXT_COLOR, "-")]
            _spread(axes["cost"], found.cost_histogram, "cost", lines)
            axes["cost"].xaxis.set_major_formatter(tick_usd)
            lines = [(found.predicted.hours, "plan, likely", TEXT_COLOR, "-")]
            deadlines = {job.deadline_hours for job in found.jobs if job.deadline_hours is not None}
            lines += [(limit, "deadline", ACCENT_COLOR, "--") for limit in deadlines if len(deadlines) == 1]
            _spread(axes["hours"], found.hours_histogram, "finish, hours", lines)
        if "policies" in axes:
            _policies(axes["policies"], found)


def _replay(axes: Any, job: JobReplays, timeline: Timeline, several: bool) -> None:
    """Draw the work done over time and the guard; below it the available market and what ran."""
    end = max(timeline.stretches[-1].to_hours, timeline.ends_by_hours)
    axes.plot(*zip(*timeline.progress, strict=True), color=TEXT_COLOR, linewidth=1.6)
    if timeline.guard is not None:
        axes.plot(*zip(*timeline.guard, strict=True), color=ACCENT_COLOR, linestyle="--", linewidth=1.2)
        at_left = timeline.guard[0][0] > end / 2  # the side with room for the words
        at_hours, at_shares = zip(*timeline.guard, strict=True)
        foot = at_hours[0] if at_left else float(np.interp(GUARD_WORDS, at_shares, at_hours))
        axes.annotate(
            "guard: on demand\nright of this line",
            (foot, 0.0),
            xytext=(-6 if at_left else 6, 6),
            textcoords="offset points",
            ha="right" if at_left else "left",
            color=ACCENT_COLOR,
        )
    axes.axvline(timeline.ends_by_hours, color=MUTED_COLOR, linewidth=0.8, linestyle=":")
    axes.annotate(
        f"done by\n{words.hours(timeline.ends_by_hours)}", (timeline.ends_by_hours, 1.0),
        xytext=(4, -4), textcoords="offset points", va="top", color=TEXT_COLOR,
    )  # fmt: skip
    rows = _bands(axes, timeline)
    done = timeline.stretches[-1].to_hours
    axes.plot([done], [1.0], "o", color=TEXT_COLOR, markersize=5)
    axes.set_ylim(min(rows.values()) - BAND, 1.06)
    axes.set_xlim(0, end * 1.17)
    shares = [0.0, 0.25, 0.5, 0.75, 1.0]
    axes.set_yticks([*shares, *rows.values()])
    axes.set_yticklabels([*(f"{share * 100:.0f} % done" for share in shares), *rows])
    axes.xaxis.set_major_formatter(tick)
    axes.grid(True, axis="x", color=MUTED_COLOR, alpha=0.2, linewidth=0.6)
    axes.set_xlabel("hours since machines were ordered")
    replay = f"{words.sanitise(job.name)}: one replay" if several else "One replay"
    machines = words.gpus(job.gpus, job.gpu)
    count = f"{timeline.interruptions} interruption{'' if timeline.interruptions == 1 else 's'}"
    title = f"{replay}, {machines} at {words.sanitise(job.provider)}: {words.usd(timeline.usd)}, {count}"
    axes.set_title(textwrap.fill(title, int(PICTURE_WIDTH * LETTERS_PER_INCH) - 14))


def _bands(axes: Any, timeline: Timeline) -> dict[str, float]:
    """Draw when machines were there and what ran, a row per zone where there were several; return rows by label."""
    step, spot = MARKET_AT - MACHINES_AT, RUN_COLORS["spot"]
    stretches = timeline.stretches
    rows = {words.sanitise(one.zone): MARKET_AT - step * row for row, one in enumerate(timeline.zones)}
    for zone, at in zip(timeline.zones, rows.values(), strict=True):
        _bars(axes, at, AVAILABLE_COLOR, list(zone.up))
        _bars(axes, at, spot, [(part.from_hours, part.to_hours) for part in stretches if part.zone == zone.zone], 0.55)
    if not rows:
        rows["market available"] = MARKET_AT
        _bars(
            axes, MARKET_AT, AVAILABLE_COLOR, [(part.from_hours, part.to_hours) for part in stretches if part.market_up]
        )
    for running, color in RUN_COLORS.items():
        spans = [(part.from_hours, part.to_hours) for part in stretches if part.running == running]
        if spans:
            rows[f"runs {RUN_WORDS[running]}"] = at = min(rows.values()) - step
            _bars(axes, at, color, spans)
    return rows


def _bars(axes: Any, middle: float, color: str, spans: Sequence[tuple[float, float]], height: float = 1.0) -> None:
    """Draw stretches of time as bars around a height."""
    bars = [(begin, end - begin) for begin, end in spans]
    axes.broken_barh(bars, (middle - BAND * height / 2, BAND * height), facecolor=color, linewidth=0)


def _spread(axes: Any, histogram: Histogram | None, label: str, lines: Sequence[tuple[float, str, str, str]]) -> None:
    """Draw runs per bin, and the figure of the plan."""
    if histogram is None:
        return
    edges, counts = histogram.edges, histogram.counts
    if len(counts) > 1:
        axes.stairs(counts, edges, fill=True, color=COLORS[0], alpha=0.45)
    else:
        axes.axvline(edges[0], color=COLORS[0], alpha=0.45, linewidth=6)
    near = max(edges[-1], lines[0][0] if lines else 0.0)
    for row, (at, name, color, style) in enumerate(lines):
        place = {"xytext": (0, 2 + 13 * row), "textcoords": "offset points", "color": color}
        if at > FAR_OFF * near:  # drawn, it would leave no room for the distribution
            axes.annotate(
                f"{name} {words.hours(at)}, far to the right", (1, 1), xycoords="axes fraction", ha="right", **place
            )
            continue
        axes.axvline(at, color=color, linewidth=1.2, linestyle=style)
        axes.annotate(name, (at, 1), xycoords=("data", "axes fraction"), ha="center", **place)
    axes.set_xlabel(label)
    axes.set_ylabel("runs")
    axes.set_ylim(0, None)
    axes.xaxis.set_major_formatter(tick)
    axes.yaxis.set_major_formatter(tick)


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
            va="center", color=TEXT_COLOR,
        )  # fmt: skip
    axes.set_yticks(range(len(known)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, max(means, default=1.0) * 1.75)
    axes.set_xlabel("mean cost on the same markets")
    axes.xaxis.set_major_formatter(tick_usd)
