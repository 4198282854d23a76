"""The command line: what goes to which stream, and how each ending is told by the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.cli.output import STANDARD_OUTPUT
from planner.errors import NoPlanError, SolverError
from planner.results.plan import Plan
from tests.helpers.plans import make_infeasible, make_plan

SCENARIO = """
name: tiny
jobs:
  - {name: tiny, architecture: tinyllama-1.1b, work: {tokens: 1M}}
offers:
  - {provider: vast, gpu: RTX3090, gpus: 1, usd_per_hour: 0.2}
"""


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO)
    return str(path)


class Solver:
    """Stands in for `planner.solving.solve.solve`: what it is to answer or raise, and what it was asked."""

    def __init__(self) -> None:
        self.answer: Plan | BaseException = make_plan()
        self.question: Any = None
        self.options: Any = None

    def __call__(self, question: Any, options: Any, library: Any = None) -> Plan:
        self.question, self.options = question, options
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def solver(monkeypatch: pytest.MonkeyPatch) -> Solver:
    stand_in, module = Solver(), ModuleType("planner.solving.solve")
    module.solve = stand_in  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "planner.solving.solve", module)
    monkeypatch.delenv("PLANNER_DEBUG", raising=False)
    return stand_in


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (make_plan(), 0),
        (make_plan(status="feasible", gap=0.03), 0),
        (make_infeasible(), 3),
        (make_plan(status="no_plan", jobs=[], objective=None, gap=None, cost=None, hours=None), 4),
        (NoPlanError("stopped"), 4),
        (SolverError("broke down"), 1),
        (ZeroDivisionError("a slip"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_every_ending_has_its_exit_code(
    solver: Solver, scenario: str, answer: Plan | BaseException, code: int, as_json: bool
) -> None:
    """The same code with and without --json, and standard output holds data or nothing."""
    solver.answer = answer
    result = run("solve", scenario, *(["--json"] if as_json else []))
    assert result.exit_code == code
    if isinstance(answer, BaseException):
        assert result.stdout == ""
        assert len(result.stderr.strip().splitlines()) == 1 and "Traceback" not in result.stderr
    elif as_json:
        assert json.loads(result.stdout)["status"] == answer.status


def test_an_unexpected_error_shows_its_traceback_where_asked(
    solver: Solver, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PLANNER_DEBUG lets the exception through."""
    monkeypatch.setenv("PLANNER_DEBUG", "1")
    solver.answer = ZeroDivisionError("a slip")
    assert isinstance(run("solve", scenario).exception, ZeroDivisionError)


def test_the_text_is_plain_when_piped_and_starts_with_the_verdict(solver: Solver, scenario: str) -> None:
    """No escape sequence reaches a pipe."""
    result = run("solve", scenario)
    assert result.stdout.startswith("quickstart: 1 x RTX3090 at vast (Quebec), QLoRA, $2.82, by 28.0 h\n")
    assert "\033" not in result.stdout and result.stderr == ""


def test_relaxations_are_written_as_from_and_to(solver: Solver, scenario: str) -> None:
    """The names of the interface, which are no Python names."""
    solver.answer = make_infeasible()
    relax = json.loads(run("solve", scenario, "--json").stdout)["infeasible"]["relax"]
    assert relax[0]["from"] == 2.0 and relax[0]["to"] == 2.63


def test_options_reach_the_solver(solver: Solver, scenario: str) -> None:
    """Settings change the question, the other options how it is solved."""
    options = ("--solver", "scip", "--gap", "0.01", "--time-limit", "5", "--as-of", "2026-09-01")
    assert run("solve", scenario, "--set", "limits.budget_usd=7", *options).exit_code == 0
    assert solver.question.limits.budget_usd == 7
    asked = solver.options
    assert (asked.solver, asked.gap, asked.time_limit_seconds) == ("scip", 0.01, 5.0)
    assert asked.as_of.isoformat() == "2026-09-01"


def test_a_scenario_may_come_from_standard_input(solver: Solver) -> None:
    """`-` is the file that is piped in."""
    assert run("solve", "-", stdin=SCENARIO).exit_code == 0
    assert solver.question.name == "tiny"


def test_the_plan_file_holds_what_json_prints(solver: Solver, scenario: str, tmp_path: Path) -> None:
    """-o writes the document and still prints the text; it reads back as the same plan."""
    path = tmp_path / "plan.json"
    result = run("solve", scenario, "-o", str(path))
    assert result.stdout.startswith("quickstart: ")
    assert json.loads(path.read_text()) == json.loads(run("solve", scenario, "--json").stdout)
    assert Plan.model_validate_json(path.read_text()) == solver.answer
    assert [file.name for file in tmp_path.iterdir()].count("plan.json") == 1


@pytest.mark.parametrize("path", ["-", "/proc/self/fd/1"])
def test_a_plan_that_is_written_to_standard_output_replaces_the_text(
    solver: Solver, scenario: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`planner solve quickstart -o - | jq` gets one document, with --json too."""
    monkeypatch.chdir(tmp_path)
    assert "/dev/stdout" in STANDARD_OUTPUT  # not written here: a mistake would cost root the device
    document = run("solve", scenario, "--json").stdout
    assert run("solve", scenario, "-o", path).stdout == document
    assert run("solve", scenario, "-o", path, "--json").stdout == document


def test_an_empty_path_is_refused_as_such(solver: Solver, scenario: str) -> None:
    """A variable of a script that is not set."""
    result = run("solve", scenario, "-o", "")
    assert result.exit_code == 2 and solver.question is None
    assert "the path is empty" in result.stderr


@pytest.mark.parametrize("name", ["missing/plan.json", ".", "tiny.yaml/plan.json"])
def test_an_unwritable_path_is_refused_before_solving(solver: Solver, scenario: str, tmp_path: Path, name: str) -> None:
    """Nobody waits for a plan that cannot be kept."""
    before = sorted(tmp_path.iterdir())
    result = run("solve", scenario, "-o", str(tmp_path / name))
    assert result.exit_code == 2 and solver.question is None
    assert "cannot be written" in result.stderr and result.stdout == ""
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("solve", "no-such-scenario"), "no shipped scenario"),
        (("solve", "no-such-scenario"), "all: planner scenarios list"),
        (("solve", "{scenario}", "--set", "jobs.tiny.architecture=mistral-8b"), "mistral-7b"),
        (("solve", "{scenario}", "--set", "jobs.tiny.deadline=12"), "deadline"),
        (("solve", "{scenario}", "--set", "nonsense"), "nonsense"),
        (("solve", "{scenario}", "--gap", "nan"), "finite"),
        (("solve", "{scenario}", "--gap", "-1"), "--gap"),
        (("solve", "{scenario}", "--time-limit", "0"), "--time-limit"),
        (("solve", "{scenario}", "--solver", "gurobi"), "highs"),
        (("solve", "{scenario}", "--as-of", "yesterday"), "'yesterday' is not a date; write it as 2026-11-21"),
        (("solve",), "SCENARIO"),
        (("architectures", "show", "mistral-8b"), "mistral-7b"),
        (("gpus", "show", "RTX9090"), "RTX3090"),
        (("offers", "show", "nobody/nowhere/nothing"), "unknown offer"),
        (("offers", "--inventory", "{scenario}.missing"), "no such file"),
        (("check", "{scenario}", "{scenario}"), "not JSON"),
        (("frobnicate",), "frobnicate"),
    ],
)
def test_bad_input_exits_2_and_says_what_would_be_right(scenario: str, arguments: tuple[str, ...], said: str) -> None:
    """On standard error in words, with --json on standard output as the errors document."""
    given = [argument.format(scenario=scenario) for argument in arguments]
    result = run(*given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr and "Traceback" not in result.stderr
    document = json.loads(run(*given, "--json").stdout)
    assert document["status"] == "error"
    assert all(set(error) == {"file", "line", "where", "what", "fix"} for error in document["errors"])
    assert said in json.dumps(document)


def test_all_faults_come_at_once_a_line_each(tmp_path: Path) -> None:
    """Three mistakes are three lines with file and line number."""
    path = tmp_path / "bad.yaml"
    path.write_text(SCENARIO.replace("tinyllama-1.1b", "tinylama").replace("RTX3090", "RTX3091") + "objektive: cost\n")
    result = run("solve", str(path))
    lines = result.stderr.splitlines()
    assert result.exit_code == 2 and len(lines) == 3
    assert all(line.startswith(f"{path}:") for line in lines)


def test_check_finds_what_was_edited(scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No violation exits 0; one exits 3, as a line and as JSON."""
    from planner.audit.audit import Violation

    path = tmp_path / "plan.json"
    path.write_text(make_plan().model_dump_json(by_alias=True))
    found: list[Violation] = []
    monkeypatch.setattr("planner.audit.audit.audit", lambda plan, question, library: found)
    good = run("check", str(path), scenario)
    assert (good.exit_code, good.stdout) == (0, "quickstart: no violations (1 job checked)\n")
    found.append(Violation("quickstart", "cost", 2.82, 2.5))
    found.append(Violation("\x1b[2Jjob", "cost", 2.82, 2.5))
    assert run("check", str(path), scenario).stdout.endswith(r"\u001b[2Jjob: cost: expected 2.82, found 2.5" + "\n")
    found.pop()
    bad = run("check", str(path), scenario)
    assert (bad.exit_code, bad.stdout) == (3, "quickstart: cost: expected 2.82, found 2.5\n")
    document = json.loads(run("check", str(path), scenario, "--json").stdout)
    assert document == {
        "schema_version": 3,
        "violations": [{"job": "quickstart", "what": "cost", "expected": 2.82, "found": 2.5}],
    }


def test_a_plan_file_with_a_wrong_field_is_bad_input(scenario: str, tmp_path: Path) -> None:
    """A plan is input like any other: the field is named, nothing is audited."""
    document = make_plan().model_dump(mode="json", by_alias=True)
    document["jobs"][0]["gpus"] = "many"
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    result = run("check", str(path), scenario)
    assert result.exit_code == 2 and "gpus" in result.stderr


@pytest.mark.parametrize("noun", ["architectures", "gpus", "offers"])
def test_list_is_what_a_group_does_unasked(noun: str) -> None:
    """`planner gpus` is `planner gpus list`, its options included."""
    assert run(noun).stdout == run(noun, "list").stdout
    assert run(noun, "--json").stdout == run(noun, "list", "--json").stdout


def test_an_architecture_tells_its_parameters() -> None:
    """At least name, parameters and active parameters, in the list and alone, by alias too."""
    listed = json.loads(run("architectures", "list", "--json").stdout)
    assert all({"name", "parameters", "active_parameters"} <= set(card) for card in listed)
    shown = json.loads(run("architectures", "show", "mixtral-8x7b", "--json").stdout)
    assert shown in listed
    assert shown["active_parameters"] < shown["parameters"]
    assert json.loads(run("gpus", "show", "rtx 3090", "--json").stdout)["name"] == "RTX3090"


def test_offers_are_those_of_the_file_that_is_named(scenario: str) -> None:
    """A scenario's own offers, an inventory's, or the shipped market; filtered by card and provider."""
    own = json.loads(run("offers", "--inventory", scenario, "--json").stdout)
    assert [offer["name"] for offer in own] == ["vast/any/1x-rtx3090"]
    market = json.loads(run("offers", "--json").stdout)
    picked = json.loads(run("offers", "list", "--gpu", "rtx 3090", "--provider", "vast", "--json").stdout)
    assert 0 < len(picked) < len(market)
    assert {(offer["gpu"], offer["provider"]) for offer in picked} == {("RTX3090", "vast")}
    assert json.loads(run("offers", "show", picked[0]["name"], "--json").stdout) == picked[0]


def test_offers_of_every_kind_are_listed_with_their_way_to_pay() -> None:
    """Cores, terms, hours left and prices per token or run stand in the table; `show` has what is derived."""
    file = str(Path(__file__).parents[2] / "scenarios" / "inventory" / "ways-to-pay.yaml")
    lines = run("offers", "--inventory", file).stdout.splitlines()
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines}
    assert rows["vast/CA-Quebec/1x-rtx3090-prepaid-3-months"] == "1 x RTX3090 0.0959 - committed, 3 months -"
    assert rows["example-cloud/any/1x-a100-hours-left"] == "1 x A100-80GB 0.00 - committed, 200.0 h left -"
    assert rows["desk/home/1x-rtx3090"] == "1 x RTX3090 0.25 - own -"
    assert rows["ori/any/fine-tuning-up-to-10b"] == "- 0.46/M tokens - managed, lora -"
    assert rows["example-service/any/flat-rate"] == "- 30.00/run - managed, lora -"
    assert rows["aws/us-east-1/c6i.4xlarge"] == "16 cores 0.68/h - secure 2026-02-09"
    shown = json.loads(run("offers", "show", "desk/home/1x-rtx3090", "--inventory", file, "--json").stdout)
    assert (shown["tier"], shown["usd_per_hour"], shown["stock"]) == ("own", pytest.approx(0.25), 1)


def test_tables_are_aligned_and_fit_the_screen() -> None:
    """Architectures and cards in 80 columns; every line of a column starts where its title does."""
    for noun in ("architectures", "gpus"):
        lines = run(noun).stdout.splitlines()
        assert len(lines) > 20 and max(map(len, lines)) <= 80
    head, *rows = run("offers", "--provider", "lambda").stdout.splitlines()
    column = head.index("GPUs")
    assert all(row[column - 1] == " " and row[column].isdigit() for row in rows)


def test_the_schema_is_one_json_document() -> None:
    """It names the keys of a scenario."""
    assert {"jobs", "offers", "limits"} <= set(json.loads(run("schema").stdout)["properties"])


def test_help_and_version_are_everywhere() -> None:
    """Every command explains itself."""
    assert run("--version").stdout.startswith("planner ")
    for words in ([], ["solve"], ["check"], ["architectures"], ["gpus", "show"], ["offers", "list"], ["schema"]):
        result = run(*words, "--help")
        assert result.exit_code == 0 and result.stdout.startswith("Usage: ")


@pytest.mark.parametrize("group", [[], ["market"]])
def test_a_group_alone_shows_its_help_and_exits_2(group: list[str]) -> None:
    """As typed help, with its line breaks, on standard error."""
    result = run(*group)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.strip() == run(*group, "--help").stdout.strip()


def test_a_misspelt_command_is_no_internal_error() -> None:
    """No module is looked for; newer versions of click name the nearest command."""
    result = run("solv")
    assert result.exit_code == 2 and "No such command 'solv'" in result.stderr


def test_a_command_is_loaded_when_it_is_asked_for() -> None:
    """The version needs none of them; `gpus` alone needs its own, which has `architectures`, too."""
    code = (
        "import sys\nfrom planner.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "wanted = {'planner.cli.catalog_command', 'planner.cli.solve_command', 'planner.cli.question_commands'}\n"
        "print(sorted(wanted & set(sys.modules)))"
    )
    for words, loaded in (["--version"], "[]"), (["gpus", "--help"], "['planner.cli.catalog_command']"):
        command = [sys.executable, "-c", code, *words]
        found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
        assert found.stdout.splitlines()[-1] == loaded


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("3", "3")])
def test_a_command_multiplies_matrices_on_one_thread_unless_told(
    given: str | None, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The matrices are small: the start of more threads would cost more than they bring."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    assert run("--version").exit_code == 0
    assert os.environ["OPENBLAS_NUM_THREADS"] == used


def test_a_closed_pipe_ends_quietly() -> None:
    """`planner schema | head -1` leaves no message behind."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from planner.cli import main; main()", "architectures", "list", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141


def test_the_front_door_imports_nothing_slow() -> None:
    """click and the standard library; whatever computes or reads files waits until it is needed."""
    code = (
        "import sys, planner.cli; slow = {'numpy', 'pydantic', 'yaml', 'ortools', 'pulp', 'pandas'}; "
        "print(sorted(slow & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert found.stdout.strip() == "[]"
