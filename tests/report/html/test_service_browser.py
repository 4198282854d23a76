"""The report of a service in a real browser, opened from disk without network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browser import axe_findings, chromium, screens, unreadable, watch
from tests.helpers.service_reports import service_page

pytestmark = pytest.mark.ecosystem


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from chromium()


@pytest.fixture
def opened(browser: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return the page of the small service; what the console says and what is requested must be nothing."""
    path = tmp_path / "report.html"
    path.write_text(service_page(), encoding="utf-8")
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


@pytest.mark.parametrize(
    "opened", screens(360, 1000), indirect=True, ids=["narrow", "narrow-dark", "wide", "wide-dark"]
)
def test_it_fits_the_screen_and_can_be_read(opened: Any) -> None:
    """Nothing is wider than the screen, no text of a picture covers another one, none is cut off."""
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert unreadable(opened) == []
    bars = opened.locator("#simulation svg:visible text").all_text_contents()
    assert [text for text in bars if text.endswith(" %)")] and not [text for text in bars if text.endswith("…")]


@pytest.mark.parametrize(
    "opened", [{"color_scheme": mode, "bypass_csp": True} for mode in ("light", "dark")], indirect=True
)
def test_axe_finds_nothing(opened: Any) -> None:
    """axe-core has no finding, with every table open."""
    opened.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert axe_findings(opened) == []
