"""Shipped scenarios of generation: figures are worked out by hand at their top, and the plan is compared with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.documents.files import data_folder
from tests.helpers.worked import WORKED

FILES = sorted((data_folder("scenarios") / "generation").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_scenario_has_a_figure_and_every_line_is_understood(path: Path) -> None:
    """A line that the pattern misses would be a figure that is not compared; `test_shipped_scenarios.py` solves."""
    text = path.read_text(encoding="utf-8")
    assert 0 < len(WORKED.findall(text)) == text.count("# worked")
