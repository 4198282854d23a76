"""What MkDocs cannot do by itself: documents from outside `docs/`, the generated reference, and links between them."""

from __future__ import annotations

import json
import os
import pkgutil
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import click
from mkdocs.structure.files import File

import planner
from planner import estimates
from planner.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = PurePosixPath("docs")
OUTSIDE = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "models/README.md": "project/models.md",
    "models/measurements/README.md": "project/measurements.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "benchmarks/history.md": "project/history.md",
    "benchmarks/measure/README.md": "project/measuring.md",
    "tests/README.md": "project/tests.md",
}
"""Documents of the repository that are pages too, and the places of these pages."""
README_PAGE = "index.md"
"""The page that a link to the README leads to."""
NOTEBOOK = "docs/notebook.ipynb"
"""The notebook that is shown as a page too."""
FILES = "files"
"""Folder of the site for other files of the repository that a page links to."""
CALLABLE = "['!^_', '!^[A-Z0-9_]+$']"
"""Which names of a module of formulas are shown: neither private ones nor constants."""
COPIES_COMMANDS = """\
.highlight .gp, .highlight .go { user-select: none; }
[data-md-copying] .gp, [data-md-copying] .go { display: none; }
"""
"""Style by which the button of a session copies its commands alone, without prompts and output."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]+)(?=[)#])")
LABEL = re.compile(r"^```(\w+) +([^\s{].*)$", re.MULTILINE)
"""The name of a file after the language of a fenced block."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside, the generated reference, and the files that pages link to."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "reference/help.md", content=help_page()))
    files.append(File.generated(config, "reference/python.md", content=python_page()))
    files.append(File.generated(config, "reference/physics.md", content=physics_page()))
    files.append(File.generated(config, "notebook.md", content=notebook_page()))
    files.append(File.generated(config, f"{FILES}/site.css", content=COPIES_COMMANDS))
    for linked in sorted({path for page in files.documentation_pages() for path in _other_files(page)}):
        files.append(File.generated(config, f"{FILES}/{linked}", abs_src_path=str(ROOT / linked)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links out of `docs/` to the pages or files of the site, and show the name of a file above its block."""
    del config, files
    here = page.file.src_uri

    def lead(link: re.Match[str]) -> str:
        target = _page_of(_repository_path(here, link[1]))
        return link[1] if target is None else os.path.relpath(target, PurePosixPath(here).parent)

    return LABEL.sub(r'```\1 title="\2"', LINK.sub(lead, markdown))


def _repository_path(page: str, link: str) -> str:
    """Return the path in the repository that a link on a page means."""
    source = {page: source for source, page in OUTSIDE.items()}.get(page, str(DOCS / page))
    return os.path.normpath(PurePosixPath(source).parent / link)


def _page_of(path: str) -> str | None:
    """Return the place in the site of a path in the repository; None where there is no such file."""
    if path == "README.md":
        return README_PAGE
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    return f"{FILES}/{path}" if (ROOT / path).is_file() else None


def _other_files(page: File) -> Iterator[str]:
    """Yield the files outside `docs/` that a page links to and that are no pages."""
    for link in LINK.findall(page.content_string):
        path = _repository_path(page.src_uri, link)
        if (_page_of(path) or "").startswith(f"{FILES}/"):
            yield path


def help_page() -> str:
    """Return the `--help` of every command as a page."""
    parts = ["# Every command with its options\n\nThis page is made from the `--help` of each command.\n"]
    for names, command in _commands(main, ("planner",)):
        context = click.Context(command, info_name=" ".join(names), max_content_width=88, terminal_width=88)
        parts.append(f"## {' '.join(names)}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def _commands(command: click.Command, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and those below it, with their names."""
    yield names, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _commands(found, (*names, name))


def notebook_page() -> str:
    """Return the shipped notebook as a page, with the results of its cells."""
    cells = json.loads((ROOT / NOTEBOOK).read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    parts = [
        text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```{_results(cell)}"
        for cell, text in zip(cells, texts, strict=True)
    ]
    return "\n\n".join([parts[0], f"[The notebook as a file]({Path(NOTEBOOK).name})", *parts[1:]]) + "\n"


def _results(cell: dict[str, Any]) -> str:
    """Return what a cell of the notebook shows: a picture or a table as it is, other text in a block."""
    found = [pair for output in cell["outputs"] for pair in output["data"].items()]
    shown = []
    for form, text in found:
        if form == "text/plain":
            shown.append(f"```text\n{text}\n```")
        else:  # a blank line would end the block of HTML
            lines = [line for line in text.splitlines() if line.strip() and not line.startswith("<?xml")]
            shown.append("\n".join(["<div>", *lines, "</div>"]))
    return "".join(f"\n\n{one}" for one in shown)


def physics_page() -> str:
    """Return the modules of formulas with their docstrings, which hold equation, unit and source."""
    found = pkgutil.walk_packages(estimates.__path__, f"{estimates.__name__}.")
    modules = sorted(module.name for module in found if not module.ispkg)
    parts = [
        "# Formulas of memory, time and money",
        "Each function states its equation, its units and its source, as the code has them. "
        "How far the results are from published runs is in [accuracy.md](../accuracy.md).",
        *(f"::: {name}\n    options:\n      show_root_full_path: true\n      filters: {CALLABLE}" for name in modules),
    ]
    return "\n\n".join(parts) + "\n"


def python_page() -> str:
    """Return the public names of the package as a page; their text is that of the docstrings."""
    homes = {name: getattr(planner, name).__module__ for name in planner.__all__ if name != "__version__"}
    functions = sorted(name for name in homes if name[0].islower())
    types = sorted(name for name in homes if name[0].isupper())
    parts = ["# Python\n\n`import planner` loads a name on first use. This page is made from the docstrings.\n"]
    parts += [f"::: {homes[name]}.{name}\n" for name in (*functions, *types)]
    return "\n".join(parts)
