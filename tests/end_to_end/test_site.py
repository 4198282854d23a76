"""The documentation site builds strictly, its links lead somewhere, and it asks no other host for anything."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

import planner
from tests.helpers.browser import chromium
from tests.helpers.documents import DOCUMENTS, blocks
from tests.helpers.frozen_data import ROOT

pytestmark = pytest.mark.ecosystem

LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src", "object": "data"}
"""Attributes that a browser loads without a click; of `link` it depends on the relation."""
LOADING_LINKS = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "manifest", "modulepreload"}


class _Parts(HTMLParser):
    """Links, anchors and loaded files of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.anchors |= {known[name] for name in ("id", "name") if known.get(name)}
        if tag == "a" and "href" in known:
            self.links.append(known["href"])
        if tag in LOADED and LOADED[tag] in known:
            self.loaded.append(known[LOADED[tag]])
        if tag == "link" and set(known.get("rel", "").split()) & LOADING_LINKS:
            self.loaded.append(known["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site; a warning of MkDocs fails the build."""
    pytest.importorskip("mkdocs", reason="pip install '.[site]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def _pages(site: Path) -> dict[Path, _Parts]:
    return {page: _Parts(page) for page in sorted(site.rglob("*.html"))}


def test_every_document_is_a_page(site: Path) -> None:
    """No document is forgotten, and the one page of the README is the start."""
    pages = {path.removeprefix("docs/").removesuffix(".md") for path in DOCUMENTS if path.startswith("docs/")}
    assert not sorted(page for page in pages if not (site / f"{page}.html").is_file())


def test_no_link_is_broken(site: Path) -> None:
    """Every link of every page leads to a file of the site, and to a place in it where it names one."""
    pages = _pages(site)
    assert sum(len(parts.links) for parts in pages.values()) > 500
    assert not list(_broken(site, pages))


def _broken(site: Path, pages: dict[Path, _Parts]) -> Iterator[str]:
    for page, parts in pages.items():
        if page.name == "404.html":  # its links start at the root of a server
            continue
        for link in [*parts.links, *parts.loaded]:
            target = urllib.parse.urlsplit(link)
            if target.scheme in ("http", "https", "mailto", "data"):
                continue
            path = (page.parent / urllib.parse.unquote(target.path)).resolve() if target.path else page
            path = path / "index.html" if path.is_dir() else path
            if not path.is_file():
                yield f"{page.relative_to(site)}: {link}"
            elif target.fragment and path in pages and target.fragment not in pages[path].anchors:
                yield f"{page.relative_to(site)}: {link}: no such place"


def test_a_session_copies_its_command_alone(site: Path) -> None:
    """What the button of a block copies runs in a shell: no prompt, no output."""
    for browser in chromium():
        page = browser.new_page()
        page.goto((site / "index.html").as_uri())
        copied = page.evaluate("""() => { const code = document.querySelector('pre code');
          code.setAttribute('data-md-copying', ''); return code.innerText; }""")
        assert copied.strip() == blocks("docs/index.md", "console")[0].sessions[0][0]


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    """Fonts, styles, scripts and pictures lie in the site itself."""
    foreign = {
        f"{page.relative_to(site)}: {link}"
        for page, parts in _pages(site).items()
        for link in parts.loaded
        if urllib.parse.urlsplit(link).netloc
    }
    styles = (path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    remote = r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]*)"
    foreign |= {link for style in styles for link in re.findall(remote, style)}
    assert not foreign


def test_the_reference_has_every_public_name_and_every_command(site: Path) -> None:
    """The generated pages name each function and type of `import planner`, and each command with its options."""
    names = _Parts(site / "reference" / "python.html").anchors
    public = {name: getattr(planner, name).__module__ for name in planner.__all__ if name != "__version__"}
    assert not sorted(name for name, home in public.items() if f"{home}.{name}" not in names)
    commands = (site / "reference" / "help.html").read_text(encoding="utf-8")
    for command in ("planner solve", "planner prices update", "planner architectures import"):
        assert f"Usage: {command} " in re.sub(r"<[^>]*>", "", commands)
