"""Observed speed and peaks: what they draw the estimates to, how far, what stays as it was, and that it is audited."""

from __future__ import annotations

import datetime
import math
import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from planner.analysis.estimate_question import estimate
from planner.candidates.job_candidates import JobCandidates
from planner.configurations.coefficients import memory_margin
from planner.configurations.compared_runs import ComparedRun, compare_run
from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.results.plan import Assignment, Plan
from planner.scenario.job import Job, Measured
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.prepare import prepare
from planner.solving.solve import solve, solve_prepared

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
SCENARIO = """
name: seen
offers:
  - {provider: a, gpu: A100-80GB, gpus: 4, usd_per_hour: 8, max_nodes: 2, network_gbps: 400}
  - {provider: b, gpu: RTX3060, gpus: 1, usd_per_hour: 0.1}
jobs:
  - {name: seen, architecture: llama-2-7b, framework: hf, work: {tokens: 20e6}, sequence_length: 1024, global_batch: 32}
"""
LIBRARY = read_library(["llama-2-7b"])
QLORA = "method: lora, weight_bits: 4, activation_checkpointing: selective"
ON_3060 = "gpu: RTX3060, gpus: 1"
HALF_SPEED = f"{ON_3060}, {QLORA}, micro_batch: 2, tokens_per_second: 300"


def asked(*runs: str, set_: tuple[str, ...] = ()) -> Scenario:
    measured = ", ".join(f"{{{run}}}" for run in runs)
    return parse_scenario(SCENARIO, set_=(f"jobs.seen.measured=[{measured}]", *set_))


def candidates_of(*runs: str, set_: tuple[str, ...] = ()) -> JobCandidates:
    (candidates,) = prepare(asked(*runs, set_=set_), LIBRARY).candidates
    return candidates


@cache
def solved(*runs: str, set_: tuple[str, ...] = ()) -> tuple[Plan, Assignment]:
    """A plan, which its audit has passed."""
    scenario = asked(*runs, set_=set_)
    plan = solve(scenario, OPTIONS, LIBRARY)
    assert audit(plan, scenario, LIBRARY) == []
    return plan, plan.jobs[0]


def seen_of(run: str, set_: tuple[str, ...] = ()) -> ComparedRun:
    job = asked(run, set_=set_).jobs[0]
    found = compare_run(job, job.measured[0], LIBRARY.architecture("llama-2-7b"), LIBRARY)
    assert isinstance(found, ComparedRun)
    return found


def predicted(run: str) -> float:
    """The speed that a run is compared with."""
    return seen_of(run).predicted


# speed


def test_a_run_is_compared_with_what_estimate_says_of_the_same_configuration() -> None:
    """The same physics answers both, to the digit."""
    run = f"{ON_3060}, {QLORA}, micro_batch: 2, accumulation_steps: 16, tokens_per_second: 400"
    told = estimate(
        "llama-2-7b", "RTX3060", method="lora", weight_bits=4, activation_checkpointing="selective",
        micro_batch=2, accumulation_steps=16, sequence_length=1024,
    )  # fmt: skip
    assert predicted(run) == pytest.approx(told.tokens_per_second)


@settings(derandomize=True, max_examples=5, deadline=None)
@given(factor=st.floats(0.25, 1.9))
def test_one_run_moves_every_way_by_two_thirds_of_its_surprise(factor: float) -> None:
    """ln of the speed by ln(measured / predicted) times 1 / 1.5, on all hardware and for all methods but its own."""
    plain = candidates_of()
    speed = predicted(HALF_SPEED) * factor
    moved = candidates_of(f"{ON_3060}, {QLORA}, micro_batch: 2, tokens_per_second: {speed!r}")
    ways, before = moved.physics.ways, plain.physics.ways
    assert len(ways) == len(before) and {"full", "lora"} <= {ways.recipes[i].method for i in ways.recipe}
    change, own = before.step_seconds / ways.step_seconds, ways.micro_batch < 0
    (seen,) = moved.physics.learned.runs
    for row in range(len(ways)):
        batch = int(ways.micro_batch[row]), int(ways.accumulation[row])
        own[row] = seen.is_of(ways.recipes[ways.recipe[row]], ways.machines[ways.machine[row]], batch, 1024)
    assert own.sum() <= 1
    assert change[~own] == pytest.approx(np.full(np.sum(~own), factor ** (2 / 3)))
    assert np.all(np.abs(np.log(change[own] / factor)) <= np.abs(np.log(factor)) / 3 + 1e-9)


def test_several_runs_count_by_their_median() -> None:
    """An oddity among three does not count; 3 / 3.5 of what the others say does."""
    usual = predicted(HALF_SPEED) * 0.8
    runs = [f"{ON_3060}, {QLORA}, micro_batch: 2, tokens_per_second: {speed}" for speed in (usual, usual, usual / 9)]
    _, job = solved(*runs)
    assert job.speed_factor == pytest.approx(0.8 ** (3 / 3.5))


def test_the_order_of_the_runs_does_not_matter() -> None:
    """Nor does what is listed first."""
    runs = (HALF_SPEED, "gpu: A100-80GB, gpus: 4, tokens_per_second: 9000")
    (_, one), (_, other) = solved(*runs), solved(*reversed(runs))
    assert one.speed_factor == other.speed_factor and one.hours == other.hours


def test_a_run_that_went_as_predicted_changes_no_speed_and_makes_it_surer() -> None:
    """The best news of a pilot run: the same hours, in a narrower interval."""
    as_predicted = f"{ON_3060}, {QLORA}, micro_batch: 2, tokens_per_second: {predicted(HALF_SPEED)!r}"
    (_, plain), (_, job) = solved(), solved(as_predicted)
    assert job.hours.expected == pytest.approx(plain.hours.expected)
    assert job.sigma < plain.sigma and job.sigma_in_tails <= plain.sigma_in_tails
    assert job.hours.high - job.hours.low < plain.hours.high - plain.hours.low


def test_the_same_card_and_method_are_surer_than_another_card_and_that_than_another_method() -> None:
    """What two runs share decides how much one says of the other; no way is ever less sure than before."""
    plain, candidates = candidates_of(), candidates_of(HALF_SPEED)
    ways = candidates.physics.ways
    assert np.all(candidates.run_hours.sigma <= plain.run_hours.sigma)
    method = np.asarray([ways.recipes[i].method for i in ways.recipe])
    card = np.asarray([ways.machines[i].gpu for i in ways.machine])
    one_node = np.asarray([ways.machines[i].instances for i in ways.machine]) == 1
    narrowing = candidates.run_hours.sigma / plain.run_hours.sigma
    same = narrowing[(method == "lora") & (card == "RTX3060")]
    other = narrowing[(method == "lora") & (card == "A100-80GB") & one_node]
    full = narrowing[(method == "full") & one_node]
    assert same.max() < other.min() and other.max() <= full.min()


def test_a_run_that_does_not_say_its_techniques_is_compared_with_the_fastest_that_fits() -> None:
    """Of all that the job allows on that hardware; the plan says what it was taken for."""
    run = f"{ON_3060}, tokens_per_second: 400"
    best = max(
        predicted(f"{ON_3060}, {way}, micro_batch: {batch}, tokens_per_second: 1")
        for way, batch in ((QLORA, 1), (QLORA, 2), ("method: lora, weight_bits: 8, activation_checkpointing: full", 1))
    )
    assert predicted(run) >= best
    only_8_bit = ("jobs.seen.techniques={method: lora, weight_bits: 8}",)
    assert seen_of(run, only_8_bit).recipe.weight_bits == 8
    _, job = solved(run)
    assert job.observed_runs[0].assumed == ("method", "weight_bits", "activation_checkpointing", "micro_batch")
    assert any("does not state method and weight_bits: taken as QLoRA" in note for note in job.notes)


def test_a_run_on_a_card_that_nobody_offers_counts_as_well() -> None:
    """A desktop card at home says something of the cloud."""
    home = f"gpu: RTX4090, gpus: 1, {QLORA}, micro_batch: 4, tokens_per_second: 1500"
    _, job = solved(home)
    assert job.gpu != "RTX4090" and job.speed_factor != 1.0
    (note,) = (one for one in job.notes if one.startswith("measured 1,500 tokens/s on 1 x RTX4090; used "))
    assert f"{job.tokens_per_second:,.4g} for this plan, which has {job.gpus} x {job.gpu}" in note
    assert note.endswith(f": its own estimate x {job.speed_factor:.2f}, from 1 run")


@pytest.mark.parametrize("ratio", [0.55, 0.8, 1.3, 1.9])
def test_the_very_configuration_that_was_observed_is_as_fast_as_it_was(ratio: float) -> None:
    """Within the noise of a run that is repeated, whatever other configurations make of it; the note has both."""
    techniques = "{method: lora, weight_bits: 4, activation_checkpointing: selective}"
    only = ("limits.gpus.allow=[RTX3060]", f"jobs.seen.techniques={techniques}")
    _, plain = solved(set_=only)
    how = plain.techniques
    batch = f"micro_batch: {how.micro_batch}, accumulation_steps: {how.accumulation_steps}"
    speed = ratio * plain.tokens_per_second
    _, job = solved(f"{ON_3060}, {QLORA}, {batch}, tokens_per_second: {speed!r}", set_=only)
    assert job.techniques == how
    noise = LIBRARY.calibrations["uncertainty"].value("observed.sigma")
    assert abs(math.log(job.tokens_per_second / speed)) <= noise
    assert abs(math.log(job.speed_factor / ratio)) > noise  # that of other configurations follows half-way
    assert any("the same configuration: its own estimate x " in note for note in job.notes)


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["packed", "padded", "fixed"])
def test_the_configuration_that_was_observed_is_known_whatever_pads_its_sequences(packing: str) -> None:
    """The search and the audit look for it by the length that the job gives, not by what padding leaves of it."""
    lengths = "" if packing == "fixed" else ", tokens_per_sample: 620"
    techniques = "{method: lora, weight_bits: 4, activation_checkpointing: selective}"
    only = (f"jobs.seen.work={{samples: 20000{lengths}}}", f"jobs.seen.packing={packing}", "jobs.seen.length_cv=0.5")
    only = (*only, "limits.gpus.allow=[RTX3060]", f"jobs.seen.techniques={techniques}")
    _, plain = solved(set_=only)
    how = plain.techniques
    batch = f"micro_batch: {how.micro_batch}, accumulation_steps: {how.accumulation_steps}"
    speed = 0.9 * plain.tokens_per_second
    _, job = solved(f"{ON_3060}, {QLORA}, {batch}, tokens_per_second: {speed!r}", set_=only)
    assert job.techniques == how
    assert abs(math.log(job.tokens_per_second / speed)) <= LIBRARY.calibrations["uncertainty"].value("observed.sigma")


def test_images_per_second_count_for_a_job_of_images() -> None:
    """The unit is that of the plan: images, not the tokens that stand for them inside."""
    text = """
name: pictures
offers: [{provider: a, gpu: A100-80GB, gpus: 1, usd_per_hour: 2}]
jobs:
  - {name: pictures, architecture: stable-diffusion-xl, work: {images: 2000, epochs: 10, resolution: 512},
     global_batch: 8, techniques: {method: lora}}
"""
    plain = solve(parse_scenario(text), OPTIONS).jobs[0]
    how = plain.techniques
    said = ", ".join(
        f"{key}: {getattr(how, key)}"
        for key in ("method", "weight_bits", "activation_checkpointing", "micro_batch", "accumulation_steps")
    )
    run = f"{{gpu: A100-80GB, gpus: 1, {said}, tokens_per_second: {plain.tokens_per_second!r}}}"
    again = solve(parse_scenario(text, set_=[f"jobs.pictures.measured=[{run}]"]), OPTIONS).jobs[0]
    assert again.speed_factor == pytest.approx(1.0) and again.unit == "images"


def test_efficiency_comes_on_top_of_what_was_observed() -> None:
    """It is a factor for studies: half of it doubles the time, whatever the runs say."""
    (_, whole), (_, half) = solved(HALF_SPEED), solved(HALF_SPEED, set_=("jobs.seen.efficiency=0.5",))
    assert half.tokens_per_second == pytest.approx(whole.tokens_per_second / 2)
    assert half.speed_factor == whole.speed_factor


def test_hours_of_the_whole_job_are_not_touched_by_other_runs() -> None:
    """On their hardware they stand as they are; elsewhere the speed of the other run counts."""
    whole = f"{ON_3060}, hours: 12.5"
    candidates = candidates_of(whole, "gpu: A100-80GB, gpus: 4, tokens_per_second: 9000")
    observed = candidates.run_hours.observed
    assert set(candidates.run_hours.training_hours[observed]) == {12.5}
    plain = candidates_of(whole)
    hours = (candidates.run_hours.training_hours[~observed], plain.run_hours.training_hours[~plain.run_hours.observed])
    assert not np.allclose(*hours)


def test_a_run_that_the_batch_does_not_divide_over_is_told_and_changes_nothing() -> None:
    """32 sequences on 3 cards are another run; said with its own batch it counts."""
    unused = "gpu: A100-80GB, gpus: 3, tokens_per_second: 9000"
    (_, plain), (_, job) = solved(), solved(unused)
    assert job.hours == plain.hours and not job.observed_runs
    assert any(note.startswith("the run observed on 3 x A100-80GB is not used") for note in job.notes)
    assert solved(f"{unused}, micro_batch: 4, accumulation_steps: 2")[1].speed_factor != 1.0


def test_a_speed_far_from_the_estimate_is_doubted() -> None:
    """It counts all the same, but the plan asks whether unit and settings are right."""
    _, job = solved(f"{ON_3060}, {QLORA}, micro_batch: 2, tokens_per_second: 80")
    assert any("times the estimate: check unit and settings" in note for note in job.notes)


def test_runs_that_contradict_each_other_make_the_plan_less_sure_and_say_so() -> None:
    """Four-fold apart around the estimate is a wider interval than without any run; 10 % apart is a narrower one."""
    speed = predicted(HALF_SPEED)
    runs = [f"{ON_3060}, {QLORA}, micro_batch: 2, tokens_per_second: {speed * by!r}" for by in (0.4, 1.6)]
    (_, plain), (_, job) = solved(), solved(*runs)
    assert job.sigma > plain.sigma and job.sigma_in_tails > plain.sigma_in_tails
    assert any(note.startswith("observed speeds over their estimates differ by a factor of 4:") for note in job.notes)
    agreeing = [f"{ON_3060}, {QLORA}, micro_batch: 2, tokens_per_second: {speed * by!r}" for by in (0.95, 1.05)]
    _, sure = solved(*agreeing)
    assert sure.sigma < plain.sigma and not any("differ by a factor" in note for note in sure.notes)


@pytest.mark.parametrize("by", [0.4, 0.51, 1.9])
def test_a_run_far_from_the_estimate_makes_nothing_surer(by: float) -> None:
    """More than two-fold off something is not as it was said; nearer it counts, without a warning."""
    plain = candidates_of()
    run = f"{ON_3060}, {QLORA}, micro_batch: 2, tokens_per_second: {predicted(HALF_SPEED) * by!r}"
    narrowing = candidates_of(run).run_hours.sigma / plain.run_hours.sigma
    far = by < 0.5
    assert np.all(narrowing == 1) if far else narrowing.min() < 0.9
    assert any("check unit and settings" in note for note in solved(run)[1].notes) == far


@pytest.mark.parametrize(
    ("run", "least", "sheet"),
    [
        # 6.48 billion weights in the stack of llama-2-7b; 2 x 25.5 TFLOP/s of two RTX 3060 with 32-bit accumulation
        (f"gpu: RTX3060, gpus: 2, {QLORA}, tokens_per_second: 30000", 4 * 6.476e9 * 30000, 2 * 25.5e12),
        ("gpu: A100-80GB, gpus: 4, method: full, tokens_per_second: 33000", 6 * 6.476e9 * 33000, 4 * 312e12),
        ("gpu: RTX3060, gpus: 1, hours: 5", 4 * 6.476e9 * 20e6 / 18000, 25.5e12),
    ],
)
def test_a_run_beyond_the_sheet_of_its_card_is_refused(run: str, least: float, sheet: float) -> None:
    """A total put down per card, or another unit: no plan rests on more FLOP per second than there are."""
    with pytest.raises(ScenarioError, match="needs more FLOP per second than") as refused:
        solve(asked(run), OPTIONS, LIBRARY)
    (fault,) = refused.value.faults
    assert fault.where.startswith("jobs.seen.measured.0.") and fault.fix
    told = [float(one.replace(",", "")) * 1e12 for one in re.findall(r"([\d,]+)(?= TFLOP|\))", fault.what)]
    assert told == pytest.approx([least, sheet], rel=0.02)


def test_a_run_close_to_the_sheet_is_not_refused() -> None:
    """31,000 tokens/s in full are 97 % of four A100, and where full is not said LoRA may have been meant."""
    assert solved("gpu: A100-80GB, gpus: 4, method: full, tokens_per_second: 31000")[1].observed_runs
    assert solved("gpu: A100-80GB, gpus: 4, tokens_per_second: 33000")[1].observed_runs


# memory


def peaked(gib: float, micro_batch: int = 2, more: str = "") -> str:
    return f"{ON_3060}, {QLORA}, micro_batch: {micro_batch}, peak_vram_gib: {gib!r}{more}"


def test_a_peak_as_predicted_changes_no_memory() -> None:
    """The factor is one where the estimate was right."""
    gib = solved()[1].vram_gib.allocated
    assert solved(peaked(gib))[1].memory_factor == pytest.approx(1.0)


@settings(derandomize=True, max_examples=5, deadline=None)
@given(gib=st.floats(7, 11.25), kind=st.sampled_from(["allocated", "reserved", "device"]))
def test_no_estimate_lies_below_a_peak_of_its_own_configuration(gib: float, kind: str) -> None:
    """Nor is a configuration refused that was seen to run on this card."""
    ways = candidates_of(peaked(gib, more=f", peak_kind: {kind}")).physics.ways
    here = [
        row
        for row in range(len(ways))
        if ways.machines[ways.machine[row]].gpu == "RTX3060"
        and (ways.recipes[ways.recipe[row]].weight_bits, ways.recipes[ways.recipe[row]].activation_checkpointing)
        == (4, "selective")
    ]
    assert len(here) == 1 and ways.micro_batch[here[0]] >= 2
    assert gib <= ways.fit_gib[here[0]] <= ways.usable_gib[here[0]] + 1e-9


def test_a_higher_peak_means_more_memory_and_a_lower_one_less() -> None:
    """Only of the setting that was seen: other methods keep their estimate."""
    plain = candidates_of().physics.ways
    for gib, sign in ((11.2, 1), (6.5, -1)):
        candidates = candidates_of(peaked(gib, more=", peak_kind: allocated"))
        (probed,) = candidates.physics.learned.probed.values()
        assert math.copysign(1, math.log(probed.scale)) == sign
        ways = candidates.physics.ways
        others = np.asarray([ways.recipes[i].method == "full" for i in ways.recipe])
        before = np.asarray([plain.recipes[i].method == "full" for i in plain.recipe])
        assert np.array_equal(ways.fit_gib[others], plain.fit_gib[before])


def test_what_was_seen_to_run_is_sure_to_fit() -> None:
    """The plan does not call a configuration risky that ran on that very card."""
    sure = "jobs.seen.confidence.memory=0.95"  # else 8 bit, which did not run, is preferred at 93 %
    _, job = solved(peaked(11.2), set_=("jobs.seen.techniques.activation_checkpointing=selective", sure))
    assert (job.gpu, job.techniques.weight_bits, job.vram_gib.fit_probability) == ("RTX3060", 4, 1.0)
    assert job.vram_gib.peak >= 11.2


def test_a_probe_makes_a_framework_without_a_memory_profile_worth_planning_with() -> None:
    """Its margin falls at the setting that was seen, and the chance to fit is surer."""
    set_ = ("jobs.seen.framework=unknown", "limits.gpus={allow: [A100-80GB]}", "jobs.seen.techniques.method=full")
    _, plain = solved(set_=set_)
    how = plain.techniques
    said = ", ".join(
        f"{key}: {getattr(how, key)}"
        for key in ("method", "activation_checkpointing", "sharding", "micro_batch", "optimizer", "attention")
    )
    run = f"gpu: {plain.gpu}, gpus: {plain.gpus}, {said}, peak_vram_gib: {plain.vram_gib.allocated!r}"
    candidates = candidates_of(run, set_=set_)
    (probed,) = candidates.physics.learned.probed.values()
    assert probed.margin < 0.6 * memory_margin("unknown", 0.95, LIBRARY)
    before, after = candidates_of(set_=set_).physics.ways, candidates.physics.ways
    assert int(after.micro_batch.max()) >= int(before.micro_batch.max())


@pytest.mark.slow
def test_a_peak_without_its_kind_is_taken_as_allocated_and_says_so() -> None:
    """The kind that asks for the most room; nvidia-smi shows more than what is allocated."""
    _, unsaid = solved(peaked(10.9))
    _, said = solved(peaked(10.9, more=", peak_kind: allocated"))
    assert unsaid.vram_gib == said.vram_gib and unsaid.observed_runs[0].peak_kind == "allocated"
    note = "observed peak taken as allocated bytes: set peak_kind if it is reserved or device"
    assert note in unsaid.notes and note not in said.notes


# what may be said


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ({}, "no observation given"),
        ({"hours": 3, "tokens_per_second": 9}, "needs either"),
        ({"hours": 3, "micro_batch": 2}, "cannot be combined with micro_batch"),
        ({"tokens_per_second": 9, "peak_kind": "device"}, "peak_kind without a peak"),
        ({"tokens_per_second": 9, "instances": 3}, "do not spread evenly over 3 machines"),
        ({"tokens_per_second": 9, "method": "full", "weight_bits": 4}, "cannot train quantised weights"),
        ({"tokens_per_second": 9, "quant": "nf4", "weight_bits": 8}, "quant is for 4-bit weights"),
        (
            {"tokens_per_second": 9, "micro_batch": 2, "accumulation_steps": 3, "global_batch": 7},
            "7 is not micro_batch 2 x accumulation_steps 3 x 4 ranks",
        ),
    ],
)
def test_an_observation_that_contradicts_itself_is_refused(run: dict[str, Any], told: str) -> None:
    """What cannot hold together is told with what would be right."""
    with pytest.raises(ValidationError, match=told):
        Measured.model_validate({"gpu": "A100-80GB", "gpus": 4, **run})


# audit and reuse


TAMPERED: dict[str, dict[str, Any]] = {
    "speed_factor": {"speed_factor": 0.9},
    "memory_factor": {"memory_factor": 1.2},
    "step_seconds": {"step_seconds": 50.0},
    "sigma": {"sigma": 0.05},
    "sigma_in_tails": {"sigma_in_tails": 0.05},
    "vram_gib.peak": {"vram_gib": {"peak": 9.0}},
    "vram_gib.fit_probability": {"vram_gib": {"fit_probability": 0.5}},
    "observed_runs[0]": {"observed_runs": ()},
}
BOTH = f"{HALF_SPEED}, peak_vram_gib: 11.2, peak_kind: allocated"


@pytest.mark.slow
@pytest.mark.parametrize("what", TAMPERED)
def test_the_audit_finds_a_tampered_figure(what: str) -> None:
    """What follows from the runs is compared and summed up again, from scenario and cards alone."""
    plan, job = solved(BOTH)
    data = job.model_dump()
    for key, value in TAMPERED[what].items():
        data[key] = {**data[key], **value} if isinstance(value, dict) else value
    changed = plan.model_copy(update={"jobs": (Assignment.model_validate(data),)})
    assert what in {one.what for one in audit(changed, asked(BOTH), LIBRARY)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gpu", "A100-80GB"),
        ("tokens_per_second", 500.0),
        ("predicted_tokens_per_second", 300.0),
        ("predicted_peak_vram_gib", 3.0),
        ("peak_kind", "device"),
    ],
)
def test_the_audit_finds_a_tampered_run(field: str, value: object) -> None:
    """A run that is told otherwise than the scenario has it, or compared with another figure."""
    plan, job = solved(BOTH)
    data = job.model_dump()
    data["observed_runs"] = [{**data["observed_runs"][0], field: value}]
    changed = plan.model_copy(update={"jobs": (Assignment.model_validate(data),)})
    assert f"observed_runs[0].{field}" in {one.what for one in audit(changed, asked(BOTH), LIBRARY)}


def test_a_plan_with_an_observation_does_not_pass_for_one_without() -> None:
    """Nor the other way round."""
    with_run, without = solved(HALF_SPEED)[0], solved()[0]
    assert audit(with_run, asked(), LIBRARY) and audit(without, asked(HALF_SPEED), LIBRARY)


RUNS = (
    f"jobs.seen.measured=[{{{HALF_SPEED}}}]",
    f"jobs.seen.measured=[{{{BOTH}}}]",
    "jobs.seen.measured=[{gpu: A100-80GB, gpus: 4, tokens_per_second: 9000}]",
    "jobs.seen.measured=[]",
    "jobs.seen.techniques.method=[lora]",
    "jobs.seen.efficiency=0.8",
    "jobs.seen.deadline=40h",
    "jobs.seen.global_batch=16",
    "limits.vram_headroom=0.2",
)


@pytest.mark.long
@settings(derandomize=True, max_examples=5, deadline=None)
@given(st.lists(st.sampled_from(RUNS), min_size=2, max_size=4))
def test_a_chain_of_changes_around_observations_is_answered_as_from_scratch(chain: list[str]) -> None:
    """What is reused between questions never brings along what an earlier run taught."""
    scenario = asked(HALF_SPEED)
    prepared = prepare(scenario, LIBRARY)
    for setting in chain:
        scenario = change_scenario(scenario, [setting])
        prepared = prepare(scenario, LIBRARY, prepared)
    reused, scratch = solve_prepared(prepared, OPTIONS), solve(scenario, OPTIONS, LIBRARY)
    assert reused.model_dump(exclude={"seconds"}) == scratch.model_dump(exclude={"seconds"})


def test_a_job_without_runs_learns_nothing() -> None:
    """Estimates of all other scenarios are untouched."""
    assert Job.model_fields["measured"].default == ()
    _, job = solved()
    assert (job.speed_factor, job.memory_factor, job.observed_runs) == (1.0, 1.0, ())


@pytest.mark.slow
def test_a_peak_far_below_any_estimate_leaves_a_plan_that_passes_its_audit() -> None:
    """What the GPU cannot hold is predicted without the cap of its memory, in the plan and in its audit."""
    run = f"{ON_3060}, peak_vram_gib: 3, peak_kind: device, method: full"
    _, job = solved(run)
    (seen,) = job.observed_runs
    assert seen.predicted_peak_vram_gib is not None and seen.predicted_peak_vram_gib > 12
