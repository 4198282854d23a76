"""Figures as plain data: texts, a table, and a picture as a list of shapes that the script of the page draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.drawing.scene import Dot, Line, Rect, Scene, Shape

if TYPE_CHECKING:
    from planner.report.figures.figure import Figure, Table


def figure_data(figure: Figure) -> dict[str, Any]:
    """Return the texts and the table of a figure."""
    return {
        **{"key": figure.key, "title": figure.title, "lead": figure.lead, "notes": list(figure.notes)},
        "table": _table(figure.table),
    }


def drawn(figure: Figure, width: float) -> dict[str, Any]:
    """Return a figure with its picture in a width in pixels."""
    scene = scene_data(figure.draw(width)) if figure.draw is not None else None
    return {**figure_data(figure), "scene": scene}


def _table(table: Table) -> dict[str, Any]:
    return {"header": table.header, "rows": table.rows}


def scene_data(scene: Scene) -> dict[str, Any]:
    """Return a picture as lists of figures and texts."""
    size = {"width": round(scene.width, 1), "height": round(scene.height, 1)}
    texts = {"title": scene.title, "description": scene.description}
    return {**size, **texts, "data": dict(scene.data), "shapes": [_shape(one) for one in scene.shapes]}


def _shape(shape: Shape) -> list[Any]:
    """Return one shape: its kind, its figures, its colours by role, its text."""
    if isinstance(shape, Rect):
        box = [round(one, 1) for one in (shape.x, shape.y, shape.width, shape.height)]
        return ["rect", *box, shape.fill, shape.note, int(shape.striped)]
    if isinstance(shape, Dot):
        return ["dot", round(shape.x, 1), round(shape.y, 1), shape.radius, shape.stroke, shape.fill, shape.note]
    if isinstance(shape, Line):
        way = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in shape.points)
        return ["line", way, shape.stroke, shape.width, int(shape.dashed)]
    place = [round(shape.x, 1), round(shape.y, 1)]
    return ["text", *place, shape.text, shape.fill, shape.anchor, shape.size, int(shape.bold)]
