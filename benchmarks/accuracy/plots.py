"""Pictures of the accuracy benchmark: predicted against measured, and errors by framework."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.predictions import Comparison, Prediction
from benchmarks.accuracy.scores import grouped
from planner.report.plots.style import ACCENT_COLOR, COLORS, MUTED_COLOR, open_picture
from planner.units import GIB

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
MOST_FRAMEWORKS = 7


Points = Sequence[tuple[Prediction, Comparison]]


def write_pictures(memory: Points, throughput: Points, folder: str | Path) -> list[Path]:
    """Write two PNG files per figure that has rows into `folder`, and return their paths."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for figure, points, unit, scale in (
        ("memory", memory, "GiB per GPU", GIB),
        ("throughput", throughput, "tokens/s per GPU", 1.0),
    ):
        if not points:
            continue
        written += [target / f"{figure}.png", target / f"{figure}-errors.png"]
        with open_picture(written[-2], height=5.6) as (_, axes):
            _scatter(axes, points, figure, unit, scale)
        with open_picture(written[-1], height=5.0) as (_, axes):
            _strips(axes, points, figure)
    return written


def _frameworks(points: Points) -> dict[str, list[tuple[Prediction, Comparison]]]:
    groups = grouped(points, lambda point: point[0].row.text("framework") or "not named")
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    kept = {str(name): members for name, members in ordered[:MOST_FRAMEWORKS]}
    rest = [point for _, members in ordered[MOST_FRAMEWORKS:] for point in members]
    return {**kept, "others": rest} if rest else kept


def _scatter(axes: Any, points: Points, figure: str, unit: str, scale: float) -> None:
    low, high = float("inf"), 0.0
    for number, (name, members) in enumerate(_frameworks(points).items()):
        per_gpu = [1.0 if figure == "memory" else p.row.number("num_gpus") or 1.0 for p, _ in members]
        measured = [c.measured / scale / n for (_, c), n in zip(members, per_gpu, strict=True)]
        predicted = [c.predicted / scale / n for (_, c), n in zip(members, per_gpu, strict=True)]
        low, high = min(low, *measured, *predicted), max(high, *measured, *predicted)
        style = {"color": COLORS[number % len(COLORS)], "marker": MARKERS[number % len(MARKERS)]}
        axes.scatter(measured, predicted, s=18, alpha=0.7, linewidths=0, label=f"{name} ({len(members)})", **style)
    ends = [low / 1.2, high * 1.2]
    axes.plot(ends, ends, color=MUTED_COLOR, linewidth=1)
    for factor in (0.8, 1.25):
        axes.plot(ends, [end * factor for end in ends], color=MUTED_COLOR, linewidth=0.8, linestyle=":")
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set(xlabel=f"measured, {unit}", ylabel=f"predicted, {unit}")
    axes.set_title(f"{figure.capitalize()}: {len(points)} published runs (dotted: 25 % off)")
    axes.legend()


def _strips(axes: Any, points: Points, figure: str) -> None:
    """Plot the errors of every row, one line per framework; outliers are drawn on the edges."""
    edge = 1.0
    groups = _frameworks(points)
    for number, members in enumerate(groups.values()):
        values = [min(max(c.error, -edge), edge) for _, c in members]
        # A fixed pattern instead of chance spreads points of one line.
        heights = [number + 0.6 * ((7 * i % 11) / 10 - 0.5) for i in range(len(values))]
        axes.scatter(values, heights, s=12, alpha=0.5, linewidths=0, color=COLORS[0])
        middle = sorted(c.error for _, c in members)[len(members) // 2]
        axes.plot([middle, middle], [number - 0.4, number + 0.4], color=ACCENT_COLOR, linewidth=2)
    axes.axvline(0, color=MUTED_COLOR, linewidth=1)
    axes.set_yticks(range(len(groups)), [f"{name} ({len(members)})" for name, members in groups.items()])
    axes.invert_yaxis()
    axes.set_xlim(-edge * 1.02, edge * 1.02)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["-100 %", "-50 %", "0", "+50 %", "+100 % and more"])
    axes.set_xlabel("predicted over measured, less one; red: median")
    axes.set_title(f"{figure.capitalize()}: errors by framework")
