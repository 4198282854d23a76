"""The `spot:` block of an offer: means or durations by age, each contradiction told once and at its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.candidates.market import group_states, spot_markets
from planner.errors import InputError
from planner.estimates.stage_seconds import NodeGroupCoefficients, node_group_market
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.scenario.offer import Offer
from planner.scenario.offer_terms import SpotStatistics
from planner.scenario.scenario import scenario_schema
from planner.solving.solve import solve
from planner.units import mean_hours

BY_AGE: dict[str, Any] = {
    "up": {"ages_hours": [0, 0.5], "ends_per_hour": [1.2, 0.1]},
    "outage": {"ages_hours": [0], "ends_per_hour": [1.0]},
}
SCENARIO = """
name: s
offers:
  - {{provider: p, gpu: RTX3090, gpus: 1, usd_per_hour: 0.5, spot_usd_per_hour: 0.2, spot: {spot}}}
jobs:
  - {{name: one, architecture: llama-2-7b, work: {{tokens: 20e6}}, sequence_length: 1024, global_batch: 32}}
"""


def offer(spot: dict[str, Any]) -> Offer:
    return Offer.model_validate({"provider": "p", "gpu": "RTX3090", "gpus": 1, "spot_usd_per_hour": 0.1, "spot": spot})


def test_means_follow_from_durations_by_age() -> None:
    """1.2 an hour for half an hour, 0.1 from then on: 0.38 h young and 5.49 h old on average."""
    spot = SpotStatistics.model_validate(BY_AGE)
    young, old = (1 - 2.718281828 ** (-0.6)) / 1.2, 2.718281828 ** (-0.6) / 0.1
    assert spot.mean_up_hours == pytest.approx(young + old) and spot.mean_outage_hours == 1
    assert spot.availability == pytest.approx((young + old) / (young + old + 1))
    assert SpotStatistics.model_validate(spot.model_dump()) == spot
    assert spot.notice_seconds is None and spot.instances == 1


def test_notice_and_means_may_stand_beside() -> None:
    """No warning at all is a fact, and means within one percent are the same means."""
    spot = SpotStatistics.model_validate({**BY_AGE, "notice_seconds": 0, "mean_outage_hours": 1.005})
    assert spot.notice_seconds == 0 and spot.mean_outage_hours == 1.005


@pytest.mark.parametrize(
    ("spot", "told"),
    [
        ("{availability: 0, mean_up_hours: 2}", "spot.availability: 0 is out of range; must be more than 0"),
        ("{availability: 1.2, mean_up_hours: 2}", "spot.availability: 1.2 is out of range; must be at most 1"),
        (
            "{availability: 0.9, mean_up_hours: 4, mean_outage_hours: 1}",
            "availability: up and outage hours mean an availability of 0.8, not 0.9; correct one, or leave one out",
        ),
        ("{availability: 0.9, notice_seconds: 5}", "spot: fewer than two of availability, mean_up_hours"),
        ("{availability: 0.9, mean_up_hours: 4, notice_seconds: -1}", "notice_seconds: -1 is out of range"),
        ("{availability: 0.9, mean_up_hours: 4, instances: 0}", "instances: 0 is out of range"),
        ("{UP}", "spot: up is given by age, outage is not; give outage too, or neither"),
        ("{OUTAGE, availability: 0.5, mean_up_hours: 1}", "spot: outage is given by age, up is not"),
        ("{UP, outage: 3}", "spot.outage: 3 is not a mapping of keys to values"),
        ("{UP, outage: {ages_hours: [1], ends_per_hour: [1]}}", "outage.ages_hours: the first age is 1; it must be 0"),
        ("{UP, outage: {ages_hours: [0, 2, 2], ends_per_hour: [1, 1, 1]}}", "2 comes after 2; ages must rise"),
        ("{UP, outage: {ages_hours: [0, 1], ends_per_hour: [1]}}", "outage.ends_per_hour: 1 for 2 ages_hours"),
        ("{UP, outage: {ages_hours: [0], ends_per_hour: [0]}}", "outage.ends_per_hour.0: 0 is out of range"),
        ("{UP, outage: {ages_hours: [], ends_per_hour: [1]}}", "outage.ages_hours: is empty"),
        (
            "{UP, OUTAGE, mean_up_hours: 2}",
            "spot.mean_up_hours: up.ends_per_hour means 1 h on average, not 2; correct one, or leave the mean out",
        ),
        ("{UP, OUTAGE, mean_outage_hours: 1}", "outage.ends_per_hour means 0.5 h on average, not 1"),
        ("{UP, OUTAGE, availability: 0.5}", "up and outage hours mean an availability of 0.667, not 0.5"),
    ],
)
def test_each_contradiction_is_one_message_at_its_place(spot: str, told: str) -> None:
    """As a scenario file shows it: the line, the key, what is wrong and what would be right."""
    spot = spot.replace("UP", "up: {ages_hours: [0], ends_per_hour: [1]}")
    spot = spot.replace("OUTAGE", "outage: {ages_hours: [0], ends_per_hour: [2]}")
    with pytest.raises(InputError) as raised:
        parse_scenario(SCENARIO.format(spot=spot))
    (fault,) = raised.value.faults
    assert fault.line == 4 and told in str(fault)


def test_the_schema_names_what_is_enough() -> None:
    """An editor accepts two means or both durations, and tells of less."""
    schema = scenario_schema()["$defs"]["SpotStatistics"]
    assert {"required": ["up", "outage"]} in schema["anyOf"]
    assert {"required": ["availability", "mean_up_hours"]} in schema["anyOf"]
    assert {"notice_seconds", "instances", "up", "outage"} <= set(schema["properties"])


def test_states_are_those_of_the_block_or_nobodys() -> None:
    """Durations by age become states; means alone say nothing about ages."""
    states = group_states(SpotStatistics.model_validate(BY_AGE))
    assert states is not None
    assert (states.up.begins, states.up.rates, states.down.rates) == ((0.0, 0.5), (1.2, 0.1), (1.0,))
    assert group_states(SpotStatistics.model_validate({"availability": 0.5, "mean_up_hours": 1})) is None


def test_statistics_of_several_machines_are_brought_to_one() -> None:
    """The law for gangs, applied to what one machine is said to do, gives back what was told of four."""
    library = read_library([])
    stages = library.calibrations["stages"]
    gang = NodeGroupCoefficients.of(stages.values)
    one = spot_markets([offer({"availability": 0.6, "mean_up_hours": 2, "instances": 4})], library)[0]
    assert one.mean_up_hours > 2 and one.availability > 0.6
    four = node_group_market(one.mean_up_hours, one.availability, 4, gang)
    assert (float(four.mean_up), float(four.availability)) == (pytest.approx(2), pytest.approx(0.6))
    always = spot_markets([offer({"availability": 0.99, "mean_up_hours": 2, "instances": 8})], library)[0]
    assert always.availability == 1 and always.mean_outage_hours == 0


@settings(derandomize=True, max_examples=25, deadline=None)
@given(
    widths=st.lists(st.floats(0.01, 10), max_size=3),
    rates=st.lists(st.floats(0.01, 20), min_size=4, max_size=4),
    scale=st.floats(0.1, 10),
)
def test_mean_durations_scale_with_time_and_lie_between_those_of_their_rates(
    widths: list[float], rates: list[float], scale: float
) -> None:
    """In another unit of time the mean is the same duration; no mix of rates lasts longer than its slowest."""
    begins, rates = [0.0, *(sum(widths[: i + 1]) for i in range(len(widths)))], rates[: len(widths) + 1]
    mean = mean_hours(begins, rates)
    assert mean_hours([b * scale for b in begins], [r / scale for r in rates]) == pytest.approx(mean * scale)
    assert 1 / max(rates) <= mean * (1 + 1e-9) and mean <= (1 + 1e-9) / min(rates)
    assert mean_hours([0.0], rates[:1]) == pytest.approx(1 / rates[0])


def test_a_duration_that_may_never_end_has_no_mean() -> None:
    """Unless nothing gets that old."""
    assert mean_hours([0.0, 1.0], [1.0, 0.0]) == float("inf")
    assert mean_hours([0.0, 1.0], [0.0, 2.0]) == 1.5
    assert mean_hours([0.0, 1.0], [1e6, 0.0]) == pytest.approx(1e-6)


@pytest.mark.slow
def test_a_plan_and_its_audit_agree_on_statistics_of_several_machines() -> None:
    """Told of four machines or of one, the same market makes the same plan, and it passes its audit."""
    told = {"availability": 0.6, "mean_up_hours": 2, "instances": 4}
    one = spot_markets([offer(told)], read_library([]))[0]
    same = {"availability": one.availability, "mean_up_hours": one.mean_up_hours}
    plans = [solve(parse_scenario(SCENARIO.format(spot=json.dumps(spot)))) for spot in (told, same)]
    assert plans[0].jobs[0].spot_share > 0
    assert plans[0].hours.at_confidence == pytest.approx(plans[1].hours.at_confidence)
    assert plans[0].objective == pytest.approx(plans[1].objective)
