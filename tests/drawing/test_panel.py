"""Panels: lines, steps and areas at the places of their figures, marks, names, and several scenes as one picture."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.drawing.charts import Branch, Breakpoint, Labels, Trace, corners, curve, panel
from planner.drawing.scene import (
    HEAT,
    PALETTE,
    SERIES,
    Axis,
    Caption,
    Dot,
    Line,
    Name,
    Rect,
    Scene,
    Text,
    draw_across,
    framed,
    headed,
    joined,
    letters_on,
    overlaps,
    place_names,
    text_width,
    to_svg,
    wrap,
)
from tests.drawing.test_charts import contrast

ACROSS, UP = Axis(0, 10, 50, 490), Axis(0, 4, 200, 20)
CAPTION = Caption("title", "what it shows", "hours")


def drawn(*traces: Trace, labels: Labels | None = None) -> Scene:
    return panel(traces, ACROSS, UP, labels or Labels("GPUs"), CAPTION, 502)


def test_a_figure_holds_up_to_the_next_point_or_from_the_one_before() -> None:
    """Steps have a corner between two points; straight lines have none."""
    points = ((0.0, 1.0), (5.0, 3.0))
    assert corners(points, "after") == [(0, 1), (5, 1), (5, 3)]
    assert corners(points, "before") == [(0, 1), (0, 3), (5, 3)]
    assert corners(points, "") == list(points)
    assert corners(points[:1], "after") == [(0, 1)]


def test_lines_areas_and_marks_are_at_their_figures() -> None:
    """5 of 10 hours and 2 of 4 GPUs are in the middle; the area below a step reaches from it to zero."""
    scene = drawn(
        Trace(((0.0, 2.0), (5.0, 4.0), (10.0, 0.0)), "soft", width=0.0, steps="after", is_area=True),
        Trace(((0.0, 2.0), (5.0, 4.0), (10.0, 0.0)), "ink", steps="after", mark="dot"),
        Trace(((5.0, 2.0),), "accent", "asked", width=0.0, mark="ring"),
        Trace(((5.0, 0.0),), "accent", "no plan", width=0.0, mark="cross"),
    )
    areas = [shape for shape in scene.shapes if isinstance(shape, Rect) and shape.fill == "soft"]
    assert [(one.x, one.y, one.width, one.height) for one in areas] == [(50, 110, 220, 90), (270, 20, 220, 180)]
    dots = [(one.x, one.y, one.fill) for one in scene.shapes if isinstance(one, Dot)]
    assert dots[:4] == [(50, 110, "ink"), (270, 20, "ink"), (490, 200, "ink"), (270, 110, "none")]
    assert dots[4:] == [(6, pytest.approx(dots[4][1]), "none")]  # in the legend
    assert {"asked", "no plan"} <= {text.text for text in scene.texts}
    crossing = [one for one in scene.shapes if isinstance(one, Line) and one.stroke == "accent"]
    assert len(crossing) == 4  # a cross, and the one in the legend


def test_ticks_at_given_figures_leave_out_those_without_room() -> None:
    """Grid lines at each; labels never stand on one another, in whatever order the figures come."""
    scene = drawn(labels=Labels("", at=(9.0, 5.0, 5.1, 0.0)))
    labels = [text for text in scene.texts if text.anchor == "middle"]
    assert [text.text for text in labels] == ["0", "5", "9"]
    assert not any(overlaps(one.box, other.box) for one, other in itertools.combinations(labels, 2))


def test_whole_dollars_have_no_cents_at_an_axis() -> None:
    """As soon as one tick has cents, all have them."""
    for high, labels in ((4.0, ["$0", "$1", "$2", "$3", "$4"]), (1.0, ["$0.00", "$0.50", "$1.00"])):
        shapes = draw_across(Axis(0, high, 0, 300 if high > 1 else 200), 0, 10, "", lambda usd: f"${usd:,.2f}")
        assert [shape.text for shape in shapes if isinstance(shape, Text)] == labels


@given(st.floats(0.01, 1e4), st.floats(1.01, 400), st.integers(2, 12))
def test_an_axis_has_two_ticks_or_more(low: float, ratio: float, most: int) -> None:
    """A figure can be read off between two others only; a single tick is none."""
    ticks = Axis(low, low * ratio, 0, 500).ticks(most)
    assert 2 <= len(ticks) <= most + 2
    assert all(low * (1 - 1e-9) <= tick <= low * ratio * (1 + 1e-9) for tick in ticks)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.floats(60, 480), st.floats(30, 190)), min_size=1, max_size=12))
def test_a_name_stands_at_a_free_place_or_is_left_out(places: list[tuple[float, float]]) -> None:
    """No name covers a point or another name, and none is lost."""
    names = [Name(f"name {index}", "ink", (place,)) for index, place in enumerate(places)]
    shown, left_out = place_names(names, places, (50, 20, 490, 200))
    assert {text.text for text in shown} | {name.text for name in left_out} == {name.text for name in names}
    assert not any(overlaps(one.box, other.box) for one, other in itertools.combinations(shown, 2))
    for left, top, right, bottom in (text.box for text in shown):
        assert not any(left < x < right and top < y < bottom for x, y in places)


def test_curves_are_named_at_a_breakpoint_or_in_the_legend() -> None:
    """Two equal curves: one name finds a place at the line, the frontier and what lies behind are in the legend."""
    points = tuple(Breakpoint(hours, usd) for hours, usd in ((1.0, 9.0), (2.0, 5.0), (4.0, 4.0)))
    runs = tuple((one.hours, one.usd, one.hours, one.usd) for one in points)
    names = ("LoRA", "QLoRA")
    branches = [Branch(name, role, points, runs) for name, role in zip(names, SERIES, strict=False)]
    behind = [Branch("2 others", "c6", points, runs, 0.7, has_dots=False)]
    main = [Breakpoint(one.hours, one.usd, is_marked=one is points[1]) for one in points]
    scene = curve(main, runs, None, CAPTION, 510, branches, behind)
    shown = {text.text for text in scene.texts}
    assert {*names, "2 others", "frontier of all allowed"} <= shown
    rings = [shape for shape in scene.shapes if isinstance(shape, Dot) and shape.note == "best value"]
    assert len(rings) == 1  # those of the curves would stand on one another
    assert scene.height > curve(main, runs, None, CAPTION, 510).height


def test_scenes_are_joined_below_and_next_to_each_other() -> None:
    """A row is as high as its highest scene; the picture is as wide as its widest row."""
    one = Scene(100, 50, "one", "", (Rect(0, 0, 10, 10, "c0"),))
    two = Scene(60, 80, "two", "", (Rect(0, 0, 10, 10, "c1"),))
    whole = joined([[one, two], [one]], "title", "words")
    assert (whole.width, whole.height) == (100 + 18 + 60, 80 + 18 + 50)
    assert [(shape.x, shape.y) for shape in whole.shapes if isinstance(shape, Rect)] == [(0, 0), (118, 0), (0, 98)]
    named = headed(one, "a heading")
    assert named.height == 50 + 22 and named.texts[0].text == "a heading"


def test_a_long_title_goes_on_in_lines_that_fit_and_splits_no_figure_from_its_unit() -> None:
    """Each line is within the picture, and the shapes move down by their height."""
    title = "spot-heavy: $15.02 on average over 2,000 markets, deadline met in 100 % of runs within 15.5 h of the start"
    scene = framed(Scene(300, 50, title, "", (Rect(0, 0, 10, 10, "c0"),)))
    lines = scene.texts
    assert len(lines) > 2 and " ".join(text.text for text in lines) == title
    assert all(text_width(text.text, text.size) <= 300 for text in lines)
    assert not any(text.text.endswith(("100", "15.5")) for text in lines)
    assert scene.shapes[-1].y == scene.height - 50 - 16  # type: ignore[union-attr]


def test_a_long_name_is_broken_at_its_hyphens() -> None:
    """Two names that differ at their ends stay apart."""
    room = 14 * 12 * 0.62
    assert wrap("llama-3.1-8b-instruct", room) == ["llama-3.1-8b-", "instruct"]
    assert wrap("plain words go on", room) == ["plain words go", "on"]


def test_stripes_have_a_pattern_of_their_own_in_each_picture() -> None:
    """The id of the pattern is that of the picture; without stripes there is none."""
    plain, striped = (Scene(9, 9, "t", "d", (Rect(0, 0, 5, 5, "c0", striped=on),)) for on in (False, True))
    assert "pattern" not in to_svg(plain, "a")
    for as_classes in (False, True):
        svg = to_svg(striped, "week", as_classes=as_classes)
        assert '<pattern id="week-stripes"' in svg and svg.count('fill="url(#week-stripes)"') == 1


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_letters_can_be_read_on_every_colour(mode: int) -> None:
    """On each colour of a series and of a scale, in the light and in the dark: a contrast of 4 or more."""
    low = {role: contrast(PALETTE[role][mode], PALETTE[letters_on(role)][mode]) for role in (*SERIES, *HEAT, "soft")}
    assert min(low.values()) >= 4.0, low
    scale = [contrast(PALETTE[role][mode], "#ffffff") for role in HEAT]
    assert scale == sorted(scale, reverse=mode == 1)  # more is darker on paper, and lighter in the dark
