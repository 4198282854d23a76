"""A picture as a list of shapes, for the page, notebooks and files: axes and legends, its SVG, and PNG or PDF.

Lengths are CSS pixels from the upper left corner. Colours are roles, so that a page can exchange them in the dark.
An axis turns figures into pixels, with round ticks. Matplotlib draws the same shapes into PNG and PDF.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import itertools
import math
import re
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from planner.errors import Fault, ScenarioError, escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PALETTE: Mapping[str, tuple[str, str]] = {
    # role: on white paper, on a dark screen
    "ink": ("#1d2126", "#e8eaed"),
    "muted": ("#565d66", "#a7afb9"),
    "grid": ("#dfe2e6", "#3a4048"),
    "paper": ("#ffffff", "#16191d"),
    "accent": ("#b3261e", "#ff8a80"),
    "soft": ("#d5dae0", "#4a525c"),
    "onfill": ("#ffffff", "#101316"),
    "onpale": ("#1d2126", "#101316"),
    "c0": ("#0068a8", "#58a8e0"),
    "c1": ("#bd5200", "#f29a5f"),
    "c2": ("#007a5f", "#45c4a0"),
    "c3": ("#9b4684", "#de9bc9"),
    "c4": ("#b89400", "#dcb94a"),
    "c5": ("#4a9fd4", "#a9d6f3"),
    "c6": ("#858d97", "#9aa3ad"),
    "c7": ("#7a4b2a", "#cba183"),
    "h0": ("#e3f1f2", "#123a4a"),
    "h1": ("#bfe0e2", "#1b5163"),
    "h2": ("#93cbd4", "#266a7c"),
    "h3": ("#5fadc4", "#398aa0"),
    "h4": ("#2f83b0", "#5fadc4"),
    "h5": ("#1e5d92", "#93cbd4"),
    "h6": ("#163d6b", "#bfe0e2"),
}
"""Colours by role. The eight of series (c) differ in lightness too, so that they stay apart for colour-blind readers.

Those of a scale (h) go from the least to the most.
"""
NONE = "none"
"""The role of what is not painted."""
SERIES = tuple(role for role in PALETTE if role[0] == "c" and role[1:].isdigit())
"""Roles of series, in the order in which they are given out."""

FIRST_COLOUR = 672
"""Start of the sum by which names get their role: with it the eight GPUs that plans rent most differ."""


def roles_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the role of each name, distinct up to `len(SERIES)` names; a name has the same one on every picture.

    Where another name of the picture has it already, it is the next that is free.
    """
    roles: list[str] = []
    for name in names:
        first = zlib.crc32(name.encode(), FIRST_COLOUR) % len(SERIES)
        order = [*SERIES[first:], *SERIES[:first]]
        roles.append(next((role for role in order if role not in roles), order[0]))
    return tuple(roles)


HEAT = tuple(role for role in PALETTE if role[0] == "h" and role[1:].isdigit())
"""Roles of a scale, the least first."""
DEEP, PALE = ("soft", *HEAT[:3]), ("c4", "c5", "c6", HEAT[3])
"""Roles of areas that are pale on paper: those that are deep in the dark, and those that are pale there too."""
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
LETTER = 0.62
"""Mean width of a letter as a share of the font size, of a wide font such as DejaVu Sans."""


@dataclass(frozen=True)
class Rect:
    """A filled rectangle; `note` is shown where the pointer rests on it."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    note: str = ""
    striped: bool = False
    """Whether thin stripes of paper cross it: another kind of the same colour."""


@dataclass(frozen=True)
class Line:
    """A line through points."""

    points: tuple[tuple[float, float], ...]
    stroke: str = "ink"
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Dot:
    """A circle; hollow ones have a fill of the paper."""

    x: float
    y: float
    radius: float
    stroke: str
    fill: str
    note: str = ""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Caption:
    """What a chart is called, what it shows in words, and the title of its horizontal axis."""

    title: str
    description: str
    axis: str = ""


@dataclass(frozen=True)
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
MOST_TITLE_LINES, TITLE_LINE = 5, 18.0
"""Most lines of a title, and the height of each after the first."""


def framed(scene: Scene) -> Scene:
    """Return the scene with a margin and its title above: as a file of its own it has no page around it.

    A short title is large; a longer one goes on in further lines of smaller letters.
    """
    room = scene.width
    lines, size, bold = [scene.title], 15.0, True
    if text_width(scene.title, size) > room:
        size, bold = 13.0, False
        # A figure and its unit stay on one line.
        kept = re.sub(r"(?<=\d) (?=(?:h|min|s|ms|GiB)\b|%)", "\N{NO-BREAK SPACE}", scene.title)
        lines = [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrap(kept, room, MOST_TITLE_LINES, size)]
    tall = TITLE + TITLE_LINE * (len(lines) - 1)
    title = [Text(FRAME, FRAME + 14 + TITLE_LINE * at, line, size=size, bold=bold) for at, line in enumerate(lines)]
    shapes = (*title, *(moved(shape, FRAME, FRAME + tall) for shape in scene.shapes))
    width, height = scene.width + 2 * FRAME, scene.height + 2 * FRAME + tall
    return replace(scene, width=width, height=height, shapes=shapes, data={})


def moved(shape: Shape, x: float, y: float) -> Shape:
    """Return a shape moved to the right and down."""
    if isinstance(shape, Line):
        return replace(shape, points=tuple((left + x, top + y) for left, top in shape.points))
    return replace(shape, x=shape.x + x, y=shape.y + y)


GAP = 18.0
"""Between two scenes of one picture."""


def joined(rows: Sequence[Sequence[Scene]], title: str, description: str) -> Scene:
    """Return scenes as one: each row below the one before, the scenes of a row next to each other."""
    shapes: list[Shape] = []
    width = y = 0.0
    for row in rows:
        x = 0.0
        for scene in row:
            shapes += [moved(shape, x, y) for shape in scene.shapes]
            x += scene.width + GAP
        width = max(width, x - GAP)
        y += max(scene.height for scene in row) + GAP
    return Scene(width, y - GAP, title, description, tuple(shapes))


def headed(scene: Scene, heading: str) -> Scene:
    """Return a scene with a heading above, which names it next to others of one picture."""
    lines = wrap(heading, scene.width, MOST_TITLE_LINES)
    top = 16.0 * len(lines) + 6
    texts = [Text(0, 12 + 16.0 * at, line, bold=True) for at, line in enumerate(lines)]
    shapes = (*texts, *(moved(shape, 0, top) for shape in scene.shapes))
    return replace(scene, height=scene.height + top, shapes=shapes, data={})


def letters_on(role: str) -> str:
    """Return the role of letters on an area of a role."""
    if role in DEEP:
        return "ink"
    return "onpale" if role in PALE else "onfill"


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
    for gap, word in _pieces(text, room, size):
        longer = f"{lines[-1]}{gap}{word}".strip()
        if text_width(longer, size) <= room or not lines[-1]:
            lines[-1] = longer
        elif len(lines) < most:
            lines.append(word)
        else:
            lines[-1] = longer
    return [clip(line, room, size) for line in lines]


def _pieces(text: str, room: float, size: float) -> Iterator[tuple[str, str]]:
    """Yield the words, each with the space before it; of one that is too long for a line the parts of its name."""
    for word in text.split(" "):
        parts = [word] if text_width(word, size) <= room else re.findall(r"[^-_]*[-_]+|[^-_]+", word)
        yield from ((" " if at == 0 else "", part) for at, part in enumerate(parts))


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
    name, description = f"{ident}-title", f"{ident}-desc"
    data = "".join(f' data-{key}="{_figure(value, 6)}"' for key, value in scene.data.items())
    size = f' width="{_figure(scene.width)}" height="{_figure(scene.height)}"' if not as_classes else ""
    space = ' xmlns="http://www.w3.org/2000/svg"'
    font = "" if as_classes else f' font-family="{FONT}"'
    parts = [
        f'<svg{space} viewBox="0 0 {_figure(scene.width)} {_figure(scene.height)}"{size}{font} role="img" '
        f'aria-labelledby="{name} {description}"{data}>',
        f'<title id="{name}">{escaped(scene.title)}</title>',
        f'<desc id="{description}">{escaped(scene.description)}</desc>',
    ]
    if standalone:
        parts.append(f'<rect width="100%" height="100%" fill="{PALETTE["paper"][0]}"/>')
    stripes = f"{ident}-stripes"
    if any(isinstance(shape, Rect) and shape.striped for shape in scene.shapes):
        stroke = _paint(as_classes, stroke="paper")
        parts.append(
            f'<defs><pattern id="{stripes}" width="5" height="5" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><path d="M0 0V5" {stroke} stroke-width="2"/></pattern></defs>'
        )
    parts += [_shape(shape, as_classes, stripes) for shape in scene.shapes]
    return "".join(parts) + "</svg>"


def notebook_svg(scene: Scene) -> str:
    """Return a picture whose ids differ from those of other pictures of the notebook."""
    return to_svg(framed(scene), picture_id(scene), standalone=True)


def picture_id(scene: Scene) -> str:
    """Return an id that only pictures with the same title and the same words share."""
    return f"planner-{hashlib.sha256(f'{scene.title}: {scene.description}'.encode()).hexdigest()[:12]}"


def _shape(shape: Shape, as_classes: bool, stripes: str) -> str:
    """Return one shape as SVG elements; `stripes` is the id of their pattern."""
    if isinstance(shape, Rect):
        area = f'x="{_figure(shape.x)}" y="{_figure(shape.y)}" '
        area += f'width="{_figure(shape.width)}" height="{_figure(shape.height)}"'
        over = _noted("rect", f'{area} fill="url(#{stripes})"', shape.note) if shape.striped else ""
        return _noted("rect", f"{area} {_paint(as_classes, fill=shape.fill)}", shape.note) + over
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
        return f'class="{" ".join(f"{attribute[0]}-{role}" for attribute, role in roles.items())}"'
    return " ".join(f'{attribute}="{NONE if role == NONE else PALETTE[role][0]}"' for attribute, role in roles.items())


def _figure(value: float, digits: int = 1) -> str:
    """Return a number with few digits, so that files stay small."""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if "." in f"{value:.{digits}f}" else f"{value:.{digits}f}"


def overlaps(box: Sequence[float], other: Sequence[float], gap: float = 0.0) -> bool:
    """Return whether two boxes (left, top, right, bottom) overlap or are closer than a gap."""
    return box[0] < other[2] + gap and other[0] < box[2] + gap and box[1] < other[3] + gap and other[1] < box[3] + gap


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


WIDE_RATIO = 8.0
"""Ratio of the largest to the smallest figure from which an axis is logarithmic."""


@dataclass(frozen=True)
class Axis:
    """Figures `low` to `high` at the pixels `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a figure."""
        if self.is_log:
            share = math.log(max(value, self.low / 10) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Return at most `most` round figures on the axis: 1, 2 and 5 times powers of ten."""
        return _log_ticks(self.low, self.high, most) if self.is_log else _ticks(self.low, self.high, most)


def fit_axis(low: float, high: float, start: float, end: float, from_zero: bool = False) -> Axis:
    """Return an axis for figures between two values, with a little room; logarithmic for a wide range."""
    if low > 0 and high > WIDE_RATIO * low and not from_zero:
        return Axis(low / 1.12, high * 1.25, start, end, is_log=True)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return Axis(0.0 if from_zero else max(0.0, low - room) if low >= 0 else low - room, high + room, start, end)


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Return the figures of the finest step with few enough; of a finer one where that would leave one alone."""
    power = 10.0 ** math.floor(math.log10((high - low) / max(1, most)))
    ticks: list[float] = []
    for step in (factor * power for factor in (1, 2, 5, 10, 20, 50)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        before, ticks = ticks, [round(number * step, 10) for number in range(first, last + 1)]
        if len(ticks) <= most:
            return ticks if len(ticks) > 1 or len(before) > most + 2 else before or ticks
    return ticks


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [m * 10.0**power for power in powers for m in factors if low <= m * 10.0**power <= high]
        if len(ticks) <= most:
            return ticks or _ticks(low, high, most)
    every = math.ceil(len(ticks) / most)
    return ticks[::every]


def plain(value: float) -> str:
    """Return the label of a tick without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.4g}"


def money(value: float) -> str:
    """Return the label of a tick in dollars."""
    return f"${plain(value)}" if value >= 0 else f"-${plain(-value)}"


def draw_across(
    axis: Axis, top: float, bottom: float, title: str, text: Callable[[float], str] = plain, size: float = 12.0
) -> list[Shape]:
    """Return grid lines, ticks and the title of a horizontal axis whose line is at `bottom`."""
    widest = max((text_width(text(value), size) for value in axis.ticks(8)), default=0.0)
    ticks = axis.ticks(max(2, int((axis.end - axis.start) / max(42.0, widest + 20))))
    labels = [text(value) for value in ticks]
    if all(label.endswith(".00") for label in labels):  # whole dollars
        labels = [label.removesuffix(".00") for label in labels]
    shapes: list[Shape] = []
    for value, label in zip(ticks, labels, strict=True):
        at, half = axis.at(value), text_width(label, size) / 2
        shapes.append(Line(((at, top), (at, bottom)), "grid"))
        place = min(max(at, half), axis.end + 12 - half)
        shapes.append(Text(place, bottom + size + 4, label, "muted", "middle", size))
    return [*shapes, *([Text(axis.end, bottom + 2 * size + 10, title, "muted", "end", size)] if title else [])]


def draw_up(
    axis: Axis, left: float, right: float, text: Callable[[float], str] = plain, whole: bool = False
) -> list[Shape]:
    """Return grid lines and ticks of a vertical axis at `left`; `whole`: at whole figures alone."""
    shapes: list[Shape] = []
    for value in axis.ticks(max(3, int(abs(axis.end - axis.start) / 28))):
        if whole and value != int(value):
            continue
        at = axis.at(value)
        shapes += [Line(((left, at), (right, at)), "grid"), Text(left - 6, at + 4, text(value), "muted", "end")]
    return shapes


def room_of_ticks(axis: Axis, text: Callable[[float], str] = plain) -> float:
    """Return the pixels that the ticks of a vertical axis need to its left."""
    return max(text_width(text(value)) for value in axis.ticks(8)) + 12


def axis_data(across: Axis, up: Axis) -> dict[str, float]:
    """Return the ends of both axes in pixels and figures, for a script that moves a mark on the chart."""
    return {
        **{"x0": across.start, "x1": across.end, "h0": across.low, "h1": across.high, "hlog": float(across.is_log)},
        **{"y0": up.start, "y1": up.end, "u0": up.low, "u1": up.high, "ulog": float(up.is_log)},
    }


def draw_moments(
    moments: Sequence[tuple[float, str, str]], axis: Axis, bottom: float, width: float, below: int = 0
) -> list[Shape]:
    """Return lines at figures of a horizontal axis, each named in a row of its own above the chart.

    `moments` are figure, name and role, `below` is the number of rows of other names above. Names are drawn last and
    on paper, so that no line crosses them.
    """
    lines: list[Shape] = []
    names: list[Shape] = []
    for index, (value, name, role) in enumerate(sorted(moments), start=below):
        at, base = axis.at(value), 14.0 + 18.0 * index
        lines.append(Line(((at, base - 10), (at, bottom)), role, 1.5, dashed=True))
        is_left = at + 8 + text_width(name) > width
        text = Text(at - 5 if is_left else at + 5, base, name, role, "end" if is_left else "start")
        left, top, right, under = text.box
        names += [Rect(left, top, right - left, under - top, "paper"), text]
    return [*lines, *names]


def draw_swatch(role: str, x: float, y: float) -> list[Shape]:
    """Return a square of a colour next to the base line of its name."""
    return [Rect(x, y - 10, 11, 11, role)]


def draw_legend(
    entries: Sequence[tuple[str, str, str]], top: float, width: float,
    swatch: Callable[[str, float, float], list[Shape]] = draw_swatch,
) -> tuple[list[Shape], float]:  # fmt: skip
    """Return swatches with names and figures, as many in a line as fit, and the lower edge.

    `entries` are name, role and figure; `swatch` returns what stands before the name of a role.
    """
    shapes: list[Shape] = []
    x, y = 0.0, top + 12
    for name, role, figure in entries:
        words = clip(f"{name} {figure}".strip(), width - 20)
        long = text_width(words) + 18
        if x > 0 and x + long > width:
            x, y = 0.0, y + 20
        shapes += [*swatch(role, x, y), Text(x + 17, y, words)]
        x += long + 16
    return shapes, y + 8


Box = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels."""
NAME_PLACES: tuple[tuple[float, float, Literal["start", "end"]], ...] = (
    (8, -8, "start"),
    (8, 16, "start"),
    (-8, 16, "end"),
    (8, -24, "start"),
    (-8, -8, "end"),
    (8, -40, "start"),
)
"""Where a name may stand next to its dot, tried in this order: up and right is usually free."""


@dataclass(frozen=True)
class Name:
    """A name of what is drawn at some places, in pixels: it may stand at any of them."""

    text: str
    role: str
    places: tuple[tuple[float, float], ...]


def place_names(
    names: Sequence[Name], taken: Sequence[tuple[float, float]], area: Box, boxes: Sequence[Box] = ()
) -> tuple[list[Text], list[Name]]:
    """Return the names at free places, the first names first, and those for which there is none.

    Parameters
    ----------
    taken
        Places along what is drawn, which no name may cover.
    area
        What names may not leave.
    boxes
        Boxes of texts and marks, which no name may cover.
    """
    used, shown, left_out = list(boxes), list[Text](), list[Name]()
    for name in names:
        label = clip(name.text, 0.6 * (area[2] - area[0]))
        for (x, y), (dx, dy, anchor) in itertools.product(name.places, NAME_PLACES):
            text = Text(x + dx, y + dy, label, name.role, anchor)
            left, top, right, bottom = text.box
            inside = left >= area[0] and right <= area[2] and top >= area[1] - 8 and bottom <= area[3]
            is_free = not any(left - 3 < px < right + 3 and top - 3 < py < bottom + 3 for px, py in taken)
            if inside and is_free and not any(overlaps(text.box, box, 2.0) for box in used):
                used.append(text.box)
                shown.append(text)
                break
        else:
            left_out.append(name)
    return shown, left_out


def along(line: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield places along a line, so close that no name fits between them."""
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        steps = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) / 8))
        yield from ((x0 + (x1 - x0) * k / steps, y0 + (y1 - y0) * k / steps) for k in range(steps + 1))
