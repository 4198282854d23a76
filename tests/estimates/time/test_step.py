"""Step time against published speeds, and its arithmetic over grids."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from planner.estimates import inputs as setup
from planner.estimates.device import attended_tokens, stack_parameters
from planner.estimates.inputs import Hardware
from planner.estimates.step_time import step_seconds, tokens_per_step
from tests.helpers.time_cases import CHECKPOINTING, Case, case_of, golden_cases

GOLDEN = golden_cases()
LOOSE = {"m0220": 0.25}


def speed(row: str) -> float:
    """Processed tokens per second and GPU of a golden row."""
    return case_of(GOLDEN[row]).tokens_per_gpu_second()


@pytest.mark.parametrize("row", sorted(GOLDEN))
def test_golden_speed_agrees_with_measurement(row: str) -> None:
    """Every golden case lies within 20 % of what was measured (25 % for one)."""
    assert speed(row) == pytest.approx(GOLDEN[row]["measured"], rel=LOOSE.get(row, 0.20))


@pytest.mark.parametrize("row", sorted(GOLDEN))
def test_golden_speed_agrees_with_an_independent_implementation(row: str) -> None:
    """Every golden case lies within 3 % of a second implementation of the same equations."""
    assert speed(row) == pytest.approx(GOLDEN[row]["prototype"], rel=0.03)


def test_golden_speeds_are_unbiased() -> None:
    """The geometric mean of predicted over measured is within 5 % of one."""
    logs = [math.log(speed(row) / entry["measured"]) for row, entry in GOLDEN.items()]
    assert abs(math.fsum(logs) / len(logs)) < math.log(1.05)


def test_selective_recompute_pays_as_published() -> None:
    """Sequence parallelism with selective recompute gains 25 to 40 % over full recompute on 175B."""
    assert 1.25 < speed("m1962") / speed("m1961") < 1.40


def test_lora_beats_full_training_of_the_same_network() -> None:
    """LoRA on one A100 runs faster per GPU than full training on two."""
    assert speed("m0438") > speed("m0415")


def test_network_size_scales_as_measured() -> None:
    """The ratio of a 7B to a 70B network on equal hardware is within 15 % of the measured one."""
    measured = GOLDEN["m0012"]["measured"] / GOLDEN["m0003"]["measured"]
    assert speed("m0012") / speed("m0003") == pytest.approx(measured, rel=0.15)


def pretraining(network: str, **changes: object) -> Case:
    """Two trillion tokens of LLaMA-2 as arXiv 2307.09288 reports it: A100, FSDP, s = 4096."""
    entry = {
        "network": network,
        "card": "A100-80",
        "profile": "tuned",
        "gpus": 1024,
        "zero_stage": 3,
        "micro_batch": 1,
        "sequence": 4096,
        "reduced_bytes": 4,
        "optimizer_traffic_bytes": 30,
        **changes,
    }
    return case_of(entry)


def test_llama_2_7b_gpu_hours() -> None:
    """LLaMA-2 7B, 2T tokens, 1,024 A100: 193,540 GPU-hours by hand, 184,320 reported.

    A micro-batch computes for 0.909 s and exchanges 53.85 GB at 59.9 GB/s, 0.899 s, of which 35 % of the shorter are
    seen: (0.909^3 + 0.899^3)^(1/3) + 0.35 * 0.909 * 0.899 / 1.139 = 1.390 s, and 1.427 s per step of 4,096 tokens.
    """
    hours = 2e12 / pretraining("llama-2-7b").tokens_per_gpu_second() / 3600
    assert hours == pytest.approx(193_540, rel=0.02)
    assert 0.93 < hours / 184_320 < 1.06


@pytest.mark.parametrize(
    ("network", "reported", "low", "high"),
    [("llama-2-13b", 368_640, 0.84, 1.0), ("llama-2-70b", 1_720_320, 0.91, 1.09)],
)
def test_llama_2_larger_gpu_hours(network: str, reported: float, low: float, high: float) -> None:
    """Larger LLaMA-2 come out at the published share of the reported GPU-hours, with either checkpointing."""
    for changes in ({}, {"micro_batch": 4, "checkpointing": "full"}):
        hours = 2e12 / pretraining(network, **changes).tokens_per_gpu_second() / 3600
        assert low < hours / reported < high


@pytest.mark.parametrize(("micro_batch", "seconds"), [(1, 1.12), (6, 4.0)])
def test_qlora_on_one_a10g(micro_batch: int, seconds: float) -> None:
    """QLoRA of Mistral-7B on one A10G: 500 iterations of one 512-token sample take about ten minutes."""
    case = case_of({**GOLDEN["m0462"], "micro_batch": micro_batch, "sequence": 512})
    a10g = replace(case.hardware, peak=70e12, linear_peak=70e12, bandwidth=600e9, efficiency=0.8)
    assert float(replace(case, hardware=a10g).time().seconds) == pytest.approx(seconds, rel=0.03)


def test_grid_equals_single_configurations() -> None:
    """Recipes (R, 1) times hardware (H,) give what each pair gives alone, with and without breakdown."""
    case = case_of(GOLDEN["m0415"])
    codes = np.array([[0], [1], [2], [3], [4]])
    stages = np.array([[0], [1], [2], [3], [3]])
    hybrid = np.array([[0], [0], [0], [0], [1]])
    gpus = np.array([1, 2, 8, 16, 64])
    bandwidth = np.array([1e12, 1.5e12, 2e12, 3e12, 3.3e12])
    layout = replace(case.layout, gpus=gpus, zero_stage=stages, hybrid=hybrid, accumulation=4)
    activations = replace(case.activations, checkpointing=codes)
    hardware = replace(case.hardware, bandwidth=bandwidth)
    case = replace(case, layout=layout, activations=activations, hardware=hardware)
    grid = step_seconds(*case.arguments())
    assert grid.shape == (5, 5)
    np.testing.assert_allclose(case.time().seconds, grid)
    for i in range(5):
        for j in range(5):
            one = replace(
                case,
                layout=replace(layout, gpus=int(gpus[j]), zero_stage=int(stages[i, 0]), hybrid=int(hybrid[i, 0])),
                activations=replace(activations, checkpointing=int(codes[i, 0])),
                hardware=replace(hardware, bandwidth=float(bandwidth[j])),
            )
            alone = step_seconds(*one.arguments())
            assert float(alone) == pytest.approx(grid[i, j], rel=1e-12)


def test_mixed_attention_in_one_grid() -> None:
    """Eager and fused attention in one array give what each gives alone."""
    case = case_of(GOLDEN["m1748"])
    kinds = [setup.ATTENTION_FLASH, setup.ATTENTION_MEM_EFFICIENT, setup.ATTENTION_EAGER]

    def attention(code: object) -> np.ndarray:
        changed = replace(case, activations=replace(case.activations, attention=code))
        return np.asarray(changed.time().parts["attention"])

    np.testing.assert_allclose(attention(np.array(kinds)), [attention(kind) for kind in kinds])


def test_tokens_per_second_counts_every_replica() -> None:
    """Tokens per second times seconds is micro-batch x sequence x accumulation x data-parallel ranks."""
    case = case_of(GOLDEN["m1185"])
    step = case.time()
    assert float(tokens_per_step(case.layout)) == 256 * 8192
    assert float(step.tokens_per_second * step.seconds) == pytest.approx(256 * 8192)


def test_window_caps_attention() -> None:
    """A sliding window costs the mean of min(position, window), and nothing changes below the window."""
    network = replace(case_of(GOLDEN["m0415"]).network, sliding_window=4096, sliding_layers=1.0)
    assert attended_tokens(network, 2048) == 2048
    positions = np.minimum(np.arange(1, 16385), 4096)
    assert attended_tokens(network, 16384) == pytest.approx(2 * positions.mean(), rel=1e-3)
    half = replace(network, sliding_layers=0.5)
    assert attended_tokens(half, 16384) == pytest.approx((16384 + attended_tokens(network, 16384)) / 2)


def test_masked_kernels_save_nothing_by_a_window() -> None:
    """Only flash attention profits from a window; kernels that mask do all of the work."""
    case = case_of({**GOLDEN["m0415"], "sequence": 16384})
    window = replace(case.network, sliding_window=4096, sliding_layers=1.0)
    for code, saves in ((setup.ATTENTION_FLASH, True), (setup.ATTENTION_MEM_EFFICIENT, False)):
        plain = replace(case, activations=replace(case.activations, attention=code))
        windowed = replace(plain, network=window)
        assert (windowed.time().parts["attention"] < plain.time().parts["attention"]) == saves


def test_mixture_counts_active_weights_but_dequantises_all() -> None:
    """A mixture computes with its active weights; a quantised one unpacks every expert."""
    case = case_of(GOLDEN["m0462"])
    network = replace(case.network, parameters=46.7e9, active_parameters=12.9e9, experts=8, experts_per_token=2)
    assert stack_parameters(network) == pytest.approx(12.9e9 - 2 * 32000 * 4096)
    mixed = replace(case, network=network).time().parts
    dense = case.time().parts
    assert mixed["dequantisation"] / dense["dequantisation"] == pytest.approx(46.4e9 / 6.98e9, rel=0.01)


def test_looped_experts_cost_launches() -> None:
    """Experts looped in Python launch more than grouped kernels, and expert parallelism spreads the loop."""
    case = case_of(GOLDEN["m0415"])
    network = replace(case.network, parameters=46.7e9, active_parameters=12.9e9, experts=8, experts_per_token=2)
    looped = replace(case, network=network)
    grouped = replace(looped, kernels=replace(case.kernels, naive_experts=0))
    spread = replace(looped, layout=replace(case.layout, gpus=8, expert=8))
    launch = [float(np.asarray(one.time().parts["launch"])) for one in (looped, spread, grouped)]
    assert launch[0] > launch[1] > launch[2]
    assert float(np.asarray(spread.time().parts["expert_parallel"])) > 0.0


def test_a_loop_over_experts_launches_the_adapters_of_all_of_them() -> None:
    """Two of 8 experts with 3 adapters each are met; the 18 of the others are launched too: 18 x 0.13 ms a layer."""
    case = case_of(GOLDEN["m0462"])
    network = replace(case.network, parameters=46.7e9, active_parameters=12.9e9, experts=8, experts_per_token=2)
    met = replace(case, network=network, states=replace(case.states, adapted_linears=6))
    all_of_them = replace(met, states=replace(met.states, idle_adapted_linears=18))
    grouped = replace(all_of_them, kernels=replace(case.kernels, naive_experts=0))
    looped, alone, once = (float(np.asarray(one.time().parts["launch"])) for one in (all_of_them, met, grouped))
    more = network.layers * 18 * case.coefficients.adapter_launch_seconds * float(case.hardware.host_factor)
    assert looped - alone == pytest.approx(more * float(case.layout.accumulation))
    assert once < alone


def test_crooked_widths_are_slower() -> None:
    """A hidden size that is no multiple of 64 after sharding slows matrix products by a third or more."""
    case = case_of(GOLDEN["m0252"])
    odd = replace(case, network=replace(case.network, hidden=5120 + 8))
    assert odd.time().parts["matmul"] / case.time().parts["matmul"] > 1.5


def test_offloaded_activations_cost_device_time() -> None:
    """Parking activations in host memory costs 8 % over plain full checkpointing on the device."""
    case = case_of(GOLDEN["m0438"])
    parked = replace(case, activations=replace(case.activations, checkpointing=CHECKPOINTING["offload"]))
    for part in ("matmul", "head", "elementwise", "attention"):
        ratio = parked.time().parts[part] / case.time().parts[part]
        assert float(ratio) == pytest.approx(1.08)


def test_stage_2_reduces_after_every_micro_batch() -> None:
    """ZeRO-2 pays the reduction once per micro-batch, ZeRO-1 once per step."""
    case = case_of(GOLDEN["m0112"])

    def reduction(stage: int) -> float:
        return float(replace(case, layout=replace(case.layout, zero_stage=stage)).time().parts["data_parallel"])

    assert reduction(2) == pytest.approx(4 * reduction(1))


def test_hybrid_sharding_helps_on_slow_networks() -> None:
    """Gathering inside the node beats gathering over 12.5 GB/s, and changes nothing on one node."""
    case = case_of({**GOLDEN["m0112"], "gpus": 32})
    slow = replace(case, hardware=replace(case.hardware, network=12.5e9))
    hybrid = replace(slow, layout=replace(slow.layout, hybrid=1))
    assert hybrid.time().parts["sharding"] < slow.time().parts["sharding"] / 5
    one = case_of(GOLDEN["m0112"])
    same = replace(one, layout=replace(one.layout, hybrid=1))
    assert float(same.time().seconds) == pytest.approx(float(one.time().seconds))


def test_pcie_links_slow_sharding() -> None:
    """Without NVLink collectives run at 0.23 of the slot, not at NVLink speed."""
    case = case_of(GOLDEN["m0112"])
    hardware: Hardware = replace(case.hardware, nvlink=0.0)
    ratio = replace(case, hardware=hardware).time().parts["sharding"] / case.time().parts["sharding"]
    assert float(ratio) == pytest.approx((0.79 * 300e9) / (0.23 * 24e9))
