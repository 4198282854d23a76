"""The text of an estimate: what it says first, bars on one scale, and 80 columns whatever it is given."""

from __future__ import annotations

from typing import Any

import pytest

from planner.report.run_text import render_estimate
from planner.report.words import BAR_WIDTH
from planner.results.plan_parts import Techniques
from planner.results.run_results import Capacity, Estimate, Remedy, StepSeconds


def estimated(peak: float = 12.0, **changes: Any) -> Estimate:
    """An estimate of round figures on a card of 24 GiB."""
    parts = {"weights": 6.0, "stored_activations": peak - 8.0, "gradients": 0.0}
    told = Estimate(
        architecture="mistral-7b",
        parameters=7_000_000_000,
        trainable_parameters=70_000_000,
        gpu="RTX4090",
        gpus=1,
        gpus_per_instance=1,
        instances=1,
        interconnect="pcie",
        network_gbps=None,
        techniques=Techniques(
            framework="hf", method="lora", weight_bits=4, quant="nf4", precision="bf16_mixed",
            activation_checkpointing="full",
            micro_batch=2, accumulation_steps=4, sharding="none", attention="flash", optimizer="adamw", offload="none",
            tensor_parallel=1, pipeline_parallel=1, lora_rank=16, lora_targets="all-linear",
        ),
        unit="tokens",
        sequence_length=2048,
        resolution=None,
        global_batch=8,
        packing="packed",
        vram_gib=Capacity(
            peak=peak, allocated=peak - 2.0, usable=24.0, fit_probability=0.93, phase="start of backward",
            parts=parts, fits=peak <= 24.0, reserved=peak - 1.0, device_used=peak,
            set_aside={"margin": 1.0, "fragmentation": 0.5, "context": 0.5},
        ),
        tokens_per_second=1940.0,
        tokens_per_second_low=1500.0,
        tokens_per_second_high=2500.0,
        processed_tokens_per_second=2000.0,
        step_seconds=StepSeconds(total=8.0, parts={"matmul": 6.0, "attention": 1.99, "fixed": 0.01}),
        profile="hf",
        profiled=True,
        sigma=0.2,
        sigma_in_tails=0.2,
    )  # fmt: skip
    return told.model_copy(update=changes)


def test_the_first_line_is_the_verdict() -> None:
    """What, where, that it fits, and how fast with its interval; where room is short, less of the memory."""
    short, long = (render_estimate(estimated(architecture=name)).splitlines()[0] for name in ("gpt2", "mistral-7b"))
    assert short == "gpt2 on 1 x RTX4090: fits, 12.0 of 24.0 GiB, 1,940 tokens/s (1,500 to 2,500)"
    assert long == "mistral-7b on 1 x RTX4090: fits, 12.0 GiB, 1,940 tokens/s (1,500 to 2,500)"
    longer = render_estimate(estimated(architecture="qwen3-235b-a22b", gpu="H100-80GB", gpus=8)).splitlines()[0]
    assert longer == "qwen3-235b-a22b on 8 x H100-80GB: fits, 1,940 tokens/s (1,500 to 2,500)"


def test_a_misfit_says_by_how_much_and_what_would_fit() -> None:
    """The shortfall first; the remedies with their peaks; no figure of a monitor that would never show it."""
    told = estimated(30.0, remedies=(Remedy(change="micro-batch 1 instead of 2", peak=20.0),))
    text = render_estimate(told)
    assert text.splitlines()[0] == "mistral-7b on 1 x RTX4090: does not fit: 6.0 GiB short of 24.0 GiB"
    assert "Remedies micro-batch 1 instead of 2: 20.0 GiB" in text
    assert "nvidia-smi" not in text and "if it did fit" in text


def test_a_misfit_without_remedy_says_so() -> None:
    """Nothing is promised where nothing was found."""
    assert "no single change makes it fit" in render_estimate(estimated(900.0))


def test_bars_share_one_scale() -> None:
    """Half of the card is half of a bar; parts that are nothing have none; what is free is drawn apart."""
    lines = render_estimate(estimated()).splitlines()
    lengths = {line[11:33].strip(): line.count("#") for line in lines if line.endswith("#")}
    assert lengths["weights"] == round(BAR_WIDTH * 6 / 24) and lengths["matrix products"] == round(BAR_WIDTH * 6 / 8)
    assert "gradients" not in lengths and "loader and logging" not in lengths
    (free,) = [line for line in lines if line.endswith(".") and line[11:].startswith("free")]
    assert free.count(".") - 1 == round(BAR_WIDTH / 2)


def test_an_overfull_bar_stays_within_the_line() -> None:
    """Parts larger than the card are drawn on the scale of the peak."""
    assert max(map(len, render_estimate(estimated(900.0)).splitlines())) <= 80


@pytest.mark.parametrize(
    "changes",
    [
        {"architecture": "an-architecture-with-a-name-that-nobody-would-want-to-read-to-its-end/config.json"},
        {"gpus": 1024, "gpus_per_instance": 8, "instances": 128, "interconnect": "nvswitch"},
        {"tokens_per_second": 123456789.0, "tokens_per_second_low": 1e-5, "tokens_per_second_high": 9.9e11},
        {"largest_micro_batch": 10**9, "longest_sequence": 2**24},
        {"assumed": ("a setting of some length",) * 20, "notes": ("a remark that goes on and on " * 20,)},
        {"unit": "images", "resolution": 512},
        {"profiled": False, "profile": "megatron-deepspeed"},
    ],
)
def test_no_line_is_wider_than_80_columns(changes: dict[str, Any]) -> None:
    """Long names, many GPUs, absurd figures: the lines keep their width, and the first its verdict and its range."""
    lines = render_estimate(estimated(**changes)).splitlines()
    assert max(map(len, lines)) <= 80
    assert ": fits, " in lines[0] and " to " in lines[0] and lines[0].endswith(")")


def test_hidden_work_is_said_to_be_left_out_where_parts_overlap() -> None:
    """Bars of several GPUs are what each part adds; one GPU has no traffic to hide behind."""
    said = "time that each part adds, without what overlaps with another part"
    lines = render_estimate(estimated(gpus=8, gpus_per_instance=8)).splitlines()
    above = next(number for number, line in enumerate(lines) if said in line)
    assert "per step" in lines[above - 1] and "#" in lines[above + 1]
    assert said not in render_estimate(estimated())


def test_limits_are_told_only_where_asked() -> None:
    """Nobody asked: no section; asked, and nothing fits: said in words."""
    assert "Limits" not in render_estimate(estimated())
    asked = render_estimate(estimated(largest_micro_batch=0, longest_sequence=0))
    assert "not even a micro-batch of 1 fits" in asked and "no sequence fits" in asked


def test_an_unprofiled_framework_is_marked() -> None:
    """The basis says whether measured peaks stand behind the memory."""
    assert "memory calibrated on measured peaks" in render_estimate(estimated())
    assert "not calibrated" in render_estimate(estimated(profiled=False))


def test_parts_add_up_to_the_total_that_is_shown() -> None:
    """Of memory and of a step: a part is rounded the other way where each alone would miss the total by a digit."""
    parts = {"weights": 4.34, "stored_activations": 4.34, "gradients": 1.34}
    text = render_estimate(estimated(peak=10.02, vram_gib=estimated().vram_gib.model_copy(
        update={"peak": 10.02, "parts": parts, "set_aside": {}}
    ), step_seconds=StepSeconds(total=1.03, parts={"matmul": 0.514, "attention": 0.514})))  # fmt: skip
    shown = [line.split()[-2:] for line in text.splitlines() if line.endswith("#")]
    figures = [float(figure) for figure, _ in shown]
    assert sum(figures[:3]) == pytest.approx(10.0) and "10.0 of 24.0 GiB" in text
    assert sum(figures[3:]) == pytest.approx(1.03) and "1.03 s per step" in text
