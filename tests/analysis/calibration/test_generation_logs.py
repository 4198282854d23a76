"""Measurements of generation as `vllm bench serve` and GuideLLM write them, and what they change in a plan."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from planner.analysis.calibrate_question import calibrate, read_measurements
from planner.errors import InputError, ScenarioError
from planner.evaluation.audit import audit
from planner.generation.replica_enumeration import predicted_run, speed_factors
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.scenario.inference_job import InferenceJob
from planner.solving.solve import solve

if TYPE_CHECKING:
    from pathlib import Path

    from planner.scenario.scenario import Scenario

VLLM = {
    "backend": "openai", "request_rate": "inf", "max_concurrency": 64, "completed": 500, "failed": 2,
    "total_input_tokens": 450_000, "total_output_tokens": 75_000, "output_throughput": 2500.0,
    "mean_ttft_ms": 400.0, "mean_tpot_ms": 21.0,
}  # fmt: skip
EXPORTED = {"serve": [], "engine": "vllm", "weight_format": "bf16", "kv_bits": 16, "gpus_per_replica": 1}
SCENARIO = """
schema: 2
name: label
jobs:
  - name: label
    kind: inference
    architecture: llama-3.1-8b
    work: {requests: 200000, input_tokens: 900, output_tokens: 150}
    techniques: {engine: vllm, weight_format: bf16}
    deadline: 24h
offers:
  - {provider: one, region: any, instance: a, gpu: L40S, gpus: 1, usd_per_hour: 1.0, date: 2026-11-01, source: test}
"""


LIBRARY = read_library(["llama-3.1-8b"])


def guidellm(**changes: Any) -> dict[str, Any]:
    """Return a document of two benchmarks, as far as it is read."""

    def one(streams: int, rate: float) -> dict[str, Any]:
        figures = {
            "request_concurrency": streams, "prompt_token_count": 900, "output_token_count": 150,
            "output_tokens_per_second": rate, "time_to_first_token_ms": 400, "inter_token_latency_ms": 21,
        }  # fmt: skip
        metrics: dict[str, Any] = {name: {"successful": {"mean": value}} for name, value in figures.items()}
        return {"metrics": {**metrics, "request_totals": {"successful": 500, "errored": 2}, **changes}}

    return {"metadata": {}, "benchmarks": [one(8, 600.0), one(64, 2500.0)]}


def written(folder: Path, data: Any, name: str = "m.json") -> str:
    """Return the path of a file with a document."""
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return str(path)


def scenario(*changes: str) -> Scenario:
    """Return the scenario with changes."""
    return change_scenario(parse_scenario(SCENARIO, file="label.yaml"), list(changes))


@pytest.mark.parametrize("data", [VLLM, guidellm()])
def test_both_tools_say_the_same(data: dict[str, Any], tmp_path: Path) -> None:
    """Lengths are means; of several benchmarks the fastest counts."""
    found, settings = read_measurements([written(tmp_path, data), written(tmp_path, EXPORTED, "g.json")])
    assert found is not None and settings["engine"] == "vllm"
    assert (found.requests, found.in_flight, found.input_tokens, found.output_tokens) == (500, 64, 900.0, 150.0)
    assert (found.output_tokens_per_second, found.ttft_seconds, found.tpot_seconds) == (2500.0, 0.4, 0.021)
    assert found.failed == 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({**VLLM, "output_throughput": 0}, "output_throughput is 0; a number above 0"),
        ({**VLLM, "output_throughput": "fast"}, "output_throughput is fast"),
        ({**VLLM, "completed": None}, "completed is missing"),
        ({**VLLM, "completed": True}, "completed is True"),
        ({**VLLM, "max_concurrency": None, "request_rate": 5.0}, "requests arrived at 5.0 per second"),
        ({**VLLM, "mean_tpot_ms": -1}, "mean_tpot_ms is -1"),
        ('{"output_throughput": NaN}', "NaN"),
        ('{"output_throughput": 1e999}', "m.json:1"),
        ('{"output_throughput": ', "not JSON"),
        ({"benchmarks": []}, "benchmarks is empty"),
        ({"benchmarks": [7]}, "a benchmark without metrics"),
        (guidellm(request_totals=3), "successful is missing"),
        (guidellm(output_token_count={"successful": []}), "output_token_count is missing"),
        ({"tokens_per_second": 9.0, "num_requests": 3, "elapsed_time": 1.0}, "use vllm bench serve"),
        (EXPORTED, "settings without a measurement"),
    ],
)
def test_a_hostile_file_is_one_clear_line(data: Any, said: str, tmp_path: Path) -> None:
    """Which figure of which file, and what would be right."""
    with pytest.raises(InputError) as error:
        read_measurements([written(tmp_path, data)])
    assert said in str(error.value) and "m.json" in str(error.value)


def test_two_measurements_are_refused(tmp_path: Path) -> None:
    """One correction has one source."""
    with pytest.raises(InputError, match="already contains the measurement"):
        read_measurements([written(tmp_path, VLLM), written(tmp_path, VLLM, "n.json")])


def test_engine_and_format_come_from_the_export_or_the_only_choice_of_the_job(tmp_path: Path) -> None:
    """Never guessed."""
    path = written(tmp_path, VLLM)
    entry = calibrate([path, written(tmp_path, EXPORTED | {"weight_format": "fp8"}, "g.json")], "L40S").measured
    assert (entry["engine"], entry["weight_format"], entry["in_flight"]) == ("vllm", "fp8", 64)
    with pytest.raises(ScenarioError, match="the engine of the measurement is not known"):
        calibrate([path], "L40S")


@pytest.mark.slow
def test_a_measurement_corrects_its_engine_on_its_gpu(tmp_path: Path) -> None:
    """Observed over estimated speed: hours of answering fall by the factor, and its spread is that of a run."""
    found = calibrate([written(tmp_path, VLLM)], "L40S", scenario=scenario())
    compared, before, after = found.generation, found.before, found.after
    assert compared is not None and before is not None and after is not None
    factor = compared.output_tokens_per_second / compared.predicted_output_tokens_per_second
    assert before.tokens_per_second and after.tokens_per_second and before.gpus and after.gpus
    each = before.tokens_per_second / before.gpus, after.tokens_per_second / after.gpus
    assert each[1] / each[0] == pytest.approx(factor, rel=1e-3)  # a finite batch on one and on two GPUs
    assert after.hours and after.hours_high and before.hours and before.hours_high
    assert after.hours_high / after.hours < before.hours_high / before.hours
    assert found.notes[0] == "2 requests failed: they do not count"


def test_runs_of_one_engine_and_gpu_give_their_geometric_mean() -> None:
    """1.2 and 1.5 times the estimate: 1.34; another GPU keeps its estimate."""
    job = scenario().jobs[0]
    assert isinstance(job, InferenceJob)
    library = read_library([job.architecture])
    run = "{engine: vllm, gpu: L40S, weight_format: bf16, input_tokens: 900, output_tokens: 150, in_flight: 64, "
    (plain,) = scenario(f"jobs.label.measured=[{run} output_tokens_per_second: 1}}]").jobs[0].measured
    one = predicted_run(plain, job, library.architecture(job.architecture), library).output_tokens_per_second  # type: ignore[arg-type]
    runs = ", ".join(f"{run} output_tokens_per_second: {factor * one}}}" for factor in (1.2, 1.5))
    found = scenario(f"jobs.label.measured=[{runs}]").jobs[0]
    assert isinstance(found, InferenceJob)
    factors = speed_factors(found, library.architecture(job.architecture), library)
    assert factors == {("vllm", "L40S"): pytest.approx(math.sqrt(1.2 * 1.5))}


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "requests: 500, kv_bits: 8,", "gpus: 2, tensor_parallel: 2, requests: 70,"])
def test_a_plan_that_rests_on_a_measurement_passes_the_audit_and_an_edited_speed_does_not(more: str) -> None:
    """The audit computes the factor by itself, request by request."""
    run = f"engine: vllm, gpu: L40S, weight_format: bf16, input_tokens: 900, output_tokens: 150, in_flight: 64, {more}"
    asked = scenario(f"jobs.label.measured=[{{{run} output_tokens_per_second: 3000}}]")
    plan = solve(asked)
    made = plan.jobs[0].inference
    assert made is not None and (made.evidence == "measured") == ("kv_bits" not in more)
    assert audit(plan, asked, LIBRARY) == []
    edited = scenario(f"jobs.label.measured=[{{{run} output_tokens_per_second: 3300}}]")
    assert any("tokens_per_second" in str(one) for one in audit(plan, edited, LIBRARY))


@pytest.mark.parametrize(
    ("rate", "prompt", "said"),
    [(1e6, 900, "more than 1 x L40S compute in any format"), (10, 200_000, "200,150 tokens exceed the context")],
)
def test_an_impossible_measurement_is_refused(rate: float, prompt: int, said: str) -> None:
    """A million tokens/s of 8 billion weights and seven times the prompts are 112,000 TFLOP/s."""
    run = f"engine: vllm, gpu: L40S, weight_format: bf16, input_tokens: {prompt}, output_tokens: 150, in_flight: 64"
    with pytest.raises(InputError) as error:
        solve(scenario(f"jobs.label.measured=[{{{run}, output_tokens_per_second: {rate}}}]"))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("engine: vlm", "unknown engine 'vlm'"),
        ("prefix_tokens: 1000", "1,000 exceeds the input of 900 tokens"),
        ("gpus: 3, tensor_parallel: 2", "3 GPUs are no multiple of 2"),
        ("in_flight: 0", "in_flight"),
    ],
)
def test_a_wrong_entry_is_refused(entry: str, said: str) -> None:
    """With the place in the scenario."""
    run = {"engine": "vllm", "gpu": "L40S", "weight_format": "bf16", "input_tokens": 900, "output_tokens": 150}
    text = ", ".join(f"{key}: {value}" for key, value in run.items() if not entry.startswith(f"{key}:"))
    flight = "" if "in_flight" in entry else "in_flight: 64, "
    with pytest.raises(InputError) as error:
        scenario(f"jobs.label.measured=[{{{text}, {flight}output_tokens_per_second: 10, {entry}}}]")
    assert said in str(error.value)
