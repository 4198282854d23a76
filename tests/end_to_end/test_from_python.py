"""The page *From Python*: its blocks are typed, and those that need other packages run where these are installed.

That all other blocks run is a test of all documents (`test_documents.py`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.documents import blocks, working_in

PAGE = "docs/from-python.md"
FROM_ELSEWHERE = ("optuna", "distributed")
"""Packages that blocks in ```py need."""


@pytest.mark.long
def test_blocks_are_typed(tmp_path: Path) -> None:
    """`mypy --strict` has nothing to say about any block.

    Only the blocks are judged: the project's own files are checked with its own settings (`mypy` of the root), and
    from a folder that is no checkout the package that is installed is found, as a user's program finds it.
    """
    pytest.importorskip("mypy")
    programs = []
    for number, block in enumerate([*blocks(PAGE, "python"), *blocks(PAGE, "py")]):
        programs.append(tmp_path / f"block_{number}.py")
        programs[-1].write_text(block.body)
    untyped = "[mypy]\nplugins = pydantic.mypy\n[mypy-planner.*]\nfollow_imports = silent\n" + "".join(
        f"[mypy-{name}.*]\nignore_missing_imports = true\n" for name in ("pandas", "matplotlib", *FROM_ELSEWHERE)
    )
    (tmp_path / "mypy.ini").write_text(untyped)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(tmp_path / "mypy.ini")]
    done = subprocess.run([*command, *map(str, programs)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.ecosystem
@pytest.mark.parametrize("package", FROM_ELSEWHERE)
def test_blocks_with_other_packages_run(package: str, tmp_path: Path) -> None:
    """A study, and a sweep on a cluster, run as they are shown."""
    pytest.importorskip(package)
    named = (f"import {package}", f"from {package}")
    (block,) = (block for block in blocks(PAGE, "py") if block.body.startswith(named))
    with working_in(PAGE, tmp_path):
        exec(compile(block.body, PAGE, "exec"), {"__name__": "__main__"})
