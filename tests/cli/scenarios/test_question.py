"""A question asked in options: the same plan as its file, in any folder, with faults under their options."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.loading.question import Question, load_question, scenario_text
from planner.loading.scenario_file import load_scenario, parse_scenario

ASKED = ("--model", "llama-3.1-8b", "--tokens", "24M", "--method", "lora", "--deadline", "14h", "--budget", "20")
AS_OF = ("--as-of", "2026-11-21")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.long
def test_the_line_that_saves_a_question_writes_a_file_with_the_same_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty folder: solve without a file, run the printed command, solve the file; the answers are equal."""
    monkeypatch.chdir(tmp_path)
    asked = run("solve", *ASKED, *AS_OF)
    assert asked.exit_code == 0, asked.stderr
    answer, _, saving = asked.stdout.partition("\n\nTo keep this question: ")
    assert answer.startswith("llama-3.1-8b: ")
    assert run(*shlex.split(saving.splitlines()[0])[1:]).exit_code == 0
    kept = run("solve", "my.yaml", *AS_OF)
    assert kept.stdout.partition("\n\nplanner ")[0] == answer


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["frontier"],
        pytest.param(["explain"], marks=pytest.mark.long),
        ["explain", "--why-not", "gpu=RTX3090"],
        ["what-if", "--set", "limits.budget_usd=2"],
    ],
)
def test_other_commands_take_a_question_too(command: list[str]) -> None:
    """Their text ends with the line that saves it, their JSON is one document."""
    question = (*ASKED, "--gpus", "RTX3090,L40S", *command[1:], *AS_OF)
    text = run(command[0], *question)
    assert text.exit_code == 0 and "To keep this question: planner init" in text.stdout, text.stderr
    assert json.loads(run(command[0], *question, "--json").stdout)


FULL = Question(
    model="mistral-7b",
    samples="50000",
    tokens_per_sample="600",
    epochs="3",
    sequence_length="4k",
    method="qlora",
    deadline="2d",
    budget="$7.50",
    gpus="rtx 4090, A6000",
    providers="vast,lambda",
    max_gpus="4",
    no_spot=True,
    objective="{value_of_time_usd_per_hour: 5}",
)


def test_every_option_reaches_the_scenario() -> None:
    """Amounts, techniques, limits and the objective; names of GPUs in any spelling that is known."""
    scenario = load_question(FULL).scenario
    job, limits = scenario.jobs[0], scenario.limits
    assert (job.work.samples, job.work.tokens_per_sample, job.work.epochs) == (50000, 600, 3)
    assert (job.techniques.method, job.techniques.weight_bits, job.deadline_hours) == (("lora",), (4,), 48)
    assert (limits.budget_usd, limits.max_gpus, limits.spot_share.max) == (7.5, 4, 0)
    assert (limits.gpus.allow, limits.providers.allow) == (("RTX4090", "A6000"), ("vast", "lambda"))
    assert scenario.value_of_time_usd_per_hour == 5


@pytest.mark.parametrize("question", [FULL, Question(model="llama-3.1-8b", tokens="24M")])
def test_the_written_file_is_the_question(question: Question) -> None:
    """The text of `init` is read as the same scenario; what is not asked for stands in comments."""
    assert parse_scenario(scenario_text(question)) == load_question(question).scenario


def test_faults_name_the_option(tmp_path: Path) -> None:
    """All at once, without lines of a file that nobody wrote."""
    result = run("solve", "--model", "llama-3.1-8x", "--tokens", "24X", "--budget", "dear", "--max-gpus", "0")
    assert result.exit_code == 2
    faults = result.stderr.splitlines()
    assert sorted(fault.partition(":")[0] for fault in faults) == [
        "--budget dear", "--max-gpus 0", "--model llama-3.1-8x", "--tokens 24X"
    ]  # fmt: skip
    samples = run("solve", "--model", "mistral-7b", "--samples", "5").stderr
    assert samples == "--samples 5: samples of unknown length; add tokens_per_sample (the mean)\n"
    nothing = run("solve", "--model", "mistral-7b").stderr
    assert nothing.startswith("command line: the amount of work is missing; give --tokens")
    for amount in ((), ("--tokens", "3M")):  # no option counts images: a command that does is shown
        images = run("solve", "--model", "flux", *amount).stderr
        assert "as in planner solve images-flux-lora --set jobs.0.architecture=flux" in images


@pytest.mark.parametrize("option", ["--budget", "--deadline", "--max-gpus", "--gpus", "--providers", "--objective"])
@pytest.mark.parametrize("value", ["", " ", ","])
def test_an_option_that_says_nothing_is_a_fault(option: str, value: str) -> None:
    """A variable of a script that is not set would else give a plan without the limit."""
    result = run("solve", "--model", "mistral-7b", "--tokens", "24M", option, value)
    assert result.exit_code == 2
    assert result.stderr == f"{option}: says nothing; give its value, or leave the option out\n"


def test_a_file_and_a_question_exclude_each_other() -> None:
    """Neither is silently ignored, and one of them is needed."""
    both = " ".join(run("solve", "quickstart", "--model", "mistral-7b").stderr.split())
    assert "not both; with SCENARIO give --set jobs.0.architecture=mistral-7b" in both
    assert "give SCENARIO or --model" in run("solve").stderr
    assert run("solve").exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "settings"),
    [
        (("--budget", "$20"), ["limits.budget_usd=20"]),
        (("--gpus", "RTX4090, A100", "--no-spot"), ["limits.gpus.allow=[RTX4090, A100]", "limits.spot=false"]),
        (("--method", "qlora"), ["jobs.0.techniques.method=lora", "jobs.0.techniques.weight_bits=4"]),
        (("--deadline", "2d", "--max-gpus", "4"), ["jobs.0.deadline=2d", "limits.max_gpus=4"]),
    ],
)
def test_options_next_to_a_scenario_name_the_settings_that_say_the_same(
    given: tuple[str, ...], settings: list[str]
) -> None:
    """They can be copied from the message."""
    (usage,) = [line for line in run("solve", "quickstart", *given).stderr.splitlines() if line.startswith("Error")]
    assert "--model asks without SCENARIO" in usage and "not both" not in usage
    words = shlex.split(usage.partition("with it give ")[2])
    assert words == [word for setting in settings for word in ("--set", setting)]
    assert run("solve", "quickstart", *words).exit_code == 0


@pytest.mark.parametrize("value", ["x", "", "5", "2026-13-01"])
def test_a_wrong_now_is_told_under_its_option(value: str) -> None:
    """It was called a setting, which nobody had given."""
    for command in (("solve", "quickstart"), ("simulate", "quickstart"), ("app",)):
        result = run(*command, "--now", value)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"--now: '{value}' is not a day and time; write 2026-12-01 09:00")


def test_numbers_of_tokens_and_samples_are_typed_as_people_write_them() -> None:
    """Thousands with commas and suffixes, in every option that counts tokens or samples."""
    question = Question(model="mistral-7b", samples="50,000", tokens_per_sample="1.2k", sequence_length="16k")
    (job,) = load_question(question).scenario.jobs
    assert (job.work.samples, job.work.tokens_per_sample, job.sequence_length) == (50_000, 1_200.0, 16_000)
    (million,) = load_question(Question(model="mistral-7b", tokens="24M")).scenario.jobs
    assert million.work.tokens == 24_000_000


def test_a_length_that_cuts_samples_is_said_below_the_first_line() -> None:
    """With the share that is lost; a length that the model cannot read is a fault under its option."""
    asked = ("--model", "llama-3.1-8b", "--samples", "2,000", "--tokens-per-sample", "8k", "--method", "qlora", *AS_OF)
    second = run("solve", *asked, "--gpus", "A5000", "--sequence-length", "2,000").stdout.splitlines()[1]
    assert second.startswith("! samples of llama-3.1-8b are cut to 2,000 tokens: 75.0 %")
    beyond = run("solve", *asked, "--sequence-length", "200k")
    assert beyond.exit_code == 2 and beyond.stderr.startswith("--sequence-length 200k: a sequence of 200,000 is longer")
    estimated = run("estimate", "llama-3.1-8b", "H100-80GB", "--sequence-length", "2k", "--tokens-per-sample", "8,000")
    assert estimated.stdout.splitlines()[1].startswith("! samples are cut to 2,000 tokens: 75.0 %")


def test_a_table_of_lengths_is_asked_for_by_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its samples are the amount of work; a file in another folder reaches it, and a setting says the same."""
    monkeypatch.chdir(tmp_path)
    Path("made").mkdir()
    Path("my lengths.csv").write_text("tokens,count\n200,9000\n1500,1000\n", encoding="utf-8")
    asked = Question(model="mistral-7b", lengths="my lengths.csv", epochs="2")
    (job,) = load_question(asked).scenario.jobs
    assert (job.work.samples, job.work.tokens_per_sample, job.work.epochs) == (10_000, 330, 2)
    (part,) = load_question(Question(model="mistral-7b", lengths="my lengths.csv", samples="1M")).scenario.jobs
    assert (part.work.samples, part.work.tokens_per_sample) == (1_000_000, 330)
    saved = ("init", "--model", "mistral-7b", "--lengths", "my lengths.csv", "--epochs", "2", "-o", "made/my.yaml")
    assert run(*saved).exit_code == 0
    assert load_scenario("made/my.yaml", ()).scenario.jobs[0].work == job.work
    setting = "jobs.0.work={lengths: my lengths.csv, epochs: 2}"
    loaded = load_question(Question(model="mistral-7b", tokens="1M"), [setting])
    assert loaded.scenario.jobs[0].work == job.work


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--lengths", "bad.csv"), "bad.csv:3: tokens: 'abc' is no number of tokens or samples"),
        (("--lengths", "none.csv"), "--lengths none.csv: cannot be read: no such file"),
        (("--lengths", "good.csv", "--tokens-per-sample", "300"), "--tokens-per-sample 300: 300 tokens per sample con"),
        (("--lengths", ""), "--lengths: says nothing"),
        ((), "command line: the amount of work is missing; give --tokens, or --samples with --tokens-per-sample, or -"),
    ],
)
def test_faults_of_a_table_of_lengths_name_file_and_line(
    options: tuple[str, ...], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table's own by its line, all others by the option."""
    monkeypatch.chdir(tmp_path)
    for name, cell in (("bad", "abc"), ("good", "90")):
        Path(f"{name}.csv").write_text(f"tokens,count\n200,9000\n{cell},1000\n", encoding="utf-8")
    refused = run("solve", "--model", "mistral-7b", *options)
    assert refused.exit_code == 2 and refused.stderr.startswith(fault), refused.stderr
