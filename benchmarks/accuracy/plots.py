"""Pictures of the accuracy benchmark: predicted against measured, and errors by framework."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy.predictions import Comparison, Prediction
from benchmarks.accuracy.scores import grouped
from planner.drawing.charts import Labels, Trace, panel
from planner.drawing.scene import (
    SERIES,
    Axis,
    Caption,
    Dot,
    Line,
    Scene,
    Shape,
    Text,
    draw_across,
    draw_scene,
    framed,
    room_of_ticks,
    text_width,
)
from planner.units import GIB

MOST_FRAMEWORKS = 7
WIDTH, HEIGHT = 560.0, 440.0
"""CSS pixels of the area of a picture."""
ROW = 44.0
"""Height of the errors of a framework."""


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
        for name, scene in (
            (figure, _scatter(points, figure, unit, scale)),
            (f"{figure}-errors", _strips(points, figure)),
        ):
            written.append(target / f"{name}.png")
            written[-1].write_bytes(draw_scene(framed(scene), "png"))
    return written


def _frameworks(points: Points) -> dict[str, list[tuple[Prediction, Comparison]]]:
    groups = grouped(points, lambda point: point[0].row.text("framework") or "not named")
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    kept = {str(name): members for name, members in ordered[:MOST_FRAMEWORKS]}
    rest = [point for _, members in ordered[MOST_FRAMEWORKS:] for point in members]
    return {**kept, "others": rest} if rest else kept


def _scatter(points: Points, figure: str, unit: str, scale: float) -> Scene:
    """Return predicted over measured figures, each framework in its colour, with lines at 25 % off."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for name, members in _frameworks(points).items():
        per_gpu = [1.0 if figure == "memory" else row.row.number("num_gpus") or 1.0 for row, _ in members]
        groups[f"{name} ({len(members)})"] = [
            (c.measured / scale / n, c.predicted / scale / n) for (_, c), n in zip(members, per_gpu, strict=True)
        ]
    figures = [value for members in groups.values() for pair in members for value in pair]
    low, high = min(figures) / 1.2, max(figures) * 1.2
    up = Axis(low, high, HEIGHT, 22.0, is_log=True)
    across = Axis(low, high, room_of_ticks(up), WIDTH - 12.0, is_log=True)
    traces = [Trace(((low, low), (high, high)), "muted", "predicted = measured", width=1.0)]
    for factor, name in ((0.8, "25 % off"), (1.25, "")):
        # Where the line leaves the chart at the upper or lower edge.
        ends = [
            (max(low, low / factor), max(low, low / factor) * factor),
            (min(high, high / factor), min(high, high * factor)),
        ]
        traces.append(Trace(tuple(ends), "muted", name, width=1.0, dashed=True))
    traces += [
        Trace(tuple(members), role, name, width=0.0, mark="point")
        for (name, members), role in zip(groups.items(), SERIES, strict=False)
    ]
    title = f"{figure.capitalize()}: {len(points)} published runs"
    labels = Labels(f"predicted, {unit}")
    return panel(traces, across, up, labels, Caption(title, title, f"measured, {unit}"), WIDTH)


def _strips(points: Points, figure: str) -> Scene:
    """Return the errors of every row, a strip for each framework with its median; outliers are drawn on the edges."""
    edge = 1.0
    groups = _frameworks(points)
    names = [f"{name} ({len(members)})" for name, members in groups.items()]
    axis = Axis(-edge, edge, max(map(text_width, names)) + 14, WIDTH - 12.0)
    bottom = 8.0 + ROW * len(groups)
    title = f"{figure.capitalize()}: errors by framework (100 %: and more)"
    shapes: list[Shape] = draw_across(axis, 4.0, bottom, "predicted over measured, less one; red: median", _percent)
    shapes.append(Line(((axis.at(0.0), 4.0), (axis.at(0.0), bottom)), "muted"))
    for number, (name, members) in enumerate(zip(names, groups.values(), strict=True)):
        middle = 8.0 + ROW * (number + 0.5)
        shapes.append(Text(0, middle + 4, name))
        for index, (_, compared) in enumerate(members):
            # A fixed pattern instead of chance spreads points of one line.
            high = middle + 0.6 * ROW * ((7 * index % 11) / 10 - 0.5)
            shapes.append(Dot(axis.at(min(max(compared.error, -edge), edge)), high, 1.6, "c0", "c0"))
        median = axis.at(max(-edge, min(edge, sorted(c.error for _, c in members)[len(members) // 2])))
        shapes.append(Line(((median, middle - 0.4 * ROW), (median, middle + 0.4 * ROW)), "accent", 2.0))
    return Scene(WIDTH, bottom + 40.0, title, title, tuple(shapes))


def _percent(share: float) -> str:
    return f"{share * 100:+.0f} %" if share else "0"
