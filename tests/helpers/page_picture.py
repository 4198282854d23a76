"""The picture of `planner app` in the documents: its page in Chromium, on frozen prices."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.helpers.browser import chromium
from tests.helpers.frozen_data import ROOT, frozen_scenarios
from tests.helpers.pages import served

PAGE_PICTURE = "docs/pictures/page.png"
MOST_BYTES = 240_000
SIZE = {"width": 1320, "height": 960}
GAP = 12
SETTLED = "body:not(.stale):not(.late)"


def draw_page() -> None:
    """Draw the page of the quickstart with a shorter deadline; skipped by `pytest.skip` where there is no Chromium."""
    path = frozen_scenarios()["quickstart"]
    with served(path.name, cwd=path.parent) as (address, _), contextlib.closing(chromium()) as browsers:
        page = next(browsers).new_page(viewport=SIZE, color_scheme="light")
        page.goto(address)
        page.wait_for_selector(SETTLED, timeout=120_000)
        page.fill("#field-deadline", "4h")
        page.press("#field-deadline", "Tab")
        page.wait_for_timeout(50)
        page.wait_for_selector(SETTLED, timeout=120_000)
        # How long this machine took is not part of the picture.
        page.evaluate("document.getElementById('state').textContent = document.activeElement.blur() || ''")
        page.evaluate("scrollTo(0, 0)")
        # Down to the end of the curve's card: no card is cut.
        end = page.evaluate("document.getElementById('cost-time').getBoundingClientRect().bottom")
        page.set_viewport_size({**SIZE, "height": round(end) + GAP})
        picture = page.screenshot(animations="disabled")
    if len(picture) > MOST_BYTES:
        raise SystemExit(f"{PAGE_PICTURE}: {len(picture):,} bytes are more than {MOST_BYTES:,}")
    Path(ROOT / PAGE_PICTURE).write_bytes(picture)
