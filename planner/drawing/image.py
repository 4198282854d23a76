"""A scene as PNG or PDF, drawn shape by shape with Matplotlib; the only module that imports it."""

from __future__ import annotations

import importlib.util
import io
from typing import Any

from planner.drawing.scene import NONE, PALETTE, Dot, Line, Rect, Scene, Shape
from planner.errors import Fault, ScenarioError

PIXELS_PER_INCH = 96.0
"""CSS pixels, in which scenes are measured."""
DOTS_PER_INCH = 192
"""Of a PNG: twice the pixels of the screen, so that it is sharp in print."""


def check_drawable(path: str) -> None:
    """Raise ScenarioError where the extra that draws PNG and PDF is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        fix = "write .svg, or install the extra `plot`: pip install '.[plot]'"
        raise ScenarioError([Fault(path, 0, "", "cannot be drawn: matplotlib is not installed", fix)])


def draw_scene(scene: Scene, kind: str) -> bytes:
    """Return a scene on white paper as `png` or `pdf`."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"text.parse_math": False, "pdf.fonttype": 42, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(scene.width / PIXELS_PER_INCH, scene.height / PIXELS_PER_INCH))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(0, scene.width)
        axes.set_ylim(scene.height, 0)
        axes.axis("off")
        for order, shape in enumerate(scene.shapes):
            _draw(axes, shape, order)
        stream = io.BytesIO()
        # Without a date equal figures give equal bytes.
        about = {"Title": scene.title, "CreationDate": None} if kind == "pdf" else {"Title": scene.title}
        figure.savefig(stream, format=kind, dpi=DOTS_PER_INCH, facecolor="white", metadata=about)
    return stream.getvalue()


def _draw(axes: Any, shape: Shape, order: int) -> None:
    """Draw a shape; `order`: above all shapes before it, as in SVG."""
    from matplotlib.patches import Circle, Rectangle

    points = 72.0 / PIXELS_PER_INCH
    if isinstance(shape, Rect):
        look: dict[str, Any] = {
            "facecolor": _color(shape.fill),
            "edgecolor": _color("paper"),
            "linewidth": 0,
            "zorder": order,
        }
        hatch = "////" if shape.striped else None
        axes.add_patch(Rectangle((shape.x, shape.y), shape.width, shape.height, hatch=hatch, **look))
    elif isinstance(shape, Dot):
        look = {"facecolor": _color(shape.fill), "edgecolor": _color(shape.stroke), "zorder": order}
        axes.add_patch(Circle((shape.x, shape.y), shape.radius, linewidth=points, **look))
    elif isinstance(shape, Line):
        # Matplotlib counts dashes in widths of the line, SVG in pixels.
        style = (0, (4 / shape.width, 3 / shape.width)) if shape.dashed else "-"
        look = {"color": _color(shape.stroke), "linewidth": shape.width * points, "zorder": order}
        ends = {"solid_capstyle": "butt", "dash_capstyle": "butt"}
        axes.plot(*zip(*shape.points, strict=True), linestyle=style, **look, **ends)
    else:
        side = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
        look = {"ha": side, "va": "baseline", "color": _color(shape.fill), "fontsize": shape.size * points}
        weight = "bold" if shape.bold else "normal"
        axes.text(shape.x, shape.y, shape.text, fontweight=weight, zorder=order, **look)


def _color(role: str) -> str:
    return NONE if role == NONE else PALETTE[role][0]
