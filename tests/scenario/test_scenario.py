"""The types of a scenario: units, contradictions, limits, what-if prices, and the schema."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from pydantic import ValidationError

from planner.errors import InputError, ScenarioError
from planner.loading.scenario_file import parse_scenario
from planner.scenario.job import Job
from planner.scenario.job_stages import Work
from planner.scenario.limits import DEFAULT_MAX_HOURS, AllowForbid, Limits, latest_finish_hours
from planner.scenario.offer import Offer, offer_labels
from planner.scenario.offer_terms import SpotStatistics
from planner.scenario.scenario import Scenario, scenario_data, scenario_schema
from planner.scenario.techniques import LoraSettings, Techniques

OFFER = {"provider": "vast", "region": "US-CA", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.2}
JOB = {"name": "a", "architecture": "mistral-7b", "work": {"tokens": "1M"}}


def scenario(**changes: Any) -> Scenario:
    return Scenario.model_validate({"name": "s", "jobs": [JOB], "offers": [OFFER], **changes})


@pytest.mark.parametrize(
    ("work", "what"),
    [
        ({}, "the amount of work is missing"),
        ({"epochs": 3}, "the amount of work is missing"),
        ({"samples": 5, "tokens": 5}, "samples and tokens contradict"),
        ({"steps": 5, "images": 5}, "steps and images contradict"),
        ({"tokens": 5, "epochs": 3}, "counts all epochs"),
        ({"images": 5, "tokens_per_sample": 3}, "images have no tokens_per_sample"),
        ({"samples": 5, "tokens_per_sample": 3, "resolution": 512}, "resolution cannot be combined with samples"),
    ],
)
def test_work_is_said_in_exactly_one_way(work: dict[str, Any], what: str) -> None:
    """Two amounts of work, or none, are one clear fault."""
    with pytest.raises(ValidationError, match=what) as caught:
        Work.model_validate(work)
    assert caught.value.error_count() == 1


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"work": {"samples": 5}}, "unknown length"),
        ({"packing": "padded"}, "unknown lengths"),
        ({"kind": "pretrain", "techniques": {"method": "lora"}}, "pretraining trains every weight"),
        ({"confidence": 0.99}, "more than can be guaranteed; at most 0.975"),
        ({"lora": {"rank": 8}, "techniques": {"lora": {"rank": 9}}}, "given twice"),
        ({"techniques": {"method": "full", "weight_bits": 4}}, "method full cannot train 4-bit"),
        ({"techniques": {"weight_bits": [16], "quant": "nf4"}}, "quant is for 4-bit"),
        ({"techniques": {"lora": {"targets": "everything"}}}, "not a set of modules"),
        ({"measured": [{"gpu": "A100-80GB", "gpus": 1}]}, "tokens_per_second or hours"),
        (
            {"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 3, "tokens_per_second": 900}]},
            "either tokens_per_second or hours",
        ),
        ({"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": 0}]}, "greater than 0"),
        ({"measured": [{"gpu": "A100-80GB", "gpus": 1, "hours": -2}]}, "greater than 0"),
        (
            {"measured": [{"gpu": "T4", "gpus": 2, "hours": 3}, {"gpu": "T4", "gpus": 2, "hours": 4}]},
            "observed twice on 2 x T4",
        ),
    ],
)
def test_a_job_that_contradicts_itself_is_refused(changes: dict[str, Any], what: str) -> None:
    """Settings that cannot hold together are told, not silently resolved."""
    with pytest.raises(ValidationError, match=what):
        Job.model_validate({**JOB, **changes})


def test_samples_of_fixed_length_need_no_mean() -> None:
    """Where every sequence has the same length, its length is the sequence length."""
    assert Job.model_validate({**JOB, "packing": "fixed", "work": {"samples": 5}}).work.samples == 5


def test_one_value_stands_for_a_list_of_one() -> None:
    """A technique that is fixed may be written without brackets."""
    techniques = Techniques.model_validate({"method": "lora", "weight_bits": 4, "tensor_parallel": [1, 2]})
    assert (techniques.method, techniques.weight_bits, techniques.tensor_parallel) == (("lora",), (4,), (1, 2))


@pytest.mark.parametrize("place", [("lora",), ("techniques", "lora")])
def test_lora_settings_are_found_in_both_places(place: tuple[str, ...]) -> None:
    """Adapters are described beside or inside the techniques, to the same effect."""
    written: Any = {"rank": 8, "targets": ["q_proj", "v_proj"]}
    for key in reversed(place):
        written = {key: written}
    assert Job.model_validate({**JOB, **written}).lora == LoraSettings(rank=8, targets=("q_proj", "v_proj"))
    assert Job.model_validate(JOB).lora == LoraSettings(rank=16, targets="all-linear")


@pytest.mark.parametrize(
    "given_two",
    [
        {"availability": 0.8, "mean_up_hours": 4.0},
        {"availability": 0.8, "mean_outage_hours": 1.0},
        {"mean_up_hours": 4.0, "mean_outage_hours": 1.0},
        {"availability": 0.803, "mean_up_hours": 4.0, "mean_outage_hours": 1.0},
    ],
)
def test_two_spot_statistics_give_the_third(given_two: dict[str, float]) -> None:
    """Availability is the time up over the time up and out; three may differ by one percent."""
    spot = SpotStatistics.model_validate(given_two)
    assert spot.availability == pytest.approx(0.8, rel=0.01)
    assert (spot.mean_up_hours, spot.mean_outage_hours) == (pytest.approx(4), pytest.approx(1))
    assert SpotStatistics.model_validate(spot.model_dump()) == spot


@pytest.mark.parametrize(
    "wrong",
    [
        {"availability": 0.8},
        {"availability": 1.0, "mean_outage_hours": 1.0},
        {"availability": 0.9, "mean_up_hours": 4.0, "mean_outage_hours": 1.0},
        {"availability": 1.2, "mean_up_hours": 4.0},
        {"availability": 0.8, "mean_up_hours": "4h"},
        {"availability": 0.8, "mean_up_hours": -4.0},
        {"availability": float("nan"), "mean_up_hours": 4.0},
        {"mean_up_hours": 0, "mean_outage_hours": 0},
    ],
)
def test_spot_statistics_that_do_not_fit_are_refused(wrong: dict[str, Any]) -> None:
    """One number is too few, three must agree, and each must make sense."""
    with pytest.raises(ValidationError):
        SpotStatistics.model_validate(wrong)


def test_an_offer_needs_a_price() -> None:
    """An unknown price is never a free machine."""
    with pytest.raises(InputError, match="without a price"):
        Offer(provider="p", gpu="T4", gpus=1)


def test_spot_counts_only_where_it_is_cheaper() -> None:
    """A spot price equal to the price on demand is no discount; alone, spot is all there is."""
    assert Offer(provider="p", gpu="T4", gpus=1, usd_per_hour=1.0, spot_usd_per_hour=0.5).has_spot
    assert Offer(provider="p", gpu="T4", gpus=1, spot_usd_per_hour=0.5).has_spot
    assert not Offer(provider="p", gpu="T4", gpus=1, usd_per_hour=1.0, spot_usd_per_hour=1.0).has_spot
    assert not Offer(provider="p", gpu="T4", gpus=1, usd_per_hour=1.0).has_spot


def test_labels_tell_offers_apart() -> None:
    """Offers of one type in one place are numbered."""
    offer = Offer.model_validate(OFFER)
    named = offer.model_copy(update={"instance": "pod"})
    assert offer_labels([offer, named, offer]) == ("vast/US-CA/1x-rtx3090", "vast/US-CA/pod", "vast/US-CA/1x-rtx3090#2")


def test_adjustments_multiply_on_what_they_match() -> None:
    """Each matching rule applies; an offer that no rule matches keeps its price."""
    other = {**OFFER, "gpu": "T4", "spot_usd_per_hour": 0.1}
    adjust = [
        {"match": {"gpu": "T4"}, "usd_per_hour_factor": 2.0, "spot_usd_per_hour_factor": 3.0},
        {"match": {"gpu": "T4", "provider": "vast"}, "usd_per_hour_factor": 1.5},
        {"match": {"gpu": "T4", "region": "US-TX"}, "usd_per_hour_factor": 100.0},
    ]
    before = scenario(offers=[OFFER, other], adjust=adjust)
    same, changed = (one for _, one in before.labelled_offers())
    assert same == before.offers[0]
    assert changed.usd_per_hour == pytest.approx(0.6)
    assert changed.spot_usd_per_hour == pytest.approx(0.3)
    assert before.offers[1].usd_per_hour == 0.2


def test_an_objective_has_a_kind_and_a_value_of_time() -> None:
    """A value of time is a cost; cost and time alone have none."""
    cases = {"cost": ("cost", 0.0), "time": ("time", 0.0)}
    for written, expected in cases.items():
        s = scenario(objective=written)
        assert (s.objective_kind, s.value_of_time_usd_per_hour) == expected
    valued = scenario(objective={"value_of_time_usd_per_hour": 5})
    assert (valued.objective_kind, valued.value_of_time_usd_per_hour) == ("cost", 5.0)


@pytest.mark.parametrize("wrong", ["cheap", 5, ["cost"], None, {"value_of_time_usd_per_hour": -1}, {"value": 1}])
def test_another_objective_is_refused(wrong: Any) -> None:
    """Only cost, time and a value of time can be minimised."""
    with pytest.raises(ScenarioError):
        scenario(objective=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"budget_usd": 0},
        {"budget_usd": float("nan")},
        {"budget_usd": "250"},
        {"max_gpus": 0},
        {"max_gpus": True},
        {"quota": {"aws": -1}},
        {"spot_share": {"min": 0.8, "max": 0.2}},
        {"spot_share": {"max": 1.5}},
        {"providers": {"allow": ["aws"], "forbid": ["aws"]}},
        {"regions": {"allow": []}},
        {"vram_headroom": 1.0},
    ],
)
def test_limits_that_no_plan_can_keep_are_refused(wrong: dict[str, Any]) -> None:
    """Contradictions and nonsense among the limits are input faults, not infeasible plans."""
    with pytest.raises(ValidationError):
        Limits.model_validate(wrong)


def test_names_are_permitted_by_both_lists() -> None:
    """Without an allow list everything is permitted that is not forbidden."""
    assert AllowForbid().permits("aws")
    assert not AllowForbid(forbid=("aws",)).permits("aws")
    assert [AllowForbid(allow=("gcp",)).permits(name) for name in ("gcp", "aws")] == [True, False]
    zone = "us-east-1/use1-az4"
    assert AllowForbid(allow=("us-east-1",)).permits(zone) and AllowForbid(allow=(zone,)).permits(zone)
    assert not AllowForbid(forbid=("us-east-1",)).permits(zone) and not AllowForbid(forbid=(zone,)).permits(zone)
    assert not AllowForbid(allow=(zone,)).permits("us-east-1")


def test_jobs_have_names_of_their_own() -> None:
    """Two jobs of one name could not be told apart in a plan."""
    with pytest.raises(ScenarioError, match="several jobs are called a"):
        scenario(jobs=[JOB, JOB])


def test_a_scenario_needs_jobs() -> None:
    """Without work there is no question; without offers those of the shipped list are asked."""
    with pytest.raises(ScenarioError):
        scenario(jobs=[])
    assert len(scenario(offers=[]).offers) > 100


def test_the_schema_is_json_and_allows_what_people_write() -> None:
    """Scalars for lists, units in text, and no unknown keys."""
    schema = json.loads(json.dumps(scenario_schema()))
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == {"jobs"}
    job = schema["$defs"]["Job"]["properties"]
    assert {"type": "string", "examples": ["90m", "36h", "1d12h"]} in job["deadline"]["anyOf"]
    method = schema["$defs"]["Techniques"]["properties"]["method"]["anyOf"]
    assert {"enum": ["full", "lora"], "type": "string"} in method
    assert "required" not in schema["$defs"]["SpotStatistics"]


@pytest.mark.parametrize(("written", "meant"), [("[q_proj, v]", ("q", "v")), ("qv", "qv")])
def test_lora_targets_are_taken_in_the_spelling_of_either_world(written: str, meant: object) -> None:
    """Module names of the ecosystem (`q_proj`) mean the linears of the cards (`q`)."""
    text = TARGETS.format(written)
    assert parse_scenario(text).jobs[0].lora.targets == meant


def test_a_target_that_is_no_linear_is_a_fault_and_not_a_crash() -> None:
    """An unknown module is told with the known ones."""
    with pytest.raises(ScenarioError, match="not a linear layer"):
        parse_scenario(TARGETS.format("[w_proj]"))


TARGETS = """
name: t
offers: [{{provider: x, gpu: RTX4090, gpus: 1, usd_per_hour: 0.4}}]
jobs:
  - {{name: t, architecture: mistral-7b, work: {{tokens: 1e6}}, lora: {{targets: {}}}}}
"""


@pytest.mark.parametrize(
    ("deadline", "max_hours", "latest"),
    [
        (None, None, DEFAULT_MAX_HOURS["finetune"]),
        ("36h", None, 36.0),
        ("9000h", None, DEFAULT_MAX_HOURS["finetune"]),
        ("36h", 20, 20.0),
        (None, 900, 900.0),
    ],
)
def test_the_latest_finish_is_the_deadline_or_the_longest_run(
    deadline: str | None, max_hours: float | None, latest: float
) -> None:
    """Whichever is less; without `max_hours` the longest run is the default of the kind of job."""
    job = Job.model_validate({**JOB, "deadline": deadline})
    assert latest_finish_hours(job, Limits(max_hours=max_hours)) == latest


def test_the_day_of_a_question_is_no_part_of_its_file() -> None:
    """With a day and without, the same data: no limits where none are set."""
    asked = scenario()
    assert "limits" not in scenario_data(asked)
    assert scenario_data(asked.on_day(datetime.date(2026, 11, 21))) == scenario_data(asked)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("jobs: [{name: a, architecture: llama-3.1-8b, work: {tokens: 1M}, budget: 3}]", "limits.budget_usd"),
        ("jobs: [{name: a, architecture: llama-3.1-8b, work: {tokens: 1M}, spot_share: 0}]", "limits.spot_share"),
        ("jobs: [{name: a, architecture: llama-3.1-8b, work: {tokens: 1M}}]\ndeadline: 4h", "jobs.0.deadline"),
    ],
)
def test_a_key_in_the_wrong_place_names_the_right_one(text: str, said: str) -> None:
    """Where no neighbour is meant, the place that has the key is told, not every key of the place at hand."""
    with pytest.raises(ScenarioError) as error:
        parse_scenario(f"schema: 2\n{text}\n")
    assert [fault.fix for fault in error.value.faults if fault.what == "unknown key"] == [f"write it as {said}"]
