"""Charts as lists of shapes: places in pixels, names that never cover each other, SVG in which every text is text."""

from __future__ import annotations

import itertools
import math
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.drawing.charts import (
    DOT_RADIUS,
    Breakpoint,
    Lane,
    Moment,
    Ranged,
    Stack,
    Stretch,
    Swing,
    curve,
    histogram,
    lanes,
    ranged,
    stacked,
    swings,
)
from planner.drawing.scene import (
    PALETTE,
    SERIES,
    Axis,
    Caption,
    Dot,
    Line,
    Rect,
    Scene,
    Text,
    clip,
    draw_moments,
    fit_axis,
    framed,
    overlaps,
    roles_of,
    text_width,
    to_svg,
    wrap,
)

HOSTILE = "</script><script>alert(1)</script>\"'&<b>"
CAPTION = Caption("title", "what it shows", "hours")
WIDTHS = (840.0, 320.0)
SPACE = "{http://www.w3.org/2000/svg}"


def test_an_axis_places_figures() -> None:
    """From 0 to 10 on 100 to 300 pixels, 5 is at 200; on a logarithmic axis from 1 to 100, 10 is in the middle."""
    assert Axis(0, 10, 100, 300).at(5) == 200
    assert Axis(1, 100, 0, 200, is_log=True).at(10) == pytest.approx(100)
    assert fit_axis(1, 100, 0, 1).is_log and not fit_axis(1, 7, 0, 1).is_log
    assert Axis(0, 10, 0, 200).ticks(6) == [0, 2, 4, 6, 8, 10]
    assert Axis(1, 60, 0, 200, is_log=True).ticks(8) == [1, 2, 5, 10, 20, 50]


@given(st.floats(0.01, 1e5), st.floats(1.001, 1e5), st.integers(2, 12))
def test_ticks_lie_on_the_axis(low: float, ratio: float, most: int) -> None:
    """Every tick is between the ends, and there are few of them."""
    axis = fit_axis(low, low * ratio, 0, 500)
    ticks = axis.ticks(most)
    assert all(axis.low * (1 - 1e-9) <= tick <= axis.high * (1 + 1e-9) for tick in ticks)
    assert len(ticks) <= most + 2


def test_a_name_has_one_colour_on_every_picture() -> None:
    """Alone, first or last: a GPU keeps its role, and no two of a picture share one while there are enough."""
    common = ["H100-80GB", "A100-80GB", "H200", "B200", "RTX4090", "A5000", "L40S", "RTX3090"]
    alone = {name: roles_of([name])[0] for name in common}
    assert len(set(alone.values())) == len(common)
    assert roles_of(common[::-1]) == tuple(alone[name] for name in common[::-1])
    assert len(set(roles_of(["A5000", "A5000", "A4500", "A4000"]))) == 4


def test_text_is_measured_and_cut() -> None:
    """A letter of 12 pixels takes 7.44; a text that is too long ends in an ellipsis, or goes on in a second line."""
    assert text_width("abcd", 12) == pytest.approx(4 * 12 * 0.62)
    assert clip("eight letters", 8 * 12 * 0.62) == "eight l…"
    assert wrap("one two three", 8 * 12 * 0.62) == ["one two", "three"]


def small_charts(width: float, name: str = "name") -> list[Scene]:
    """Each chart with a few figures and the given name wherever a name is."""
    caption = Caption(name, name, name)
    points = [Breakpoint(1 + 2 * n, 50 / (n + 1), f"{name} {n}", name, n == 1, n == 2) for n in range(9)]
    runs = [(point.hours, point.usd, point.hours + 1, point.usd * 0.9) for point in points]
    row = Lane(name, (Stretch(0, 3, "c0", name, name), Stretch(3, 4, "soft", name)), (3.5,), (Stretch(0, 4, "soft"),))
    return [
        curve(points, runs, 9.5, caption, width),
        stacked([Stack(name, ((name, 3.0), ("b", 1.0)), name, 5.0)], caption, str, name, width),
        ranged([Ranged(name, 3.0, name, 2.0, 5.0, True), Ranged(name, 4.0, name)], caption, width),
        swings([Swing(name, -1.0, 2.0, name), Swing(name, None, 1.0, name)], caption, (name, name), str, width),
        histogram((0, 1, 2), (3, 4), [(1.5, name, "accent")], caption, str, width),
        lanes([row, row], [Moment(2.0, name), Moment(3.9, name)], [(name, "c0")], caption, width),
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_names_are_text_in_every_chart(width: float) -> None:
    """A hostile name ends no element and starts no script: the SVG has the shapes of a harmless one."""
    for bad, good in zip(small_charts(width, HOSTILE), small_charts(width, "x" * len(HOSTILE)), strict=True):
        trees = [ElementTree.fromstring(to_svg(scene, "a")) for scene in (bad, good)]
        tags = [[element.tag for element in tree.iter()] for tree in trees]
        assert f"{SPACE}script" not in tags[0] and f"{SPACE}b" not in tags[0]
        assert tags[0] == tags[1]
        assert trees[0][0].text == HOSTILE


@pytest.mark.parametrize("width", WIDTHS)
def test_names_of_a_curve_are_clear_of_the_deadline_and_of_the_markers(width: float) -> None:
    """Wherever the plan and the deadline are next to the point of best value, whose name is long."""
    for step in range(60):
        plan, deadline = (2.0 + 0.05 * step, 20.0 + 0.3 * step), 2.0 + 0.11 * step
        points = [Breakpoint(1.0, 50.0, "first"), Breakpoint(2.0, 20.0, "best value: 8 x B200 at aws", "", False, True)]
        points += [Breakpoint(*plan, "your plan", is_plan=True), Breakpoint(9.0, 15.0, "last")]
        scene = curve(points, [], deadline, Caption("a", "b", "c"), width)
        names = [one for one in scene.shapes if isinstance(one, Text) and one.text in {each.label for each in points}]
        (line,) = (one for one in scene.shapes if isinstance(one, Line) and one.dashed and one.stroke == "accent")
        markers = [one for one in scene.shapes if isinstance(one, Dot) and one.radius > DOT_RADIUS]
        for left, top, right, bottom in (name.box for name in names):
            assert not left < line.points[0][0] < right
            for dot in markers:
                assert right < dot.x - 5 or left > dot.x + 5 or bottom < dot.y - 5 or top > dot.y + 5


@pytest.mark.parametrize("width", WIDTHS)
def test_every_chart_stays_in_its_width(width: float) -> None:
    """No shape and no text of an ordinary length leaves the picture."""
    for scene in small_charts(width):
        for shape in scene.shapes:
            if isinstance(shape, Rect):
                assert shape.x >= -1 and shape.x + shape.width <= width + 1
            elif isinstance(shape, Text):
                left, _, right, bottom = shape.box
                assert left >= -1 and right <= width + 8 and bottom <= scene.height + 1, shape


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0.05, 500), st.floats(0.5, 5000)), min_size=1, max_size=12, unique_by=lambda p: p[0]),
    st.sampled_from(WIDTHS),
)
def test_names_of_breakpoints_never_cover_each_other(places: list[tuple[float, float]], width: float) -> None:
    """However the breakpoints lie, each name has its own place, inside the picture, and the marked one comes first."""
    points = [Breakpoint(h, u, f"{n} x H100-80GB, LoRA", is_marked=n == 0) for n, (h, u) in enumerate(sorted(places))]
    runs = [(point.hours, point.usd, point.hours, point.usd) for point in points]
    scene = curve(points, runs, None, CAPTION, width)
    names = [text for text in scene.texts if "H100" in text.text]
    assert not any(overlaps(one.box, other.box) for one, other in itertools.combinations(names, 2))
    assert all(text.box[0] >= 0 and text.box[2] <= width for text in names)


def test_parts_of_a_bar_are_as_long_as_their_figures() -> None:
    """A bar of 3 and 1 is drawn three to one, with a pixel between; the limit is marked at its figure."""
    scene = stacked([Stack("job", (("a", 3.0), ("b", 1.0)), "4", 8.0)], CAPTION, str, "limit", 840)
    bars = [shape for shape in scene.shapes if isinstance(shape, Rect) and shape.note]
    assert [bar.note for bar in bars] == ["a: 3.0", "b: 1.0"]
    assert (bars[0].width + 1) / (bars[1].width + 1) == pytest.approx(3)
    mark = next(shape for shape in scene.shapes if isinstance(shape, Line))
    assert mark.points[0][0] - bars[0].x == pytest.approx(2 * (bars[0].width + bars[1].width + 2))


def test_names_of_moments_stand_in_rows_of_their_own() -> None:
    """Two moments close to each other have names above each other, and paper behind each."""
    shapes = draw_moments([(1.0, "one", "ink"), (1.1, "two", "ink")], Axis(0, 10, 0, 500), 100, 500)
    names = [shape for shape in shapes if isinstance(shape, Text)]
    assert not overlaps(names[0].box, names[1].box)
    assert [shape.fill for shape in shapes if isinstance(shape, Rect)] == ["paper", "paper"]


def test_a_figure_of_its_own_has_its_title_and_a_margin() -> None:
    """Every shape moves by 16 to the right and 46 down, below the title."""
    scene = Scene(100, 50, "title", "", (Rect(0, 0, 10, 10, "c0"), Line(((0, 0), (5, 5)))))
    title, bar, line = framed(scene).shapes
    assert isinstance(title, Text) and title.text == "title"
    assert isinstance(bar, Rect) and (bar.x, bar.y) == (16, 46)
    assert isinstance(line, Line) and line.points == ((16, 46), (21, 51))
    assert framed(scene).height == 50 + 2 * 16 + 30


def _luminance(color: str) -> float:
    """Relative luminance of WCAG 2.2."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


SEEN_AS = {
    # linear RGB as seen without red or without green cones (Machado, Oliveira, Fernandes 2009, severity 1)
    "all cones": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}


def _lab(color: str, seen: tuple[tuple[float, ...], ...]) -> list[float]:
    """Return a colour in CIE L*a*b* (D65) as a reader sees it."""
    parts = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    shown = [min(1.0, max(0.0, sum(w * part for w, part in zip(row, linear, strict=True)))) for row in seen]
    to_xyz = ((0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0177, 0.1095, 0.8729))
    xyz = [sum(w * part for w, part in zip(row, shown, strict=True)) for row in to_xyz]
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


@pytest.mark.parametrize("seen", SEEN_AS)
@pytest.mark.parametrize(("mode", "least"), [(0, 12.0), (1, 8.0)], ids=["light", "dark"])
def test_series_are_distinct_for_colour_blind_readers(mode: int, least: float, seen: str) -> None:
    """Any two of the eight differ by several times what an eye can just see (2.3), on paper more than on a screen.

    Worked example: white has a lightness of 100.
    """
    assert _lab("#ffffff", SEEN_AS["all cones"]) == pytest.approx([100, 0, 0], abs=0.1)
    colors = [_lab(PALETTE[role][mode], SEEN_AS[seen]) for role in SERIES]
    assert min(math.dist(one, other) for one, other in itertools.combinations(colors, 2)) >= least


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_can_be_told_from_the_paper(mode: int) -> None:
    """Text has a contrast of 4.5 (WCAG AA), series one of at least 2.8, and names on bars 4.5.

    Worked example: black on white is 21.
    """
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    paper = PALETTE["paper"][mode]
    assert all(contrast(PALETTE[role][mode], paper) >= 4.5 for role in ("ink", "muted", "accent", "c0"))
    assert all(contrast(PALETTE[role][mode], paper) >= 2.8 for role in SERIES)
    assert all(contrast(PALETTE[role][mode], PALETTE["onfill"][mode]) >= 4.5 for role in ("c0", "c1", "c2", "c3"))
