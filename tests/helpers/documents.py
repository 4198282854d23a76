"""The Markdown documents of the project: their fenced blocks, and running the commands and Python in them."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from click.testing import CliRunner

from planner.cli import main
from planner.documents import files
from tests.helpers.frozen_data import ROOT, make_workplace

DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "models/README.md",
    "tests/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
)
"""Documents whose `console` and `python` blocks are run, relative to the repository."""

EMPTY_FOLDER = ("docs/first-scenario.md",)
"""Documents that work far from a checkout."""

FENCE = re.compile(r"^```(?P<language>\w+)[ ]*(?P<label>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
HEAD = re.compile(r" \| head -(\d+)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: language and label of its first line, its content, and where the content starts."""

    document: str
    language: str
    label: str
    body: str
    start: int

    @property
    def sessions(self) -> list[tuple[str, str]]:
        """Each `$ command` of the block with the output shown below it."""
        parts = re.split(r"^\$ ", self.body, flags=re.MULTILINE)[1:]
        return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]

    @property
    def name(self) -> str:
        """The document and what the block runs, as the name of a test."""
        first = self.sessions[0][0] if self.sessions else f"{self.language} {self.body.splitlines()[0]}"
        return f"{self.document}: {first}"


def read_document(document: str) -> str:
    """Return the text of a document, named relative to the repository."""
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str, language: str) -> list[Block]:
    """Return the fenced blocks of one language in a document."""
    found = (
        Block(document, fence["language"], fence["label"].strip(), fence["body"], fence.start("body"))
        for fence in FENCE.finditer(read_document(document))
    )
    return [block for block in found if block.language == language]


def all_blocks(language: str) -> list[Block]:
    """Return the fenced blocks of one language in all documents."""
    return [block for document in DOCUMENTS for block in blocks(document, language)]


@contextlib.contextmanager
def working_in(document: str, folder: Path) -> Iterator[None]:
    """Work in a folder that looks like a checkout; for `EMPTY_FOLDER` in an empty one beside it.

    YAML, CSV and JSON blocks of the document that are labelled with a file name lie there under that name. The price
    book is empty.
    """
    checkout = make_workplace(folder)
    if document in EMPTY_FOLDER:
        folder = folder / "empty"
        folder.mkdir()
    for block in (one for language in ("yaml", "csv", "json") for one in blocks(document, language)):
        if block.label:
            (folder / block.label).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.label).write_text(block.body, encoding="utf-8")
    cache = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(folder / "cache")})
    with contextlib.chdir(folder), cache, mock.patch.object(files, "PACKAGE_FOLDER", checkout / "planner"):
        yield


def run(command: str) -> tuple[int, str, str]:
    """Return exit code, output and messages of a command that is run in the current folder.

    The planner runs in this process and a benchmark in its own. `| head -N` is understood.
    """
    head = HEAD.search(command)
    program, *arguments = shlex.split(command[: head.start()] if head else command)
    if program == "python":
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
        code, output, messages = done.returncode, done.stdout, done.stderr
    elif program == "planner":
        result = CliRunner().invoke(main, arguments, prog_name="planner")
        code, output, messages = result.exit_code, result.stdout, result.stderr
    else:
        raise ValueError(f"{program} is neither planner nor python")
    if head:
        output = "".join(output.splitlines(keepends=True)[: int(head[1])])
    return code, output, messages
