"""The README says what is so: its commands run, its output is real, its equations are the code's."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli import exit_codes as exits
from planner.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\S+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str, label: str = "") -> list[str]:
    """The fenced blocks of a language, without their fences."""
    return [body for kind, rest, body in FENCE.findall(README) if kind == language and rest.strip() == label]


def sessions() -> list[tuple[str, str]]:
    """Each `$ command` of the console blocks with the output shown below it."""
    found = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def run(command: str) -> tuple[int, str, str]:
    """Exit code, output and messages of a command: of the planner in this process, of a benchmark in its own."""
    program, *arguments = shlex.split(command)
    if program == "python":
        done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr
    assert program == "planner"
    result = CliRunner().invoke(main, arguments, prog_name="planner")
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(("command", "shown"), sessions(), ids=[command for command, _ in sessions()])
def test_command_prints_what_is_shown(command: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every planner command in the README succeeds; where output is shown, it is this output."""
    monkeypatch.chdir(ROOT)
    code, output, messages = run(command)
    assert code == 0, messages
    if shown.strip():
        assert output.strip() == shown.strip()


def test_quickstart_shows_its_plan() -> None:
    """The first session is the quickstart, on a fixed day, with its output."""
    command, shown = sessions()[0]
    assert command.startswith("planner solve quickstart --as-of ")
    assert len(shown.splitlines()) > 5


def test_bare_debian_lines_end_as_promised() -> None:
    """One line ends with the quickstart plan, one with the tests that the check script runs."""
    plan, tests = (block.strip().split(" && ") for block in blocks("bash"))
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (last_check,) = re.findall(r"^check (.* pytest.*)$", script, re.MULTILINE)
    assert plan[-1] == ".venv/bin/planner solve quickstart"
    assert tests[-1] == last_check == ".venv/bin/python -m pytest"
    assert plan[:3] == tests[:3]
    for piece in ("python3 -m venv .venv", "pip install", "install -y --no-install-recommends python3-venv"):
        assert piece in script
        assert piece in " && ".join(tests)


def test_scenario_shown_is_the_shipped_one() -> None:
    """The question in the README is the file that `planner solve quickstart` reads."""
    shipped = (ROOT / "scenarios" / "quickstart.yaml").read_text(encoding="utf-8")
    lines = [line for line in shipped.splitlines() if not line.startswith("# yaml-language-server")]
    assert blocks("yaml")[0].splitlines() == lines


def test_inventory_shown_can_be_read(tmp_path: Path) -> None:
    """The inventory in the README is a valid one."""
    file = tmp_path / "mine.yaml"
    file.write_text(blocks("yaml", "inventory")[0], encoding="utf-8")
    code, output, messages = run(f"planner offers list --inventory {file}")
    assert code == 0, messages
    assert "my-cloud" in output


def test_python_shown_runs_and_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines for Python users run as they stand, and each result shows itself in a notebook."""
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert capsys.readouterr() == ("", "")
    for name in ("plan", "tradeoff", "changed", "curve", "ranked", "reasons", "one"):
        assert names[name]._repr_html_().startswith("<table")  # type: ignore[attr-defined]


def test_picture_shows_the_frontier_that_is_printed() -> None:
    """The picture's title is the first line of the output above it."""
    shown = next(output for command, output in sessions() if command.startswith("planner frontier "))
    picture = (ROOT / "docs" / "frontier.svg").read_text(encoding="utf-8")
    assert shown.splitlines()[0] in picture


def test_equations_are_those_of_the_docstrings() -> None:
    """Every family and objective has its row, and every row its function, with the same equation."""
    rows = re.findall(r"^\| [a-z ]+ \| `([^`]+)` \| `(\w+)` \|$", README, re.MULTILINE)
    shown = {function: equation for equation, function in rows}
    known = {}
    for file in ("constraints", "objective"):
        module = importlib.import_module(f"planner.formulation.{file}")
        for name, function in vars(module).items():
            if getattr(function, "__module__", "") == module.__name__ and not name.startswith("_"):
                known[name] = " ".join((inspect.getdoc(function) or "").splitlines()[2].split())
    assert shown == known


def test_exit_codes_are_those_of_the_command_line() -> None:
    """The table of exit codes lists what the command line can end with."""
    table = README.partition("## Exit codes")[2].partition("\n## ")[0]
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    known = {exits.INTERNAL_ERROR, exits.BAD_INPUT, exits.INFEASIBLE, exits.NO_PLAN, exits.INTERRUPTED}
    assert codes == {0} | known


def test_files_that_are_named_exist() -> None:
    """Every file and folder that README and CONTRIBUTING name by path is there."""
    text = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:planner|models|scenarios|tests|benchmarks)/[\w./-]*)`", text))
    paths |= set(re.findall(r"\]\(([\w./-]+)\)", text))
    allowed_later = {"planner/exports/", "planner/_data"}  # told as what to add, and as what a wheel holds
    missing = sorted(path for path in paths - allowed_later if not (ROOT / path).exists())
    assert not missing
