"""Networks of images that do not fit: their encoders are named, and a size of images, not of sequences."""

import pytest

import planner
from planner.report.plan_answer import render_answer
from planner.report.run_text import render_estimate

JOB = {
    **{"name": "style", "architecture": "flux.1-dev", "work": {"images": 40, "epochs": 50}, "global_batch": 1},
    **{"lora": {"rank": 16, "targets": "attention"}, "framework": ["simpletuner"]},
    "techniques": {"method": "lora", "weight_bits": 16, "latents": "online"},
}


def scenario(gpu: str) -> planner.Scenario:
    offer = {"provider": "p", "gpu": gpu, "gpus": 1, "usd_per_hour": 1.0}
    return planner.build_scenario({"name": "s", "schema": 2, "jobs": [JOB], "offers": [offer], "objective": "cost"})


def test_encoders_that_lie_on_the_gpu_are_named_with_what_frees_them() -> None:
    nothing = planner.explain(scenario("RTX4090"))
    (miss,) = nothing.nearest
    assert miss.fix.endswith("fit, 9.3 GiB less with latents: cached") and "sequence" not in miss.fix
    answer = planner.explain(scenario("RTX4090"), why_not="gpu=RTX4090,weight_bits=16").why_not
    assert answer is not None
    assert "9.3 of them are text and image encoders, which leave the GPU with latents: cached" in answer.reasons


def test_a_plan_says_the_largest_batch_and_the_largest_images() -> None:
    """With the encoders on the GPU, and without a word of them where latents are cached."""
    (job,) = planner.solve(scenario("A100-80GB")).jobs
    (note,) = (note for note in job.notes if "has room for micro-batch" in note)
    assert "at 1,024 pixels a side" in note and "text and image encoders take 9.3 GiB" in note
    cached = scenario("A100-80GB").with_settings(["jobs.style.techniques.latents=cached"])
    (job,) = planner.solve(cached).jobs
    assert any("has room" in note and "encoders" not in note for note in job.notes)


def test_an_estimate_where_no_batch_fits_names_the_size_that_does() -> None:
    """80 GB hold no image of 1,024 pixels without checkpointing; a smaller one fits."""
    found = planner.estimate("flux.1-dev", "H100", framework="simpletuner", activation_checkpointing="none")
    text = render_estimate(found)
    assert "none fits at 1,024 pixels; at micro-batch 1 up to" in text and "not even" not in text


def test_a_plan_says_what_its_licence_forbids_and_that_its_weights_are_gated() -> None:
    (job,) = planner.solve(scenario("A100-80GB")).jobs
    assert any(note.startswith("licence of flux.1-dev: Non-Commercial License") for note in job.notes)
    assert any(note.startswith("black-forest-labs/FLUX.1-dev is gated: accept its terms") for note in job.notes)
    (job,) = planner.solve(scenario("A100-80GB").with_settings(["jobs.style.architecture=qwen-image"])).jobs
    assert not any("licence" in note or "gated" in note for note in job.notes)


def test_a_plan_swaps_the_fewest_blocks_that_let_a_network_fit_and_says_so() -> None:
    """FLUX.1 in fp8 takes 15.7 GiB, and a card of 12 GB 10.4 with half of its blocks in host memory."""
    swaps = ["none", "block_swap_50", "block_swap_90"]
    techniques = {"weight_bits": 8, "quant": ["fp8_weights"], "latents": "cached", "offload": swaps}
    job = {**JOB, "framework": ["kohya"], "lora": {"rank": 16}, "techniques": {"method": "lora", **techniques}}
    offer = {"provider": "p", "gpu": "RTX3060", "gpus": 1, "usd_per_hour": 0.1, "ram_gb": 64}
    asked = {"name": "s", "schema": 2, "jobs": [job], "offers": [offer], "objective": "cost"}
    plan = planner.solve(planner.build_scenario(asked))
    (chosen,) = plan.jobs
    assert chosen.techniques.offload == "block_swap_50" and chosen.techniques.framework == "kohya"
    assert chosen.host_memory is not None and 8.5 < chosen.host_memory.taken_gb < 9.5
    assert any("no run of sd-scripts was measured" in note for note in chosen.notes)
    assert "50 % of the blocks in host memory" in " ".join(render_answer(plan).split())
    why = planner.explain(planner.build_scenario(asked), why_not="offload=none").why_not
    assert why is not None and why.memory is not None and "encoders" not in why.memory.set_aside
    assert any(reason.startswith("LoRA 8-bit on 1 x RTX3060 needs") for reason in why.reasons)


@pytest.mark.parametrize(
    ("given", "asked", "excludes"),
    [
        ("latents=cached", "latents=online", "allows cached, not online"),
        ("quant=nf4", "quant=nf4_dq", "allows nf4, not nf4_dq"),
    ],
)
def test_techniques_that_the_job_excludes_are_priced_with_the_setting_that_admits_them(
    given: str, asked: str, excludes: str
) -> None:
    """They fit: no answer of memory, and no advice to exclude what is asked for."""
    settings = ["jobs.style.techniques.weight_bits=4", f"jobs.style.techniques.{given}"]
    answer = planner.explain(scenario("A100-80GB").with_settings(settings), why_not=asked).why_not
    assert answer is not None and answer.status == "beyond" and answer.memory is None
    assert any(excludes in reason for reason in answer.reasons)
    values = ",".join([given.partition("=")[2], asked.partition("=")[2]])
    assert [change.setting for change in answer.relax] == [
        f"jobs.style.techniques.{asked.partition('=')[0]}=[{values}]"
    ]


def test_steps_read_images_as_large_as_the_data_set_says() -> None:
    """40 images of 0.2 GB are 5 MB each; without their size half a byte a pixel is taken, 0.5 MB."""
    known, guessed = (
        planner.solve(scenario("A100-80GB").with_settings([f"jobs.style.data_gb={gb}"])).jobs[0] for gb in (0.2, 0)
    )
    paths = [job.data_path for job in (known, guessed)]
    assert paths[0] is not None and paths[1] is not None
    assert paths[0].read_bytes_per_second / paths[1].read_bytes_per_second == pytest.approx(5e6 / (1024**2 / 2))
    slow = scenario("A100-80GB").with_settings(["jobs.style.data_gb=200", "jobs.style.storage_gb_per_second=0.2"])
    assert planner.solve(slow).jobs[0].fed_by_storage
