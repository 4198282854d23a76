"""Chromium through Playwright for tests of pages: where it is, and what axe-core finds."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = importlib.util.find_spec("axe_playwright_python")
"""The package that carries axe.min.js, where it is installed."""
FINDINGS = "axe.run().then((r) => r.violations.map((v) => [v.impact, v.id, v.nodes.map((n) => n.html).slice(0, 3)]))"

ONE_SESSION = "crypto.getRandomValues = (bytes) => bytes.fill(7)"
"""Script that gives every page of `planner app` the same session: its processes keep what they solved before."""


def chromium() -> Iterator[Any]:
    """Yield a started browser; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as tools:
        started = tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def screens(*widths: int) -> list[dict[str, Any]]:
    """Return the screens of some widths, in light and dark."""
    return [
        {"viewport": {"width": width, "height": 800}, "color_scheme": mode}
        for width in widths
        for mode in ("light", "dark")
    ]


def screen_name(screen: dict[str, Any]) -> str:
    """Return the name of a screen in a list of tests."""
    return f"{screen['viewport']['width']}-{screen['color_scheme']}"


def watch(page: Any) -> list[str]:
    """Return the list that gets what the console and dialogs of a page say."""
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    return said


def plan_answers(page: Any) -> list[Any]:
    """Return the list that gets the responses of `planner app` with a plan."""
    found: list[Any] = []
    page.on("response", lambda one: found.append(one) if one.url.endswith("/api/plan") else None)
    return found


def axe_findings(page: Any) -> list[Any]:
    """Return what axe-core finds on a page with every part open, of any impact, best practices included."""
    if AXE is None or AXE.origin is None:
        pytest.skip("needs axe-core: pip install axe-playwright-python")
    page.evaluate(Path(AXE.origin).with_name("axe.min.js").read_text(encoding="utf-8"))
    page.evaluate("() => { for (const one of document.querySelectorAll('details')) one.open = true; }")
    page.wait_for_timeout(600)
    found: list[Any] = page.evaluate(FINDINGS)
    return found


def unreadable(page: Any) -> list[str]:
    """Return texts of pictures that are smaller than 9 pixels, and pairs of them of which one covers the other."""
    found: list[str] = page.evaluate("""() => {
      const found = [];
      for (const svg of document.querySelectorAll('svg')) {
        if (!svg.getClientRects().length) continue;
        const boxes = [...svg.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()]);
        for (const [name, a] of boxes) {
          if (a.height < 9) found.push('small: ' + name);
          for (const [other, b] of boxes) {
            if (a === b) continue;
            const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (wide > 1 && tall > 4) found.push(name + ' | ' + other);
          }
        }
      }
      return found;
    }""")
    return found
