"""The style of every picture, and pictures written to files; the only module that imports matplotlib."""

from __future__ import annotations

import importlib.util
import io
import re
import textwrap
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.documents.files import write_bytes_atomically
from planner.errors import Fault, ScenarioError, escaped
from planner.report import format as words
from planner.results.report.scene import PALETTE, SERIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SUFFIXES = (".png", ".svg", ".html")
TEXT_COLOR, ACCENT_COLOR, MUTED_COLOR = PALETTE["ink"][0], PALETTE["accent"][0], "#8c939b"
COLORS = tuple(PALETTE[role][0] for role in SERIES)
"""Colours of series, those of the report: they differ in lightness too, for colour-blind readers and grey printers."""
PALE_COLORS = COLORS[4:7]
"""Those on which white letters are hard to read."""

PICTURE_WIDTH = 6.0
"""Inches. At 80 mm, the width of a column of a journal, a note of `NOTE_SIZE` is still 5 points high."""
FONT_SIZE, NOTE_SIZE = 11, 10
"""Points of axis labels and titles, and of everything else that is written in a picture."""

COST_LABEL = "expected cost"
MONTH_LABEL = "dollars a month"

LETTERS_PER_INCH = 11
"""Letters of a title per inch of width."""

STYLE: dict[Any, Any] = {
    "font.size": NOTE_SIZE,
    "axes.labelsize": FONT_SIZE,
    "axes.titlesize": FONT_SIZE,
    "legend.fontsize": NOTE_SIZE,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED_COLOR,
    "axes.labelcolor": TEXT_COLOR,
    "axes.titlelocation": "left",
    "xtick.color": TEXT_COLOR,
    "ytick.color": TEXT_COLOR,
    "svg.hashsalt": "planner",  # equal figures give equal files
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign is no formula
    "figure.dpi": 200,
}


def checked_suffix(path: str | Path) -> str:
    """Return the suffix of a picture; ScenarioError names the supported ones, or the extra that draws them."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        what = f"{suffix or 'no suffix'} is not a supported picture format"
        raise ScenarioError([Fault(str(path), 0, "", what, f"use one of {', '.join(SUFFIXES)}")])
    if importlib.util.find_spec("matplotlib") is None:
        fix = "install the extra `plot`: pip install '.[plot]'"
        raise ScenarioError([Fault(str(path), 0, "", "cannot be drawn: matplotlib is not installed", fix)])
    return suffix


@contextmanager
def open_picture(
    path: str | Path | io.BytesIO,
    caption: Sequence[str] = (),
    width: float = PICTURE_WIDTH,
    height: float = 4.0,
    rows: int = 1,
    title: str = "",
) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes in the common style; write the figure as PNG, SVG or HTML when the block ends.

    Raises ScenarioError for another suffix, OSError if the file cannot be written.

    Parameters
    ----------
    path
        The file, whose suffix selects the format, or a stream that receives SVG.
    caption
        Lines of the text, which an HTML page shows below the picture.
    width, height
        Inches.
    rows
        Number of axes, one below the other.
    title
        Drawn on as many lines as needed; by default the first line of the caption.
    """
    suffix = checked_suffix("picture.svg" if isinstance(path, io.BytesIO) else path)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        title = title or "".join(caption[:1])
        # A figure and its unit stay on one line.
        kept = re.sub(r"(?<=\d) (?=(?:h|min|s)\b|%)", "\N{NO-BREAK SPACE}", title)
        lines = textwrap.fill(kept, int(width * LETTERS_PER_INCH)).replace("\N{NO-BREAK SPACE}", " ")
        if lines:
            figure.suptitle(lines, x=0.01, ha="left", fontsize=FONT_SIZE, color=TEXT_COLOR)
        yield figure, figure.subplots(rows)
        kind = "png" if suffix == ".png" else "svg"
        stream = io.BytesIO()
        # Without a date equal figures give equal bytes.
        figure.savefig(stream, format=kind, metadata={"Title": title, **({"Date": None} if kind == "svg" else {})})
    content = stream.getvalue()
    if isinstance(path, io.BytesIO):
        path.write(content)
        return
    write_bytes_atomically(path, _page(content.decode("utf-8"), caption) if suffix == ".html" else content)


def letters_on(color: str) -> str:
    """Return the colour of letters on a bar of a colour."""
    return TEXT_COLOR if color in PALE_COLORS else "white"


def tick(value: float, _: Any = None) -> str:
    """Return the label of a tick, never with an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.6g}"


def tick_usd(value: float, _: Any = None) -> str:
    """Return the label of a tick in dollars."""
    return f"{'-' if value < 0 else ''}${tick(abs(value))}"


def finish_label(confidence: float | None) -> str:
    """Return the label of an axis of hours that hold with a probability."""
    sure = f" ({words.probability_text(confidence)})" if confidence is not None else ""
    return f"ends by{sure}, hours"


def _page(svg: str, caption: Sequence[str]) -> bytes:
    """Return a self-contained HTML page: the picture, and the text below it."""
    text = escaped("\n".join(caption))
    title = escaped(caption[0]) if caption else "planner"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        "<style>body{max-width:60rem;margin:2rem auto;padding:0 1rem;font-family:sans-serif}"
        "svg{max-width:100%;height:auto}pre{overflow-x:auto}</style></head>\n"
        f"<body>{svg[svg.index('<svg') :]}\n<pre>{text}</pre></body></html>\n"
    ).encode()
