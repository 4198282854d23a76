"""The report in a real browser, opened from disk without network: Debian's Chromium through Playwright."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browser import axe_findings, chromium, screens, unreadable, watch
from tests.helpers.reports import HOSTILE, small_overview, small_page

HOURS_OF_SLIDER = """() => {
  const d = document.querySelector('#curve svg').dataset, s = within.value / 2000, a = +d.h0, b = +d.h1;
  return d.hlog === '1' ? a * (b / a) ** s : a + s * (b - a);
}"""
SCREENS = screens(360, 1000)
MOST_PAGES = 5

pytestmark = pytest.mark.ecosystem


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from chromium()


@pytest.fixture
def opened(browser: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return the page of the small scenario; what the console says and what is requested must be nothing."""
    path = tmp_path / "report.html"
    path.write_text(small_page(), encoding="utf-8")
    context = browser.new_context(offline=True, **getattr(request, "param", {}))
    page = context.new_page()
    said = watch(page)
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.goto(path.as_uri())
    yield page
    assert said == []
    assert asked == [path.as_uri()]
    context.close()


def least_cost(hours: float) -> float | None:
    """Return the least cost within hours by the frontier's own segments and points."""
    found = json.loads(small_overview().frontier.model_dump_json())  # type: ignore[union-attr]
    costs = [point["cost_usd"] for point in found["points"] if point["hours"] <= hours]
    for one in found["segments"]:
        begin, end = one["hours_from"], one["hours_to"]
        if begin <= hours and end > begin:
            share = (min(hours, end) - begin) / (end - begin)
            costs.append(one["cost_from_usd"] + share * (one["cost_to_usd"] - one["cost_from_usd"]))
    return min(costs, default=None)


def shown(page: Any) -> tuple[float, float]:
    """Return the cost of the words below the slider, and the sum of the bill."""
    said = page.inner_text("#said")
    rows = page.locator("#picked-bill tr").all_inner_texts()
    amounts = [float(re.search(r"\$([\d,.]+)", row)[1].replace(",", "")) for row in rows]  # type: ignore[index]
    return float(re.search(r": \$([\d,.]+)", said)[1].replace(",", "")), sum(amounts[:-1])  # type: ignore[index]


def test_the_slider_agrees_with_the_frontier(opened: Any) -> None:
    """At 60 places along the slider and at every breakpoint the cost is that of the frontier, to the cent."""
    found = small_overview().frontier
    assert found is not None
    for place in range(0, 2001, 34):
        opened.evaluate("(v) => { const s = within; s.value = v; s.dispatchEvent(new Event('input')); }", place)
        hours = opened.evaluate(HOURS_OF_SLIDER)
        expected = least_cost(hours)
        if expected is None:
            assert "no plan ends that early" in opened.inner_text("#said")
        else:
            assert shown(opened)[0] == pytest.approx(expected, abs=0.0051), hours
    for point in found.points:
        opened.fill("#hours", str(point.hours))
        cost, bill = shown(opened)
        assert cost == pytest.approx(point.cost_usd, abs=0.0051)
        assert bill == pytest.approx(point.cost_usd, abs=0.04)


def test_it_prints_on_five_pages(opened: Any) -> None:
    """Tables that are not open are not printed, and a heading stays with what follows it."""
    printed = opened.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) <= MOST_PAGES
    opened.emulate_media(media="print")
    assert opened.evaluate("getComputedStyle(document.querySelector('h2')).breakAfter") == "avoid"


def test_names_start_no_script(opened: Any) -> None:
    """The hostile name is shown as it is, in the heading, in the table of the slider and in the tables."""
    assert opened.inner_text("h1") == HOSTILE
    assert opened.evaluate("document.scripts.length") == 2
    assert opened.locator("b").count() == 0


def test_everything_works_by_keyboard(opened: Any) -> None:
    """Tab reaches slider, field and buttons; arrow keys move the slider; each focus can be seen."""
    reached = []
    for _ in range(60):
        opened.keyboard.press("Tab")
        reached.append(opened.evaluate("document.activeElement.id"))
        if reached[-1] == "within":
            before = opened.inner_text("#said")
            for _ in range(300):
                opened.keyboard.press("ArrowLeft")
            assert opened.inner_text("#said") != before
            assert "$" in opened.get_attribute("#within", "aria-valuetext")
        if reached[-1] in ("earlier", "later"):
            place = "document.getElementById('said').dataset.hours"
            before = opened.evaluate(place)
            opened.keyboard.press("Enter")
            assert opened.evaluate(place) != before
            assert opened.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert {"within", "hours", "earlier", "later"} <= set(reached)


def test_a_point_is_selected_by_a_click(opened: Any) -> None:
    """Moving over the curve names a breakpoint, a click selects it."""
    curve = opened.locator("#curve .wide svg")
    box = curve.bounding_box()
    curve.hover(position={"x": box["width"] / 2, "y": box["height"] / 2})
    named = opened.inner_text("#hover")
    curve.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    assert named.split(",")[0] in opened.inner_text("#said")


@pytest.mark.parametrize("opened", SCREENS, indirect=True, ids=["narrow", "narrow-dark", "wide", "wide-dark"])
def test_it_fits_the_screen_and_can_be_read(opened: Any) -> None:
    """Nothing is wider than the screen, no text of a picture covers another one, none is smaller than 9 pixels."""
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert unreadable(opened) == []


@pytest.mark.parametrize(
    "opened", [{"color_scheme": mode, "bypass_csp": True} for mode in ("light", "dark")], indirect=True
)
def test_axe_finds_nothing(opened: Any) -> None:
    """axe-core has no finding."""
    assert axe_findings(opened) == []
