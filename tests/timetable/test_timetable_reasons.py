"""What binds a timetable, and what another choice costs."""

from __future__ import annotations

import pytest

from planner.analysis.limit_sensitivity import explain
from planner.errors import ScenarioError
from planner.loading.scenario_file import read_scenario
from planner.timetable.timetable_result import take_turns
from tests.helpers.plans import make_assignment


@pytest.mark.long
def test_a_quota_and_the_deadlines_bind() -> None:
    """Six runs under half the quota: without it all of them cost 40 dollars; without one deadline one run more does."""
    scenario = read_scenario("team-quota", ["limits.quota.cheap=4"])
    found = explain(scenario.model_copy(update={"jobs": scenario.jobs[:6]}))
    savings = {one.limit: one.saving_usd for one in found.binding}
    assert found.cost_usd == pytest.approx(280.0)
    assert savings.pop("limits.quota.cheap") == pytest.approx(40.0)
    assert savings == {f"deadline of run-{number:02d}": pytest.approx(20.0) for number in range(1, 7)}


@pytest.mark.slow
def test_why_not_moves_the_other_jobs() -> None:
    """SFT on the own card is 4 h slower: the least cost is then DPO on the rented one and an hour of lateness."""
    found = explain(read_scenario("sft-dpo-evaluation"), "job=sft,provider=lab")
    assert found.why_not is not None
    assert found.why_not.status == "possible"
    assert found.why_not.cost_usd == pytest.approx(8 * 0.15 + 3 * 2.00 + 2 * 0.15)
    assert explain(read_scenario("sft-dpo-evaluation"), "job=sft,provider=cloud").why_not.status == "chosen"


@pytest.mark.slow
def test_why_not_earlier_is_solved() -> None:
    """The report waits 20 h for trials in turn; at 10 h all four have run at once: 3 * 4.00 + 1.50 + 0.30 dollars."""
    found = explain(read_scenario("trials-split"), "job=report,start=10h").why_not
    assert found is not None and found.status == "possible"
    assert found.cost_usd == pytest.approx(13.80)
    ends = explain(read_scenario("sft-dpo-evaluation"), "job=evaluation,end=8h").why_not
    assert ends is not None and ends.status == "impossible"
    assert "ends at 8.5 h at the earliest" in ends.reasons[0]  # 4 + 3 + 1.5 on the A100


def test_a_time_is_asked_of_jobs_that_take_turns() -> None:
    """A word is no time, and a job alone starts at once."""
    with pytest.raises(ScenarioError, match="is not hours after the start of the plan"):
        explain(read_scenario("sft-dpo-evaluation"), "job=sft,start=soon")
    with pytest.raises(ScenarioError, match="these run at once"):
        explain(read_scenario("quickstart"), "end=8h")


def test_jobs_take_turns_only_on_machines_of_one_offer() -> None:
    """A later job on other machines, or two at once on one offer, share none."""
    first = make_assignment(name="a", offer="one", start_at_hours=0.0, end_at_hours=2.0)
    for offer, start, shared in (("one", 2.0, True), ("one", 0.0, False), ("other", 2.0, False)):
        second = make_assignment(name="b", offer=offer, start_at_hours=start, end_at_hours=start + 1.0)
        assert take_turns((first, second)) is shared
