"""Short forms: a setting below one keeps what the short form says."""

from __future__ import annotations

from typing import Any

import pytest

from planner.documents.overrides import override
from planner.documents.quantities import REPLACED
from planner.documents.validation import list_alternatives
from planner.loading.scenario_file import parse_scenario
from planner.scenario.scenario import ScenarioFile

JOB = {"name": "a", "architecture": "tinyllama-1.1b", "work": {"tokens": 1e6}}


@pytest.mark.parametrize(
    ("data", "setting", "expected"),
    [
        (
            {"jobs": [{"confidence": 0.5}]},
            "jobs.0.confidence.memory=0.9",
            {"jobs": [{"confidence": {"deadline": 0.5, "memory": 0.9}}]},
        ),
        ({"jobs": [{"trials": 4}]}, "jobs.0.trials.at_once=2", {"jobs": [{"trials": {"count": 4, "at_once": 2}}]}),
        ({"jobs": [{"after": "b"}]}, "jobs.0.after.0.lag=1h", {"jobs": [{"after": [{"job": "b", "lag": "1h"}]}]}),
        ({"jobs": [{"after": ["b"]}]}, "jobs.0.after.0.lag=1h", {"jobs": [{"after": [{"job": "b", "lag": "1h"}]}]}),
        (
            {"limits": {"gpus": "A100-80GB"}},
            "limits.gpus.forbid=L4",
            {"limits": {"gpus": {"allow": "A100-80GB", "forbid": "L4"}}},
        ),
        (
            {"limits": {"tiers": ["a", "b"]}},
            "limits.tiers.forbid=[]",
            {"limits": {"tiers": {"allow": ["a", "b"], "forbid": []}}},
        ),
        ({"limits": {"regions": "us"}}, "limits.regions.1=eu", {"limits": {"regions": ["us", "eu"]}}),
        (
            {"limits": {"providers": {"allow": "a"}}},
            "limits.providers.allow.1=b",
            {"limits": {"providers": {"allow": ["a", "b"]}}},
        ),
        (
            {"objective": "time"},
            "objective.value_of_time_usd_per_hour=5",
            {"objective": {"value_of_time_usd_per_hour": 5}},
        ),
    ],
)
def test_a_setting_below_a_short_form_keeps_what_it_says(
    data: dict[str, Any], setting: str, expected: dict[str, Any]
) -> None:
    """The short form becomes the mapping or list that it abbreviates, and the setting is added to it."""
    found, _, faults = override(data, [setting])
    assert not faults
    assert found == expected


@pytest.mark.parametrize(
    ("data", "setting", "what"),
    [
        ({"limits": {"quota": 3}}, "limits.quota.aws=2", "limits.quota is 3, which has no key aws"),
        ({"jobs": [{"deadline": "3h"}]}, "jobs.0.deadline.max=2h", "jobs.0.deadline is '3h', which has no key max"),
        ({"jobs": [{"trials": True}]}, "jobs.0.trials.at_once=2", "jobs.0.trials is true, which has no key at_once"),
        ({"jobs": [{"confidence": "high"}]}, "jobs.0.confidence.memory=0.9", "is 'high', which has no key memory"),
    ],
)
def test_a_setting_below_a_plain_value_is_a_fault(data: dict[str, Any], setting: str, what: str) -> None:
    """A value that abbreviates no mapping is not dropped without a word."""
    found, origins, (fault,) = override(data, [setting])
    assert (found, origins) == (data, {})
    assert what in fault.what
    assert "as a whole" in fault.fix


def test_short_forms_mean_what_the_schema_reads() -> None:
    """A scenario with a harmless setting below each short form is that without the setting."""
    text = {
        "jobs": [{**JOB, "confidence": 0.5, "trials": 4}, {**JOB, "name": "b", "after": "a"}],
        "limits": {"gpus": "A100-80GB", "regions": ["us-east-1"], "tiers": "secure"},
    }
    settings = ["jobs.a.confidence.memory=0.85", "jobs.a.trials.at_once=1", "jobs.b.after.0.lag=0h"]
    settings += [f"limits.{name}.forbid=[]" for name in ("gpus", "regions", "tiers")]
    plain = parse_scenario(str(text))
    changed = parse_scenario(str(text), set_=settings)
    assert (changed.jobs, changed.limits) == (plain.jobs, plain.limits)


def test_every_number_that_may_stand_for_a_mapping_of_a_job_is_known() -> None:
    """A new short form in the schema is added to the table, or to what a mapping replaces."""
    schema = ScenarioFile.model_json_schema(by_alias=True)
    found = set()
    for form in list_alternatives(schema["properties"]["jobs"]["items"], schema):
        for key, inside in form.get("properties", {}).items():
            kinds = {one.get("type", "") for one in list_alternatives(inside, schema)}
            if "object" in kinds and kinds & {"number", "integer", "string"}:
                found.add(key)
    assert found - {place[-1] for place in REPLACED} == {"confidence", "trials"}


def test_a_part_of_a_family_replaces_the_name_of_a_model() -> None:
    """A name or a number says another thing than the mapping in its place: nothing of it is left to keep."""
    settings = ["jobs.0.architecture.family=llama", "jobs.0.architecture.parameters.from=1B"]
    found, _, faults = override({"jobs": [{"architecture": "mistral-7b"}]}, settings)
    assert not faults
    assert found == {"jobs": [{"architecture": {"family": "llama", "parameters": {"from": "1B"}}}]}
