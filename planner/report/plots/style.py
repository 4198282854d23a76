"""The door to matplotlib: one style for every picture, and pictures into files, whole or not at all."""

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
"""Dark enough for white paper, told apart in grey by the line styles of `STYLES`."""
LETTERS_PER_INCH = 11
"""What a line of a title holds."""

STYLES = ("-", "--", "-.", ":")
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
    "svg.hashsalt": "planner",  # the same figures give the same file
    "svg.fonttype": "none",
    "text.parse_math": False,  # dollars are money
    "figure.dpi": 120,
}


def checked_suffix(path: str | Path) -> str:
    """The kind of picture that a file name asks for; ScenarioError names the kinds there are."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        what = f"{suffix or 'no ending'} is no kind of picture"
        raise ScenarioError([Fault(str(path), 0, "", what, f"end the name in {', '.join(SUFFIXES)}")])
    return suffix


@contextmanager
def open_figure(width: float = 8.0, height: float = 4.8, rows: int = 1) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes in the house's style, in inches; closed at the end, without any window."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows)


def tick(value: float, _: Any = None) -> str:
    """A figure at an axis, never with an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.6g}"


def draw_title(figure: Any, text: str) -> None:
    """The title of a picture, from its left edge on, on as many lines as its width asks for."""
    letters = int(figure.get_figwidth() * LETTERS_PER_INCH)
    figure.suptitle(textwrap.fill(text, letters), x=0.01, ha="left", fontsize=11, color=TEXT_COLOR)


def write_picture(figure: Any, path: str | Path, caption: Sequence[str] = ()) -> None:
    """The figure as PNG, SVG or a page of HTML that holds it, by the ending of `path`.

    `caption` are the lines of the text answer; the page shows them under the picture.
    Raises ScenarioError for another ending, OSError where the file cannot be written.
    """
    suffix = checked_suffix(path)
    if suffix == ".html":
        content = page(svg_of(figure), caption).encode("utf-8")
    else:
        content = _render(figure, suffix.removeprefix("."))
    write_bytes_atomically(path, content)


def svg_of(figure: Any) -> str:
    """The figure as an `<svg>` element that can stand in a page."""
    text = _render(figure, "svg").decode("utf-8")
    return text[text.index("<svg") :]


def page(svg: str, caption: Sequence[str]) -> str:
    """A page of HTML without anything from elsewhere: the picture, and under it the text."""
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
    # Without a date the same figures give the same bytes.
    figure.savefig(stream, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return stream.getvalue()
