"""Record again what the tests compare with: sessions and pictures of the documents, costs of the scenarios.

    python -m tests.helpers.record                    everything
    python -m tests.helpers.record sessions [FILE...] the output below each `$ command`, such as of docs/spot.md
    python -m tests.helpers.record equations          the table in docs/equations.md
    python -m tests.helpers.record pictures           the pictures of the documents, docs/**/*.svg, and of the page
    python -m tests.helpers.record costs              tests/data/costs.json
    python -m tests.helpers.record notebook           the outputs in docs/notebook.ipynb

Read the difference (`git diff`) before it is committed: a figure that changed needs a reason.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.helpers.costs import COSTS, recorded_costs
from tests.helpers.documents import DOCUMENTS, Block, blocks, read_document, run, working_in
from tests.helpers.equations import TABLE, with_equations
from tests.helpers.frozen_data import ROOT
from tests.helpers.page_picture import PAGE_PICTURE, draw_page

PICTURES = {
    "docs/frontier.svg": "planner frontier seven-b-billion-tokens --as-of 2026-11-21 --plot picture.svg",
    "docs/pictures/by-method.svg": "planner frontier quickstart-any --by method --as-of 2026-11-21 --plot picture.svg",
    "docs/pictures/loss.svg": "planner frontier loss-frontier --points 6 --as-of 2026-11-21 --plot picture.svg",
    "docs/pictures/bills.svg": (
        "planner what-if quickstart --set jobs.quickstart.deadline=3h --as-of 2026-11-21 --plot picture.svg"
    ),
    "docs/pictures/sweep.svg": (
        "planner what-if quickstart --vary jobs.quickstart.deadline=2h:20h:2h --as-of 2026-11-21 --plot picture.svg"
    ),
    "docs/pictures/heat-map.svg": (
        "planner what-if quickstart --vary jobs.quickstart.deadline=2h:14h:4h --vary limits.budget_usd=3:6:1"
        " --as-of 2026-11-21 --plot picture.svg"
    ),
    "docs/pictures/tornado.svg": (
        "planner what-if quickstart --set 'limits.gpus.allow=[A5000, RTX3090, RTX4090]' --tornado"
        " --as-of 2026-11-21 --plot picture.svg"
    ),
    "docs/pictures/timetable.svg": "planner solve queue-two-own-4090 --as-of 2026-11-21 --plot picture.svg",
    "docs/pictures/fleet.svg": "planner solve serve-office-hours --as-of 2026-11-24 --plot picture.svg",
    "docs/replay.svg": "planner simulate spot-heavy --runs 2000 --as-of 2026-06-01 --plot picture.svg",
}
"""Pictures of the documents, and the commands that draw them."""


def record_sessions(document: str) -> None:
    """Run every session of a document and rewrite the output that is shown."""
    text = read_document(document)
    for block in reversed(blocks(document, "console")):
        text = text[: block.start] + recorded(block) + text[block.start + len(block.body) :]
    if text != read_document(document):
        (ROOT / document).write_text(text, encoding="utf-8")
        print(f"{document}: recorded")


def recorded(block: Block) -> str:
    """Return the content of a block with what its commands print now; no output is shown where none was."""
    written = []
    with tempfile.TemporaryDirectory() as folder, working_in(block.document, Path(folder)):
        for command, shown in block.sessions:
            code, output, messages = run(command)
            if code:
                raise SystemExit(f"{block.document}: {command}: exit code {code}\n{messages}")
            ending = shown[len(shown.rstrip("\n")) :] or "\n"  # keeps an empty line between two commands
            recorded = output.strip("\n").rstrip() + ending if shown.strip() else shown
            written.append(f"$ {command}\n{recorded}")
    return "".join(written)


def record_pictures() -> None:
    """Draw every picture of the documents again."""
    for picture, command in PICTURES.items():
        (ROOT / picture).parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as folder, working_in("README.md", Path(folder)):
            code, _, messages = run(command)
            if code:
                raise SystemExit(f"{picture}: exit code {code}\n{messages}")
            (ROOT / picture).write_bytes(Path("picture.svg").read_bytes())
    try:
        draw_page()
    except pytest.skip.Exception as reason:
        print(f"{PAGE_PICTURE} is not drawn again: {reason}", file=sys.stderr)


def record_equations() -> None:
    """Write the equations of the code into the table of equations."""
    (ROOT / TABLE).write_text(with_equations(read_document(TABLE)), encoding="utf-8")


NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
SECONDS = 3000
"""For one cell."""
SHOWN = ("image/svg+xml", "text/html", "text/plain")
"""Forms of a result, the one that a notebook shows first."""


def executed_notebook(folder: Path) -> Any:
    """Return the notebook after a run in a fresh kernel and an empty folder; skips without its packages.

    Of each result the form that is shown is kept: a picture as text would repeat the picture.
    """
    nbclient = pytest.importorskip("nbclient", reason="pip install '.[site]'")
    nbformat = pytest.importorskip("nbformat", reason="pip install '.[site]'")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with mock.patch.dict(os.environ, {"PYTHONPATH": path}):
        nbclient.NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", ()):
            kept = next(form for form in SHOWN if form in output.data)
            output.data = {kept: output.data[kept]}
    return notebook


def record_notebook() -> None:
    """Run the notebook and write its results into it."""
    with tempfile.TemporaryDirectory() as folder:
        notebook = executed_notebook(Path(folder))
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    for cell, ran in zip(cells["cells"], notebook.cells, strict=True):
        if cell["cell_type"] == "code":
            cell["execution_count"] = ran.execution_count
            cell["outputs"] = [dict(output) for output in ran.outputs]
    NOTEBOOK.write_text(json.dumps(cells, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def record_costs() -> None:
    """Solve every shipped scenario on frozen prices and write cost, hours and machines."""
    COSTS.write_text(json.dumps(recorded_costs(), indent=2) + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Record what is named, or everything."""
    what, *names = arguments or ("everything",)
    actions = {"equations": record_equations, "pictures": record_pictures, "costs": record_costs}
    actions["notebook"] = record_notebook
    if what not in ("everything", "sessions", *actions) or set(names) - set(DOCUMENTS):
        print(__doc__, file=sys.stderr)
        return 2
    for name, action in actions.items():
        if what in (name, "everything"):
            action()
    if what in ("sessions", "everything"):
        for document in names or DOCUMENTS:
            record_sessions(document)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
