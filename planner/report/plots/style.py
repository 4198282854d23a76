"""The style of every picture, and pictures written to files; the only module that imports matplotlib."""

from __future__ import annotations

import html
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
    """Return the suffix of a picture; ScenarioError names the supported ones."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        what = f"{suffix or 'no suffix'} is not a supported picture format"
        raise ScenarioError([Fault(str(path), 0, "", what, f"use one of {', '.join(SUFFIXES)}")])
    return suffix


@contextmanager
def open_figure(width: float = 8.0, height: float = 4.8, rows: int = 1) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes in the common style; width and height in inches."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows)


def tick(value: float, _: Any = None) -> str:
    """Return the label of a tick, never with an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.6g}"


def draw_title(figure: Any, text: str) -> None:
    """Draw the title of a picture from its left edge, on as many lines as needed."""
    letters = int(figure.get_figwidth() * LETTERS_PER_INCH)
    figure.suptitle(textwrap.fill(text, letters), x=0.01, ha="left", fontsize=11, color=TEXT_COLOR)


def write_picture(figure: Any, path: str | Path, caption: Sequence[str] = ()) -> None:
    """Write the figure as PNG, SVG or HTML, by the suffix of `path`.

    `caption` are the lines of the text, which an HTML page shows below the picture.
    Raises ScenarioError for another suffix, OSError if the file cannot be written.
    """
    suffix = checked_suffix(path)
    if suffix == ".html":
        content = page(svg_of(figure), caption).encode("utf-8")
    else:
        content = _render(figure, suffix.removeprefix("."))
    write_bytes_atomically(path, content)


def svg_of(figure: Any) -> str:
    """Return the figure as an `<svg>` element of a page."""
    text = _render(figure, "svg").decode("utf-8")
    return text[text.index("<svg") :]


def page(svg: str, caption: Sequence[str]) -> str:
    """Return a self-contained HTML page: the picture, and the text below it."""
    text = html.escape("\n".join(caption))
    title = html.escape(caption[0]) if caption else "planner"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        "<style>body{max-width:60rem;margin:2rem auto;padding:0 1rem;font-family:sans-serif}"
        "svg{max-width:100%;height:auto}pre{overflow-x:auto}</style></head>\n"
        f"<body>{svg}\n<pre>{text}</pre></body></html>\n"
    )


def _render(figure: Any, kind: str) -> bytes:
    stream = io.BytesIO()
    # Without a date equal figures give equal bytes.
    figure.savefig(stream, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return stream.getvalue()
