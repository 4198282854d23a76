"""`estimate`: published runs, the laws of fitting, and the same figures as in a plan."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.analysis.estimate_question import estimate
from planner.errors import ScenarioError
from planner.library.reading import read_library
from planner.library.schema import Architecture
from planner.results.run_results import Estimate
from planner.scenario.job import DEFAULT_MEMORY_CONFIDENCE
from planner.units import GB, GIB
from tests.helpers.estimate_cases import MEMORY, SPEED, golden, library, told

QUIET = settings(derandomize=True, max_examples=12, deadline=None)


@pytest.mark.parametrize("case", MEMORY)
def test_published_peaks_are_met(case: str) -> None:
    """A configuration as a user would write it meets the measured peak within the tolerance of its golden case."""
    architecture, gpu, asked = MEMORY[case]
    row = golden("memory")[case]
    vram = told(architecture, gpu, **asked).vram_gib
    found = {"allocated": vram.allocated, "reserved": vram.reserved}[row["kind"]]
    measured = row["measured"].get("gib") or row["measured"]["gb"] * GB / GIB
    assert found == pytest.approx(measured, rel=row["tolerance"])
    assert vram.phase == row.get("phase", vram.phase)


@pytest.mark.parametrize("case", SPEED)
def test_published_speeds_are_met(case: str) -> None:
    """Processed tokens per second and GPU lie within 20 % of what was measured; T4 machines differ by more."""
    architecture, gpu, asked = SPEED[case]
    found = told(architecture, gpu, **asked)
    near = 0.35 if gpu == "T4" else 0.2
    assert found.processed_tokens_per_second / found.gpus == pytest.approx(golden("time")[case]["measured"], rel=near)


def test_nanochats_first_run_is_met_as_it_was_run(tmp_path: Path) -> None:
    """16,704 steps in 10,949 s on 8 x H100 (karpathy/nanochat, dev/LEADERBOARD.md, 2026-01-29), within 20 %.

    Its feed-forward of two matrices of 6,144 has the weights of three of 4,096; six of 24 layers attend to all tokens.
    """
    config = {
        **{"model_type": "qwen2", "hidden_size": 1536, "num_hidden_layers": 24, "num_attention_heads": 12},
        **{"num_key_value_heads": 12, "intermediate_size": 4096, "vocab_size": 32768, "tie_word_embeddings": False},
        **{"use_sliding_window": True, "sliding_window": 1024, "max_window_layers": 6, "max_position_embeddings": 2048},
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    how: dict[str, Any] = {
        **{"gpus": 8, "method": "full", "framework": "compiled", "sharding": "ddp", "micro_batch": 16},
        **{"accumulation_steps": 2, "sequence_length": 2048, "activation_checkpointing": "none"},
    }
    seconds = [
        estimate(str(path), "H100-80GB", **how, attention=kernel).step_seconds.total for kernel in ("flash", "flash_3")
    ]
    assert seconds[1] == pytest.approx(10_949 / 16_704, rel=0.2)
    assert seconds[0] == pytest.approx(10_949 / 16_704, rel=0.25) and seconds[0] > seconds[1]


def test_published_speeds_of_fp8_are_met() -> None:
    """Tokens per second and GPU: Llama 3.1 8B by torchao, 70B by Transformer Engine (n = 2; bf16 misses both by far).

    torchtitan, benchmarks/llama3-8b_h200_202506_trainy-whitefiber.md: 10,938; Megatron-Bridge, performance summary of
    container 26.02: 1,621.
    """
    small: dict[str, Any] = {
        **{"gpus": 32, "method": "full", "framework": "torchtitan", "sharding": "zero3", "network_gbps": 3200},
        **{"activation_checkpointing": "selective", "micro_batch": 2, "sequence_length": 8192},
    }
    large: dict[str, Any] = {
        **{"gpus": 64, "method": "full", "framework": "nemo", "sharding": "zero1", "network_gbps": 3200},
        **{"activation_checkpointing": "none", "tensor_parallel": 4, "pipeline_parallel": 8},
        **{"micro_batch": 1, "accumulation_steps": 128, "sequence_length": 8192},
    }
    for model, gpu, precision, how, measured in (
        ("llama-3.1-8b", "H200", "fp8_torchao", small, 10_938),
        ("llama-3-70b", "H100-80GB", "fp8_te", large, 1_621),
    ):
        found = told(model, gpu, precision=precision, **how)
        assert found.processed_tokens_per_second / found.gpus == pytest.approx(measured, rel=0.2)
        plain = told(model, gpu, precision="bf16_mixed", **how)
        assert plain.processed_tokens_per_second / plain.gpus < 0.8 * measured


def test_a_loss_kernel_between_two_profiles_is_bracketed() -> None:
    """A run with fused, but materialised logits was measured between the profiles `hf-fused` and `hf`."""
    asked: dict[str, Any] = {"lora_targets": "attention", "micro_batch": 8, "sequence_length": 4096}
    peaks = [told("mistral-7b", "A100-80GB", framework=name, **asked).vram_gib.allocated for name in ("hf-fused", "hf")]
    assert peaks[0] < golden("memory")["4 Mistral-7B LoRA"]["measured"]["gib"] < peaks[1]


def test_runs_that_died_do_not_fit() -> None:
    """What ran out of memory in the published tables does not fit here."""
    litgpt: dict[str, Any] = {"framework": "litgpt", "precision": "bf16", "activation_checkpointing": "none"}
    lora: dict[str, Any] = {"lora_rank": 8, "lora_targets": "qv", "sequence_length": 1304}
    assert not told("llama-2-7b", "A100-40GB", micro_batch=4, accumulation_steps=32, **litgpt, **lora).vram_gib.fits
    full: dict[str, Any] = {"method": "full", "precision": "bf16", "micro_batch": 4, "sequence_length": 4096}
    assert not told("llama-2-70b", "A100-80GB", **full).vram_gib.fits


def any_context(name: str) -> Architecture:
    """Return a network that reads sequences of any length: here only memory and time count."""
    return read_library([name]).architecture(name).model_copy(update={"max_sequence": 10**8})


@st.composite
def asked(draw: st.DrawFn) -> dict[str, Any]:
    """Any configuration of a few small networks that the rules let pass."""
    method = draw(st.sampled_from(["full", "lora", "qlora"]))
    gpus = draw(st.sampled_from([1, 2, 8, 16]))
    found: dict[str, Any] = {
        "architecture": draw(
            st.sampled_from(["mistral-7b", "tinyllama-1.1b", "llama-3-8b", "gemma-2-2b"]).map(any_context)
        ),
        "gpu": draw(st.sampled_from(["RTX4090", "A100-80GB", "H200", "L40S"])),
        "gpus": gpus,
        "method": "full" if method == "full" else "lora",
        "weight_bits": 4 if method == "qlora" else 16,
        "activation_checkpointing": draw(st.sampled_from(["none", "selective", "full"])),
        "framework": draw(st.sampled_from(["hf", "hf-fused", "unknown"])),
        "sequence_length": draw(st.sampled_from([128, 512, 1500, 4096])),
        "accumulation_steps": draw(st.sampled_from([1, 4])),
    }
    kept = found["activation_checkpointing"] == "selective" and found["framework"] != "unknown"
    found["attention"] = "flash" if kept else draw(st.sampled_from(["flash", "eager"]))
    if gpus > 1:
        found["sharding"] = draw(st.sampled_from(["ddp", "zero2", "zero3"]))
    return found


@QUIET
@given(asked(), st.integers(1, 8))
def test_parts_sum_to_their_totals(settings_: dict[str, Any], micro_batch: int) -> None:
    """Memory parts sum to what is allocated, with what is set aside to the peak; step parts sum to the step."""
    found = told(**settings_, micro_batch=micro_batch)
    vram, step = found.vram_gib, found.step_seconds
    allocated = math.fsum(vram.parts.values())
    assert allocated == pytest.approx(vram.allocated, rel=1e-9)
    assert allocated + math.fsum(vram.set_aside.values()) == pytest.approx(vram.peak, rel=1e-9)
    assert math.fsum(step.parts.values()) == pytest.approx(step.total, rel=1e-9)
    assert min(*vram.parts.values(), *vram.set_aside.values(), *step.parts.values()) >= -1e-9
    assert found.tokens_per_second_low < found.tokens_per_second < found.tokens_per_second_high
    assert vram.fits == (vram.peak <= vram.usable)


@pytest.mark.slow
@QUIET
@given(asked(), st.integers(1, 4), st.integers(1, 3000))
def test_a_longer_sequence_never_needs_less(settings_: dict[str, Any], micro_batch: int, more: int) -> None:
    """Peak and allocated memory never fall as sequences grow."""
    short = told(**settings_, micro_batch=micro_batch).vram_gib
    longer = {**settings_, "sequence_length": settings_["sequence_length"] + more}
    long = told(**longer, micro_batch=micro_batch).vram_gib
    assert long.peak >= short.peak and long.allocated >= short.allocated


@pytest.mark.slow
@QUIET
@given(asked())
def test_the_largest_micro_batch_fits_and_one_more_does_not(settings_: dict[str, Any]) -> None:
    """The limit that is told is the last that fits, and is what an open micro-batch becomes."""
    most = told(**settings_, micro_batch=1, largest_batch=True).largest_micro_batch
    assert most is not None
    if most:
        assert told(**settings_, micro_batch=most).vram_gib.fits
        assert told(**settings_).techniques.micro_batch == most
    assert not told(**settings_, micro_batch=most + 1).vram_gib.fits


@pytest.mark.long
@QUIET
@given(asked(), st.integers(1, 4))
def test_the_longest_sequence_fits_and_one_more_token_does_not(settings_: dict[str, Any], micro_batch: int) -> None:
    """The limit that is told is the last that fits."""
    longest = told(**settings_, micro_batch=micro_batch, longest_sequence=True).longest_sequence
    assert longest is not None
    if longest:
        assert told(**{**settings_, "sequence_length": longest}, micro_batch=micro_batch).vram_gib.fits
    assert not told(**{**settings_, "sequence_length": longest + 1}, micro_batch=micro_batch).vram_gib.fits


@pytest.mark.slow
@QUIET
@given(asked(), st.sampled_from([1, 16, 64]))
def test_every_remedy_fits(settings_: dict[str, Any], micro_batch: int) -> None:
    """What does not fit is told what would, and each remedy's peak is within the card; what fits needs none."""
    found = told(**settings_, micro_batch=micro_batch)
    assert bool(found.remedies) <= (not found.vram_gib.fits)
    assert found.short_gib == pytest.approx(max(0.0, found.vram_gib.peak - found.vram_gib.usable))
    assert all(one.peak <= found.vram_gib.usable for one in found.remedies)


def test_a_remedy_is_what_it_says() -> None:
    """The sequence length and the micro-batch that are proposed are the limits themselves."""
    found = told("mistral-7b", "RTX3090", weight_bits=4, micro_batch=16, longest_sequence=True, largest_batch=True)
    changes = [one.change for one in found.remedies]
    assert f"micro-batch {found.largest_micro_batch} instead of 16" in changes
    assert f"sequences of at most {found.longest_sequence:,} tokens instead of 2,048" in changes


def test_full_training_of_a_large_network_is_told_how_many_cards_it_takes() -> None:
    """Where no technique keeps the method, a number of the same cards does."""
    found = told("llama-3-8b", "RTX4090", method="full", micro_batch=1)
    count = int(found.remedies[-1].change.split(" x ")[0])
    assert told("llama-3-8b", "RTX4090", method="full", micro_batch=1, gpus=count).vram_gib.fits
    assert not told("llama-3-8b", "RTX4090", method="full", micro_batch=1, gpus=count // 2).vram_gib.fits


@pytest.mark.long
@pytest.mark.parametrize("name", ["quickstart", "padded-chat", "stable-diffusion-lora", "value-of-time"])
def test_estimate_agrees_with_the_plan(name: str) -> None:
    """For the configuration that `solve` picked: the same memory, step, speed and spread.

    One GPU or several, one machine or several, packed, padded and images.
    The plan counts whole steps, so its speed may differ by one step of the job.
    """
    scenario = planner.read_scenario(name)
    (asked_for,), (job,) = scenario.jobs, planner.solve(scenario).jobs
    how = job.techniques.model_dump(exclude={"lora_rank", "lora_targets"})
    if how["quant"] in ("none", "int8"):
        del how["quant"]
    if job.unit == "tokens":
        how["sequence_length"] = job.sequence_length
    networks = {offer.network_gbps for offer in scenario.offers if offer.instance == job.instance}
    found = told(
        asked_for.architecture,
        job.gpu,
        gpus=job.gpus,
        instances=job.instances,
        interconnect=job.interconnect if job.gpus_per_instance > 1 else None,
        network_gbps=networks.pop() if len(networks) == 1 else None,
        packing=job.packing,
        tokens_per_sample=asked_for.work.tokens_per_sample,
        length_cv=asked_for.length_cv,
        resolution=asked_for.work.resolution,
        **how,
    )
    assert found.global_batch == job.global_batch and found.unit == job.unit
    for figure in ("peak", "allocated", "usable", "fit_probability", "phase", "parts"):
        assert getattr(found.vram_gib, figure) == pytest.approx(getattr(job.vram_gib, figure))
    assert found.step_seconds.total == pytest.approx(job.step_seconds)
    assert (found.sigma, found.sigma_in_tails) == pytest.approx((job.sigma, job.sigma_in_tails))
    assert found.tokens_per_second == pytest.approx(job.tokens_per_second, rel=1.01 / job.steps)


def test_padding_counts_real_tokens() -> None:
    """Padded batches are slower per real token than packed ones, and say what the GPUs work on besides."""
    common: dict[str, Any] = {"weight_bits": 4, "micro_batch": 4, "sequence_length": 1024}
    packed = told("mistral-7b", "RTX4090", **common)
    padded = told("mistral-7b", "RTX4090", packing="padded", tokens_per_sample=300, **common)
    assert packed.tokens_per_second == pytest.approx(0.97 * packed.processed_tokens_per_second)
    assert padded.tokens_per_second < 0.8 * padded.processed_tokens_per_second
    assert padded.tokens_per_second < packed.tokens_per_second


def test_an_unprofiled_framework_is_said_and_is_less_sure() -> None:
    """`unknown` reserves a larger margin, has a wider interval, and says so."""
    known, unknown = (told("mistral-7b", "A100-80GB", micro_batch=2, framework=name) for name in ("hf", "unknown"))
    assert known.profiled and not unknown.profiled
    assert unknown.vram_gib.set_aside["margin"] > 2 * known.vram_gib.set_aside["margin"]
    assert unknown.sigma > known.sigma
    assert any("no measured memory profile" in note for note in unknown.notes)
    assert "framework never seen: ranges are those of unseen frameworks" in unknown.notes


def test_a_fit_that_may_fail_is_said() -> None:
    """Below 85 %, which only a headroom of one's own admits, the largest micro-batch is called tight.

    That is so whether it is the one in question or only asked for.
    """
    safe = told("mistral-7b", "RTX4090", largest_batch=True)
    assert safe.vram_gib.fits and safe.vram_gib.fit_probability >= 0.85 and not any("tight" in n for n in safe.notes)
    own = {"largest_batch": True, "vram_headroom": 0.0}
    best = told("mistral-7b", "RTX4090", **own)
    assert best.vram_gib.fits and best.vram_gib.fit_probability < 0.85
    cases = math.floor(best.vram_gib.fit_probability * 100)
    said = f"memory is tight: it fits with {cases} % probability only; a smaller micro-batch is safer"
    assert [said in note for note in best.notes].count(True) == 1
    small = told("mistral-7b", "RTX4090", micro_batch=1, **own)
    assert small.vram_gib.fit_probability >= 0.85 and not any("tight" in note for note in small.notes)
    most = best.largest_micro_batch
    assert most is not None and safe.largest_micro_batch is not None and most > safe.largest_micro_batch
    assert any(note.startswith(f"micro-batch {most} fits with only {cases} % probability") for note in small.notes)
    assert not any("% probability" in note for note in told("mistral-7b", "RTX4090", micro_batch=1).notes)


def test_images_are_counted_as_images() -> None:
    """A diffusion network is asked for in pixels and answers in images per second; a larger image is slower."""
    small, large = (told("stable-diffusion-1.5", "RTX4090", micro_batch=1, resolution=side) for side in (512, 768))
    assert small.unit == "images" and small.resolution == 512
    assert small.tokens_per_second > large.tokens_per_second
    assert any("rough" in note for note in small.notes)


def test_more_room_can_be_asked_for() -> None:
    """A headroom replaces the margin of the profile."""
    plain, roomy = (told("mistral-7b", "RTX4090", micro_batch=1, vram_headroom=share) for share in (None, 0.5))
    assert roomy.vram_gib.set_aside["margin"] == pytest.approx(0.5 * roomy.vram_gib.allocated)
    assert roomy.vram_gib.peak > plain.vram_gib.peak


def test_a_card_can_be_given_as_it_is() -> None:
    """An architecture of one's own needs no file; an answer reads back from its own JSON."""
    own = library().architecture("mistral-7b").model_copy(update={"name": "mine", "aliases": ()})
    found = estimate(own, "RTX4090", weight_bits=4, micro_batch=1)
    same = told("mistral-7b", "RTX4090", weight_bits=4, micro_batch=1)
    assert found.architecture == "mine" and found.vram_gib == same.vram_gib
    assert Estimate.model_validate_json(found.model_dump_json(by_alias=True)) == found


def test_a_notebook_shows_a_table() -> None:
    """Names are escaped, and the verdict is there."""
    own = library().architecture("mistral-7b").model_copy(update={"name": "<b>mine", "aliases": ()})
    shown = estimate(own, "RTX4090", weight_bits=4, micro_batch=1)._repr_html_()
    assert "&lt;b&gt;mine" in shown and "<b>" not in shown and "of 23.6" in shown


def test_a_network_too_large_for_one_card_is_told_both_ways_out() -> None:
    """More cards with everything that saves memory, and more cards without."""
    changes = [one.change for one in told("llama-3-70b", "RTX4090", micro_batch=1).remedies]
    assert len(changes) == 2 and all(" x RTX4090" in change for change in changes)
    assert "4-bit" in changes[0] and "4-bit" not in changes[1]


def test_what_stretches_the_estimate_is_noted() -> None:
    """Experts, an unknown network, a sequence beyond the context: each has its remark."""
    experts = told("mixtral-8x7b", "H100-80GB", gpus=16, weight_bits=4, micro_batch=1)
    assert any("experts" in note for note in experts.notes) and any(
        "bandwidth between machines" in note for note in experts.notes
    )
    long = told("tinyllama-1.1b", "A100-80GB", micro_batch=1, longest_sequence=True)
    assert (long.longest_sequence or 0) > 2048 and any("context of 2,048" in note for note in long.notes)


@pytest.mark.parametrize(
    ("depth", "vocab", "framework", "settings"),
    [
        (24, 32_768, "compiled", {"gpu": "8xH100", "precision": "bf16_mixed", "sharding": "ddp", "micro_batch": 16}),
        (24, 32_768, "unknown", {"gpu": "8xH100", "precision": "bf16_mixed", "sharding": "ddp", "micro_batch": 16}),
        (26, 32_768, "compiled", {"gpu": "8xH100", "precision": "fp8_torchao", "sharding": "ddp", "micro_batch": 16}),
        (20, 65_536, "compiled", {"gpu": "RTX4090", "precision": "bf16_mixed", "micro_batch": 4}),
        (20, 65_536, "unknown", {"gpu": "RTX4090", "precision": "bf16_mixed", "micro_batch": 4}),
    ],
)
def test_runs_of_nanochat_near_the_limit_fit_at_the_usual_confidence(
    depth: int, vocab: int, framework: str, settings: dict[str, Any]
) -> None:
    """They ran (karpathy/nanochat, dev/LEADERBOARD.md and discussions) with Muon, which has fewer states than AdamW."""
    config = {
        **{"model_type": "nanochat", "num_hidden_layers": depth, "hidden_size": 64 * depth, "vocab_size": vocab},
        **{"num_attention_heads": depth // 2, "num_key_value_heads": depth // 2, "intermediate_size": 256 * depth},
        **{"max_position_embeddings": 2048, "tie_word_embeddings": False},
    }
    network = planner.import_architecture(config, f"nanochat-d{depth}")
    usual: dict[str, Any] = {"method": "full", "framework": framework, "activation_checkpointing": "none"}
    usual["optimizer"] = "muon"
    found = planner.estimate(network, **usual, **settings, sequence_length=2048)
    assert found.vram_gib.fits and found.vram_gib.fit_probability >= DEFAULT_MEMORY_CONFIDENCE


@pytest.mark.parametrize(
    "asked",
    [
        {"optimizer": "muon"},
        {"optimizer": "muon", "method": "full"},
        {"optimizer": "muon", "method": "full", "framework": "compiled", "gpus": 8, "sharding": "zero3"},
        {"optimizer": "muon", "method": "full", "framework": "compiled", "offload": "optimizer"},
        {"optimizer": "adafactor", "method": "full", "gpus": 8, "sharding": "zero3"},
        {"offload": "optimizer_and_weights", "gpus": 2, "sharding": "ddp"},
        {"attention": "flash", "gpu": "V100-32GB"},
    ],
    ids=str,
)
def test_what_does_not_work_together_names_one_change_that_does(asked: dict[str, Any]) -> None:
    """The change that the fault names is no fault."""
    asked = {"architecture": "mistral-7b", "gpu": "A100-80GB", **asked}
    with pytest.raises(ScenarioError) as raised:
        estimate(**asked)
    (fault,) = raised.value.faults
    assert fault.what.startswith("does not work together: ")
    *field, value = fault.fix.removesuffix(" would work").split()
    assert estimate(**asked | {"_".join(field): value})
