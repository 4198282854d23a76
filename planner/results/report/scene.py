"""A picture as a list of shapes, and its SVG: one description for the page, for notebooks and for files.

Lengths are CSS pixels from the upper left corner. Colours are roles, so that a page can exchange them in the dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Literal

from planner.errors import escaped
from planner.records import record

PALETTE: Mapping[str, tuple[str, str]] = {
    # role: on white paper, on a dark screen
    "ink": ("#1d2126", "#e8eaed"),
    "muted": ("#565d66", "#a7afb9"),
    "grid": ("#dfe2e6", "#3a4048"),
    "paper": ("#ffffff", "#16191d"),
    "accent": ("#b3261e", "#ff8a80"),
    "soft": ("#d5dae0", "#4a525c"),
    "onfill": ("#ffffff", "#101316"),
    "c0": ("#0068a8", "#58a8e0"),
    "c1": ("#bd5200", "#f29a5f"),
    "c2": ("#007a5f", "#45c4a0"),
    "c3": ("#9b4684", "#de9bc9"),
    "c4": ("#b89400", "#dcb94a"),
    "c5": ("#4a9fd4", "#a9d6f3"),
    "c6": ("#858d97", "#9aa3ad"),
    "c7": ("#7a4b2a", "#cba183"),
}
"""Colours by role. The eight of series differ in lightness too, so that they stay apart for colour-blind readers."""
NONE = "none"
"""The role of what is not painted."""
SERIES = tuple(role for role in PALETTE if role[0] == "c" and role[1:].isdigit())
"""Roles of series, in the order in which they are given out."""
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
LETTER = 0.62
"""Mean width of a letter as a share of the font size, of a wide font such as DejaVu Sans."""


@record(frozen=True)
class Rect:
    """A filled rectangle; `note` is shown where the pointer rests on it."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    note: str = ""


@record(frozen=True)
class Line:
    """A line through points."""

    points: tuple[tuple[float, float], ...]
    stroke: str = "ink"
    width: float = 1.0
    dashed: bool = False


@record(frozen=True)
class Dot:
    """A circle; hollow ones have a fill of the paper."""

    x: float
    y: float
    radius: float
    stroke: str
    fill: str
    note: str = ""


@record(frozen=True)
class Text:
    """One line of text; `y` is its base line."""

    x: float
    y: float
    text: str
    fill: str = "ink"
    anchor: Literal["start", "middle", "end"] = "start"
    size: float = 12.0
    bold: bool = False

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom, estimated from the number of letters."""
        width = text_width(self.text, self.size)
        left = self.x - {"start": 0.0, "middle": width / 2, "end": width}[self.anchor]
        return left, self.y - self.size * 0.8, left + width, self.y + self.size * 0.25


Shape = Rect | Line | Dot | Text


@record(frozen=True)
class Caption:
    """What a chart is called, what it shows in words, and the title of its horizontal axis."""

    title: str
    description: str
    axis: str = ""


@record(frozen=True)
class Scene:
    """A picture with its name and its content in words, for readers who do not see it.

    `data` are figures that a script needs to find places in it, such as the ends of the axes.
    """

    width: float
    height: float
    title: str
    description: str
    shapes: tuple[Shape, ...]
    data: Mapping[str, float] = field(default_factory=dict)

    @property
    def texts(self) -> tuple[Text, ...]:
        """The texts in the picture."""
        return tuple(shape for shape in self.shapes if isinstance(shape, Text))


FRAME, TITLE = 16.0, 30.0
"""Around a figure that is a file of its own, and of its title."""


def framed(scene: Scene) -> Scene:
    """Return the scene with a margin and its title above: as a file of its own it has no page around it."""
    x, y = FRAME, FRAME + TITLE
    shapes: list[Shape] = [Text(FRAME, FRAME + 14, scene.title, size=15, bold=True)]
    for shape in scene.shapes:
        if isinstance(shape, Line):
            shapes.append(replace(shape, points=tuple((left + x, top + y) for left, top in shape.points)))
        else:
            shapes.append(replace(shape, x=shape.x + x, y=shape.y + y))
    width, height = scene.width + 2 * FRAME, scene.height + 2 * FRAME + TITLE
    return replace(scene, width=width, height=height, shapes=tuple(shapes), data={})


def text_width(text: str, size: float = 12.0) -> float:
    """Return the width of a text in pixels, estimated."""
    return len(text) * size * LETTER


def clip(text: str, room: float, size: float = 12.0) -> str:
    """Return the text cut to a width in pixels, an ellipsis at its end if it was cut."""
    letters = int(room / (size * LETTER))
    return text if len(text) <= letters else text[: max(0, letters - 1)].rstrip(" ,;:(") + "…"


def wrap(text: str, room: float, most: int = 2, size: float = 12.0) -> list[str]:
    """Return the text in at most `most` lines that fit a width in pixels."""
    lines: list[str] = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) <= room or not lines[-1]:
            lines[-1] = longer
        elif len(lines) < most:
            lines.append(word)
        else:
            lines[-1] = longer
    return [clip(line, room, size) for line in lines]


def to_svg(scene: Scene, ident: str, as_classes: bool = False, standalone: bool = False) -> str:
    """Return a scene as SVG; every text is escaped.

    Parameters
    ----------
    ident
        Start of the ids of title and description, unique on the page.
    as_classes
        Colours are classes such as `f-ink` and `s-ink`, which the style sheet of a page defines.
    standalone
        A file of its own on white paper.
    """
    name, what = f"{ident}-title", f"{ident}-desc"
    data = "".join(f' data-{key}="{_figure(value, 6)}"' for key, value in scene.data.items())
    size = f' width="{_figure(scene.width)}" height="{_figure(scene.height)}"' if not as_classes else ""
    space = ' xmlns="http://www.w3.org/2000/svg"'
    font = "" if as_classes else f' font-family="{FONT}"'
    parts = [
        f'<svg{space} viewBox="0 0 {_figure(scene.width)} {_figure(scene.height)}"{size}{font} role="img" '
        f'aria-labelledby="{name} {what}"{data}>',
        f'<title id="{name}">{escaped(scene.title)}</title>',
        f'<desc id="{what}">{escaped(scene.description)}</desc>',
    ]
    if standalone:
        parts.append(f'<rect width="100%" height="100%" fill="{PALETTE["paper"][0]}"/>')
    parts += [_shape(shape, as_classes) for shape in scene.shapes]
    return "".join(parts) + "</svg>"


def _shape(shape: Shape, as_classes: bool) -> str:
    """Return one shape as an SVG element."""
    if isinstance(shape, Rect):
        area = f'x="{_figure(shape.x)}" y="{_figure(shape.y)}" '
        area += f'width="{_figure(shape.width)}" height="{_figure(shape.height)}"'
        return _noted("rect", f"{area} {_paint(as_classes, fill=shape.fill)}", shape.note)
    if isinstance(shape, Dot):
        area = f'cx="{_figure(shape.x)}" cy="{_figure(shape.y)}" r="{_figure(shape.radius)}"'
        return _noted("circle", f"{area} {_paint(as_classes, fill=shape.fill, stroke=shape.stroke)}", shape.note)
    if isinstance(shape, Line):
        way = "M" + "L".join(f"{_figure(x)} {_figure(y)}" for x, y in shape.points)
        dashes = ' stroke-dasharray="4 3"' if shape.dashed else ""
        paint = _paint(as_classes, stroke=shape.stroke)
        fill = "" if as_classes else ' fill="none"'
        return f'<path d="{way}" {paint}{fill} stroke-width="{_figure(shape.width)}"{dashes}/>'
    bold = ' font-weight="600"' if shape.bold else ""
    anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
    return (
        f'<text x="{_figure(shape.x)}" y="{_figure(shape.y)}" font-size="{_figure(shape.size)}"{anchor}{bold} '
        f"{_paint(as_classes, fill=shape.fill)}>{escaped(shape.text)}</text>"
    )


def _noted(tag: str, attributes: str, note: str) -> str:
    return f"<{tag} {attributes}><title>{escaped(note)}</title></{tag}>" if note else f"<{tag} {attributes}/>"


def _paint(as_classes: bool, **roles: str) -> str:
    """Return the colours as attributes, or as classes such as `f-ink` and `s-ink`."""
    if as_classes:
        return f'class="{" ".join(f"{what[0]}-{role}" for what, role in roles.items())}"'
    return " ".join(f'{what}="{NONE if role == NONE else PALETTE[role][0]}"' for what, role in roles.items())


def _figure(value: float, digits: int = 1) -> str:
    """Return a number with few digits, so that files stay small."""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if "." in f"{value:.{digits}f}" else f"{value:.{digits}f}"


def overlaps(one: Sequence[float], other: Sequence[float], gap: float = 0.0) -> bool:
    """Return whether two boxes (left, top, right, bottom) overlap or are closer than a gap."""
    return one[0] < other[2] + gap and other[0] < one[2] + gap and one[1] < other[3] + gap and other[1] < one[3] + gap
