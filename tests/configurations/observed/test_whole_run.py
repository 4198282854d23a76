"""Observed runs of the whole job: what they replace, what is left to estimates, and the articles' table."""

from __future__ import annotations

import datetime
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.arrays import ON_DEMAND, SPOT
from planner.candidates.job_candidates import JobCandidates
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import parse_scenario, read_scenario
from planner.results.plan import Assignment, Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.prepare import prepare
from planner.solving.solve import solve

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
SCENARIO = """
name: seen
offers:
  - {provider: a, gpu: A100-80GB, gpus: 4, usd_per_hour: 8, max_nodes: 2, network_gbps: 400}
  - {provider: b, gpu: RTX3060, gpus: 1, usd_per_hour: 0.1, spot_usd_per_hour: 0.04,
     spot: {availability: 0.9, mean_up_hours: 8}}
jobs:
  - {name: seen, architecture: llama-2-7b, work: {tokens: 20e6}, sequence_length: 1024, global_batch: 32}
"""
SEEN = "jobs.seen.measured=[{gpu: RTX3060, gpus: 1, hours: 12.5}]"
FULL = "jobs.seen.techniques.method=full"
ON_DEMAND_ONLY = "limits.spot_share={min: 0, max: 0}"


def asked(*set_: str) -> Scenario:
    return parse_scenario(SCENARIO, set_=set_)


def candidates_of(scenario: Scenario) -> JobCandidates:
    (candidates,) = prepare(scenario).candidates
    return candidates


@cache
def article(*set_: str) -> Assignment:
    (job,) = solve(read_scenario("article-70b-measured", set_=set_), OPTIONS).jobs
    return job


@cache
def library() -> Library:
    return read_library(["llama-2-7b"])


@cache
def solved(*set_: str) -> tuple[Plan, Assignment]:
    plan = solve(asked(*set_), OPTIONS)
    assert audit(plan, asked(*set_), library()) == []
    return plan, plan.jobs[0]


def test_the_articles_cheapest_machine_is_the_rtx_3090() -> None:
    """30.3 h at 7.6 $/h: 230.28 $, which the article prints as 230.6."""
    job = article()
    assert (job.gpu, job.gpus) == ("RTX3090", 16)
    assert job.cost_usd == pytest.approx(30.3 * 7.6, abs=1e-9)
    assert job.cost_usd == pytest.approx(230.6, rel=0.002)
    assert job.hours.expected == pytest.approx(30.3, abs=1e-9)


def test_the_articles_fastest_machine_is_the_a100() -> None:
    """23.2 h at 14.1 $/h: asked for time, 327.12 $ are paid to be done seven hours sooner."""
    job = article("objective=time")
    assert (job.gpu, job.gpus) == ("A100-80GB", 4)
    assert (job.cost_usd, job.hours.expected) == (pytest.approx(327.12), pytest.approx(23.2))


def test_the_v100_that_the_article_calls_balanced_is_slower_and_dearer_than_both() -> None:
    """Nothing that anyone could weigh speaks for it: at any confidence and in either figure two others are better."""
    scenario = read_scenario("article-70b-measured")
    table = prepare(scenario).candidates[0].table
    own = scenario.offers.index(next(offer for offer in scenario.offers if offer.gpu == "V100-32GB"))
    share = np.zeros(len(table))
    late, usd, balanced = table.late_hours(share), table.cost_usd(share), table.offer == own
    assert 0 < balanced.sum() < len(table)
    assert late[balanced].min() > late[~balanced].max()
    assert usd[balanced].min() > usd[~balanced].max()


def test_only_the_three_observed_times_are_weighed_in_the_articles_question() -> None:
    """No way on these machines sneaks in with estimated hours, whatever its techniques."""
    table = prepare(read_scenario("article-70b-measured")).candidates[0].table
    assert set(table.run_h[:, ON_DEMAND]) == {30.3, 23.2, 33.0}
    assert not table.start_h.any()


def test_the_plan_says_what_is_observed() -> None:
    """The reader learns that the hours are no estimate, and that the techniques behind them are not known."""
    job = article()
    assert job.observed_hours == 30.3
    assert any(note.startswith("hours on 16 x RTX3090 are as observed, not estimated") for note in job.notes)


def test_nothing_is_added_to_observed_hours_and_all_figures_follow_from_them() -> None:
    """No start, goodput or efficiency; steps and tokens per second are the work over the observed hours."""
    plan, job = solved(SEEN, ON_DEMAND_ONLY, "jobs.seen.efficiency=0.5", "jobs.seen.storage_gb_per_second=0.01")
    assert (job.gpu, job.start_hours, job.training_hours) == ("RTX3060", 0.0, 12.5)
    assert plan.hours is not None and plan.hours.expected == 12.5
    assert job.steps * job.step_seconds / 3600 == pytest.approx(12.5)
    assert job.tokens_per_second * 12.5 * 3600 == pytest.approx(20e6)
    assert job.tokens_per_second_low < job.tokens_per_second < job.tokens_per_second_high


@pytest.mark.long
@settings(derandomize=True, max_examples=6, deadline=None)
@given(hours=st.floats(6, 700), price=st.floats(0.01, 100))
def test_an_observed_run_costs_its_hours_at_the_price_of_the_offer(hours: float, price: float) -> None:
    """Dollars are hours times price for any of both, in the table that the program is built from."""
    scenario = asked(
        f"jobs.seen.measured=[{{gpu: RTX3060, gpus: 1, hours: {hours!r}}}]", f"offers.1.usd_per_hour={price!r}"
    )
    candidates = candidates_of(scenario)
    here = candidates.run_hours.observed[candidates.configuration]
    assert here.any()
    np.testing.assert_allclose(candidates.table.cost_usd(np.zeros(len(here)))[here], hours * price, rtol=1e-12)


def test_an_observed_run_fits_whatever_the_estimate_says() -> None:
    """Full training of 7B on 12 GiB is rejected as an estimate, and taken once somebody has done it."""
    unseen = candidates_of(asked(FULL)).physics.ways
    assert not any(unseen.recipes[r].method == "full" for r in unseen.recipe[unseen.usable_gib < 13])
    _, job = solved(FULL, SEEN, ON_DEMAND_ONLY)
    assert (job.gpu, job.techniques.method, job.hours.expected) == ("RTX3060", "full", 12.5)
    assert job.vram_gib.peak <= job.vram_gib.usable and job.vram_gib.fit_probability == 1.0
    assert job.vram_gib.allocated > job.vram_gib.usable  # the estimate itself stays visible


def test_the_way_that_comes_nearest_to_fitting_stands_for_an_observed_run_that_should_not_fit() -> None:
    """One way, at a micro-batch of one: the techniques of the run itself are not known."""
    ways = candidates_of(asked(FULL, SEEN)).physics.ways
    seen = ways.rows(~np.isnan(ways.observed_hours))
    assert (len(seen), int(seen.micro_batch[0]), int(seen.accumulation[0])) == (1, 1, 32)


@pytest.mark.slow
def test_an_observed_peak_is_the_one_that_the_plan_shows() -> None:
    """11.3 GiB were seen, so 11.3 GiB are told, also to the objective that compares free memory."""
    seen = "jobs.seen.measured=[{gpu: RTX3060, gpus: 1, hours: 12.5, peak_vram_gib: 11.3}]"
    _, job = solved(seen)
    assert job.vram_gib.peak == 11.3
    candidates = candidates_of(asked(seen))
    assert set(candidates.table.fit_gib[candidates.run_hours.observed[candidates.configuration]]) == {11.3}


def test_hardware_is_matched_by_all_cards_together() -> None:
    """Eight cards are two machines of four: that run is observed, the one on a single machine estimated."""
    candidates = candidates_of(asked("jobs.seen.measured=[{gpu: a100-80gb, gpus: 8, hours: 1.75}]"))
    observed = candidates.run_hours.observed[candidates.configuration]
    assert set(candidates.table.gpus[observed]) == {8} and set(candidates.table.instances[observed]) == {2}
    assert set(candidates.table.run_h[observed, ON_DEMAND]) == {1.75}
    assert {1, 4} == set(candidates.table.gpus[~observed])


def test_methods_that_the_job_excludes_have_no_hours_on_observed_hardware() -> None:
    """Nothing was seen of them there; elsewhere they are priced, marked as not allowed."""
    candidates = candidates_of(asked(SEEN, "jobs.seen.techniques.method=lora", "jobs.seen.techniques.weight_bits=4"))
    table, ways = candidates.table, candidates.physics.ways
    labels = np.asarray([ways.recipes[row].method_label for row in table.recipe])
    assert set(labels[table.gpus == 1]) == {"QLoRA"}
    assert {"full", "LoRA", "QLoRA"} <= set(labels[table.gpus == 4])


def test_spot_adds_interruptions_to_observed_hours() -> None:
    """The observed hours are the uninterrupted work; waits, restarts and checkpoints come on top, and are audited."""
    _, job = solved(SEEN, "limits.spot_share={min: 1, max: 1}")
    assert job.observed_hours == 12.5 and job.start_hours == 0
    assert job.hours.expected > 12.5
    found = prepare(asked(SEEN, "limits.spot_share={min: 1, max: 1}"))
    (candidates,), (screened,) = found.candidates, found.screened
    observed = candidates.run_hours.observed[candidates.configuration][screened.rows]
    assert screened.table.run_h[observed, SPOT] == pytest.approx(job.hours.expected), "those of drawn runs"
    assert 12.5 * 0.04 < job.cost_usd < 2 * 12.5 * 0.04


@pytest.mark.slow
def test_a_policy_on_spot_counts_the_start_of_an_observed_run_once() -> None:
    """Machines that are never taken: a policy pays for the 12.5 hours that were seen, the start among them."""
    _, job = solved(SEEN, "offers.1.spot={availability: 1, mean_up_hours: 1e9}", "limits.gpus={allow: [RTX3060]}")
    assert job.spot is not None and job.spot_share == pytest.approx(1)
    assert job.cost_usd == pytest.approx(12.5 * 0.04, rel=1e-4)


def test_an_observed_run_is_surer_than_an_estimate() -> None:
    """Repeating a run is less of a venture: the interval is narrower, and the same for every observed run."""
    alone = ("limits.gpus={allow: [RTX3060]}", "limits.spot_share={max: 0}")  # the market has a spread of its own
    _, unseen = solved(*alone)
    _, seen = solved(SEEN, *alone)
    assert 0 < seen.sigma < unseen.sigma and 0 < seen.sigma_in_tails < unseen.sigma_in_tails
    assert math.log(seen.hours.expected / seen.hours.low) == pytest.approx(1.28 * seen.sigma)


@pytest.mark.long
@pytest.mark.parametrize(
    ("seen", "note"),
    [
        ("{gpu: A40, gpus: 3, hours: 9}", "the run observed on 3 x A40 is not used: no offer has it"),
        ("{gpu: A100-80GB, gpus: 4, hours: 400}", "no run on 1 x RTX3060 was observed: its hours are estimated"),
    ],
)
def test_observations_that_the_plan_does_not_rest_on_are_told(seen: str, note: str) -> None:
    """An observation of the whole job on other hardware changes no hour of this plan, and it says so."""
    _, plain = solved("limits.max_gpus=1")
    _, job = solved("limits.max_gpus=1", f"jobs.seen.measured=[{seen}]")
    assert any(one.startswith(note) for one in job.notes)
    assert job.hours == plain.hours and job.observed_hours is None


@pytest.mark.slow
def test_an_observation_that_no_way_can_follow_is_told() -> None:
    """A batch of 30 does not divide over 4 cards: the run was another one, and the plan is an estimate elsewhere."""
    _, job = solved("jobs.seen.measured=[{gpu: A100-80GB, gpus: 4, hours: 1}]", "jobs.seen.global_batch=30")
    assert "the run observed on 4 x A100-80GB is not used: no configuration that the job allows runs there" in job.notes
    assert job.gpu == "RTX3060"


TAMPERED: dict[str, dict[str, Any]] = {
    "observed_hours": {"observed_hours": None},
    "hours.expected": {"hours": {"expected": 11.9}},
    "start_hours": {"start_hours": 0.2, "training_hours": 12.3},
    "step_seconds": {"step_seconds": 20.0},
    "tokens_per_second": {"tokens_per_second": 2000.0},
    "vram_gib.peak": {"vram_gib": {"peak": 11.0}},
    "vram_gib.fit_probability": {"vram_gib": {"fit_probability": 0.9}},
    "sigma": {"sigma": 0.2},
}


@pytest.mark.slow
@pytest.mark.parametrize("what", TAMPERED)
def test_the_audit_finds_a_tampered_observed_plan(what: str) -> None:
    """What follows from the observation is recomputed from scenario and cards alone."""
    plan, job = solved(SEEN)
    data = job.model_dump()
    for key, value in TAMPERED[what].items():
        data[key] = {**data[key], **value} if isinstance(value, dict) else value
    changed = plan.model_copy(update={"jobs": (Assignment.model_validate(data),)})
    found = {one.what for one in audit(changed, asked(SEEN), library())}
    assert what in found


@pytest.mark.slow
def test_an_observed_plan_does_not_pass_for_one_of_a_scenario_without_the_observation() -> None:
    """Hours that nobody saw are an estimate, and this is another one."""
    plan, _ = solved(SEEN)
    assert audit(plan, asked(), library())


def test_a_method_that_nobody_observed_there_is_not_called_beyond_the_limits() -> None:
    """The article saw whole runs with LoRA only: of QLoRA and full training nothing is known."""
    (job,) = solve(read_scenario("article-70b-measured")).jobs
    assert {rung.label: rung.note for rung in job.methods if rung.cost_usd is None} == {
        "QLoRA": "not observed there",
        "full": "not observed there",
    }
