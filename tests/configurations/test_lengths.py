"""How long the sequences of a job are where none is given, what is cut where one is, and what no model can read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import ScenarioError
from planner.estimates.work import NEGLIGIBLE_CUT, cut_share, default_sequence, padded_length
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.report.plan_text import render
from planner.report.report_page import warnings
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario
from planner.solving.solve import solve

QUIET = settings(max_examples=30, deadline=None, derandomize=True)
MEANS = st.floats(1.0, 200_000.0)


def asked(tokens_per_sample: Any, limits: dict[str, Any] | None = None, **job: Any) -> Scenario:
    """Return QLoRA on 2,000 samples of a mean length, on one kind of machine."""
    data = {
        "name": "s", "schema": 2, "limits": limits or {},
        "jobs": [{
            "name": "tune", "architecture": "llama-3.1-8b", "techniques": {"method": "lora", "weight_bits": 4},
            "work": {"samples": "2,000", "tokens_per_sample": tokens_per_sample}, **job,
        }],
        "offers": [{"provider": "p", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 2.0}],
    }  # fmt: skip
    return parse_scenario(json.dumps(data), file="s.json")


def sequence_of_plan(plan: Plan) -> int:
    """Return the tokens of a sequence of the only job."""
    return plan.jobs[0].sequence_length


@pytest.mark.parametrize(
    ("mean", "context", "sequence"),
    [(2048, 131072, 2048), (2049, 131072, 4096), (8000, 131072, 8192), (600.5, 131072, 1024), (1, 2048, 1),
     (100_000, 131072, 131072), (40_000, 40_960, 40_960), (None, 131072, 2048), (None, 1024, 1024)],
)  # fmt: skip
@pytest.mark.parametrize("packing", ["packed", "fixed"])
def test_a_sequence_holds_the_mean_sample(packing: str, mean: float | None, context: int, sequence: int) -> None:
    """The smallest power of two, or the longest that the model reads; unknown samples have the usual length."""
    assert default_sequence(packing, mean, 0.8, context) == sequence


def test_a_padded_sequence_holds_the_longest_sample() -> None:
    """With a spread of the lengths the longest is a multiple of the mean; without one it is the mean."""
    assert default_sequence("padded", 600, 0.0, 131072) == 1024
    assert default_sequence("padded", 600, 0.8, 131072) == 8192
    assert default_sequence("padded", 600, 0.8, 2048) == 2048


@QUIET
@given(
    st.sampled_from(["packed", "padded", "fixed"]), MEANS, st.floats(0.0, 3.0), st.sampled_from([1024, 40_960, 10**8])
)
def test_the_default_is_the_least_that_holds_the_samples(packing: str, mean: float, cv: float, context: int) -> None:
    """It cuts nothing that counts unless the model reads no more, and half of it cuts something."""
    sequence = default_sequence(packing, mean, cv, context)
    assert 1 <= sequence <= context
    assert sequence == context or cut_share(packing, mean, cv, sequence) < NEGLIGIBLE_CUT
    if sequence < context and sequence > 1:
        assert mean > sequence / 2 or cut_share(packing, mean, cv, sequence / 2) >= NEGLIGIBLE_CUT


@QUIET
@given(MEANS, st.floats(0.0, 2.0), st.integers(1, 200_000))
def test_the_share_that_is_cut_is_what_padding_does_not_process(mean: float, cv: float, sequence: int) -> None:
    """The closed form agrees with the grid of lengths, for samples one at a time."""
    held = float(padded_length(mean, cv, 1, sequence))
    assert cut_share("padded", mean, cv, sequence) == pytest.approx(1 - held / mean, abs=1e-3)


def test_longer_samples_are_more_work() -> None:
    """Where no length is given nothing is cut: four times the tokens cost at least three times as much."""
    plans = [solve(asked(mean)) for mean in (2048, "8k", "32,000")]
    assert [sequence_of_plan(plan) for plan in plans] == [2048, 8192, 32768]
    costs = [plan.jobs[0].cost_usd for plan in plans]
    assert costs[1] > 3 * costs[0] and costs[2] > 3 * costs[1]
    assert not any(plan.cut for plan in plans) and "cut" not in plans[0].model_dump(mode="json")


@pytest.mark.parametrize(("packing", "share"), [("packed", 0.744), ("padded", 0.747)])
def test_what_is_cut_stands_in_the_second_line(packing: str, share: float) -> None:
    """How much, and the setting that cuts nothing; in the text, the JSON, the report and the page."""
    plan = solve(asked(8000, sequence_length="2,048", packing=packing))
    (cut,) = plan.cut
    assert cut.share == pytest.approx(share, abs=0.001) and plan.model_dump(mode="json")["cut"]
    second = render(plan).splitlines()[1]
    assert second.startswith("! samples of tune are cut to 2,048 tokens: ") and f"{share * 100:.1f} %" in second
    (warning,) = warnings(plan)
    assert warning.endswith(f"--set {cut.setting} holds them")
    again = solve(asked(8000, sequence_length=int(cut.setting.partition("=")[2]), packing=packing))
    assert not again.cut


def test_an_answer_without_a_plan_says_what_is_cut_too() -> None:
    """The relaxations are those of the cut job."""
    lines = render(solve(asked(8000, sequence_length=2048, deadline="10m"))).splitlines()
    assert ": no plan keeps the deadline" in lines[0] and lines[1].startswith("! samples of tune are cut")


def test_the_audit_finds_another_share() -> None:
    """The share of cut tokens is checked like every figure, and so is its absence."""
    scenario = asked(8000, sequence_length=2048)
    plan, library = solve(scenario), read_library(["llama-3.1-8b"])
    assert not audit(plan, scenario, library)
    (cut,) = plan.cut
    for changed in ((), (cut.model_copy(update={"share": 0.5}),), (cut.model_copy(update={"sequence_length": 4096}),)):
        assert any("cut" in one.what for one in audit(plan.model_copy(update={"cut": changed}), scenario, library))


@pytest.mark.parametrize(
    ("mean", "job", "where"),
    [(800, {"sequence_length": 200_000}, "sequence_length"), (200_000, {}, "work.tokens_per_sample"),
     (800, {"measured": [{"gpu": "H100-80GB", "gpus": 1, "tokens_per_second": 5000, "sequence_length": "200k"}]},
      "measured.0.sequence_length")],
)  # fmt: skip
def test_what_the_model_cannot_read_is_a_fault(mean: float, job: dict[str, Any], where: str) -> None:
    """A given length, that of an observed run, and samples that no length holds; cut samples are none."""
    with pytest.raises(ScenarioError) as caught:
        solve(asked(mean, **job))
    (fault,) = caught.value.faults
    assert fault.where == f"jobs.tune.{where}" and "131,072 tokens that llama-3.1-8b can read" in fault.what
    assert solve(asked(200_000, sequence_length=131_072)).cut[0].holds is None
