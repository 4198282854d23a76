"""From the cells of a row to a prediction: what is read, what is assumed, what is refused."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest

from benchmarks.accuracy import baselines
from benchmarks.accuracy.configurations import Configuration, configuration_of
from benchmarks.accuracy.measurements import Row
from benchmarks.accuracy.networks import Incomplete, NotExpressible, network_of_row
from benchmarks.accuracy.predictions import Prediction, Predictor
from benchmarks.cost.prices import usd_per_gpu_hour
from planner.estimates import inputs as setup
from planner.library.reading import read_library
from planner.library.schema import Library

# Mistral-7B, LoRA r16 on q, k, v, o, one A100-80, 4 x 4096, full checkpointing: 24.87 GiB allocated and 3,324 tokens/s
# (foundation-model-stack/fms-acceleration, scripts/benchmarks/refs/a100_80gb.csv).
MISTRAL = {
    "source": "fms", "model": "Mistral-7B", "method": "lora", "lora_rank": "16",
    "lora_targets": "q_proj k_proj v_proj o_proj", "weight_quant": "none", "precision": "bf16 pure",
    "weights_dtype": "bf16", "optimizer": "adamw", "framework": "hf", "loss_kernel": "hf", "gpu": "A100",
    "gpu_mem_gb": "80.0", "num_gpus": "1.0", "sharding": "none", "act_ckpt": "full", "attention": "flash2",
    "compile": "no", "micro_batch": "4", "grad_accum": "1", "seq_len": "4096", "packed": "yes", "status": "ok",
    "peak_mem_gb_per_gpu": "24.87", "mem_unit": "GiB", "mem_kind": "max_memory_allocated",
    "tokens_per_s_total": "3324", "quality": "A",
}  # fmt: skip


@cache
def library() -> Library:
    """The shipped library, read once."""
    return read_library()


@cache
def predictor() -> Predictor:
    """The shipped estimates."""
    return Predictor(library())


def row(**cells: str) -> Row:
    """The row above with other cells; an empty one is unknown."""
    return Row(2, {name: value for name, value in {**MISTRAL, **cells}.items() if value})


def set_up(**cells: str) -> Configuration:
    """Its configuration."""
    return configuration_of(row(**cells), library())


def predicted(**cells: str) -> Prediction:
    """Its prediction."""
    return predictor().one(row(**cells))


def test_a_published_run_is_met() -> None:
    """Memory within 3 % and speed within 10 % of what was measured."""
    found = predicted()
    assert found.peak is not None and abs(found.peak.error) < 0.03
    assert found.speed is not None and abs(found.speed.error) < 0.10
    assert found.fits


def test_source_id_and_notes_mean_nothing() -> None:
    """Tables to come have other sources: no figure may hang on the name of one."""
    other = predicted(source="somebody else: elsewhere", id="x17", notes="fp32 weights, CPU offload, Liger")
    mine = predicted()
    assert (other.peak, other.speed, other.need_bytes) == (mine.peak, mine.speed, mine.need_bytes)


def test_a_blank_framework_is_an_unknown_profile() -> None:
    """It has the wide margin and is predicted all the same, as is a name that nobody knows."""
    for name in ("", "somebody's trainer"):
        found = predicted(framework=name)
        assert found.configuration is not None and found.configuration.framework == "unknown"
        assert not found.configuration.profiled
        assert found.peak is not None and found.speed is not None
        assert found.need_bytes is not None and found.need_bytes > (predicted().need_bytes or 0)


def test_a_framework_can_be_forgotten() -> None:
    """The split by unknown source treats a named framework like a blank one."""
    assert predictor().one(row(), as_unknown=True).configuration == predictor().one(row(), True).configuration
    forgotten = configuration_of(row(framework="litgpt"), library(), as_unknown=True)
    assert (forgotten.framework, forgotten.profiled) == ("unknown", False)


@pytest.mark.parametrize(
    ("cells", "gap"),
    [
        ({"seq_len": ""}, "the sequence length"),
        ({"micro_batch": ""}, "the micro-batch"),
        ({"num_gpus": "8", "sharding": ""}, "how the network is spread"),
        ({"num_gpus": "8", "sharding": "fsdp+tp"}, "the degree of tp"),
        ({"cpu_offload": "yes"}, "what lies in host memory"),
        ({"method": ""}, "the method"),
        ({"model": "no card", "params_b": ""}, "the network's dimensions"),
    ],
)
def test_a_missing_column_is_named(cells: dict[str, str], gap: str) -> None:
    """The row is incomplete, and the reason says which column."""
    with pytest.raises(Incomplete, match=gap):
        set_up(**cells)
    assert [figure for figure, _ in predicted(**cells).missing] == ["memory", "throughput"]


@pytest.mark.parametrize(
    "cells",
    [
        {"cpu_offload": "params"},
        {"weight_quant": "fp6"},
        {"lora_targets": "norms"},
        {"method": "adapter"},
        {"method": "prefix tuning"},
        {"num_gpus": "8", "sharding": "fsdp+ep"},
        {"num_gpus": "2", "sharding": "zero (offload)"},
        {"num_gpus": "6", "sharding": "tp", "tp": "4"},
        {"precision": "fp8 mixed"},
        {"model": "no card", "params_b": "7", "seq_len": "512x512 px"},
    ],
)
def test_what_the_estimate_has_no_word_for_is_told_apart(cells: dict[str, str]) -> None:
    """Such a row is complete: not predicting it is our gap, not the table's."""
    with pytest.raises(NotExpressible):
        set_up(**cells)
    found = predicted(**cells)
    assert found.inexpressible and not found.missing


def test_defaults_are_those_of_the_framework() -> None:
    """A blank cell means what its framework does without being told."""
    assert set_up(framework="torchtitan", act_ckpt="").recipe.activation_checkpointing == "selective"
    assert set_up(framework="litgpt", act_ckpt="").recipe.activation_checkpointing == "none"
    sharded = set_up(framework="litgpt", act_ckpt="", num_gpus="4", sharding="fsdp")
    assert sharded.recipe.activation_checkpointing == "full"
    assert set_up(framework="hf", method="qlora", act_ckpt="").recipe.activation_checkpointing == "full"


@pytest.mark.parametrize(
    ("cells", "precision"),
    [
        ({"method": "full"}, "bf16"),
        ({"method": "full", "weights_dtype": "fp32"}, "bf16_mixed"),
        ({"method": "full", "weights_dtype": "", "precision": "fp16 mixed"}, "fp16_mixed"),
        ({"method": "full", "weights_dtype": "", "precision": "fp32"}, "tf32"),
        ({"method": "full", "weights_dtype": "", "precision": "fp32", "gpu": "V100", "gpu_mem_gb": "32"}, "fp32"),
    ],
)
def test_the_weights_dtype_decides_the_bytes(cells: dict[str, str], precision: str) -> None:
    """Pure 16 bit, mixed over fp32 weights, or fp32: three different things called bf16."""
    assert set_up(**cells).recipe.precision == precision


def test_the_batch_follows_from_the_global_batch() -> None:
    """64 over 8 ranks of 2 sequences: 4 micro-steps; without any word on it, one."""
    spread = {"num_gpus": "8", "sharding": "fsdp", "micro_batch": "2", "grad_accum": ""}
    assert set_up(**spread, global_batch="64").layout.accumulation == 4
    assert set_up(**spread).layout.accumulation == 1
    assert set_up(**{**spread, "micro_batch": "", "grad_accum": "4"}, global_batch="64").layout.micro_batch == 2


def test_partial_checkpointing_lies_between_none_and_full() -> None:
    """Half of the layers checkpointed: half of the way in memory."""

    def peak(value: str) -> float:
        found = predicted(act_ckpt=value).peak
        assert found is not None
        return found.predicted

    assert peak("partial (16 of 32 layers)") == pytest.approx((peak("none") + peak("full")) / 2)


def test_the_loss_kernel_of_the_row_replaces_that_of_the_profile() -> None:
    """Bytes per logit as the column says: 14, 8, 0.3, 4."""
    sizes = [
        set_up(loss_kernel=name).settings[0].activations.logit_bytes for name in ("hf", "fused", "liger", "fused-16bit")
    ]
    assert sizes == [14, 8, 0.3, 4]
    offloaded = {"framework": "unsloth", "loss_kernel": "fused", "act_ckpt": "full + cpu offload"}
    assert set_up(**offloaded).settings[0].activations.logit_bytes == 0.3
    assert set_up(**{**offloaded, "act_ckpt": "full"}).settings[0].activations.logit_bytes == 8  # before April 2024


def test_checkpointing_words_reach_their_codes() -> None:
    """Kinds that a scenario cannot name are still told apart."""

    def code(**cells: str) -> Any:
        return set_up(**cells).settings[0].activations.checkpointing

    assert code(act_ckpt="selective (every 2nd layer)") == setup.CHECKPOINT_EVERY_2ND
    assert code(act_ckpt="full + CPU offload") == setup.CHECKPOINT_OFFLOAD
    assert code(framework="torchtitan", act_ckpt="selective (per-op)") == setup.CHECKPOINT_SELECTIVE


def test_the_parameter_count_tells_what_no_column_says() -> None:
    """Gated or plain, tied or not, and a head size that is not hidden over heads (Gemma-7B: 256, not 192)."""
    gemma = {"params_b": "8.538", "layers": "28", "hidden": "3072", "heads": "16", "ffn": "24576", "vocab": "256000"}
    found = network_of_row(row(model="-", **gemma), library())
    assert (found.gated, found.tied, found.head_dim) == (True, True, 256)
    plain = {"params_b": "12.854", "layers": "40", "hidden": "5120", "heads": "40", "ffn": "20480", "vocab": "50368"}
    found = network_of_row(row(model="-", **plain), library())
    assert (found.gated, found.tied, found.head_dim) == (False, True, 128)


def test_a_mixture_needs_its_experts_named() -> None:
    """Dense dimensions that hold a seventh of the weights are those of one expert."""
    cells = dict(params_b="46.7", layers="32", hidden="4096", heads="32", kv_heads="8", ffn="14336", vocab="32000")
    with pytest.raises(NotExpressible, match="a mixture of experts"):
        set_up(model="-", **cells)
    assert set_up(model="Mixtral-8x7B", **cells).network.experts == 8


def test_a_network_known_by_size_alone_is_guessed_and_said_to_be() -> None:
    """h = 128 L and 12 L h^2 parameters: 34 layers of 4,352 for 7.5 billion."""
    found = network_of_row(row(model="-", params_b="7.5"), library())
    assert (found.layers, found.hidden, found.shape_known) == (34, 4352, False)


def test_lengths_known_by_their_mean_are_padded_to_the_longest_of_a_batch() -> None:
    """Four samples of 210 tokens on average are processed longer than 210, in buckets of like lengths not."""
    lengths = "mean real length 210 tokens"
    padded = predicted(packed=f"no; {lengths}", seq_len="768", samples_per_s="30")
    buckets = predicted(packed=f"no; bucketed; {lengths}", seq_len="768", samples_per_s="30")
    assert padded.speed is not None and buckets.speed is not None
    assert padded.speed.measured == buckets.speed.measured == pytest.approx(30 * 205, rel=0.03)
    assert buckets.speed.predicted > padded.speed.predicted
    assert predicted(packed="no").speed is None


def test_a_speed_with_too_many_unknowns_is_not_judged() -> None:
    """Precision, checkpointing and attention: two of them may be blank, not three."""
    vague = {"framework": "litgpt", "precision": "", "attention": "", "weights_dtype": ""}
    assert predicted(**vague).speed is not None
    found = predicted(**vague, act_ckpt="")
    assert found.speed is None and found.peak is not None
    assert found.missing == (("throughput", "precision, checkpointing and attention"),)


def test_figures_that_cannot_be_judge_nobody() -> None:
    """A full fine-tune in 4 bytes per parameter, and more FLOP per second than the card has."""
    small = predicted(method="full", peak_mem_gb_per_gpu="29")
    assert small.peak is None and small.contradictions[0][0] == "memory"
    assert small.need_bytes is None and small.fit_chance is None  # nor does that it ran
    fast = predicted(tokens_per_s_total="30000")
    assert fast.speed is None and fast.contradictions[0][0] == "throughput"
    assert not predicted().contradictions


def test_a_run_out_of_memory_judges_the_fit_alone() -> None:
    """Its peak and speed are no measurements."""
    found = predicted(status="oom", micro_batch="64")
    assert (found.peak, found.speed, found.fits) == (None, None, False)


def test_a_choice_that_its_user_did_not_state_is_averaged_and_widens_the_range() -> None:
    """Checkpointing that a row leaves open: half of none and half of full, wider by their spread, no fit judged."""
    asked = {"framework": "hf", "peak_mem_gb_per_gpu": "20", "mem_unit": "GiB", "mem_kind": "allocated"}
    none, full, vague = (predicted(**asked, act_ckpt=kind) for kind in ("none", "full", ""))
    assert none.peak and full.peak and vague.peak and none.speed and full.speed and vague.speed
    assert vague.peak.predicted == pytest.approx((none.peak.predicted + full.peak.predicted) / 2)
    assert 2 / vague.speed.predicted == pytest.approx(1 / none.speed.predicted + 1 / full.speed.predicted)
    apart = math.log(none.speed.predicted / full.speed.predicted) / 2
    assert vague.speed.sigma == pytest.approx(math.hypot(none.speed.sigma, apart))
    assert vague.need_bytes is None and ("fit", "whether activations are checkpointed") in vague.missing


def test_kernels_that_a_row_names_are_those_of_its_speed() -> None:
    """cuDNN's attention, PyTorch's choice for sdpa, is 1.5 times as fast; a compiled run has compiled kernels."""
    plain, cudnn = set_up(framework="hf"), set_up(framework="hf", attention_kernel="cudnn_attention")
    assert cudnn.kernels.attention_factor == pytest.approx(1.5 * plain.kernels.attention_factor)
    shares = library().calibrations["kernels"]
    compiled = set_up(framework="hf", compile="yes").kernels
    assert compiled.launch_seconds == shares.value("compiled.launch_seconds") < plain.kernels.launch_seconds


def test_an_unknown_framework_may_or_may_not_cut_norms_over_tensor_parallel_ranks() -> None:
    """Nothing says which: both readings count half, and the range is wider by their spread. A plan takes the larger."""
    shared = {"framework": "nobodys-trainer", "num_gpus": "8", "tp": "8", "sharding": "tp", "act_ckpt": "none"}
    shared |= {"peak_mem_gb_per_gpu": "20", "mem_unit": "GiB", "mem_kind": "allocated", "precision": "bf16 mixed"}
    both, alone = set_up(**shared), set_up(**{**shared, "tp": "1", "sharding": "ddp"})
    assert [(one.share, one.activations.sequence_parallel) for one in both.settings] == [(0.5, 0), (0.5, 1)]
    assert both.left_open and not alone.left_open and len(alone.settings) == 1
    peak = predicted(**shared).peak
    assert peak and peak.open_spread > 0.05
    assert not library().techniques.frameworks["unknown"].sequence_parallel


def test_a_fit_is_not_judged_where_a_recipe_may_have_checkpointed() -> None:
    """The speed of such a row is predicted as if it had not; whether it fits stays open, and is counted so."""
    vague = {"framework": "nemo", "method": "full", "act_ckpt": "", "gpu": "H100-SXM", "peak_mem_gb_per_gpu": "70"}
    found = predicted(**vague)
    assert found.speed is not None and found.need_bytes is None
    assert found.missing == (("fit", "whether activations are checkpointed"),)
    assert predicted(**{**vague, "act_ckpt": "none"}).need_bytes is not None


def test_cards_are_found_by_name_and_memory() -> None:
    """A100 of 40 and of 80 GB are two cards; the 500 W H100 is a slower H100."""
    small, large = set_up(gpu="A100-SXM", gpu_mem_gb="40"), set_up()
    assert small.host is not None and small.host.gpu.name == "A100-40GB"
    assert large.host is not None and large.host.gpu.name == "A100-80GB"
    slow, fast = set_up(gpu="H100-SXM-HBM2e-500W", gpu_mem_gb="96"), set_up(gpu="H100-SXM")
    assert slow.host is not None and fast.host is not None
    assert slow.host.hardware.efficiency < fast.host.hardware.efficiency
    nameless = predicted(gpu="any GPU with 24 GB", gpu_mem_gb="24")
    assert nameless.peak is not None and nameless.speed is None and nameless.need_bytes is None


def test_fp8_raises_the_peak_of_linear_layers_only() -> None:
    """Linear layers get a share of the fp8 sheet peak, everything else stays in 16 bit."""
    plain = set_up(gpu="H100-SXM", method="full", weights_dtype="", precision="bf16 mixed").host
    eight = set_up(gpu="H100-SXM", method="full", weights_dtype="", precision="fp8 mixed").host
    assert plain is not None and eight is not None
    assert eight.hardware.peak == plain.hardware.peak
    share = read_library().calibrations["kernels"].value("linear_share.fp8_torch")
    assert eight.hardware.linear_peak == pytest.approx(share * 1978.9e12)


def test_baselines_are_those_of_their_names() -> None:
    """Worked out by hand for Mistral-7B, 7.242e9 parameters, on one A100 of 312 TFLOPS."""
    lora = set_up(params_b="7.242")
    naive = baselines.MEMORY["16/2/0.5 bytes per parameter + 20 %"]
    assert naive(lora) == pytest.approx(1.2 * 2 * 7.242e9)
    assert naive(set_up(params_b="7.242", method="full")) == pytest.approx(1.2 * 16 * 7.242e9)
    assert naive(set_up(params_b="7.242", method="qlora", weight_quant="nf4")) == pytest.approx(1.2 * 0.5 * 7.242e9)
    sharded = set_up(params_b="7.242", method="full", num_gpus="4", sharding="fsdp")
    assert baselines.MEMORY["16/2/0.5 bytes per parameter + 20 %, divided by shards"](sharded) == pytest.approx(
        1.2 * 4 * 7.242e9
    )
    assert baselines.MEMORY["ZeRO-2 and ZeRO-3 formulas"](sharded) == pytest.approx((4 / 32 + 18 / 4) * 7.242e9)
    assert baselines.THROUGHPUT["constant MFU 0.45"](lora) == pytest.approx(0.45 * 312e12 / (6 * 7.242e9))


def test_prices_come_from_the_shipped_market() -> None:
    """A card that is rented has a price per GPU, one that nobody rents has none."""
    assert 0.1 < (usd_per_gpu_hour("A100-80GB", library()) or 0) < 10
    assert usd_per_gpu_hour("K80", library()) is None


def test_adapters_of_a_network_without_a_card_have_the_names_of_its_family() -> None:
    """Qwen-7B, adapters on c_attn, c_proj, w1, w2: 143,130,624 weights at rank 64; with its embeddings 1.24e9 more.

    A fused c_attn of 4096 to 12,288, two modules c_proj, and two matrices of 4096 to 11,008: 69,888 inputs and outputs
    of one layer.
    """
    qwen = {"model": "Qwen-7B", "params_b": "7.721", "layers": "32", "hidden": "4096", "heads": "32", "kv_heads": "32"}
    qwen |= {"ffn": "11008", "vocab": "151936", "lora_rank": "64", "lora_targets": "c_attn,c_proj,w1,w2"}
    found = set_up(**qwen)
    assert found.states.trainable == 32 * 64 * (4096 + 12288 + 2 * 4096 + 3 * (4096 + 11008))
    with_embeddings = set_up(
        **{**qwen, "lora_targets": f"{qwen['lora_targets']} + trainable embedding and output layer"}
    )
    assert with_embeddings.states.trainable - found.states.trainable == 2 * 151936 * 4096


def test_a_trainer_that_publishes_its_own_runs_does_what_it_does_by_default() -> None:
    """LLaMA-Factory and ms-swift checkpoint by default; of other users of Transformers a blank is open."""
    blank = {"act_ckpt": "", "method": "lora", "framework": "hf"}
    assert len(set_up(**blank, source="somebody/else:README.md").settings) == 2
    for source in ("hiyouga/LLaMA-Factory wiki", "modelscope/ms-swift:docs/benchmark.md"):
        ((share, _, found),) = set_up(**blank, source=source).settings
        assert (share, found.checkpointing) == (1.0, setup.CHECKPOINT_FULL)


@pytest.mark.parametrize(("name", "profile"), [("axolotl", "hf"), ("ms-swift", "hf"), ("megatron-bridge", "nemo")])
def test_trainers_that_wrap_another_have_its_profile(name: str, profile: str) -> None:
    """Their steps are those of the Trainer of Transformers, or of Megatron-core."""
    assert set_up(framework=name).framework == profile
