"""Lists of ticks on the page, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browser import chromium, watch
from tests.helpers.pages import CALM, served

pytestmark = pytest.mark.ecosystem


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("fastapi", reason="needs the extra web")
    yield from chromium()


def test_no_tick_is_refused_at_its_list_until_one_is_ticked(browser: Any, tmp_path: Path) -> None:
    """`None` means no provider and not all; the plan stays, a reload too, and one tick gives the plan of that one."""
    (tmp_path / "s.yaml").write_text(json.dumps(CALM), encoding="utf-8")
    with served("s.yaml", cwd=tmp_path) as (address, _):
        page = browser.new_page()
        said = watch(page)
        page.goto(address)
        page.wait_for_selector("body:not(.stale)", timeout=60_000)
        page.select_option("#reference", label="before the last change")
        page.click("#field-providers")
        none = page.get_by_label("None of Providers")
        none.click()
        page.wait_for_selector("#field-providers-wrong:not([hidden])", timeout=20_000)
        assert "tick at least one" in page.inner_text("#field-providers-wrong")
        assert page.inner_text("#field-providers") == "Providers: 0 of 3"
        page.get_by_label("fast", exact=True).check()
        page.wait_for_selector("#field-providers-wrong", state="hidden", timeout=20_000)
        page.wait_for_selector("body:not(.stale)", timeout=20_000)
        assert '"fast"' in page.inner_text("#command")
        none.click()
        page.wait_for_selector("#field-providers-wrong:not([hidden])", timeout=20_000)
        page.reload()
        page.wait_for_selector("#field-providers-wrong:not([hidden])", timeout=20_000)
        assert page.inner_text("#field-providers") == "Providers: 0 of 3"
        page.close()
        assert said == []
