"""`planner what-if` end to end: output, exit codes, pictures, and what is told of bad input."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from tests.helpers.computed_once import compute_once

AS_OF = ("--as-of", "2026-11-21")
NO_SPOT = ("--set", "limits.spot=false")
SCENARIO = """\
name: small
jobs:
  - name: bot
    architecture: tinyllama-1.1b
    work: {tokens: 15e6}
    deadline: 12h
    techniques: {method: lora}
offers:
  - {provider: cheap, gpu: RTX3090, gpus: 1, usd_per_hour: 0.2, spot_usd_per_hour: 0.1}
  - {provider: fast, gpu: A100-80GB, gpus: 1, usd_per_hour: 1.6}
"""


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    compute_once(monkeypatch)


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return str(path)


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["what-if", *arguments, *AS_OF], input=text)


@pytest.mark.slow
def test_before_and_after_as_text_and_as_json(small: str) -> None:
    """The JSON has both plans as `solve` writes them, and their difference."""
    shown = run(small, "--set", "limits.gpus.forbid=[RTX3090]")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("small: $")
    assert "forbidding RTX3090 rules out" in shown.stdout
    found = json.loads(run(small, "--set", "limits.gpus.forbid=[RTX3090]", "--json").stdout)
    solved = json.loads(CliRunner().invoke(main, ["solve", small, "--json", *AS_OF]).stdout)
    assert {**found["before"], "seconds": 0} == {**solved, "seconds": 0}
    assert found["delta"]["cost_usd"] == pytest.approx(
        found["after"]["cost"]["expected"] - found["before"]["cost"]["expected"]
    )
    assert set(found["delta"]) == {"cost_usd", "hours"}


@pytest.mark.long
def test_exit_code_is_that_of_the_question_asked(small: str) -> None:
    """3 where the change leaves no plan, told; 0 where it makes one possible."""
    gone = run(small, "--set", "jobs.bot.deadline=1m")
    assert gone.exit_code == 3
    assert "infeasible after the change" in gone.stdout and "deadline" in gone.stdout
    back = run("-", "--set", "jobs.bot.deadline=12h", text=SCENARIO.replace("12h", "1m"))
    assert back.exit_code == 0
    assert "feasible after the change" in back.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "commands"),
    [
        (("--set", "jobs.0.deadline=60h"), ["solve", "explain"]),
        (("--vary", "jobs.0.deadline=[50h, 60h]", "--set", "limits.max_gpus=2"), ["solve"]),
        (("--tornado", "--by", "0.1"), ["what-if"]),
    ],
    ids=["one", "sweep", "tornado"],
)
def test_every_command_below_an_answer_runs(
    small: str, given: tuple[str, ...], commands: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changed plan, the cheapest cell, the largest effect."""
    monkeypatch.chdir(tmp_path)
    printed = [line for line in run(small, *given).stdout.splitlines() if line.startswith("planner ")]
    assert [line.split()[1] for line in printed] == commands
    for line in printed:
        result = CliRunner().invoke(main, shlex.split(line)[1:])
        assert result.exit_code == 0, f"{line}\n{result.stderr}"


@pytest.mark.long
def test_sweep_as_table_and_as_json(small: str) -> None:
    """One range is a curve, two are a grid; no plan anywhere is infeasible."""
    curve = run(small, "--vary", "jobs.bot.deadline=1h:9h:4h")
    assert curve.exit_code == 0 and "machines" in curve.stdout
    grid = run(small, "--vary", "jobs.bot.deadline=[2h, 12h]", "--vary", "jobs.bot.work.tokens=[5M, 15M]", "--json")
    found = json.loads(grid.stdout)
    assert [len(axis["values"]) for axis in found["axes"]] == [2, 2]
    assert [cell["values"] for cell in found["cells"]][1] == ["2h", "15M"]
    nowhere = run(small, "--vary", "jobs.bot.deadline=1m:3m:1m")
    assert nowhere.exit_code == 3
    assert "with the loosest values, deadline = 3 m:" in nowhere.stdout and "--set " in nowhere.stdout


@pytest.mark.long
def test_ranges_of_the_scenario_are_gone_through_where_nothing_is_asked(small: str, tmp_path: Path) -> None:
    """`vary` in the file; without it the command says what it needs."""
    bare = run(small)
    assert bare.exit_code == 2 and "nothing to change" in bare.stderr
    path = tmp_path / "varied.yaml"
    path.write_text(SCENARIO + "vary: 'jobs.bot.deadline=[2h, 12h]'\n", encoding="utf-8")
    assert "12h" in run(str(path)).stdout
    assert "nothing changes" in run(str(path), "--set", "jobs.bot.deadline=12h").stdout


@pytest.mark.long
def test_tornado_as_bars_and_as_json(small: str) -> None:
    """The largest effect is in the first line."""
    shown = run(small, "--tornado", *NO_SPOT)
    assert shown.exit_code == 0 and "largest effect: " in shown.stdout.splitlines()[0]
    found = json.loads(run(small, "--tornado", "--by", "0.1", "--json", *NO_SPOT).stdout)
    assert found["by"] == 0.1 and {"what", "down", "up", "effect_usd"} <= set(found["bars"][0])
    infeasible = run(small, "--tornado", "--set", "jobs.bot.deadline=1m")
    assert infeasible.exit_code == 3 and "no plan keeps the deadline" in infeasible.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--set", "limit.budget=5"), "did you mean limits.budgets or limits.budget_usd?"),
        (("--set", "jobs.nobody.deadline=5h"), "did you mean jobs.bot.deadline?"),
        (("--vary", "limit.budget=1:5:1"), "did you mean limits.budgets or limits.budget_usd?"),
        (("--vary", "jobs.bot.deadline=1h:5h:0h"), "the step is 0"),
        (("--vary", "jobs.bot.deadline=1:5:1"), "1 has no unit; such as jobs.bot.deadline=1h:5h:STEPh"),
        (("--vary", "a=1:2:1", "--vary", "b=1:2:1", "--vary", "c=1:2:1"), "3 ranges are too many"),
        (("--vary", "jobs.bot.deadline=1h:5h:1h", "--tornado"), "exclude each other"),
        (("--tornado", "--by", "2"), "is not a share between 0 and 1"),
        (("--set", "limits.max_gpus=4", "--plot", "picture.gif"), "not a supported picture"),
        (("--set", "limits.max_gpus=4", "--plot", "/no/such/folder/a.png"), "there is no folder"),
        (("--set", "inventory=[other.yaml]"), "the inventory cannot be changed here"),
    ],
)
def test_bad_input_is_told_in_one_line_and_as_json(small: str, arguments: tuple[str, ...], says: str) -> None:
    """Exit code 2, the message on standard error, or as JSON on standard output."""
    plain = run(small, *arguments)
    assert plain.exit_code == 2
    assert says in plain.stderr and plain.stdout == ""
    told = run(small, *arguments, "--json")
    assert told.exit_code == 2
    assert any(says in f"{one['what']}; {one['fix']}" for one in json.loads(told.stdout)["errors"])


@pytest.mark.long
@pytest.mark.parametrize(
    "question",
    [
        ("--set", "limits.gpus.forbid=[RTX3090]"),
        ("--set", "jobs.bot.deadline=1m"),
        ("--vary", "jobs.bot.deadline=1h:9h:4h"),
        ("--vary", "limits.gpus.allow=[RTX3090, A100-80GB]", "--vary", "jobs.bot.deadline=[1m, 12h]"),
    ],
)
def test_every_answer_has_a_picture(small: str, tmp_path: Path, question: tuple[str, ...]) -> None:
    """An answer without a plan, too; the picture of `--tornado` is in the page below."""
    path = tmp_path / "picture.svg"
    assert run(small, *question, "--plot", str(path)).exit_code in (0, 3)
    assert "<svg" in path.read_text(encoding="utf-8")


@pytest.mark.long
def test_the_same_question_gives_the_same_picture(small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte by byte: a picture under version control changes only with its figures."""
    monkeypatch.undo()
    pictures = []
    for name in ("one.png", "two.png"):
        assert run(small, "--vary", "jobs.bot.deadline=[2h, 12h]", "--plot", str(tmp_path / name)).exit_code == 0
        pictures.append((tmp_path / name).read_bytes())
    assert pictures[0].startswith(b"\x89PNG") and pictures[0] == pictures[1]


@pytest.mark.long
def test_a_page_holds_the_picture_and_the_text(small: str, tmp_path: Path) -> None:
    """Nothing comes from elsewhere."""
    path = tmp_path / "page.html"
    assert run(small, "--tornado", "--plot", str(path), *NO_SPOT).exit_code == 0
    page = path.read_text(encoding="utf-8")
    assert "<svg" in page and "largest effect" in page and "src=" not in page
