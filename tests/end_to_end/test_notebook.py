"""The shipped notebook runs from its first to its last cell, and its results are shown with pictures."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.helpers.record import NOTEBOOK, executed_notebook

pytestmark = pytest.mark.ecosystem


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return the cells of the notebook after a run in a fresh kernel and an empty folder."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = executed_notebook(folder)
    assert not list(folder.iterdir()), "the notebook leaves nothing in the folder of its reader"
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


def test_the_shipped_file_shows_what_a_run_does(cells: list[Any]) -> None:
    """A reader who runs nothing sees the same texts and the same titles: `python -m tests.helpers.record notebook`."""
    shipped = [
        cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"
    ]
    for old, new in zip(shipped, cells, strict=True):
        assert old["execution_count"] and "".join(old["source"]) == new.source
        (before,), (now,) = old["outputs"], new.outputs
        assert [_read(form, text) for form, text in before["data"].items()] == [
            _read(form, text) for form, text in now.data.items()
        ]


def _read(form: str, text: str) -> tuple[str, str]:
    """Return a form with what it says: of a picture its title, of a table its words, else all of it."""
    if form == "image/svg+xml":
        return form, text.partition("<title")[2].partition("</title>")[0].partition(">")[2]
    return form, re.sub(r"<svg.*?</svg>|<[^>]*>", " ", text, flags=re.DOTALL)
