"""Messages of functions name their arguments, those of commands their options; both are one text."""

from __future__ import annotations

import ast
import datetime
import inspect
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import planner
from planner.analysis.market_paths import SimulationArguments
from planner.cli import main
from planner.errors import Fault, InputError, ScenarioError, _kinds_of, argument_of, in_python_words, python_words
from planner.loading.question import Question
from tests.helpers.computed_once import compute_once
from tests.helpers.open_scenarios import OPEN
from tests.helpers.probes import probed, write_probe_file
from tests.helpers.services import SERVICE_FILE

ROOT = Path(planner.__file__).parent
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*[a-z0-9])")
VARY = ["limits.budget_usd=[3, 9]"]
TRL = "base_model: mistralai/Mistral-7B-v0.1\nadapter: lora\nlora_r: 16\nsequence_len: 2048\nsample_packing: true\n"


def tool_file() -> str:
    Path("axolotl.yaml").write_text(TRL, encoding="utf-8")
    return "axolotl.yaml"


def probe_file(plan: planner.Plan) -> str:
    return write_probe_file(Path(), probed(plan))


WRONG: dict[str, Callable[[], Any]] = {
    "read_training_config without tokens": lambda: planner.read_training_config(tool_file()),
    "read_training_config of an unknown key": lambda: planner.read_training_config(tool_file(), tokenz="3M"),
    "read_training_config of a wrong value": lambda: planner.read_training_config(tool_file(), tokens="3Q"),
    "read_training_config of a list": lambda: planner.read_training_config(tool_file(), tokens=["3M"]),
    "read_scenario": lambda: planner.read_scenario("quickstart", "limits.budgt_usd=1"),
    "change_scenario": lambda: planner.change_scenario(planner.read_scenario("quickstart"), "a=1"),
    "build_scenario": lambda: planner.build_scenario(jobs=[]),
    "scenario_yaml": lambda: planner.scenario_yaml("no-such"),
    "solve": lambda: planner.solve("no-such"),
    "solve options": lambda: planner.solve("quickstart", 3),  # type: ignore[arg-type]
    "solve library": lambda: planner.solve("quickstart", library="models"),  # type: ignore[arg-type]
    "what_if settings": lambda: planner.what_if("quickstart", 3),  # type: ignore[arg-type]
    "write_report runs": lambda: planner.write_report("quickstart", runs=-1),
    "frontier by": lambda: planner.frontier("quickstart", by="colour"),  # type: ignore[arg-type]
    "frontier of a service by": lambda: planner.frontier("serve-office-hours", by="gpu"),
    "frontier job": lambda: planner.frontier("quickstart", job="chat"),
    "frontier points": lambda: planner.frontier("quickstart", points=1),
    "service_frontier": lambda: planner.service_frontier("quickstart"),
    "loss_frontier": lambda: planner.loss_frontier("quickstart"),
    "sweep": lambda: planner.sweep("quickstart", []),
    "sweep of a wrong range": lambda: planner.sweep("quickstart", ["limits.budget_usd=[3"]),
    "tornado": lambda: planner.tornado("quickstart", by=3),
    "what_if": lambda: planner.what_if("quickstart", "a=1"),
    "explain": lambda: planner.explain("quickstart", why_not="gpu=foo"),
    "explain of an unknown key": lambda: planner.explain("quickstart", why_not="colour=red"),
    "explain_technique": lambda: planner.explain_technique("quickstart", "sparsitee"),
    "simulate runs": lambda: planner.simulate("quickstart", runs=0),
    "simulate together": lambda: planner.simulate("quickstart", together=True),
    "simulate plan": lambda: planner.simulate("quickstart", "plan.json"),  # type: ignore[arg-type]
    "simulate_service": lambda: planner.simulate_service("quickstart"),
    "simulate_service traces": lambda: planner.simulate_service("serve-office-hours", traces=["a.csv"]),
    "policy_tables": lambda: planner.policy_tables("quickstart", "plan.json"),  # type: ignore[arg-type]
    "policy_tables without spot": lambda: planner.policy_tables(
        "no-4-bit", planner.solve(planner.read_scenario("no-4-bit", "limits.spot=false"))
    ),
    "estimate": lambda: planner.estimate("mistral-7b", "A10G", sequence_length=0),
    "estimate of an unknown GPU": lambda: planner.estimate("mistral-7b", "A10Gx"),
    "estimate_many": lambda: planner.estimate_many([{"architecture": "mistral-7b"}]),
    "estimate_inference": lambda: planner.estimate_inference("mistral-7b", "A10G", outputs=1),
    "estimate_rl": lambda: planner.estimate_rl("mistral-7b", "A10G", algorithm="grpu"),
    "estimate_preference": lambda: planner.estimate_preference("mistral-7b", "A10G", objective="dpp"),
    "calibrate": lambda: planner.calibrate([], "A10Gx"),
    "calibrate_losses": lambda: planner.calibrate_losses("quickstart.csv"),
    "calibrate job": lambda: planner.calibrate([], "A10G", scenario=planner.read_scenario("quickstart"), job="x"),
    "market_fit": lambda: planner.market_fit([]),
    "market_fit instances": lambda: planner.market_fit("a.csv", instances=0),
    "probe": lambda: planner.probe(planner.solve("quickstart"), job="chat"),
    "judge_probe": lambda: planner.judge_probe("plan.json", "quickstart", "probe.json"),  # type: ignore[arg-type]
    "judge_probe of another job": lambda: planner.judge_probe(
        solved := planner.solve("quickstart"), planner.plan_scenario(solved), probe_file(solved), job="chat"
    ),
    "track": lambda: planner.track("plan.json", "quickstart", []),  # type: ignore[arg-type]
    "run_sweep": lambda: planner.run_sweep("quickstart", [], "out.csv"),
    "export job": lambda: planner.export(planner.solve("quickstart"), "trl", job="chat"),
    "export to": lambda: planner.export(planner.solve("quickstart"), "trk"),
    "offers": lambda: planner.offers(gpu="A10Gx"),
    "offers provider": lambda: planner.offers(provider="lamda"),
    "import_offers": lambda: planner.import_offers("no-such.csv"),
    "import_architecture": lambda: planner.import_architecture("./no-such.json"),
    "architectures": lambda: planner.architectures("no such model"),
    "check": lambda: planner.check("no-such.json"),
    "plan_scenario": lambda: planner.plan_scenario("no-such.json"),
    "read_plan": lambda: planner.read_plan("no-such.json"),
    "write_report": lambda: planner.write_report("quickstart", without=["colours"]),  # type: ignore[list-item]
}
"""A wrong call of each public function that takes input, and of those whose commands have options for it."""


@pytest.mark.parametrize("what", WRONG)
def test_wrong_calls_are_faults_without_options(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the package, whose text names no option of a command."""
    compute_once(monkeypatch)  # several start from the plan of the quickstart
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        WRONG[what]()
    assert not OPTION.findall(re.sub(r"planner [a-z-]+( [a-z]+)?[^;,]*", "", str(error.value))), str(error.value)
    again = pickle.loads(pickle.dumps(error.value))
    assert again.faults == error.value.faults and type(again) is type(error.value)


def test_every_function_that_takes_input_is_called_wrongly() -> None:
    """A new function needs a line above, or a reason."""
    without_faults = {
        *("gpus", "text", "plot", "watched"),  # no input, results alone, a context
        "spot_advice",  # called in a loop that has no planner: ValueError
        "update_prices",  # uses the network
    }
    functions = {name for name in planner.__all__ if inspect.isfunction(getattr(planner, name))}
    assert functions - {what.partition(" ")[0] for what in WRONG} == without_faults


def test_one_fault_in_the_words_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says the option, the function the argument."""
    monkeypatch.chdir(tmp_path)
    typed = CliRunner().invoke(main, ["solve", "--from", tool_file()])
    assert typed.exit_code == 2 and "give --tokens, or --samples with --tokens-per-sample" in typed.output
    with pytest.raises(ScenarioError, match="give tokens, or samples with tokens_per_sample, or lengths with a table"):
        planner.read_training_config("axolotl.yaml")
    typed = CliRunner().invoke(main, ["frontier", "serve-office-hours", "--by", "gpu"])
    assert typed.exit_code == 2 and "--by: divides a frontier of cost against time" in typed.output
    with pytest.raises(ScenarioError, match=r"^by: divides a frontier of cost against time"):
        planner.frontier("serve-office-hours", by="gpu")


def test_values_are_taken_as_programs_have_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers and durations, for what an option takes as text."""
    monkeypatch.chdir(tmp_path)
    day = datetime.timedelta(hours=14)
    said = planner.read_training_config(tool_file(), tokens=24_000_000, deadline=day, budget=20.5)
    typed = planner.read_training_config(tool_file(), tokens="24M", deadline="14h", budget="20.5")
    assert said == typed and said.jobs[0].deadline_hours == 14


@pytest.mark.parametrize(
    ("command", "python"),
    [
        ("--tokens 10Q", "tokens=10Q"),
        ("--why-not gpu=foo, method=x", "why_not=gpu=foo, method=x"),
        ("--set limits.x=1", "the setting limits.x=1"),
        (
            "plan with --set 'jobs.a.techniques.engine=[vllm]'",
            "plan with the setting 'jobs.a.techniques.engine=[vllm]'",
        ),
        ("give --gpus 8", "give gpus=8"),
        ("raise --time-limit or lower --gap", "raise time_limit_seconds or lower gap"),
        ("planner prices update --offline FILE", "planner prices update --offline FILE"),
        ("a dash -- and a---b stay", "a dash -- and a---b stay"),
    ],
)
def test_options_become_arguments(command: str, python: str) -> None:
    """With their values; commands that a user types stay as they are."""
    assert python_words(command) == python


def test_options_of_faults_are_arguments_of_a_function() -> None:
    """No module below the commands names an option in a fault that no public function has as an argument."""
    known = {"set", "force", "date", "ram_gb", "network_gbps", "offline", "json", "plan"}  # of commands that are quoted
    for name in planner.__all__:
        if inspect.isfunction(function := getattr(planner, name)):
            known |= set(inspect.signature(function).parameters)
    known |= {field.name for field in fields(Question)} | set(SimulationArguments.__annotations__)
    known |= set(planner.Stated.__dataclass_fields__) | set(planner.SolveOptions.model_fields)
    known |= {"accumulation_steps"}  # of `**settings`
    unknown = {}
    for folder in ("analysis", "loading", "documents", "catalogs", "solving", "open_choices", "scenario"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "Fault":
                    texts = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
                    for option in OPTION.findall(" ".join(text for text in texts if isinstance(text, str))):
                        if argument_of(option) not in known:
                            unknown[option] = path.name
    assert not unknown


def test_notes_of_results_name_no_option() -> None:
    """A result says the same to whoever asked for it, by command or by function."""
    for folder in ("evaluation", "solving", "spot", "timetable"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            docstrings = {ast.unparse(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            said = [text for text in texts if isinstance(text, str) and repr(text) not in docstrings]
            assert not [text for text in said if "--set " in text], path
    tight = planner.estimate("llama-3.1-8b", "A10G", weight_bits=4, instances=2, gpus=8)
    assert "bandwidth between machines unknown" in " ".join(tight.notes) and not OPTION.search(" ".join(tight.notes))


def test_public_functions_are_one_object_that_travels() -> None:
    """Asked for twice it is one function, which a pool of processes can be sent; its signature is the function's."""
    assert planner.solve is planner.solve
    assert pickle.loads(pickle.dumps(planner.solve)) is planner.solve
    assert next(iter(inspect.signature(planner.solve).parameters)) == "scenario"


def test_the_cause_and_the_place_stay() -> None:
    """The traceback leads to the line that raised, and faults keep their file, line and place."""

    def wrong() -> None:
        raise ScenarioError([Fault("a.yaml", 7, "jobs.0", "no --tokens", "give --tokens 5")]) from KeyError("x")

    with pytest.raises(ScenarioError) as error:
        in_python_words(wrong)()
    assert error.value.faults == (Fault("a.yaml", 7, "jobs.0", "no tokens", "give tokens=5"),)
    assert isinstance(error.value.__cause__, KeyError) and error.traceback[-1].name == "wrong"


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "kind"), [(SERVICE_FILE, planner.ServiceFrontier), (OPEN, planner.LossFrontier), ("", planner.Frontier)]
)
def test_a_frontier_is_that_of_the_command(text: str, kind: type, tmp_path: Path) -> None:
    """Of a service, of losses and of jobs: the same points, a table of them, and the text."""
    path = "quickstart"
    if text:
        path = str(tmp_path / "asked.yaml")
        Path(path).write_text(text, encoding="utf-8")
    found = planner.frontier(path, planner.SolveOptions(as_of=datetime.date(2026, 11, 21)), points=2)
    said = CliRunner().invoke(main, ["frontier", path, "--points", "2", "--as-of", "2026-11-21", "--json"])
    assert json.loads(found.model_dump_json(by_alias=True))["points"] == json.loads(said.stdout)["points"]
    assert type(found) is kind and len(found.table()) == len(found.points) > 0
    assert str(found).strip()


class Strange:
    """No argument of any function."""


FUNCTIONS = [name for name in planner.__all__ if inspect.isfunction(getattr(planner, name))]
ANY_KEYS = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument_of_a_wrong_kind_is_a_fault_with_its_name(name: str) -> None:
    """Before anything is computed, whatever else is missing; and never an error of the code inside."""
    function = getattr(planner, name)
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in ANY_KEYS and _kinds_of(parameter.annotation) is not None:
            with pytest.raises(InputError) as raised:
                function(**{key: Strange()})
            assert str(raised.value).startswith(f"{key}: is no ") and "Strange; give " in str(raised.value)


def test_most_arguments_are_looked_at_before_a_call() -> None:
    """All but those that the functions themselves read in several forms."""
    read = {
        parameter.annotation
        for name in FUNCTIONS
        for parameter in inspect.signature(getattr(planner, name)).parameters.values()
        if parameter.kind not in ANY_KEYS and _kinds_of(parameter.annotation) is None
    }
    assert read >= {"Asked", "Settings"} and len(read) <= 25, read


@pytest.mark.parametrize(
    "ask",
    [
        lambda: planner.estimate_many(3),
        lambda: planner.estimate_many("abc"),
        lambda: planner.market_fit(3),
        lambda: planner.market_fit([Strange()]),
        lambda: planner.what_if("quickstart", [Strange()]),  # type: ignore[list-item]
        lambda: planner.solve(Strange()),  # type: ignore[arg-type]
    ],
)
def test_what_has_several_forms_is_refused_by_its_function(ask: Callable[[], object]) -> None:
    """Rows, traces, settings and scenarios."""
    with pytest.raises(InputError, match=r"(is|are) no "):
        ask()
