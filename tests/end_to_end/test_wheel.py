"""The wheel carries what we know and the questions, and works far from the checkout."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.helpers.documents import HEAD, blocks

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the content of a freshly built wheel."""
    built = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)],
        cwd=ROOT, check=True, capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    (wheel,) = built.glob("*.whl")
    content = built / "content"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(content)
    return content


@pytest.mark.parametrize("kind", ["models", "scenarios"])
def test_wheel_carries_every_data_file(unpacked: Path, kind: str) -> None:
    """`planner/_data` in the wheel lists the same files as the checkout, with the same bytes."""

    def content(folder: Path) -> dict[str, bytes]:
        files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    shipped = content(ROOT / kind)
    assert shipped
    assert content(unpacked / "planner" / "_data" / kind) == shipped


def test_wheel_brings_one_package_and_its_licence(unpacked: Path) -> None:
    """No `models`, `tests` or `benchmarks` on the top level, where a user's own would be hidden by it."""
    top = {path.name for path in unpacked.iterdir()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"planner"}
    assert list(unpacked.glob("*.dist-info/licenses/LICENSE"))
    assert (unpacked / "planner" / "py.typed").is_file()


@pytest.mark.long
def test_wheel_solves_beside_a_foreign_package_called_models(unpacked: Path, tmp_path: Path) -> None:
    """A training repository has a `models` package of its own: neither side notices the other."""
    foreign = tmp_path / "models"
    foreign.mkdir()
    (foreign / "__init__.py").write_text("raise RuntimeError('somebody imported the foreign models')\n")
    code = (
        "import planner; from planner.cli import main; "
        f"assert planner.__file__.startswith({str(unpacked)!r}), planner.__file__; "
        "main(['solve', 'quickstart', '--json', '--as-of', '2026-11-21'])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["status"] == "optimal"


@pytest.mark.long
def test_first_scenario_works_in_an_empty_folder(unpacked: Path, tmp_path: Path) -> None:
    """Every command of docs/first-scenario.md succeeds from the wheel, in order, with the files that it shows."""
    document = "docs/first-scenario.md"
    for block in blocks(document, "yaml"):
        (tmp_path / block.label).write_text(block.body, encoding="utf-8")
    commands = [command for block in blocks(document, "console") for command, _ in block.sessions]
    assert len(commands) >= 8
    for command in commands:
        words = shlex.split(HEAD.sub("", command))
        code = f"from planner.cli import main; main({words[1:]!r})"
        result = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(unpacked)},
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert result.returncode == 0, f"{command}: {result.stderr}"
        assert result.stdout or " -o " in command
