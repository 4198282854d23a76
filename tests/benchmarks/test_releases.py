"""What the release of a framework decides where no column says it."""

from __future__ import annotations

import pytest

from benchmarks.accuracy.configurations import configuration_of
from benchmarks.accuracy.measurements import Row
from benchmarks.accuracy.releases import keeps_inputs_on_card, losses_of_row, pipelined_batch
from planner.library.reading import read_library

LLAMA = {
    "source": "somebody/else:README.md", "model": "Llama-3-8B", "params_b": "8.03", "layers": "32", "hidden": "4096",
    "heads": "32", "kv_heads": "8", "ffn": "14336", "vocab": "128256", "method": "full", "precision": "bf16 mixed",
    "gpu": "H100-SXM", "gpu_mem_gb": "80", "num_gpus": "8", "sharding": "fsdp", "act_ckpt": "selective",
    "micro_batch": "1", "seq_len": "8192", "packed": "yes", "status": "ok", "quality": "A",
}  # fmt: skip
TITAN = "pytorch/torchtitan:benchmarks/llama3_h100_202412_torchtitan.md T3"


def row_of(**cells: str) -> Row:
    """The row above with other cells."""
    return Row(2, {name: value for name, value in {**LLAMA, **cells}.items() if value})


@pytest.mark.parametrize(
    ("source", "cells", "losses"),
    [
        (TITAN, {"compile": "yes"}, ("fp32-eager",)),  # the loss was not compiled yet
        (TITAN, {"compile": "yes", "tp": "8"}, ("fp32-eager-sharded",)),  # 16 bytes over shards, 12 of the whole
        (TITAN.replace("202412", "202506"), {"compile": "yes"}, ("fp32-compiled",)),
        (TITAN.replace("202412", "202506"), {"compile": "yes", "tp": "8"}, ("fp32-compiled",)),
        (TITAN.replace("202412", "202506"), {"compile": "no"}, ("fp32-eager",)),
        ("pytorch/torchtitan:docs/performance.md", {"compile": "yes"}, ("fp32-compiled",)),  # its last release
        ("somebody/else:README.md", {"compile": "yes"}, ("fp32-eager", "fp32-compiled")),  # open
        ("pytorch/ao:docs/source/workflows/training.md", {"compile": "yes", "gpu": "H100-SXM"}, ("fp32-eager",)),
        ("pytorch/ao:docs/source/workflows/training.md", {"compile": "yes", "gpu": "MI300X"}, ("fp32-compiled",)),
    ],
)
def test_the_loss_of_torchtitan_follows_its_release(
    source: str, cells: dict[str, str], losses: tuple[str, ...]
) -> None:
    """It is compiled with the model from April 2025 on."""
    row = row_of(source=source, framework="torchtitan", loss_kernel="fp32", **cells)
    assert losses_of_row(row) == losses


@pytest.mark.parametrize(
    ("source", "loss", "losses"),
    [
        ("pytorch/torchtune:README.md @2024-05-09", "", ("hf",)),
        ("pytorch/torchtune:README.md", "", ("chunked-compiled",)),
        ("pytorch/torchtune:README.md", "chunked", ("chunked-compiled",)),
        ("pytorch/torchtune:README.md", "fused", ("fused",)),  # what a column says stands
        ("somebody/else:README.md", "", ("hf", "chunked-compiled")),
    ],
)
def test_the_loss_of_torchtune_follows_its_release(source: str, loss: str, losses: tuple[str, ...]) -> None:
    """Its recipes compute it in chunks from September 2024 on."""
    assert losses_of_row(row_of(source=source, framework="torchtune", loss_kernel=loss, compile="yes")) == losses


def test_a_sharded_loss_keeps_four_copies() -> None:
    """Without a compiler 16 bytes per logit with tensor parallelism, 12 without."""
    facts = {"framework": "torchtitan", "loss_kernel": "fp32", "compile": "no", "num_gpus": "8", "sharding": "fsdp+tp"}
    found = [configuration_of(row_of(**facts, tp=tp), read_library()).settings for tp in ("1", "8")]
    assert [one.activations.logit_bytes for settings in found for one in settings] == [12.0, 16.0]


def test_an_open_loss_is_averaged() -> None:
    """Half of 12 bytes per logit and half of 4, where the document of a run is of neither release."""
    row = row_of(framework="torchtitan", loss_kernel="fp32", compile="yes")
    found = configuration_of(row, read_library())
    assert [(one.share, one.activations.logit_bytes) for one in found.settings] == [(0.5, 12.0), (0.5, 4.0)]


def test_batches_of_a_pipeline_follow_the_release() -> None:
    """32 sequences over 8 stages: 8 micro-batches of 4 in 2024, 32 of one sequence since."""
    assert pipelined_batch(row_of(source=TITAN, framework="torchtitan"), 32, 8) == (4, 8)
    assert pipelined_batch(row_of(source=TITAN.replace("202412", "202506"), framework="torchtitan"), 32, 8) == (1, 32)


def test_unsloth_keeps_checkpoints_on_the_card_before_april_2024() -> None:
    """A blank follows the month of the document; what a column says stands."""
    early = row_of(source="somebody/else wiki (quoted in unslothai/unsloth:README.md @2024-02)", act_ckpt="")
    assert keeps_inputs_on_card(early)
    assert not keeps_inputs_on_card(row_of(source="unslothai/unsloth:README.md @2024-06", act_ckpt=""))
    assert keeps_inputs_on_card(row_of(act_ckpt="full"))
    assert not keeps_inputs_on_card(row_of(act_ckpt="full + CPU offload"))
