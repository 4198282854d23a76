"""Cached latents: what caching saves and costs, and when it is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.configurations.coefficients import latent_cache, recipe_coefficients
from planner.configurations.grid import network_of
from planner.configurations.recipe import Recipe
from planner.errors import ScenarioError
from planner.estimates.device import encode_seconds
from planner.results.plan import Assignment
from tests.helpers.stage_scenarios import RENTED, asked, library, line, planned, solved

LAW = settings(max_examples=100, derandomize=True)
CARD = "stable-diffusion-1.5"
PLAIN = Recipe("full", 16, "none", "bf16_mixed", "none", "none", "flash", "adamw")
STORED = {**RENTED, "fees": {"storage_usd_per_gb_month": 10.0}}


def run(epochs: int, latents: list[str], *offers: dict[str, Any], batch: int = 64, **job: Any) -> Assignment:
    """10,000 images, so often, in full training on one A100."""
    work = {"images": 10_000, "epochs": epochs, "resolution": 512}
    techniques = {"method": "full", "activation_checkpointing": "none", "optimizer": "adamw", "latents": latents}
    asked_for = {"work": work, **job}
    return planned(*offers, architecture=CARD, global_batch=batch, techniques=techniques, **asked_for)


def test_the_card_agrees_with_what_was_published() -> None:
    """(3 * 803.3 + 1,116.7) / (3 * 803.3) = 1.46 times the work with the encoder; published are 1.4 times the time."""
    job = asked(architecture=CARD, work={"images": 1000}).jobs[0]
    cache = latent_cache(job, library().architecture(CARD))
    assert cache is not None
    assert 1 / cache.token_share == pytest.approx((3 * 803.3 + 1116.7) / (3 * 803.3), rel=1e-9)
    assert 1 / cache.token_share == pytest.approx(1.40, rel=0.05)
    assert cache.each_bytes == 4 * 64 * 64 * 2 + 77 * 768 * 2


def test_the_pass_by_hand() -> None:
    """250 batches of 0.2 s and 1 / 0.683 - 1 = 0.464: 23.2 s, or 30 GB over 0.5 GB/s: 60 s."""
    assert float(encode_seconds(250, 0.2, 0.683, 0, 5e8)) == pytest.approx(250 * 0.2 * 0.464, rel=1e-3)
    assert float(encode_seconds(250, 0.2, 0.683, 30e9, 5e8)) == pytest.approx(60)


@pytest.mark.parametrize(("epochs", "chosen"), [(1, "online"), (2, "cached"), (10, "cached")])
def test_caching_is_chosen_from_two_epochs_on(epochs: int, chosen: str) -> None:
    """In one epoch the pass costs what it saves, and the disk on top."""
    told = run(epochs, ["online", "cached"], STORED)
    assert told.techniques.latents == chosen


@pytest.mark.parametrize("epochs", [2, 5, 20])
def test_caching_never_makes_many_epochs_slower(epochs: int) -> None:
    """The hours with the choice are at most those without."""
    assert run(epochs, ["cached"]).hours.expected <= run(epochs, ["online"]).hours.expected * (1 + 1e-9)


def test_the_disk_of_the_cache_is_paid() -> None:
    """10,000 images of 151 kB are 1.51 GB more on the disk for all hours that it is rented."""
    cached, online = run(5, ["cached"], STORED), run(5, ["online"], STORED)
    gb = 10_000 * 151_040 / 1e9
    month = [line(told, "storage")[0] / told.hours.expected * 730 for told in (cached, online)]
    assert month[0] - month[1] == pytest.approx(gb, rel=1e-6)


def test_the_pass_is_on_the_bill() -> None:
    """Hours of preparing data, at the price of the machine."""
    told = run(5, ["cached"])
    hours = told.stage_hours["prepare data"]
    assert hours == pytest.approx(10_000 / 64 * told.step_seconds * 1116.7 / (3 * 803.3) / 3600, rel=1e-6)
    assert line(told, "prepare data") == pytest.approx((hours, hours * 2))


def test_work_in_steps_caches_each_image_once() -> None:
    """3,125 steps of 64 are 10,000 images 20 times: dollars, hours and the audit agree, and a note says so."""
    named, in_steps = run(20, ["cached"], STORED), run(20, ["cached"], STORED, work={"steps": 3125, "resolution": 512})
    assert in_steps.stage_hours == named.stage_hours and in_steps.cost_usd == named.cost_usd
    assert "assumed, each trained on 20 times" not in " ".join(named.notes)
    (note,) = (note for note in in_steps.notes if "assumed, each trained on 20 times" in note)
    assert "10,000 are" in note and " jobs.job.work.images=10000 " in note


def test_encoders_leave_the_gpu() -> None:
    """207M frozen weights of 2 bytes are 0.385 GiB that a run with cached latents has more."""
    job, network = asked(architecture=CARD, work={"images": 1000}).jobs[0], network_of(library().architecture(CARD))
    held = [
        recipe_coefficients(replace(PLAIN, latents=one), job, network, library()).stack.context_gib
        for one in ("online", "cached")
    ]
    assert float(held[0]) - float(held[1]) == pytest.approx(2 * 206_714_343 / 2**30)


def test_a_plan_says_what_caching_would_bring() -> None:
    """The line on data of a run without caching is right within a tenth, both in one micro-batch per step."""
    online, cached = run(10, ["online"], batch=16), run(10, ["cached"], batch=16)
    assert online.data_path is not None and cached.data_path is not None
    saved = online.hours.expected - cached.hours.expected
    assert online.data_path.latents_saved_hours == pytest.approx(saved, rel=0.1)
    assert cached.data_path.latents_saved_hours == 0


def test_text_has_no_latents() -> None:
    """One fault, with what would be right."""
    with pytest.raises(ScenarioError) as caught:
        solved(asked(techniques={"latents": "cached"}))
    (fault,) = caught.value.faults
    assert fault.where == "jobs.job.techniques.latents"
    assert fault.what == "tinyllama-1.1b is trained on text, which has no latents"


@LAW
@given(st.floats(1, 1e5), st.floats(1e-3, 10), st.floats(0.4, 1), st.floats(0, 1e12), st.floats(1e7, 1e10))
def test_a_pass_is_never_shorter_than_what_it_replaces(
    batches: float, step: float, share: float, moved: float, storage: float
) -> None:
    """One epoch with caching takes at least as long as one without, in which a step is `1 / share` times as long."""
    found = float(encode_seconds(batches, step, share, moved, storage))
    assert found + batches * step >= batches * step / share * (1 - 1e-12)
    assert found * storage >= moved * (1 - 1e-12)
