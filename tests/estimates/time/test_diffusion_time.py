"""Times and memory of diffusion networks: launches by block, attention among all tokens, and masks."""

import math
import re
from typing import Any

import pytest

import planner
from planner.errors import PlannerError
from planner.estimates.work import image_steps
from planner.library.reading import read_library
from planner.library.schema import ImageSize, ImageTokens


def seconds(model: str, gpu: str = "H100", **settings: Any) -> planner.Estimate:
    asked = {"latents": "cached", "micro_batch": 1, "activation_checkpointing": "none", **settings}
    return planner.estimate(model, gpu, **asked)


def test_one_small_image_takes_as_long_on_a_faster_card() -> None:
    """A step that waits for launches is no shorter on an H100 than its launches take."""
    slow, fast = (seconds("z-image", gpu, resolution=256).step_seconds.total for gpu in ("L40S", "H100"))
    assert fast > 0.7 * slow


def test_four_times_the_pixels_take_more_than_four_times_the_attention() -> None:
    """(4,096 + 512)^2 / (1,024 + 512)^2 = 9 times, since every token meets every other."""
    small, large = (seconds("flux.1-schnell", resolution=side).step_seconds.parts for side in (512, 1024))
    assert large["attention"] / small["attention"] > 8


def test_checkpointing_keeps_the_input_of_each_block() -> None:
    """57 blocks of FLUX keep 4,608 tokens x 3,072 x 2 bytes each: 1.5 GiB of one image."""
    found = seconds("flux.1-schnell", activation_checkpointing="full").vram_gib.parts["stored_activations"]
    assert found == pytest.approx(57 * 4608 * 3072 * 2 / 2**30, rel=0.01)


# worked: 40 blocks of Wan 14B keep (11 x 900 + 0.175 x 512) tokens x 5,120 x 2 bytes each; they have as many matrices
# as 49 layers. One of them runs again at a time, and keeps 48.7 bytes of each element.
def test_a_block_with_two_attentions_has_one_input_and_runs_again_as_one() -> None:
    parts = seconds("wan-2.1-14b", activation_checkpointing="full", lora_targets="attention").vram_gib.parts
    elements = (11 * 900 + 0.175439 * 512) * 5120
    assert parts["stored_activations"] == pytest.approx(40 * 2 * elements / 2**30, rel=1e-4)
    assert parts["working_set"] > 48.7 * elements / 2**30


# worked: 512 pixels are 1,024 tokens, with as many of the image that is edited and 512 of the caption.
def test_an_image_that_is_edited_doubles_the_tokens_of_the_image() -> None:
    def found_of(model: str, **asked: Any) -> planner.Estimate:
        return seconds(model, lora_targets="attention", resolution=512, **asked)

    plain, edited = found_of("flux.1-dev"), found_of("flux.1-kontext-dev")
    none = found_of("flux.1-kontext-dev", reference_images=0)
    stored = [found.vram_gib.parts["stored_activations"] for found in (plain, edited, none)]
    assert stored[1] / stored[0] == pytest.approx((2 * 1024 + 512) / (1024 + 512))
    assert stored[2] == stored[0] and none.step_seconds.total == plain.step_seconds.total
    assert "1 reference image" in edited.assumed
    two = seconds("flux.1-dev", lora_targets="attention", resolution=512, reference_images=2)
    assert two.vram_gib.parts["stored_activations"] / stored[0] == pytest.approx((3 * 1024 + 512) / (1024 + 512))


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("stable-diffusion-xl", "a U-Net reads no images next to"),
        ("wan-2.1-1.3b", "a network of videos reads next to them are not modelled"),
        ("qwen2.5-7b", "is trained on text"),
    ],
)
def test_images_next_to_each_are_refused_where_a_network_reads_none(model: str, told: str) -> None:
    with pytest.raises(PlannerError, match=told):
        planner.estimate(model, "H100", reference_images=1)


def test_one_of_two_networks_of_wan_2_2_is_trained() -> None:
    one, both = (planner.estimate(name, "H100", latents="cached") for name in ("wan-2.1-14b", "wan-2.2-t2v-a14b"))
    assert both.vram_gib.allocated == one.vram_gib.allocated
    assert any("one of the 2 networks of wan-2.2-t2v-a14b" in note for note in both.notes)


# worked: 610,856,096 weights of PixArt-Sigma have an average of four bytes each, 2.28 GiB. Its update moves it six
# times, and one in host memory crosses the slot twice: 8 x 0.611e9 / (0.825 x 48e9) = 0.12 s.
def test_an_average_of_the_weights_takes_four_bytes_of_each_where_it_lies() -> None:
    none, here, there = (
        seconds("pixart-sigma", method="full", activation_checkpointing="full", ema=where)
        for where in ("none", "gpu", "host")
    )
    optimizer = [found.vram_gib.parts["optimizer"] for found in (none, here, there)]
    assert optimizer[1] - optimizer[0] == pytest.approx(4 * 610_856_096 / 2**30)
    assert optimizer[2] == optimizer[0] and there.host_memory is not None and here.host_memory is None
    assert there.host_memory.taken_gb == pytest.approx(4 * 610_856_096 / 1e9)
    updates = [found.step_seconds.parts["optimizer"] for found in (none, here, there)]
    assert updates[1] - updates[0] == pytest.approx(6 * 4 * 610_856_096 / 4.8e12, rel=0.5)
    assert updates[2] - updates[1] == pytest.approx(8 * 610_856_096 / (0.825 * 48e9), rel=0.3)
    assert any("average of the trained weights (EMA)" in note for note in here.notes)


@pytest.mark.parametrize(
    ("model", "framework", "told"),
    [
        ("flux.1-schnell", "diffusers", "diffusers averages no weights"),
        ("qwen2.5-7b", "hf", "of networks of images alone"),
    ],
)
def test_an_average_of_the_weights_is_refused_where_a_tool_has_none(model: str, framework: str, told: str) -> None:
    with pytest.raises(PlannerError, match=told):
        planner.estimate(model, "H100", framework=framework, ema="gpu")
    job = {"name": "a", "architecture": model, "ema": "gpu", "framework": framework, "work": {"steps": 9}}
    offer = {"provider": "p", "gpu": "H100", "gpus": 1, "usd_per_hour": 1.0}
    with pytest.raises(PlannerError, match=told):
        planner.solve({"name": "s", "schema": 2, "jobs": [job], "offers": [offer], "objective": "cost"})


# worked: three aspects of 1,024 pixels are 704 x 1472 (from 724 x 1448), 1024 x 1024 and 1472 x 704 in steps of 64: the
# wide ones have 11 x 23 = 253 of the 256 parts of the square. 300 images in batches of 8 take 37.5 steps a pass, and
# 3 x 7 / 16 more.
def test_images_of_several_aspects_have_more_steps_and_the_memory_of_the_largest() -> None:
    size = ImageSize(1024, buckets=3)
    assert size.areas == (11 * 23 / 256, 1.0, 23 * 11 / 256)
    assert size.largest_area == 1.0 and size.mean_area == pytest.approx((1 + 2 * 253 / 256) / 3)
    assert ImageSize(512, buckets=2).largest_area > 1.0
    assert image_steps(300, 20, 8, 1) == 750 and image_steps(300, 20, 8, 3) == math.ceil(20 * (37.5 + 21 / 16))
    assert image_steps(4, 1, 8, 9) == 4  # one image each
    image = read_library().architecture("flux.1-schnell").image
    assert isinstance(image, ImageTokens)
    wide = ImageSize(512, buckets=2)
    assert image.memory_tokens(wide) == pytest.approx(1024 * wide.largest_area + 512)
    assert image.trained_tokens(wide) == pytest.approx(1024 * wide.mean_area + 512)


@pytest.mark.parametrize("batch", [1, 8])
def test_a_plan_of_several_aspects_takes_the_steps_of_their_last_batches(batch: int) -> None:
    def steps(buckets: int) -> float:
        work = {"images": 300, "epochs": 20, "resolution": 512, "aspect_buckets": buckets}
        job = {"name": "a", "architecture": "flux.1-schnell", "global_batch": batch, "work": work}
        offer = {"provider": "p", "gpu": "H100", "gpus": 1, "usd_per_hour": 1.0}
        plan = planner.solve({"name": "s", "schema": 2, "jobs": [job], "offers": [offer], "objective": "cost"})
        (found,) = plan.jobs
        assert any("images in 9 aspects" in note for note in found.notes) == (buckets > 1)
        return found.steps

    assert steps(1) == 300 * 20 / batch
    assert steps(9) == math.ceil(20 * (300 / batch + 9 * (batch - 1) / (2 * batch)))


def test_frames_are_for_networks_that_make_videos() -> None:
    assert seconds("wan-2.1-1.3b", resolution=480, frames=81, activation_checkpointing="full").frames == 81
    with pytest.raises(PlannerError, match=r"flux\.1-schnell makes no videos"):
        seconds("flux.1-schnell", frames=81)


def test_frameworks_of_text_and_of_images_are_told_apart() -> None:
    with pytest.raises(PlannerError, match=r"hf does not train flux\.1-schnell"):
        seconds("flux.1-schnell", framework="hf")
    with pytest.raises(PlannerError, match=r"simpletuner does not train qwen2\.5-7b"):
        planner.estimate("qwen2.5-7b", "H100", framework="simpletuner")


def test_sizes_that_are_no_whole_tokens_are_refused() -> None:
    """81 frames are one and 20 groups of four; 1,024 pixels are 64 tokens of 16."""
    with pytest.raises(PlannerError, match="80 frames are not 1 and a multiple of 4; give 81"):
        seconds("wan-2.1-1.3b", resolution=480, frames=80)
    with pytest.raises(PlannerError, match="1000 pixels are no multiple of the 16 of a token; give 992"):
        seconds("flux.1-schnell", resolution=1000)
    with pytest.raises(PlannerError, match="1001 pixels are no multiple of the 8 of a latent; give 1000"):
        seconds("stable-diffusion-xl", resolution=1001)
    assert seconds("stable-diffusion-xl", resolution=1000).vram_gib.fits


def test_encoders_are_a_part_of_their_own_until_their_latents_are_cached() -> None:
    """T5-XXL, CLIP-L and the autoencoder of FLUX, 4.97e9 weights of two bytes."""
    online = planner.estimate("flux.1-schnell", "H100").vram_gib.set_aside
    assert online["encoders"] == pytest.approx(2 * 4_969_190_819 / 2**30)
    assert "encoders" not in seconds("flux.1-schnell").vram_gib.set_aside
    remedies = planner.estimate("flux.1-schnell", "RTX4090").remedies
    assert any("cached latents" in remedy.change for remedy in remedies)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("framework=hf", "hf does not train flux.1-dev; choose simpletuner, diffusers"),
        ("sequence_length=4096", "flux.1-dev is trained on images, which have no sequence_length"),
        ("packing=padded", "flux.1-dev is trained on images, which have no packing"),
        ("length_cv=0.5", "flux.1-dev is trained on images, which have no length_cv"),
        ("lora={train_embeddings: true}", "flux.1-dev is trained on images: train_embeddings is of language models"),
        ("lora={adapt_head: true}", "flux.1-dev is trained on images: adapt_head is of language models"),
        ("work.resolution=1000", "1000 pixels are no multiple of the 16 of a token"),
    ],
)
def test_a_job_of_images_takes_no_keys_of_text(change: str, told: str) -> None:
    """Each is a fault by name, where a plan would be of another run."""
    with pytest.raises(PlannerError, match=re.escape(told)):
        planner.solve(planner.read_scenario("images-flux-lora", f"jobs.flux-style.{change}"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["architecture=flux.1-kontext-dev", "framework=kohya"], "kontext-dev is not planned with kohya"),
        (["architecture=wan-2.2-ti2v-5b", "framework=musubi-tuner"], "ti2v-5b is not planned with musubi-tuner"),
        (["lora.targets=attention", "framework=[kohya, ai-toolkit]"], "targets: kohya and ai-toolkit have adapters"),
    ],
)
def test_a_job_that_no_export_of_its_tools_could_run_is_refused(changes: list[str], told: str) -> None:
    with pytest.raises(PlannerError, match=re.escape(told)):
        planner.solve(planner.read_scenario("images-flux-lora", [f"jobs.flux-style.{change}" for change in changes]))


@pytest.mark.parametrize(
    "settings", [{"packing": "padded"}, {"length_cv": 0.5}, {"tokens_per_sample": 300}, {"experts_16_bit": True}]
)
def test_an_estimate_of_images_takes_no_settings_of_text(settings: dict[str, object]) -> None:
    with pytest.raises(PlannerError, match=r"flux\.1-schnell is trained on images"):
        seconds("flux.1-schnell", **settings)


def test_pairs_of_blocks_keep_half_the_inputs_and_recompute_as_much() -> None:
    """57 blocks of FLUX in pairs keep 57 / 2 inputs, hold one more block while they run again, and take as long."""
    hows = ("full", "paired_blocks")
    every, pairs = (seconds("flux.1-schnell", lora_targets="attention", activation_checkpointing=how) for how in hows)
    inputs = 57 * 4608 * 3072 * 2 / 2**30
    assert pairs.vram_gib.parts["stored_activations"] == pytest.approx(inputs / 2, rel=0.01)
    block = 35.6 * 3072 * 4608 / 2**30
    more = pairs.vram_gib.parts["working_set"] - every.vram_gib.parts["working_set"]
    assert block * 0.99 < more < 1.5 * block  # with what adapters keep
    assert pairs.step_seconds.total == every.step_seconds.total


def test_half_of_the_blocks_lies_between_none_and_all() -> None:
    """Half of the blocks keep all they need, half their input alone; half of the forward pass runs again."""
    none, half, every = (seconds("z-image", activation_checkpointing=how) for how in ("none", "every_2nd", "full"))
    stored = [found.vram_gib.parts["stored_activations"] for found in (none, half, every)]
    assert stored[1] == pytest.approx((stored[0] + stored[2]) / 2, rel=1e-6)
    matmul = [found.step_seconds.parts["matmul"] for found in (none, half, every)]
    assert matmul[1] == pytest.approx((matmul[0] + matmul[2]) / 2, rel=0.05)


def test_groups_of_blocks_are_refused_where_there_are_none() -> None:
    with pytest.raises(PlannerError, match="a U-Net has no row of equal blocks"):
        seconds("stable-diffusion-xl", activation_checkpointing="paired_blocks")
    with pytest.raises(PlannerError, match="only SimpleTuner checkpoints groups of blocks"):
        seconds("flux.1-schnell", framework="diffusers", activation_checkpointing="every_2nd")


def test_fp8_weights_keep_16_bit_copies_until_the_backward_pass() -> None:
    """A product in weight-only fp8 keeps the weight that it made: two bytes of each weight that is not recomputed."""
    weights = {
        (quant, how): seconds("lumina-image-2.0", weight_bits=8, activation_checkpointing=how, **quant_of(quant))
        for quant in ("int8", "fp8_weights")
        for how in ("none", "full")
    }
    more = [
        weights["fp8_weights", how].vram_gib.allocated - weights["int8", how].vram_gib.allocated
        for how in ("none", "full")
    ]
    assert more[0] == pytest.approx(2 * 2.6e9 / 2**30, rel=0.25)
    assert 0 < more[1] < more[0] / 10
    with pytest.raises(PlannerError, match="quant fp8_weights is for 8-bit weights"):
        seconds("lumina-image-2.0", weight_bits=4, quant="fp8_weights")


def quant_of(quant: str) -> dict[str, str]:
    return {} if quant == "int8" else {"quant": quant}


@pytest.mark.parametrize(
    ("model", "gpu", "settings", "said"),
    [
        (
            "sd3.5-medium",
            "H100",
            {"framework": "diffusers", "weight_bits": 4},
            "script of this network quantises no base",
        ),
        ("pixart-sigma", "H100", {"method": "full", "precision": "bf16_mixed"}, "without a copy in 32 bits"),
        ("flux.1-schnell", "2xH100", {"tensor_parallel": 2}, "divides neither layers nor their stack among GPUs"),
        ("flux.1-schnell", "2xH100", {"pipeline_parallel": 2}, "divides neither layers nor their stack among GPUs"),
    ],
)
def test_what_a_tool_of_images_does_not_run_is_refused(
    model: str, gpu: str, settings: dict[str, object], said: str
) -> None:
    with pytest.raises(PlannerError, match=said):
        seconds(model, gpu, **settings)


def test_scripts_that_quantise_a_base_are_planned_with_one() -> None:
    assert seconds("qwen-image", framework="diffusers", weight_bits=4, activation_checkpointing="full").vram_gib.fits


def test_full_training_keeps_the_inputs_of_all_products() -> None:
    """27 bytes more for each token and unit of width than over frozen weights, which keep 36.5 and adapters' inputs."""
    full, lora = (seconds("pixart-sigma", method=how, lora_targets="attention") for how in ("full", "lora"))
    assert full.vram_gib.parts["stored_activations"] > 1.2 * lora.vram_gib.parts["stored_activations"]


# worked: a block of FLUX.1 has linears with nine inputs of its width, 4 + 1 + 4, and keeps 11.3 bytes of each element
# for each of 4,608 tokens: 57 x 4608 x 9 x 3072 x 11.3 bytes are 76.4 GiB, where int8 keeps none of them.
def test_dynamic_fp8_keeps_each_input_that_it_rounds() -> None:
    rounded, plain = (seconds("flux.1-schnell", weight_bits=8, **quant_of(quant)) for quant in ("fp8_dynamic", "int8"))
    more = rounded.vram_gib.parts["stored_activations"] - plain.vram_gib.parts["stored_activations"]
    assert more == pytest.approx(57 * 4608 * 9 * 3072 * 11.3 / 2**30, rel=1e-6)
    again = seconds("flux.1-schnell", weight_bits=8, quant="fp8_dynamic", activation_checkpointing="full")
    assert again.vram_gib.parts["stored_activations"] == pytest.approx(57 * 4608 * 3072 * 2 / 2**30, rel=0.01)


# worked: rounding moves 33 bytes of each of those elements forward and 111 backward, 1.046e12 bytes, where dequantising
# 6.455e9 weights twice moves 8 bytes of each, 1.033e11. Forward products are 1979 / 989 x 0.882 = 1.76 times as fast,
# those of the backward pass as before: (1 + 1 / 1.76) / 2 = 0.783 of the time.
def test_dynamic_fp8_moves_its_inputs_and_multiplies_faster_forward() -> None:
    rounded, plain = (
        seconds("flux.1-schnell", weight_bits=8, **quant_of(quant)).step_seconds.parts
        for quant in ("fp8_dynamic", "int8")
    )
    # A part is what it adds to the step, the same share of all that the device does.
    moved = rounded["elementwise"] / rounded["dequantisation"] - plain["elementwise"] / plain["dequantisation"]
    assert moved == pytest.approx(57 * 4608 * 9 * 3072 * (33 + 111) / (57 * 12 * 3072**2 * 2 * 8), rel=1e-4)
    faster = rounded["matmul"] / rounded["attention"] / (plain["matmul"] / plain["attention"])
    assert faster == pytest.approx(0.783, rel=0.01)


def test_dynamic_fp8_counts_the_linear_layers_of_a_u_net_alone() -> None:
    """1.195e9 elements enter linears of SDXL for an image of 1,024 pixels, its convolutions left out: 12.6 GiB."""
    rounded, plain = (
        seconds("stable-diffusion-xl", weight_bits=8, **quant_of(quant)) for quant in ("fp8_dynamic", "int8")
    )
    more = rounded.vram_gib.parts["stored_activations"] - plain.vram_gib.parts["stored_activations"]
    assert more == pytest.approx(1195e6 * 11.3 / 2**30, rel=1e-6)


def test_dynamic_fp8_is_refused_where_a_card_has_no_fp8() -> None:
    with pytest.raises(PlannerError, match="products in fp8 need compute capability 8"):
        seconds("flux.1-schnell", "A100", weight_bits=8, quant="fp8_dynamic")


# worked: 11.89e9 weights of two bytes lie in host memory, 1.5 times with their buffers: 35.7e9 bytes. On the GPU are
# two matrices of 3072 x 12288: 151e6 bytes. Three passes bring 71.3e9 bytes: 1.80 s at 0.825 of an H100's 48e9 bytes/s.
def test_frozen_weights_in_host_memory_cross_the_slot_in_every_pass() -> None:
    here, there = (
        seconds("flux.1-schnell", activation_checkpointing="full", offload=where)
        for where in ("none", "frozen_weights")
    )
    weights = 11_891_178_560 * 2
    assert there.vram_gib.parts["weights"] == pytest.approx(2 * 2 * 3072 * 12288 / 2**30)
    assert here.vram_gib.parts["weights"] == pytest.approx(weights / 2**30)
    assert there.host_memory is not None
    assert there.host_memory.taken_gb == pytest.approx(1.5 * weights / 1e9, rel=1e-3)
    assert there.step_seconds.total > 3 * weights / (0.825 * 48e9)
    # One GPU shards nothing: what crosses the slot has a name of its own.
    assert there.step_seconds.parts["host_copies"] > 0 and not there.step_seconds.parts.get("sharding")
    # Copies are hidden behind work and work behind copies: no more than both, one after the other.
    assert there.step_seconds.total < 3 * weights / (0.825 * 48e9) + here.step_seconds.total


# worked: an image has 4,096 + 0.980263 x 333 = 4,422.4 tokens of 2,432 elements: 10.755e6. All 38 blocks copy 28.1
# bytes of each to the host: 11.48e9 bytes, 17.2e9 with buffers. They come back at 0.825 of 48e9 bytes/s: 0.290 s; two
# forward passes send twice as many. A block that runs again leaves its input (2) and four masks: 38 x 6 x 10.755e6.
def test_attention_in_host_memory_leaves_inputs_and_masks_and_comes_back_over_the_slot() -> None:
    full, here, half, there = (
        seconds("sd3.5-large", activation_checkpointing=how)
        for how in ("full", "attention_offloaded", "every_2nd", "every_2nd_attention_offloaded")
    )
    elements = 38 * (4096 + 0.980263 * 333) * 2432
    assert here.vram_gib.parts["stored_activations"] == pytest.approx(6 * elements / 2**30, rel=1e-3)
    freed = half.vram_gib.parts["stored_activations"] - there.vram_gib.parts["stored_activations"]
    assert freed == pytest.approx((28.1 - 4) / 2 * elements / 2**30, rel=1e-3)
    assert here.vram_gib.parts["working_set"] < full.vram_gib.parts["working_set"]
    copies = 28.1 * elements / (0.825 * 48e9)
    for run, base in ((here, full), (there, half)):
        assert run.host_memory is not None
        assert run.host_memory.taken_gb == pytest.approx(1.5 * 28.1 * elements / 1e9, rel=1e-3)
        # The work waits for what comes back, and what goes there hides behind both.
        longer = run.step_seconds.total - base.step_seconds.total
        assert copies < longer < 3.0 * copies
        assert copies < run.step_seconds.parts["host_copies"] < 3.0 * copies


@pytest.mark.parametrize(
    ("network", "settings", "told"),
    [
        ("qwen-image", {}, "attention of this network moves to host memory is not counted"),
        ("stable-diffusion-xl", {}, "attention of this network moves to host memory is not counted"),
        ("flux.1-schnell", {"weight_bits": 8, "quant": "fp8_dynamic"}, "linears in fp8 keep inside attention"),
        ("flux.1-schnell", {"method": "full"}, "counted over frozen weights"),
        ("flux.1-schnell", {"framework": "diffusers"}, "only SimpleTuner checkpoints groups of blocks"),
        ("flux.1-schnell", {"activation_checkpointing": "all_offloaded"}, "those of attention alone"),
    ],
)
def test_attention_in_host_memory_is_refused_where_it_is_not_counted(
    network: str, settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(PlannerError, match=told):
        seconds(network, **{"activation_checkpointing": "attention_offloaded", **settings})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"weight_bits": 8}, "quantised weights in host memory are not pinned"),
        ({"method": "full"}, "weights that are trained are not frozen"),
        ({"framework": "diffusers"}, "known of SimpleTuner and ai-toolkit alone"),
        ({"offload": "optimizer"}, "frozen weights alone can lie in host memory here"),
    ],
)
def test_other_weights_of_diffusion_in_host_memory_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(PlannerError, match=told):
        seconds("flux.1-schnell", **{"offload": "frozen_weights", **settings})


SWAPPED: dict[str, Any] = {
    "latents": "cached",
    "activation_checkpointing": "full",
    "weight_bits": 8,
    "quant": "fp8_weights",
}


def swapped(network: str, percent: int, gpu: str = "RTX4090", **asked: Any) -> Any:
    """Estimate a LoRA of a network with so many per cent of its blocks in host memory."""
    framework = "kohya" if network.startswith("flux.1") else "musubi-tuner"
    offload = f"block_swap_{percent}" if percent else "none"
    return seconds(network, gpu, **{"framework": framework, "offload": offload, **SWAPPED, **asked})


# worked: half of 11,901,408,320 weights of one byte are 5.951e9 bytes, 8.93e9 of host memory with buffers. sd-scripts
# exchanges blocks, four crossings: 9 of 10 of them in 16 bits are 4 x 0.9 x 23.80e9 = 85.7e9 bytes, 4.33 s at 0.825 of
# 24e9 bytes/s. musubi-tuner copies in alone, two crossings, into four of 60 mean blocks: of Qwen-Image's 20,430,401,088
# weights 0.1 + 4 / 60 stay.
def test_swapped_blocks_leave_the_gpu_and_cross_the_slot_as_the_tool_moves_them() -> None:
    here, there = (swapped("flux.1-dev", percent) for percent in (0, 50))
    less = here.vram_gib.parts["weights"] - there.vram_gib.parts["weights"]
    assert less == pytest.approx(0.5 * 11_901_408_320 / 2**30)
    assert there.host_memory is not None and there.host_memory.taken_gb == pytest.approx(1.5 * 5.951, rel=1e-3)
    whole: dict[str, Any] = {"weight_bits": 16, "quant": None, "resolution": 256, "ram_gb": 256}
    for network, weights, crossings in (("flux.1-dev", 11_901_408_320, 4), ("qwen-image", 20_430_401_088, 2)):
        here, there = (swapped(network, percent, **whole) for percent in (0, 90))
        copies = crossings * 0.9 * 2 * weights / (0.825 * 24e9)
        assert copies < there.step_seconds.total < copies + here.step_seconds.total
    ring = 4 / 60
    assert there.vram_gib.parts["weights"] == pytest.approx((0.1 + ring) * 2 * 20_430_401_088 / 2**30, rel=1e-3)


def test_ai_toolkit_keeps_layers_in_host_memory_in_8_bits_too() -> None:
    """Four buffers of each pass, of the largest matrix, one byte a weight; SimpleTuner has two of 16 bits alone."""
    there = seconds("flux.1-dev", framework="ai-toolkit", offload="frozen_weights", **SWAPPED)
    assert there.vram_gib.parts["weights"] == pytest.approx(8 * 3072 * 12288 / 2**30)


@pytest.mark.parametrize("network", ["flux.1-dev", "qwen-image"])
def test_more_swapped_blocks_never_take_more_memory_or_less_time(network: str) -> None:
    """A ring of blocks that come never makes the GPU hold more than the network itself."""
    runs = [swapped(network, percent) for percent in range(0, 100, 10)]
    peaks, times = [run.vram_gib.peak for run in runs], [run.step_seconds.total for run in runs]
    assert peaks == sorted(peaks, reverse=True) and peaks[0] > 1.5 * peaks[-1]
    assert times == sorted(times)
    hosts = [run.host_memory.taken_gb for run in runs[1:]]
    assert hosts == sorted(hosts)
    assert runs[1].sigma > seconds(network, "RTX4090", latents="cached").sigma


# kohya-ss/sd-scripts, docs/flux_train_network.md (16, 22 and 28 of 38 blocks, 8-bit AdamW); kohya-ss/musubi-tuner,
# docs/qwen_image.md (16 and 45 of 60, 1,024 pixels): cards that are enough, so the estimate must stay below them, but
# not far. The fit rule adds a margin, which three of the seven cards do not have; docs/images.md shows both figures.
@pytest.mark.parametrize(
    ("network", "asked", "card_gib", "shown_gib", "peak_gib"),
    [
        ("flux.1-dev", {"percent": 40}, 12, 10.6, 11.1),
        ("flux.1-dev", {"percent": 60}, 10, 8.4, 8.8),
        ("flux.1-dev", {"percent": 70}, 8, 7.3, 7.7),
        ("qwen-image", {"percent": 0, "weight_bits": 16, "quant": None}, 42, 41.8, 43.4),
        ("qwen-image", {"percent": 0}, 30, 23.5, 24.4),
        ("qwen-image", {"percent": 30}, 24, 19.1, 19.8),
        ("qwen-image", {"percent": 70}, 12, 11.5, 11.9),
    ],
)
def test_cards_that_the_tools_call_enough_are_enough(
    network: str, asked: dict[str, Any], card_gib: int, shown_gib: float, peak_gib: float
) -> None:
    run = swapped(network, gpu="A100-80GB", optimizer="adamw_8bit", **asked)
    assert 0.75 * card_gib < run.vram_gib.device_used < card_gib
    assert (run.vram_gib.device_used, run.vram_gib.peak) == pytest.approx((shown_gib, peak_gib), abs=0.06)


@pytest.mark.parametrize(
    ("framework", "offload", "smaller"),
    [("kohya", "block_swap_40", "block_swap_30"), ("ai-toolkit", "frozen_weights", "none")],
)
def test_a_card_that_is_too_small_is_offered_the_least_weights_in_host_memory(
    framework: str, offload: str, smaller: str
) -> None:
    """FLUX.1 in fp8 on 12 GB: the change fits with the peak that is said, and one step less does not."""
    asked: dict[str, Any] = {"framework": framework, "weight_bits": 8, "latents": "cached", "micro_batch": 1}
    run, there, less = (
        planner.estimate("flux.1-dev", "RTX3060-12GB", offload=how, **asked) for how in ("none", offload, smaller)
    )
    (peak,) = (one.peak for one in run.remedies if f"(offload {offload})" in one.change)
    assert there.vram_gib.fits and peak == pytest.approx(there.vram_gib.peak) and not less.vram_gib.fits
    online = planner.estimate("flux.1-dev", "RTX3060-12GB", **{**asked, "latents": "online"}).remedies
    assert [one.change.startswith("cached latents and ") for one in online] == [True]


@pytest.mark.parametrize("framework", ["kohya", "musubi-tuner"])
def test_8_bits_of_kohyas_tools_are_fp8(framework: str) -> None:
    network = "flux.1-dev" if framework == "kohya" else "qwen-image"
    run = seconds(network, framework=framework, weight_bits=8, latents="cached")
    assert run.techniques.quant == "fp8_weights"


@pytest.mark.parametrize(
    ("network", "asked", "told"),
    [
        ("flux.1-dev", {"framework": "simpletuner"}, "this framework swaps no blocks here"),
        ("flux.1-dev", {"activation_checkpointing": "none"}, "blocks that leave the GPU have to run again"),
        ("flux.1-dev", {"method": "full", "weight_bits": 16, "quant": None}, "weights that are trained"),
        ("stable-diffusion-xl", {"framework": "kohya"}, "a U-Net has no equal blocks"),
        ("qwen-image", {"framework": "kohya"}, "is not planned with kohya; give simpletuner or diffusers or"),
        ("flux.1-kontext-dev", {"framework": "musubi-tuner"}, "not planned with musubi-tuner; .* or ai-toolkit"),
        ("kolors", {"framework": "kohya"}, "training of kolors is not planned with kohya"),
        ("flux.1-dev", {"lora_targets": "attention"}, "kohya has adapters on all linear layers alone"),
        ("qwen-image", {"latents": "online"}, "trains from latents and text encoder outputs"),
    ],
)
def test_block_swap_is_refused_by_name_where_no_tool_has_it(network: str, asked: dict[str, Any], told: str) -> None:
    with pytest.raises(PlannerError, match=told):
        swapped(network, 50, **asked)
