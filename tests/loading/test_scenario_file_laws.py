"""Laws of the front door: nothing breaks it, and what is written reads back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import ScenarioError
from planner.loading.scenario_file import parse_scenario
from planner.scenario.scenario import scenario_data
from tests.helpers.scenarios import GOOD, json_text

scenarios = st.fixed_dictionaries(
    {
        "name": st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=10)
        | st.sampled_from(["1e6", "no", "12:30"]),
        "jobs": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["a", "b.c", "1", "null"]),
                    "architecture": st.sampled_from(["mistral-7b", "llama-2-7b"]),
                    "work": st.sampled_from([{"tokens": "1.2B"}, {"samples": 5, "tokens_per_sample": 6.5}]),
                },
                optional={
                    "deadline": st.sampled_from(["90m", "1d12h", "0.1h"]),
                    "efficiency": st.floats(1e-6, 1e6),
                    "techniques": st.sampled_from([{"method": "lora", "weight_bits": [4, 16]}, {"lora": {"rank": 3}}]),
                    "lora": st.sampled_from([{"targets": "qv"}, {"targets": ["q"], "rank": 3}]),
                },
            ).filter(lambda job: not ("lora" in job and "lora" in job.get("techniques", {}))),
            min_size=1,
            max_size=3,
            unique_by=lambda job: job["name"],
        ),
        "offers": st.lists(
            st.fixed_dictionaries(
                {
                    "provider": st.sampled_from(["aws", "no"]),
                    "gpu": st.sampled_from(["T4", "H100-80GB"]),
                    "gpus": st.integers(1, 8),
                    "usd_per_hour": st.floats(0, 100),
                },
                optional={
                    "date": st.dates().map(str),
                    "spot": st.sampled_from([{"availability": 0.3, "mean_up_hours": 7}]),
                    "notes": st.text(st.characters(exclude_categories=("Cs",)), max_size=10),
                },
            ),
            min_size=1,
            max_size=3,
        ),
    },
    optional={
        "objective": st.sampled_from(["time", {"value_of_time_usd_per_hour": 5}]),
        "limits": st.sampled_from([{"quota": {"aws": 8}, "spot_share": {"max": 0}}, {"providers": {"forbid": "no"}}]),
    },
).filter(lambda data: "providers" not in data.get("limits", {}) or "no" in [one["provider"] for one in data["offers"]])


@pytest.mark.slow
@settings(max_examples=60, derandomize=True, deadline=None)
@given(scenarios)
def test_a_written_scenario_reads_back_the_same(data: dict[str, Any]) -> None:
    """Text and object say the same thing: nothing is lost or changed by a file in between."""
    scenario = parse_scenario(json_text(data))
    assert parse_scenario(json_text(scenario_data(scenario))) == scenario


@pytest.mark.slow
@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from([*GOOD.split(" "), "\n", "  ", "null", "[", "{", ".nan", "-1", "1e999"])).map(" ".join)
)
def test_garbage_raises_nothing_but_scenario_errors(text: str) -> None:
    """Whatever the text, the door answers with faults that name it."""
    try:
        parse_scenario(text, file="s.yaml")
    except ScenarioError as error:
        assert error.faults


@pytest.mark.long
@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.data())
def test_a_good_scenario_with_one_value_replaced_is_read_or_refused(data: st.DataObject) -> None:
    """Any value in any place is understood or told, never a crash."""
    places = ["name", "jobs", "jobs.0", "jobs.0.work", "jobs.0.work.samples", "jobs.0.architecture", "jobs.0.lora"]
    places += ["jobs.0.deadline", "jobs.0.techniques", "jobs.0.techniques.lora.targets", "jobs.0.measured"]
    places += ["offers", "offers.0", "offers.0.gpu", "offers.0.spot", "offers.0.provider", "offers.0.date", "inventory"]
    places += [
        "limits",
        "limits.providers",
        "limits.providers.allow",
        "limits.quota",
        "limits.spot_share",
        "limits.gpus",
    ]
    places += ["adjust", "adjust.0", "adjust.0.match", "objective", "jobs.0.confidence", "jobs.0.techniques.method"]
    values = [
        "null",
        "true",
        "[]",
        "{}",
        "-1",
        ".nan",
        "1e999",
        "text",
        "[[]]",
        "[null]",
        "{a: 1}",
        "[5]",
        "''",
        "x.json",
    ]
    setting = f"{data.draw(st.sampled_from(places))}={data.draw(st.sampled_from(values))}"
    try:
        parse_scenario(GOOD, set_=[setting])
    except ScenarioError as error:
        assert error.faults
