"""What people type first: lists without keys, other words for keys, positions, part of a GPU's name, wide terminals."""

from __future__ import annotations

import re
from typing import Any

import pytest
from click.testing import CliRunner, Result

import planner
from planner.cli import main
from planner.cli.output import count_columns
from planner.errors import ScenarioError
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.report.any_result import text
from planner.report.words import line_room, text_width, whole, width

JOB = "{architecture: mistral-7b, work: {tokens: 1M}}"


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environment)


@pytest.mark.parametrize("key", ["providers", "gpus", "regions", "tiers"])
def test_names_alone_are_what_is_allowed(key: str) -> None:
    """`limits.providers: [aws]` is `{allow: [aws]}`, and so is a single name."""
    name = {"providers": "aws", "gpus": "RTX4090", "regions": "us-east-1", "tiers": "secure"}[key]
    for written in (f"[{name}]", name, f"{{allow: [{name}]}}"):
        scenario = parse_scenario(f"jobs: [{JOB}]\nlimits: {{{key}: {written}}}")
        assert getattr(scenario.limits, key).allow == (name,)
    assert getattr(change_scenario(scenario, [f"limits.{key}=[{name}]"]).limits, key).allow == (name,)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("offers: [{provider: p, gpu: T4, gpus: 1, price: 1}]", "did you mean usd_per_hour?"),
        ("x: 1\njobs: [{architecture: mistral-7b, work: {tokens: 1M}, batch_size: 8}]", "did you mean global_batch?"),
        ("jobs: [{model: mistral-7b, work: {tokens: 1M}}]", "did you mean architecture?"),
        ("limits: {budget: 5}", "did you mean budget_usd?"),
    ],
)
def test_other_words_for_a_key_lead_to_it(text: str, fix: str) -> None:
    """What the key is called elsewhere."""
    with pytest.raises(ScenarioError, match="unknown key") as caught:
        parse_scenario(text if "jobs" in text else f"jobs: [{JOB}]\n{text}")
    assert fix in str(caught.value)


def test_faults_of_the_work_come_with_the_others() -> None:
    """Samples without a length are told in the same run as a deadline without a unit."""
    with pytest.raises(ScenarioError) as caught:
        parse_scenario("jobs: [{architecture: mistral-7b, work: {samples: 5}, deadline: 36}]")
    assert sorted(fault.where for fault in caught.value.faults) == ["jobs.0.deadline", "jobs.0.work"]


def test_offers_are_found_by_a_part_of_the_name_and_none_is_explained() -> None:
    """A number is enough; an empty list says why it is empty, and its JSON stays a list."""
    assert "RTX4090" in run("offers", "list", "--gpu", "4090").stdout
    assert run("offers", "list", "--gpu", "4090", "--provider", "aws").stdout.startswith("no offers: aws does not list")
    assert run("offers", "list", "--provider", "cudo").stdout == "no offers: none is of provider cudo\n"
    assert run("offers", "list", "--provider", "cudo", "--json").stdout == "[]\n"
    misspelt = run("offers", "list", "--provider", "awz")
    assert misspelt.exit_code == 2 and "no offers of provider 'awz'; did you mean aws?" in misspelt.stderr
    assert "runpod-secure" in run("offers", "list", "--provider", "RunPod", "--gpu", "h100").stdout
    wrong = run("offers", "list", "--gpu", "no-such-card")
    assert wrong.exit_code == 2 and "unknown GPU" in wrong.stderr


def test_estimate_takes_model_and_gpu_by_position() -> None:
    """The same answer as by option; neither, or both, is refused."""
    by_position = run("estimate", "mistral-7b", "A10G", "--weight-bits", "4")
    by_option = run("estimate", "--architecture", "mistral-7b", "--gpu", "A10G", "--weight-bits", "4")
    assert by_position.exit_code == 0 and by_position.stdout == by_option.stdout
    assert "missing GPU" in run("estimate", "mistral-7b").stderr
    assert "keep one" in run("estimate", "mistral-7b", "A10G", "--gpu", "T4").stderr


@pytest.mark.slow
@pytest.mark.parametrize(("told", "most"), [("", 80), ("60", 60), ("100", 100), ("400", 160)])
def test_text_is_as_wide_as_the_terminal_up_to_160_columns(told: str, most: int) -> None:
    """COLUMNS counts in a pipe too; text is never narrower than 60 columns. A command is never broken."""
    lines = run("solve", "quickstart", "--as-of", "2026-11-21", COLUMNS=told).stdout.splitlines()
    assert most - 20 < max(len(line) for line in lines if not line.startswith("planner ")) <= most


OF_EACH_KIND = ("near-tie", "buy-or-rent", "nights-with-pauses", "many-adapters", "rl-7b-one-card")


def answers_of(name: str) -> list[Any]:
    """Return what each command has to say of a scenario; of those that take long its plan alone."""
    if name in ("many-adapters", "rl-7b-one-card"):
        return [planner.solve(name)]
    found = [planner.solve(name), planner.explain(name), planner.what_if(name, ["limits.max_price_age=null"])]
    return [*found, *([planner.frontier(name)] if name != "nights-with-pauses" else [])]


def estimates() -> list[Any]:
    served = planner.estimate_inference("llama-3.1-8b", "H100-80GB", engine="vllm")
    tuned = planner.estimate_preference("llama-3.1-8b", "H100-80GB")
    drawn = planner.estimate("flux.1-dev", "RTX4090")
    return [planner.estimate("mistral-7b", "A10G"), drawn, served, tuned, planner.estimate_rl("qwen3-8b", "H100-80GB")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["estimates", *OF_EACH_KIND])
def test_every_answer_of_every_kind_keeps_to_the_columns(kind: str) -> None:
    """Nothing but what must be copied whole is longer than the terminal, the details neither."""
    for found in estimates() if kind == "estimates" else answers_of(kind):
        for columns in (60, 80, 160):
            with whole():
                texts = [text(found, columns), text(found, columns, details=True)]
            texts.append(text(found, columns))
            lines = [line for shown in texts for line in shown.splitlines()]
            long = [line for line in lines if len(line) > columns and not re.search(r"--set |planner ", line)]
            assert long == [], (type(found).__name__, columns)


def test_widths_are_those_of_the_text_that_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The width holds inside its block only; nonsense in COLUMNS is ignored."""
    with text_width(100):
        assert (width(), line_room()) == (100, 89)
    assert width() == 80
    monkeypatch.setenv("COLUMNS", "wide")
    assert count_columns() > 0


def test_the_table_of_gpus_is_explained() -> None:
    """Below the table stand the words of its head."""
    assert "usable: what a process can allocate" in run("gpus", "list").stdout
