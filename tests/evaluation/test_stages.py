"""Every stage and every shape of trials with a figure worked out by hand; solving audits the plan on the way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.stage_scenarios import (
    CPU,
    LOAD_SECONDS,
    LORA,
    RENTED,
    RESUME_GB,
    START_SECONDS,
    WEIGHTS_GB,
    line,
    planned,
    run_hours,
)

HOUR = 3600


def test_the_start_is_boot_image_weights_and_load() -> None:
    """160 s + 10 GB and 2.2 GB at 0.5 GB/s + load 22.5 s are 206.9 s, which cost $2 an hour like all others."""
    told = planned()
    assert told.start_hours == pytest.approx(206.917 / HOUR, rel=1e-5)
    assert line(told, "start and load")[1] == pytest.approx(206.917 / HOUR * 2, rel=1e-5)
    assert told.training_hours == pytest.approx(run_hours(told))
    assert told.stage_hours == {}


def test_a_machine_tells_its_own_line() -> None:
    """At 2 GB/s the image takes 5 s and 2.2 GB of weights 1.1 s: 17.8 + 0.5 s less than at 0.5 GB/s."""
    told = planned({**RENTED, "download_gb_per_second": 2.0})
    saved = (10 + WEIGHTS_GB) * (1 / 0.5 - 1 / 2)
    assert told.start_hours == pytest.approx((START_SECONDS - saved) / HOUR, rel=1e-9)


@pytest.mark.parametrize(("region", "seconds"), [("west", 600.0), ("east", 60.0)])
def test_data_come_as_fast_as_they_leave_their_place(region: str, seconds: float) -> None:
    """30 GB at 0.05 GB/s take 600 s, and 60 s at the machine's 0.5 GB/s where they lie beside it, for nothing."""
    source = {"region": region, "gb_per_second": 0.05, "egress_usd_per_gb": 0.09}
    told = planned({**RENTED, "region": "east"}, data_gb=30, stages={"transfer": source})
    assert told.start_hours == pytest.approx((START_SECONDS + seconds) / HOUR, rel=1e-9)
    assert line(told, "data leaving") == pytest.approx((30, 2.7) if region == "west" else (0, 0))


def test_data_are_prepared_on_the_machine() -> None:
    """50 GB of text, 1B tokens of it, on 64 cores with 32 GB over a disk of 0.2 GB/s: 295.0 s.

    Reading and writing 54 GB takes 270 s, tokenising 1e9 / (64 * 200,000) = 78.1 s, of which 1/6 stays uncovered,
    and 6 batches start in 2 s each. The raw text comes first, 50 GB in 100 s.
    """
    offer = {**RENTED, "cpu_cores": 64, "ram_gb": 32, "disk_gb_per_second": 0.2}
    told = planned(offer, stages={"ingest": {"raw_gb": 50, "tokens": 1e9}})
    assert told.stage_hours["prepare data"] == pytest.approx((270 + 78.125 / 6 + 12) / HOUR, rel=1e-6)
    assert told.start_hours == pytest.approx((START_SECONDS + 100) / HOUR, rel=1e-9)


def test_data_are_prepared_beside_the_run() -> None:
    """16 cores take 312.5 s for 1B tokens; with reading, batches, boot and 50 GB raw it is 593.3 s, billed 1 h.

    54 GB on a disk of 1 GB/s are 54 s, of which 1/5 stays uncovered, and 5 batches start in 2 s each. No image is
    pulled. In go 50 GB at $0.02, out 4 GB of token ids at $0.10, $1.40, and the hour costs $0.60. The machine that
    trains pulls 4 GB in 8 s.
    """
    fees = {"ingress_usd_per_gb": 0.02, "egress_usd_per_gb": 0.1}
    offer = {**CPU, "fees": fees, "billing": {"step_seconds": 3600}}
    told = planned(RENTED, offer, stages={"ingest": {"raw_gb": 50, "tokens": 1e9, "on": "cpu"}})
    hours = (160 + 100 + 312.5 + 54 / 5 + 10) / HOUR
    assert told.stage_hours["prepare data"] == pytest.approx(hours, rel=1e-6)
    assert [(one.stage, one.provider, one.offer) for one in told.separate_machines] == [
        ("ingest", "c", "c/any/16-cores")
    ]
    assert line(told, "prepare data at c") == pytest.approx((1.0, 0.6))
    assert line(told, "raw data moved at c")[1] == pytest.approx(1.4)
    assert told.start_hours == pytest.approx((START_SECONDS + 8) / HOUR, rel=1e-9)


@pytest.mark.parametrize(("techniques", "units"), [({}, 3.0), (LORA, 2.0)])
def test_evaluation_is_forward_passes_at_nine_tenths(techniques: dict[str, Any], units: float) -> None:
    """A tenth of the tokens costs 0.1 / (3 * 0.9) of full training's steps, and 0.1 / (2 * 0.9) of LoRA's."""
    stages = {"evaluation": {"share": 0.1, "on": "machine"}}
    told = planned(stages=stages, **({"techniques": techniques} if techniques else {}))
    steps = told.steps * told.step_seconds / HOUR
    assert told.stage_hours["evaluation"] == pytest.approx(steps * 0.1 / (units * 0.9), rel=1e-9)


def test_evaluation_beside_the_run_starts_a_gpu_of_its_own() -> None:
    """1e8 tokens at 0.812 * 312e12 * 0.9 / (2 * 1.1e9) = 103,636 a second: 964.9 s, after 203.3 s of getting ready.

    Boot 160 s, image and weights at 0.5 GB/s, read at 0.6 of the disk's 1 GB/s, moved at 12 GB/s, 15 s of imports.
    """
    alone = {"provider": "e", "gpu": "A100-80GB", "gpus": 1, "usd_per_hour": 1.0}
    stages = {"evaluation": {"tokens": 1e8, "on": "one_gpu"}}
    told = planned({**RENTED, "gpus": 2}, alone, limits={"providers": {"allow": ["p", "e"]}}, stages=stages)
    ready = 180 + WEIGHTS_GB / 0.5 + WEIGHTS_GB / 0.6 + WEIGHTS_GB / 12 + 15
    assert ready == pytest.approx(203.25, abs=0.01)
    assert told.stage_hours["evaluation"] == pytest.approx((ready + 964.914) / HOUR, rel=1e-5)
    assert line(told, "evaluation at e")[1] == pytest.approx(1168.16 / HOUR, rel=1e-3)  # billed by the second


@pytest.mark.parametrize(("asynchronous", "each"), [(False, 32.801), (True, 4.790)])
def test_checkpoints_halt_the_run(asynchronous: bool, each: float) -> None:
    """15.4 GB are written at 0.5 GB/s in 30.8 + 2 s, or copied to the host at 0.23 * 24 GB/s in 2.8 + 2 s."""
    stages = {"checkpoints": {"count": 10, "keep": 2, "asynchronous": asynchronous}}
    told = planned(work={"tokens": 1e9}, stages=stages)
    assert told.stage_hours["checkpoints"] == pytest.approx(10 * each / HOUR, rel=1e-4)
    assert line(told, "kept after") == (0.0, 0.0)  # nobody asked to keep them


def test_what_is_kept_is_charged_after_the_run() -> None:
    """Two checkpoints of 15.4 GB and a result of 2.2 GB for 30 days of 730-hour months at $0.07: 32.55 GB-months."""
    offer = {**RENTED, "fees": {"network_storage_usd_per_gb_month": 0.07, "storage_usd_per_gb_month": 0.0}}
    told = planned(offer, stages={"checkpoints": {"count": 4, "keep": 2}, "retention": "30d"})
    months = (2 * RESUME_GB + WEIGHTS_GB) * 720 / 730
    assert line(told, "kept after") == pytest.approx((months, months * 0.07))
    assert months == pytest.approx(32.55, abs=0.01)


def test_checkpoints_of_weights_alone_take_two_bytes_each() -> None:
    """2.2 GB at 0.5 GB/s: 4.4 + 2 s, and the storage while it runs holds one of them beside 14.4 GB of disk."""
    offer = {**RENTED, "fees": {"storage_usd_per_gb_month": 1.0}}
    told = planned(offer, stages={"checkpoints": {"count": 5, "contents": "weights", "asynchronous": False}})
    assert told.stage_hours["checkpoints"] == pytest.approx(5 * 6.4002 / HOUR, rel=1e-5)
    held = 2 * WEIGHTS_GB + 10 + WEIGHTS_GB
    assert line(told, "storage")[0] == pytest.approx(held * told.hours.expected / 730)


def test_the_result_leaves_no_faster_than_its_goal_takes_it() -> None:
    """2.2 GB at 0.1 GB/s are 22.0 s; merged adapters are first read and written once on a disk of 1 GB/s, 4.4 s."""
    stages = {"export": {"gb_per_second": 0.1, "merged": True}}
    offer = {**RENTED, "fees": {"egress_usd_per_gb": 0.1}}
    assert planned(offer, stages=stages).stage_hours["export"] == pytest.approx(22.00097 / HOUR, rel=1e-6)
    merged = planned(offer, stages=stages, techniques=LORA)
    assert merged.stage_hours["export"] == pytest.approx((22.00097 + 4.40019) / HOUR, rel=1e-6)
    assert line(merged, "transfer out") == pytest.approx((WEIGHTS_GB, 0.2200097))


def test_slow_storage_sets_the_pace() -> None:
    """256 images of 512 x 512 at half a byte per pixel are 33.6 MB a step: 67.1 s at 0.5 MB/s."""
    told = planned(
        {**RENTED, "gpus": 8},
        architecture="stable-diffusion-1.5",
        work={"images": 25600, "resolution": 512},
        global_batch=256,
        techniques={"method": "lora"},
        storage_gb_per_second=5e-4,
    )
    assert told.fed_by_storage
    assert told.step_seconds == pytest.approx(67.108864)
    assert not planned().fed_by_storage


def test_trials_one_after_another_are_thinned_out() -> None:
    """9 trials halved by 3: 9 to 1/9, 3 to 1/3, 1 to the end are 7/3 runs, and the network is loaded 12 times more."""
    told = planned(trials={"count": 9, "halving": 3})
    assert told.training_hours == pytest.approx(run_hours(told) * 7 / 3, rel=1e-9)
    assert told.stage_hours["load between trials"] == pytest.approx(12 * LOAD_SECONDS / HOUR, rel=1e-9)
    assert line(told, "gpu on demand")[0] == pytest.approx(run_hours(told) * 7 / 3)


def test_trials_side_by_side_cost_machines_in_place_of_hours() -> None:
    """3 trials at once take as long as one, and 3 starts and 3 times the machine hours."""
    told = planned(trials={"count": 3, "at_once": 3})
    assert told.runs_at_once == 3
    assert told.hours.expected == pytest.approx(run_hours(told) + START_SECONDS / HOUR, rel=1e-9)
    assert line(told, "gpu on demand")[0] == pytest.approx(3 * run_hours(told))
    assert line(told, "start and load")[0] == pytest.approx(3 * START_SECONDS / HOUR)


def test_gangs_wait_for_the_last_trial_of_a_rung() -> None:
    """4 trials on 3 gangs, halved by 2: while the fourth does its quarter of a run, one gang of the next rung waits.

    The other gang that is idle then is given back. In all 4/4 + 2/4 + 1/2 = 2 runs of work.
    """
    told = planned(trials={"count": 4, "at_once": 3, "halving": 2})
    assert line(told, "wait for trials")[0] == pytest.approx(run_hours(told) * 0.25)
    assert line(told, "gpu on demand")[0] == pytest.approx(run_hours(told) * 2)


def test_a_run_that_may_stop_early_is_late_in_full() -> None:
    """Expected are 0.6 of the hours; at the confidence all of them count, and so do all dollars."""
    short, full = planned(early_stopping=0.6), planned()
    start = START_SECONDS / HOUR
    assert short.training_hours == pytest.approx(0.6 * full.training_hours, rel=1e-9)
    # start + run, both late by one factor: with the run in full that of the job without early stopping
    assert short.hours.at_confidence == pytest.approx(full.hours.at_confidence, rel=1e-9)
    assert short.cost_at_confidence == pytest.approx(full.cost_at_confidence, rel=1e-9)
    assert short.hours.expected == pytest.approx(start + 0.6 * run_hours(full), rel=1e-9)


@pytest.mark.parametrize("on", ["machine", "one_gpu"])
def test_a_run_that_stops_early_answers_every_test_prompt(on: str) -> None:
    """Half the steps and checkpoints are expected, and all answers; in full the run is that without early stopping."""
    prompts = {"requests": 2000, "input_tokens": 500, "output_tokens": 200, "on": on}
    alone = {"provider": "e", "gpu": "A100-80GB", "gpus": 1, "usd_per_hour": 1.0}
    more: dict[str, Any] = {"stages": {"evaluation": prompts, "checkpoints": {"count": 4}}}
    more["limits"] = {"providers": {"allow": ["p", "e"]}}
    short, full = (planned({**RENTED, "gpus": 2}, alone, **more, **early) for early in ({"early_stopping": 0.5}, {}))
    assert short.training_hours == pytest.approx(full.training_hours / 2, rel=1e-9)
    assert short.stage_hours["evaluation"] == pytest.approx(full.stage_hours["evaluation"], rel=1e-9)
    assert short.hours.at_confidence == pytest.approx(full.hours.at_confidence, rel=1e-9)
    assert short.cost_at_confidence == pytest.approx(full.cost_at_confidence, rel=1e-9)


def test_a_run_seen_from_start_to_end_has_no_stages() -> None:
    """3 observed hours twice are 6, whatever the stages take: they are in what was seen. Half a run takes half."""
    stages = {"evaluation": {"share": 0.5}, "export": {}, "checkpoints": {"count": 9}}
    seen = [{"gpu": "A100-80GB", "gpus": 1, "hours": 3}]
    told, full = (planned(trials=2, measured=seen, stages=stages, early_stopping=s, efficiency=0.8) for s in (0.5, 1))
    assert [told.hours.expected, full.hours.expected] == pytest.approx([3.0, 6.0])
    assert told.cost_usd == pytest.approx(full.cost_usd / 2)
    assert told.hours.at_confidence == pytest.approx(full.hours.at_confidence)
    assert told.cost_at_confidence == pytest.approx(full.cost_at_confidence)
    assert (told.start_hours, told.stage_hours, told.separate_machines) == (0.0, {}, ())
    assert told.step_seconds == pytest.approx(3 * HOUR / told.steps)
