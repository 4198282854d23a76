"""The shipped notebook runs from its first to its last cell, and its results are shown with pictures."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.frozen_data import ROOT

pytestmark = pytest.mark.ecosystem

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
SECONDS = 3000
"""For one cell."""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return the cells of the notebook after a run in a fresh kernel and an empty folder."""
    nbclient = pytest.importorskip("nbclient", reason="pip install '.[site]'")
    nbformat = pytest.importorskip("nbformat", reason="pip install '.[site]'")
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([before] if before else [])])
    try:
        client = nbclient.NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}})
        client.execute()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before
    assert not list(Path(folder).iterdir()), "the notebook leaves nothing in the folder of its reader"
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_every_cell_shows_its_result_and_nothing_else(cells: list[Any]) -> None:
    """One result for each cell; no warning, no progress, no text on the side."""
    for cell in cells:
        assert [output.output_type for output in cell.outputs] == ["execute_result"], cell.source


def test_pictures_are_shown(cells: list[Any]) -> None:
    """`planner.plot` shows SVG; a plan shows a table with a picture above it."""
    drawn = [cell for cell in cells if "planner.plot(" in cell.source and "folder" not in cell.source]
    assert len(drawn) >= 4
    assert all("<svg" in cell.outputs[0].data["image/svg+xml"] for cell in drawn)
    plans = [cell for cell in cells if cell.source.splitlines()[-1] in ("plan", cell.source) and "solve" in cell.source]
    assert len(plans) == 2
    assert all(
        "<svg" in one.outputs[0].data["text/html"] and "<table>" in one.outputs[0].data["text/html"] for one in plans
    )


def test_the_shipped_file_has_no_outputs() -> None:
    """What a reader sees comes from the installed version and today's data, not from an old run."""
    shipped = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [cell for cell in shipped["cells"] if cell["cell_type"] == "code"]
    assert code and not any(cell["outputs"] or cell["execution_count"] for cell in code)
