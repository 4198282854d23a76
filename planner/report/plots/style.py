"""The style of every picture, and pictures written to files; the only module that imports matplotlib."""

from __future__ import annotations

import html
import importlib.util
import io
import textwrap
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.documents.files import write_bytes_atomically
from planner.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SUFFIXES = (".png", ".svg", ".html")
TEXT_COLOR, MUTED_COLOR, ACCENT_COLOR = "#222222", "#9a9a9a", "#b3401f"
COLORS = ("#2f5d8a", "#b3401f", "#4a7d3c", "#8a6d2f", "#6b4a8a", "#2f8a83", "#8a2f5d", "#5d5d5d")
"""Colours of curves, dark enough for white paper."""

LETTERS_PER_INCH = 11
"""Letters of a title per inch of width."""

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED_COLOR,
    "axes.labelcolor": TEXT_COLOR,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "xtick.color": TEXT_COLOR,
    "ytick.color": TEXT_COLOR,
    "svg.hashsalt": "planner",  # equal figures give equal files
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar sign is no formula
    "figure.dpi": 120,
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
    path: str | Path,
    caption: Sequence[str] = (),
    width: float = 8.0,
    height: float = 4.8,
    rows: int = 1,
    title: str = "",
) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes in the common style; write the figure as PNG, SVG or HTML when the block ends.

    Raises ScenarioError for another suffix, OSError if the file cannot be written.

    Parameters
    ----------
    path
        The file; its suffix selects the format.
    caption
        Lines of the text, which an HTML page shows below the picture.
    width, height
        Inches.
    rows
        Number of axes, one below the other.
    title
        Drawn on as many lines as needed; by default the first line of the caption.
    """
    suffix = checked_suffix(path)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        lines = textwrap.fill(title or "".join(caption[:1]), int(width * LETTERS_PER_INCH))
        if lines:
            figure.suptitle(lines, x=0.01, ha="left", fontsize=11, color=TEXT_COLOR)
        yield figure, figure.subplots(rows)
        kind = "png" if suffix == ".png" else "svg"
        stream = io.BytesIO()
        # Without a date equal figures give equal bytes.
        figure.savefig(stream, format=kind, metadata={"Date": None} if kind == "svg" else None)
    content = stream.getvalue()
    write_bytes_atomically(path, _page(content.decode("utf-8"), caption) if suffix == ".html" else content)


def tick(value: float, _: Any = None) -> str:
    """Return the label of a tick, never with an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.6g}"


def _page(svg: str, caption: Sequence[str]) -> bytes:
    """Return a self-contained HTML page: the picture, and the text below it."""
    text = html.escape("\n".join(caption))
    title = html.escape(caption[0]) if caption else "planner"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        "<style>body{max-width:60rem;margin:2rem auto;padding:0 1rem;font-family:sans-serif}"
        "svg{max-width:100%;height:auto}pre{overflow-x:auto}</style></head>\n"
        f"<body>{svg[svg.index('<svg') :]}\n<pre>{text}</pre></body></html>\n"
    ).encode()
