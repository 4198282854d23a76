"""Files and paths that no careful user gives: each ends with exit code 2 and one line that says what would be right."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli import main
from tests.helpers.plans import make_plan
from tests.helpers.scenarios import GOOD

CONFIG = {
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 32000, "max_position_embeddings": 4096,
}  # fmt: skip
STATE = {"log_history": [{"step": n, "train_runtime": 2.0 * n} for n in range(1, 9)]}
PRICES = "provider,gpu,gpus,usd_per_hour,date\nmy-cloud,RTX4090,1,0.4,2026-11-20\n"
TRACE = {"metadata": {"gap_seconds": 600}, "data": [1, 0] * 50}

SHOW, CALIBRATE = (
    ("architectures", "show", "{file}"),
    ("calibrate", "{file}", "--gpu", "A100", "--tokens-per-step", "9"),
)
FIT, CHECK = ("market", "fit", "{file}"), ("check", "{file}", "quickstart")
EXPORT = ("export", "{file}", "--to", "trl")
COMMANDS = (SHOW, CALIBRATE, FIT, CHECK, EXPORT)


def answer(*arguments: str) -> list[str]:
    """Return the lines of the faults of a command that must end with exit code 2."""
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 2, (result.exit_code, result.output[:300])
    return result.output.strip().splitlines()


def refused(tmp_path: Path, command: tuple[str, ...], text: str) -> str:
    """Return the only fault of a command on a file `x.json` with this text, without its folder."""
    path = tmp_path / "x.json"
    path.write_text(text)
    (line,) = answer(*(word.format(file=path) for word in command))
    assert "; " in line, "what would be right"
    return line.removeprefix(f"{tmp_path}/")


def with_text(data: dict[str, object], old: str, new: str) -> str:
    """Return data as JSON, one value per line, with one text replaced."""
    return json.dumps(data, indent=1).replace(old, new, 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_attention_heads", "0"),
        ("num_attention_heads", "1e999"),
        ("hidden_size", "1" + "0" * 300),
        ("hidden_size", "1" + "0" * 30),
        ("num_hidden_layers", '"32"'),
        ("num_key_value_heads", "[]"),
        ("num_key_value_heads", "[1]"),
        ("vocab_size", "null"),
        ("max_position_embeddings", "NaN"),
    ],
)
def test_a_config_is_refused_at_the_line_of_its_odd_number(tmp_path: Path, key: str, value: str) -> None:
    """Zero, infinite, huge or no number: the line of the key, and what it may be."""
    number = CONFIG[key]
    line = refused(tmp_path, SHOW, with_text(CONFIG, f'"{key}": {number}', f'"{key}": {value}'))
    assert line.startswith(f"x.json:{2 + list(CONFIG).index(key)}: ")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_bomb_is_refused_by_every_reader_of_json(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Brackets in brackets, numbers of many digits, infinite numbers, nothing: file and line, whoever reads it."""
    assert refused(tmp_path, command, "[" * 100_000).startswith("x.json:1: nested too deeply; ")
    for digits in (400, 5000):
        assert refused(tmp_path, command, '{\n"a": ' + "7" * digits + "}").startswith(
            f"x.json:2: a number of {digits} "
        )
    assert refused(tmp_path, command, '{\n\n"a": 1e999}').startswith("x.json:3: 1e999 is not a finite number; ")
    assert refused(tmp_path, command, "").startswith("x.json:1: is empty; ")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_file_of_a_gigabyte_is_not_read(tmp_path: Path, command: tuple[str, ...]) -> None:
    """The size is told before anything is read."""
    path = tmp_path / "x.json"
    with open(path, "wb") as stream:
        stream.truncate(10**9)
    (line,) = answer(*(word.format(file=path) for word in command))
    assert line.endswith("too large: 1000 MB; at most 10 MB")


def test_a_log_is_refused_at_the_line_of_its_odd_number(tmp_path: Path) -> None:
    """A step that is infinite, or that goes back."""
    assert refused(tmp_path, CALIBRATE, with_text(STATE, '"step": 3', '"step": 1e999')).startswith("x.json:12: 1e999")
    line = refused(tmp_path, CALIBRATE, with_text(STATE, '"step": 3', '"step": 1'))
    assert line.startswith("x.json:11: log_history.2: steps go back from 2 to 1; ")


def test_a_trace_is_refused_at_the_line_of_its_odd_number(tmp_path: Path) -> None:
    """A gap of 400 digits, and one that is no gap."""
    assert refused(tmp_path, FIT, with_text(TRACE, "600", "6" * 400)).startswith("x.json:3: a number of 400 digits; ")
    assert refused(tmp_path, FIT, with_text(TRACE, "600", "-1")).startswith("x.json:3: metadata.gap_seconds: -1 ")


@pytest.mark.parametrize(
    "path", ["x" * 300, "y/" * 200 + "z.json", "a\x00b", "a\x00b.json"], ids=("long", "deep", "nul", "nul.json")
)
@pytest.mark.parametrize(
    "command",
    [
        ("solve", "{}"), ("offers", "list", "--inventory", "{}"), ("check", "{}", "quickstart"), FIT, SHOW, CALIBRATE,
        ("simulate", "quickstart", "--trace", "{}"), ("simulate", "quickstart", "--plan", "{}"),
        ("estimate", "--gpu", "A10G", "--architecture", "{}"),
        ("solve", "quickstart", "--set", "jobs.0.architecture={}"), ("solve", "quickstart", "--set", "inventory.0={}"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_path_that_cannot_be_is_bad_input(command: tuple[str, ...], path: str) -> None:
    """Too long a name, a NUL: one line, not an internal error."""
    lines = answer(*(word.replace("{file}", "{}").replace("{}", path) for word in command))
    assert len(lines) == 1 and "; " in lines[0]


def test_an_inventory_of_a_scenario_may_not_be_an_impossible_path(tmp_path: Path) -> None:
    """Inventories and models that a scenario names are refused at their line."""
    file = tmp_path / "s.yaml"
    for name in ("x" * 300 + ".json", "a\\0b.json"):
        file.write_text(
            GOOD.replace("architecture: mistral-7b", f'architecture: "{name}"') + f'\ninventory: ["{name}"]\n'
        )
        lines = answer("solve", str(file))
        assert len(lines) == 2 and all(line.startswith(f"{file}:") for line in lines)


@pytest.mark.parametrize(
    "command", ["solve {}", "simulate {}", "what-if {} --vary limits.max_gpus=2", "frontier {}", "explain {}", "app {}"]
)
def test_a_plan_in_place_of_a_scenario_is_one_fault(tmp_path: Path, command: str) -> None:
    """Every key of it was one."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(make_plan().model_dump(mode="json", by_alias=True)))
    (line,) = answer(*command.format(path).split())
    assert line.startswith(f"{path}:1: is a plan that solve wrote, and no scenario; give the scenario")


def test_an_inventory_that_is_there_and_no_file_is_not_called_missing(tmp_path: Path) -> None:
    """A folder and a device exist."""
    for path in (tmp_path, Path("/dev/zero")):
        (line,) = answer("solve", "quickstart", "--set", f"inventory={path}")
        assert f"inventory: not a file: {path}; give a path" in line


def test_of_thousands_of_faults_the_first_hundred_are_reported(tmp_path: Path) -> None:
    """A plan of 20,000 wrong jobs is refused in a moment."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"scenario": "quickstart", "status": "optimal", "jobs": [1] * 20_000}))
    lines = answer("check", str(path), "quickstart")
    assert len(lines) == 101 and any(" more faults; correct those above first" in line for line in lines)


@pytest.mark.parametrize(
    "command",
    [("offers", "import"), ("prices", "check"), ("prices", "update", "--offline"), ("offers", "list", "--inventory")],
    ids=" ".join,
)
def test_a_file_of_passwords_is_refused_without_them(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Its first line is taken for the header: a fault shows the start of a name, and nothing that follows a `=`."""
    path = tmp_path / "env.csv"
    for text in ("PASSWORD=hunter2\nX=1\n", f"{'0123456789' * 6},b\nx,1\n", "TOKEN=hunter2,TOKEN=hunter2\n1,2\n"):
        path.write_text(text)
        said = "\n".join(answer(*command, str(path)))
        assert f"{path}:1: " in said and "hunter2" not in said and "0123456789" * 3 not in said


@pytest.mark.parametrize(
    "command",
    [
        ("solve", "{file}", "-o", "{file}"),
        ("solve", "{file}", "-o", "{link}"),
        ("solve", "{link}", "--plot", "{file}"),
        ("frontier", "{file}", "--plot", "{file}"),
        ("report", "{file}", "-o", "{file}"),
        ("architectures", "import", "{config}", "-o", "{config}"),
        ("calibrate", "{state}", *CALIBRATE[2:], "-o", "{state}"),
        ("market", "fit", "{trace}", "-o", "{trace}"),
        ("sweep", "{table}", "--vary", "limits.max_gpus=1:2:1", "-o", "{table}"),
        ("sweep", "{part}", "--vary", "limits.max_gpus=1:2:1", "-o", "{rows}"),
        ("sweep", "{file}", "--set", "inventory={prices}", "--vary", "limits.max_gpus=1:2:1", "-o", "{prices}"),
        ("prices", "update", "--offline", "{prices}", "-o", "{prices}"),
        ("init", "--model", "{model}", "--tokens", "24M", "-o", "{model}", "--force"),
    ],
    ids=lambda words: " ".join(words),
)
def test_no_answer_replaces_what_the_command_has_read(
    tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scenario, log, trace or configuration stays as it is, also where another name leads to it."""
    files = {"file": "x.svg", "link": "y.svg", "config": "config.yaml", "state": "state.json", "trace": "trace.json"}
    files |= {"table": "q.csv", "rows": "r.csv", "part": "r.csv.part", "prices": "p.csv", "model": "config.json"}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    paths = {kind: tmp_path / name for kind, name in files.items()}
    for kind in ("file", "table", "part"):
        paths[kind].write_text(GOOD)
    paths["link"].symlink_to(paths["file"])
    paths["prices"].write_text(PRICES)
    paths["rows"].write_text("")
    for kind, data in (("config", CONFIG), ("state", STATE), ("trace", TRACE), ("model", CONFIG)):
        paths[kind].write_text(json.dumps(data))
    before = {path: path.read_bytes() for path in paths.values()}
    (line,) = answer(*(word.format(**paths) for word in command))
    assert line.endswith("is read by this command; write to another file")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "command",
    [
        ("solve", "quickstart", "-o", ""),
        ("report", "quickstart", "-o", ""),
        ("report", "quickstart", "--figure", "bill", "-o", ""),
        ("export", "plan.json", "-o", ""),
        ("export", "plan.json", "--all", "-o", ""),
        ("prices", "update", "--offline", ""),
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_one_that_was_left_out(
    tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of a script that is not set: nothing is written to where it would go without the option."""
    monkeypatch.chdir(tmp_path)
    assert "empty" in answer(*command)[-1] or "names no f" in answer(*command)[-1]
    assert not list(tmp_path.iterdir())


def in_shell(folder: Path, line: str) -> tuple[int, str]:
    """Return the exit code and standard error of a line of a shell, in which `planner` is this program."""
    program = f"{shlex.quote(sys.executable)} -m planner"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = ["bash", "-c", line.replace("planner", program)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("planner solve - -o s.yaml <s.yaml", "is the file of standard input"),
        ("planner solve - -o /dev/stdin <s.yaml", "is the file of standard input"),
        ("planner solve s.yaml -o log >>log", "is the file of standard output"),
        ("planner solve s.yaml -o /dev//stdout >>log", "is the file of standard output"),
        ("planner solve s.yaml -o /proc/thread-self/fd/1 >>log", "is the file of standard output"),
        ("planner solve s.yaml -o link >>log", "is the file of standard output"),
        ("planner report s.yaml -o log >>log", "is the file of standard output"),
        ("planner solve s.yaml -o /dev/stderr 2>>log; code=$?; tail -n 1 log >&2; exit $code", "standard error"),
    ],
)
def test_no_answer_replaces_the_file_of_a_standard_stream(tmp_path: Path, line: str, what: str) -> None:
    """What a log or the scenario held is still there, whatever name leads to it."""
    (tmp_path / "s.yaml").write_text(GOOD)
    (tmp_path / "log").write_text("earlier\n")
    (tmp_path / "link").symlink_to("/dev/stdout")
    code, said = in_shell(tmp_path, line)
    assert code == 2 and what in said and "; write to another file" in said
    assert (tmp_path / "s.yaml").read_text() == GOOD
    assert (tmp_path / "log").read_text().startswith("earlier\n")


@pytest.mark.slow
def test_what_standard_output_is_named_by_still_means_it(tmp_path: Path) -> None:
    """A log keeps its earlier lines and gets the document after them."""
    (tmp_path / "log").write_text("earlier\n")
    for name in ("-", "/dev/stdout"):
        assert in_shell(tmp_path, f"planner init --model mistral-7b --tokens 24M -o {name} >>log") == (0, "")
    assert (tmp_path / "log").read_text().startswith("earlier\n#")
    assert (tmp_path / "log").read_text().count("schema: 2") == 2


def test_an_answer_and_its_picture_are_two_files(tmp_path: Path) -> None:
    """One would replace the other."""
    path = tmp_path / "x.svg"
    (line,) = answer("solve", "quickstart", "-o", str(path), "--plot", str(tmp_path / "." / "x.svg"))
    assert line.endswith("is both the answer and its picture; name two files") and not path.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("jobs.0.trials={count: 1000000, at_once: 1}", "count: 1000000 is out of range; must be at most 10,000"),
        ("jobs.0.trials={count: 9, halving: 1.0001}", "halving: 1.0001 is out of range; must be at least 1.1"),
        (f"jobs.0.techniques.tensor_parallel={[1] * 33}", "tensor_parallel: "),
        (f"jobs.0.lora.rank={[8] * 33}", "rank: "),
        ("jobs.0.confidence=0.4", "confidence: 0.4 is out of range; must be at least 0.5"),
        ("limits.budget_confidence=1e-9", "budget_confidence: 1e-09 is out of range; must be at least 0.5"),
        ("limits.budget_usd=1e-300", "budget_usd: 1e-300 is out of range; must be at least 1e-12"),
        ("jobs.0.deadline=1e-300s", "deadline: '1e-300s' is out of range"),
    ],
)
def test_a_setting_beyond_every_use_is_refused(setting: str, what: str) -> None:
    """Some took minutes and gigabytes, others ended in an error of the solver or the audit."""
    (fault,) = answer("solve", "quickstart", "--set", setting)
    assert what in fault


@pytest.mark.parametrize(
    ("terms", "what"),
    [
        (
            "billing: {step_seconds: 1.0e+12}",
            "step_seconds: 1000000000000.0 is out of range; must be at most 2,678,400",
        ),
        ("billing: {minimum_hours: 9000}", "minimum_hours: 9000"),
        (
            "spot: {up: {ages_hours: AGES, ends_per_hour: RATES}, outage: {ages_hours: [0], ends_per_hour: [1]}}",
            "ages_hours: ",
        ),
    ],
)
def test_terms_of_an_offer_beyond_every_use_are_refused(tmp_path: Path, terms: str, what: str) -> None:
    """A step of centuries was billed as nothing, thousands of ages took gigabytes."""
    terms = terms.replace("AGES", str(list(range(61)))).replace("RATES", str([1] * 61))
    offer = f"  - {{provider: p, gpu: H100-80GB, gpus: 1, usd_per_hour: 2.0, spot_usd_per_hour: 1.0, {terms}}}\n"
    path = tmp_path / "offers.yaml"
    path.write_text(f"name: x\njobs:\n  - {{architecture: mistral-7b, work: {{tokens: 9M}}}}\noffers:\n{offer}")
    faults = answer("solve", str(path))
    assert any(what in fault and fault.startswith(f"{path}:5: ") for fault in faults), faults


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value", "what"), [("training_hours", "1e308", "out of range"), ("instances", "-1", "must be at least 0")]
)
def test_a_figure_that_no_plan_has_is_refused(tmp_path: Path, key: str, value: str, what: str) -> None:
    """Sums of it overflowed, in `track` as in `simulate`."""
    path = tmp_path / "plan.json"
    assert CliRunner().invoke(main, ["solve", "quickstart", "-o", str(path)]).exit_code == 0
    plan = json.loads(path.read_text())
    plan["jobs"][0][key] = float(value) if key == "training_hours" else int(value)
    path.write_text(json.dumps(plan, indent=2))
    faults = answer("check", str(path), "quickstart")
    assert any(f"{key}: " in fault and what in fault and fault.startswith(f"{path}:") for fault in faults), faults
