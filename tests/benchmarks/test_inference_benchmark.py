"""The benchmark of generation: rows to configurations, the fit, what is held out."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.inference.benchmark import main
from benchmarks.inference.cache import cache_figures, is_cache_table
from benchmarks.inference.engine_facts import as_run, is_older, kept_in_16_bit, trial_bytes
from benchmarks.inference.files import calibration_text
from benchmarks.inference.fitting import disjoint, fit
from benchmarks.inference.judge import Judged, figures, gpu_pairs, judged, known_for, spreads
from benchmarks.inference.predictions import Table
from benchmarks.inference.rows import collect, read_rows, side
from planner.documents.files import parse_value
from planner.estimates.generation import seen_tokens
from planner.generation.engine_recipes import serving_of
from planner.library.reading import read_library
from planner.library.schema import Calibration

LIBRARY = read_library(["llama-3.1-8b", "qwen2.5-7b"])
TRUTH = {"bandwidth": 0.7, "cache_bandwidth": 0.5, "flops": 0.6, "layer_seconds": 5e-5, "step_seconds": 2e-3}
OTHERS = {
    "attention_flops.Ampere": 0.5, "attention_flops.Hopper": 0.5, "link.nvlink": 0.7, "link_seconds.nvlink": 1.2e-5,
    "sequence_seconds": 1e-5,    "request_seconds": 0.005, "arrival_seconds": 0.02, "wait_share": 0.25,
}  # fmt: skip
BASE = {
    "source": "x/y", "organisation": "x", "engine": "vllm", "mode": "server", "weight_bits": 16,
    "weight_format": "bf16", "num_gpus": 1, "tp": 1, "pp": 1, "quality": "A",
}  # fmt: skip


def table(path: Path, rows: list[dict[str, Any]]) -> str:
    """Write rows as a CSV file and return its path."""
    columns = sorted(
        {name for row in rows for name in row} | {"request_rate_per_s", "input_tokens", "output_tokens", "batch"}
    )
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def synthetic(path: Path) -> str:
    """Write rows whose figures are those of `TRUTH`: two models, two GPUs, batches 1 to 64, two publishers."""
    rows = [
        {
            **BASE, "id": f"{n}", "model": model, "gpu": gpu, "batch": batch, "input_tokens": tokens,
            "output_tokens": 200, "organisation": f"org-{n % 2}", "output_tokens_per_s_total": 1, "tpot_ms": 1,
        }
        for n, (model, gpu, batch, tokens) in enumerate(
            (model, gpu, batch, tokens)
            for model in ("llama-3.1-8b", "qwen2.5-7b")
            for gpu in ("A100-80GB", "H100-80GB")
            for batch in (1, 8, 64)
            for tokens in (100, 3000)
        )
    ]  # fmt: skip
    found, reasons = collect(read_rows(table(path, rows)), LIBRARY)
    assert not reasons
    predicted = Table(found).predict(OTHERS | TRUTH)
    for index, row in enumerate(rows):
        row["output_tokens_per_s_total"] = predicted["throughput"][index]
        row["tpot_ms"] = 1000 * predicted["tpot"][index]
    return table(path, rows)


def test_a_finite_run_has_no_more_in_flight_than_requests_and_a_tail(tmp_path: Path) -> None:
    """100 requests at once: 100 in flight, one round and half a mean output more alone; endless runs are faster."""
    cells = {**BASE, "model": "llama-3.1-8b", "gpu": "H100-80GB", "mode": "offline", "input_tokens": 300}
    cells |= {"output_tokens": 200, "output_tokens_per_s_total": 1}
    rows, _ = collect(
        read_rows(table(tmp_path / "t.csv", [{**cells, "requests": 100}, {**cells, "batch": 100}, cells])), LIBRARY
    )
    finite, steady, endless = Table(rows).predict(OTHERS | TRUTH | {"tail": 0.5})["throughput"]
    alone = 0.5 * 200 * Table(rows[:1]).predict(OTHERS | TRUTH | {"tail": 0.0})["throughput"][0]
    assert finite < steady == pytest.approx(alone / 100) and steady < endless


def test_the_requests_of_a_run_are_read_from_the_rules_that_state_them(tmp_path: Path) -> None:
    """An open loop of 500 requests has no more in flight; a rule that states a time has no number of requests."""
    loops = ("none (open loop, 500 requests)", "none (1000 ShareGPT prompts, open loop)", "p99 TTFT<=500 ms: met")
    rows, _ = collected(tmp_path / "t.csv", *({"slo": rules} for rules in loops))
    assert [row.requests for row in rows[:2]] == [500.0, 1000.0] and math.isnan(rows[2].requests)


def test_weights_beyond_the_memory_are_not_predicted(tmp_path: Path) -> None:
    """A 16-bit 8B model on a T4 of 16 GB was offloaded in part, which no formula here describes."""
    cells = {**BASE, "model": "llama-3.1-8b", "gpu": "T4", "input_tokens": 300, "output_tokens": 200, "batch": 1}
    rows, reasons = collect(read_rows(table(tmp_path / "t.csv", [{**cells, "output_tokens_per_s_total": 1}])), LIBRARY)
    assert not rows and "offloading" in next(iter(reasons))


def collected(path: Path, *rows: dict[str, Any]) -> tuple[list[Any], dict[str, int]]:
    """Return rows of Llama 3.1 8B on one H100 with what each adds, and why others have no prediction."""
    cells = {**BASE, "model": "llama-3.1-8b", "gpu": "H100-80GB", "input_tokens": 300, "output_tokens": 200}
    cells |= {"output_tokens_per_s_total": 1}
    return collect(read_rows(table(path, [{**cells, **row} for row in rows])), LIBRARY)


def test_a_closed_loop_whose_figures_leave_it_idle_is_not_judged(tmp_path: Path) -> None:
    """64 clients, 1 s + 199 * 10 ms each: 0.65 requests/s hold 2 in flight, 20 requests/s hold 60."""
    loop = {"batch": 64, "ttft_ms": 1000, "tpot_ms": 10}
    speeds = [{**loop, "output_tokens_per_s_total": speed} for speed in (130, 4000)]
    rows, reasons = collected(tmp_path / "t.csv", *speeds)
    assert [row.figures["throughput"] for row in rows] == [4000]
    assert next(iter(reasons)).endswith("(Little's law)")


@pytest.mark.parametrize("mode", ["single-stream", "fixed-batch"])
def test_answers_shorter_than_stated_contradict_their_seconds(mode: str, tmp_path: Path) -> None:
    """One request alone, 2 s + 10 ms a token: 31 tokens/s are of 90 tokens, those of 8,192 need 97 tokens/s."""
    alone = {"mode": mode, "batch": "" if mode == "single-stream" else 1, "ttft_ms": 2000, "tpot_ms": 10}
    speeds = [{**alone, "output_tokens": 8192, "output_tokens_per_s_total": speed} for speed in (31, 97)]
    rows, reasons = collected(tmp_path / "t.csv", *speeds)
    assert [row.figures["throughput"] for row in rows] == [97]
    assert next(iter(reasons)).endswith("(Little's law)")


def test_a_label_without_a_method_means_what_its_engine_does(tmp_path: Path) -> None:
    """int8 rounds the weights alone in gpt-fast, is LLM.int8() in Transformers, and 8-bit products elsewhere."""
    engines = ("gpt-fast", "hf", "litgpt", "vllm")
    cells = {"weight_bits": 8, "weight_format": "int8", "batch": 1, "mode": "single-stream"}
    rows, _ = collected(tmp_path / "t.csv", *({**cells, "engine": engine} for engine in engines))
    launches = [row.serving.keys["layer_seconds"][-3] for row in rows]
    assert launches == ["launch.int8-weights", "launch.bnb-int8", "launch.bnb-int8", "launch.int8"]


def test_kernels_without_a_path_for_few_rows_move_more_bytes(tmp_path: Path) -> None:
    """torchao at single requests: dynamic int8 widens to 32 bit (1 + 4 + 4 bytes), packed bits unpack to 16 bit."""
    cells = {"engine": "torchao (gpt-fast style)", "batch": 1, "mode": "single-stream", "ttft_ms": 1}
    wanted = ((8, "int8dq"), (4, "uintx-4-64-hqq"), (4, "int4wo-64"))
    rows, _ = collected(tmp_path / "t.csv", *({**cells, "weight_bits": b, "weight_format": f} for b, f in wanted))
    reach = LIBRARY.gpu("H100-80GB").memory_bandwidth_gb_s * 1e9
    shares = [row.serving.base["bandwidth"] / reach for row in rows]
    assert shares == pytest.approx([1 / 9, 0.5625 / 4.5625, 1.0])


def test_an_earlier_vllm_gives_its_cache_what_a_trial_pass_leaves(tmp_path: Path) -> None:
    """Batches of 0.6 try 131,072 tokens of (4 * 4,096 + 3 * 14,336) * 2 bytes; servers cut them on NVIDIA's GPUs.

    Where 10 GB are left the longest text is what fits with its cache of 131,072 bytes a token.
    """
    old = {"engine_version": "0.6.3", "mode": "fixed-batch", "batch": 4}
    cells = (
        {**old},
        {**old, "mode": "server"},
        {**old, "mode": "server", "gpu": "MI300X"},
        {**old, "engine_version": "1"},
    )
    rows, _ = collected(tmp_path / "t.csv", *cells)
    assert [row.trial for row in rows] == pytest.approx([131_072 * 118_784.0, 0.0, 131_072 * 118_784.0, 0.0])
    assert trial_bytes(118_784.0, 131_072.0, 10e9, 131_072) == pytest.approx(10e9 * 118_784 / (118_784 + 131_072))
    assert trial_bytes(1.0, 1.0, -5.0, 131_072) == 0.0


def test_a_trial_pass_leaves_room_for_fewer_requests(tmp_path: Path) -> None:
    """On an H100 the batch of 256 long requests shrinks with the room."""
    cells = {"engine_version": "0.6.3", "mode": "fixed-batch", "batch": 256, "input_tokens": 3000}
    rows, _ = collected(tmp_path / "t.csv", cells)
    without = [replace(row, trial=0.0) for row in rows]
    values = OTHERS | TRUTH
    assert Table(rows).predict(values)["throughput"] < Table(without).predict(values)["throughput"]


def test_the_largest_llama_keeps_attention_in_16_bit() -> None:
    """126 layers of attention and two layers of three matrices once more: 61 GB on each of eight GPUs, as logged."""
    library = read_library(["llama-3.1-405b"])
    card, gpu = library.architecture("llama-3.1-405b"), library.gpu("H100-80GB")
    model = serving_of(card, gpu, library, engine="vllm", weights="fp8", division=(8, 1)).model
    kept = kept_in_16_bit(card, model, 1.0)
    attention = 2 * 16_384 * (128 + 8) * 128
    assert kept.stored_weights - model.stored_weights == 126 * attention + 2 * 3 * 16_384 * 53_248
    assert float(kept.stored_weights) / 8 == pytest.approx(56.7677 * 2**30, rel=0.002)


def test_engines_without_a_profile_launch_as_what_they_build_on(tmp_path: Path) -> None:
    """AutoGPTQ is Transformers with other linear layers; an engine that nothing is known of keeps what all share."""
    engines = ("autogptq", "optimum-nvidia", "fastertransformer", "somebody-else")
    rows, _ = collected(tmp_path / "t.csv", *({"engine": engine, "batch": 1, "ttft_ms": 1} for engine in engines))
    assert [row.serving.keys["step_seconds"][1].partition(".")[2] for row in rows] == ["hf", *["trt-llm"] * 2, "other"]
    assert [row.engine for row in rows] == ["other"] * 4


def test_weights_in_host_memory_come_through_the_slot(tmp_path: Path) -> None:
    """ZeRO-Inference reads all weights over PCIe 5.0 in each step: 48 GB/s in place of 3,350."""
    rows, _ = collected(tmp_path / "t.csv", {"engine": "deepspeed-zero-inference", "batch": 1, "ttft_ms": 1})
    assert rows[0].serving.base["bandwidth"] == 48e9


def test_windows_of_a_model_are_followed_from_a_version_on() -> None:
    """Mistral 7B v0.1 in TensorRT-LLM 0.17 reads and keeps all 22,000 tokens, in 1.0 a window of 4,096."""
    library = read_library(["mistral-7b"])
    gpu = library.gpu("A100-80GB")
    made = serving_of(library.architecture("mistral-7b"), gpu, library, engine="trt-llm", weights="bf16")
    seen = [float(seen_tokens(as_run(made, "trt-llm", v, gpu).model, 22_000)) for v in ("0.17", "1.0", "")]
    assert seen == [22_000, 4_096, 4_096]


def test_what_no_row_of_the_fit_informs_keeps_its_prior(tmp_path: Path) -> None:
    """FP8 layers of Transformers are launched twice as long by their prior; what is fitted replaces priors."""
    cells = {"engine": "hf", "weight_bits": 8, "weight_format": "fp8", "batch": 1, "ttft_ms": 1}
    rows, _ = collected(tmp_path / "t.csv", cells)
    known = known_for(rows, {"bandwidth": 0.7})
    assert (known["launch.hf.fp8"], known["bandwidth"]) == (2.0, 0.7)


def test_a_cache_that_is_not_stated_is_that_of_the_published_checkpoints(tmp_path: Path) -> None:
    """NVIDIA's FP8 checkpoints keep an FP8 cache in TensorRT-LLM; vLLM and what is stated keep 16 bits."""
    cells = {"weight_bits": 8, "weight_format": "fp8", "batch": 1}
    wanted = ({"engine": "trt-llm"}, {"engine": "trt-llm", "kv_bits": 16}, {"engine": "vllm"})
    rows, _ = collected(tmp_path / "t.csv", *({**cells, **one} for one in wanted))
    assert [row.serving.kv_bytes for row in rows] == [1, 2, 2]


def test_clients_beyond_the_places_wait_for_one(tmp_path: Path) -> None:
    """Prompts too long for the memory: by Little's law all clients are in flight or wait, however many they are."""
    long = {"input_tokens": 60_000, "ttft_ms": 1}
    rows, _ = collected(tmp_path / "t.csv", {**long, "batch": 4}, {**long, "batch": 40}, {**long, "batch": 80})
    found = Table(rows).predict(OTHERS | TRUTH)
    few, some, many = found["ttft"]
    assert found["throughput"][1] == found["throughput"][2]
    each = 200 / found["throughput"][2]  # seconds from one finished request to the next
    assert few < some and many - some == pytest.approx(40 * each)


def test_requests_that_arrive_at_random_wait_less_than_all_at_once(tmp_path: Path) -> None:
    """An idle replica adds no queue; a busy one waits for prompts on the way, and less than all at once."""
    cells = {"ttft_ms": 1}
    rows, _ = collected(
        tmp_path / "t.csv", *({**cells, "request_rate_per_s": rate} for rate in (0.001, 10)), {**cells, "batch": 64}
    )
    idle, busy, at_once = Table(rows).predict(OTHERS | TRUTH)["ttft"]
    assert idle < busy < at_once


def test_a_fit_finds_what_made_the_rows(tmp_path: Path) -> None:
    """Rows made by known coefficients are explained to a few per cent, much better than by the priors."""
    rows, _ = collect(read_rows(synthetic(tmp_path / "t.csv")), LIBRARY)
    found = fit(rows)
    after = figures(judged(rows, found.values))["throughput"]
    assert after["n"] == 24 and after["mape"] < 0.03
    assert figures(judged(rows, OTHERS | {"bandwidth": 0.8}))["throughput"]["mape"] > 0.1
    text = calibration_text(found, spreads(judged(rows, found.values)), "a test")
    written = Calibration.model_validate(parse_value(text, "inference.yaml"))
    assert written.value("bandwidth") == pytest.approx(found.values["bandwidth"], rel=1e-3)
    assert written.coefficients["bandwidth"].basis == "measured"


def test_keys_that_share_no_row_move_together() -> None:
    """Columns 0 and 2 share no row; column 1 shares one with each."""
    members = np.array([[True, True, False], [False, True, True]])
    assert disjoint(members) == [[0, 2], [1]]


def test_command_reports_counts_and_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be predicted is counted by reason, and quality C is not judged."""
    rows = [
        {**BASE, "model": "llama-3.1-8b", "gpu": "A100-80GB", "batch": 4, "input_tokens": 10, "output_tokens": 10,
         "tpot_ms": 20},
        {**BASE, "model": "nobody-7b", "gpu": "A100-80GB", "tpot_ms": 20},
        {**BASE, "model": "llama-3.1-8b", "gpu": "A100-80GB", "batch": 4, "tpot_ms": 20},
        {**BASE, "model": "llama-3.1-8b", "gpu": "A100-80GB", "quality": "C", "tpot_ms": 20},
    ]  # fmt: skip
    assert main([table(tmp_path / "t.csv", rows), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rows"] == {"read": 4, "quality A or B": 3, "complete": 2, "predicted": 1}
    assert result["skipped"] == {"model not in the library": 1, "lengths are not stated": 1}
    assert result["tpot"]["n"] == 1 and result["tpot"]["n_complete"] == 3
    assert result["throughput"]["n"] == 0
    assert main([table(tmp_path / "t.csv", rows)]) == 0
    shown = capsys.readouterr().out
    assert "1 of 3 rows of quality A or B predicted (4 read)" in shown
    assert "50.0% of 2 complete rows (target: 95%)" in shown


def test_a_strange_table_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing columns are named, with exit code 2."""
    (tmp_path / "t.csv").write_text("model,gpu\na,b\n", encoding="utf-8")
    assert main([str(tmp_path / "t.csv")]) == 2
    assert "has no column num_gpus, engine" in capsys.readouterr().err


def test_arrivals_bound_the_throughput(tmp_path: Path) -> None:
    """Two requests per second of 100 tokens are 200 tokens/s, however fast the GPU is; idle replicas add nothing."""
    same = {
        **BASE,
        "model": "llama-3.1-8b",
        "gpu": "H100-80GB",
        "input_tokens": 100,
        "output_tokens": 100,
        "tpot_ms": 1,
    }
    slow = {**same, "request_rate_per_s": 2}
    one, many = {**same, "batch": 1}, {**same, "batch": 1, "num_gpus": 8}
    rows, _ = collect(read_rows(table(tmp_path / "t.csv", [slow, one, many])), LIBRARY)
    found = Table(rows).predict(OTHERS | TRUTH)["throughput"]
    assert found[0] == pytest.approx(200, rel=1e-3)
    assert found[1] == pytest.approx(found[2])


def test_sides_know_no_figures(tmp_path: Path) -> None:
    """Equal configurations fall on one side, whatever was measured and whoever published it."""
    same = {**BASE, "model": "llama-3.1-8b", "gpu": "H100-80GB", "batch": 3}
    path = table(tmp_path / "t.csv", [{**same, "tpot_ms": 1}, {**same, "tpot_ms": 9, "organisation": "z"}])
    one, other = read_rows(path)
    assert side(one) == side(other)


def test_pairs_differ_in_the_gpu_alone(tmp_path: Path) -> None:
    """One pair of two GPUs with the same settings; rows of different batch are no pair."""
    rows, _ = collect(read_rows(synthetic(tmp_path / "t.csv")), LIBRARY)
    items = [Judged(row, "throughput", 1.0 + index % 2, 1.0 + index % 2) for index, row in enumerate(rows[:1])]
    assert gpu_pairs(items)["n"] == 0
    whole = [one for one in judged(rows, OTHERS | TRUTH) if one.figure == "throughput"]
    assert gpu_pairs(whole)["share"] == 1.0


def test_versions_and_dates_tell_generations_of_an_engine() -> None:
    """vLLM before 0.8, or before March 2025 where no version is stated; what says nothing is of the present one."""
    assert is_older("vllm", "0.7.3", "2026-04") and is_older("vllm", "0.6.x", "") and is_older("vllm", "", "2024-11")
    assert (
        not is_older("vllm", "0.11.2", "2024-01") and not is_older("vllm", "", "") and not is_older("hf", "0.1", "2020")
    )


def test_older_generations_have_factors_of_their_own(tmp_path: Path) -> None:
    """The coefficient of older runs slows those of version 0.6 and leaves those of 0.11 alone."""
    cells = {**BASE, "model": "llama-3.1-8b", "gpu": "H100-80GB", "batch": 4, "input_tokens": 100, "output_tokens": 100,
             "tpot_ms": 1}  # fmt: skip
    old, new = {**cells, "engine_version": "0.6.3"}, {**cells, "engine_version": "0.11.2"}
    rows, _ = collect(read_rows(table(tmp_path / "t.csv", [old, new])), LIBRARY)
    before = Table(rows).predict(OTHERS | TRUTH)["throughput"]
    after = Table(rows).predict(OTHERS | TRUTH | {"step_seconds.vllm-older": 3.0})["throughput"]
    assert after[0] < before[0] == pytest.approx(before[1]) and after[1] == pytest.approx(before[1])


def starts(path: Path, *rows: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a table of caches, which begins as Excel writes it."""
    plain = {"engine": "vllm", "release": "0.11", "model": "llama-3.1-8b", "weights": "bf16", "gpu": "A100-80GB"}
    columns = [*plain, "gpus", "cache_tokens", "cache_gib_per_gpu", "outcome"]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows({**plain, "gpus": 1, **row} for row in rows)
    assert is_cache_table(str(path))
    return cache_figures([str(path)], LIBRARY)


def test_a_start_without_a_figure_is_no_refusal(tmp_path: Path) -> None:
    """A cache in tokens or GiB is a start; a negative one, or the words, is none; a blank one says nothing."""
    ran = ({"cache_tokens": 430_000}, {"cache_gib_per_gpu": 52.5})
    refused = ({"cache_tokens": -1}, {"cache_gib_per_gpu": -2.0}, {"outcome": "does not start: no memory"})
    nothing: tuple[dict[str, Any], ...] = ({}, {"cache_tokens": 1000, "engine": "no such engine"})
    found = starts(tmp_path / "cache.csv", *ran, *refused, *nothing)
    assert (found["n"], found["false_refusals"]["n"], found["false_starts"]["n"]) == (2, 2, 3)
    assert found["skipped"] == {"neither cache nor outcome stated": 1, "engine not in the table of engines": 1}


def test_what_cannot_be_read_is_no_table_of_caches(tmp_path: Path) -> None:
    """A field that no CSV reader takes, for one: the table is refused where it is read, with its name."""
    (tmp_path / "x.csv").write_text("a" * 200_000, encoding="utf-8")
    assert not is_cache_table(str(tmp_path / "x.csv"))
    assert not is_cache_table(str(tmp_path / "none.csv"))
