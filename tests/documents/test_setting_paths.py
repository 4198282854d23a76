"""The nearest valid paths: what is meant by one that leads nowhere."""

from __future__ import annotations

import pytest

from planner.documents.overrides import known_paths, override, suggest_paths
from planner.errors import ScenarioError
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.scenario.scenario import ScenarioFile, scenario_data
from tests.helpers.scenarios import GOOD


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "fix"),
    [
        ("limit.budget=5", "did you mean limits.budgets or limits.budget_usd?"),
        ("budget=5", "did you mean limits.budgets"),
        ("jobs.a.deadlin=3h", "did you mean jobs.a.deadline?"),
        ("deadline=3h", "did you mean jobs.a.deadline?"),
        ("job.a.deadline=3h", "did you mean jobs.a.deadline?"),
        ("jobs.nobody.deadline=3h", "did you mean jobs.a.deadline?"),
        ("limits.spot.max=0.5", "did you mean limits.spot_share.max?"),
        ("limits.forbid.gpus=[H100-80GB]", "did you mean limits.gpus.forbid?"),
        ("jobs.a.techniques.bits=4", "did you mean jobs.a.techniques.weight_bits"),
        ("zebra=1", "known keys: adjust"),
    ],
)
def test_an_unknown_path_is_told_with_the_nearest_valid_ones(setting: str, fix: str) -> None:
    """Whole paths, with the job's name as the user wrote it."""
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(GOOD, set_=[setting])
    (fault,) = caught.value.faults
    assert fault.file == f"--set {setting}"
    assert fix in fault.fix


@pytest.mark.long
def test_every_path_that_is_told_can_be_set() -> None:
    """Each known path is taken by the validation: whatever is wrong with a value, its key is not unknown."""
    scenario = parse_scenario(GOOD)
    data = scenario_data(scenario)
    known = list(known_paths(ScenarioFile.model_json_schema(by_alias=True), data))
    assert {"limits.budget_usd", "jobs.a.deadline", "limits.gpus.forbid", "adjust.0.match.gpu", "vary"} <= set(known)
    for path in known:
        assert override(data, [f"{path}=1"])[2] == []
        try:
            change_scenario(scenario, [f"{path}=1"])
        except ScenarioError as error:
            assert not [fault for fault in error.faults if fault.what == "unknown key"], path


def test_nearest_paths_are_few_and_leave_out_what_is_right_already() -> None:
    """At most three, the most alike first; none where nothing is alike."""
    known = ["a", "a.deadline", "a.deadlines", "a.deadlined", "a.deadliness", "b.other"]
    assert suggest_paths("a.deadlin", known)[0] == "a.deadline"
    assert len(suggest_paths("a.deadlin", known)) == 3
    assert "a" not in suggest_paths("a.deadlin", known)
    assert suggest_paths("zzzz", known) == []
