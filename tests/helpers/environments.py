"""Virtual environments with one outside tool each, built with uv where a test needs one and kept for the next run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.frozen_data import ROOT

FOLDER = ROOT / ".ecosystem"


def tool_python(package: str, *more: str) -> Path:
    """Return a Python that has a package such as `skypilot==0.14.1`; skips the test where uv is missing or fails."""
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        pytest.skip("needs uv: pip install uv")
    folder = FOLDER / package.replace("==", "-")
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{folder.name}.lock").open("w") as lock:  # several processes may want the same environment
        fcntl.flock(lock, fcntl.LOCK_EX)
        _make(uv, folder, package, *more)
    return folder / "bin" / "python"


def _make(uv: str, folder: Path, package: str, *more: str) -> None:
    """Make an environment with a package where there is none; skips the test where that fails."""
    done = folder / "installed"
    if not done.exists():
        for command in (
            [uv, "venv", "--quiet", "--clear", "--seed", str(folder)],
            [uv, "pip", "install", "--quiet", package, *more],
        ):
            environment = {**os.environ, "VIRTUAL_ENV": str(folder)}
            result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
            if result.returncode:
                pytest.skip(f"{package} cannot be installed: {result.stderr.strip()[-200:]}")
        done.touch()


def run_python(package: str, code: str, home: Path) -> str:
    """Return what a program prints that is run with a package, at home in an empty folder."""
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    command = [str(tool_python(package)), "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=home).stdout
