"""Files and paths that no careful user gives: each ends with exit code 2 and one line that says what would be right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli import main
from tests.helpers.scenarios import GOOD

CONFIG = {
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 32000, "max_position_embeddings": 4096,
}  # fmt: skip
STATE = {"log_history": [{"step": n, "train_runtime": 2.0 * n} for n in range(1, 9)]}
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
        ("vocab_size", "null"),
        ("max_position_embeddings", "NaN"),
    ],
)
def test_a_config_is_refused_at_the_line_of_its_odd_number(tmp_path: Path, key: str, value: str) -> None:
    """Zero, infinite, huge or no number: the line of the key, and what it may be."""
    number = CONFIG[key]
    if value == "[]":  # an empty list counts as not given
        value = "[1]"
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


def test_of_thousands_of_faults_the_first_hundred_are_reported(tmp_path: Path) -> None:
    """A plan of 20,000 wrong jobs is refused in a moment."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"scenario": "quickstart", "status": "optimal", "jobs": [1] * 20_000}))
    lines = answer("check", str(path), "quickstart")
    assert len(lines) == 101 and any(" more faults; correct those above first" in line for line in lines)


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
    ],
    ids=lambda words: " ".join(words),
)
def test_no_answer_replaces_what_the_command_has_read(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A scenario, log, trace or configuration stays as it is, also where another name leads to it."""
    files = {"file": "x.svg", "link": "y.svg", "config": "config.yaml", "state": "state.json", "trace": "trace.json"}
    paths = {kind: tmp_path / name for kind, name in files.items()}
    paths["file"].write_text(GOOD)
    paths["link"].symlink_to(paths["file"])
    for kind, data in (("config", CONFIG), ("state", STATE), ("trace", TRACE)):
        paths[kind].write_text(json.dumps(data))
    before = {path: path.read_bytes() for path in paths.values()}
    (line,) = answer(*(word.format(**paths) for word in command))
    assert line.endswith("is read by this command; write to another file")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_answer_and_its_picture_are_two_files(tmp_path: Path) -> None:
    """One would replace the other."""
    path = tmp_path / "x.svg"
    (line,) = answer("solve", "quickstart", "-o", str(path), "--plot", str(tmp_path / "." / "x.svg"))
    assert line.endswith("is both the answer and its picture; name two files") and not path.exists()


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
