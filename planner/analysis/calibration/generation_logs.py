"""Measurements of generation: the JSON of `vllm bench serve` and of GuideLLM, and the settings of an export."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from planner.analysis.calibration.csv_logs import fault
from planner.documents.files import file_name, read_text
from planner.documents.tables import parse_json
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Sequence

FULL = "measure with every request sent at once, or as many at one time as the plan has in flight"


@record(frozen=True)
class Measurement:
    """What one file says; lengths are means of a request."""

    file: str
    kind: str
    requests: int
    in_flight: int
    input_tokens: float
    output_tokens: float
    output_tokens_per_second: float
    ttft_seconds: float | None
    tpot_seconds: float | None
    failed: int


def read_measurements(paths: Sequence[str]) -> tuple[Measurement | None, dict[str, Any]]:
    """Return the measurement among files, and the settings of an export that are among them too.

    None and no settings where no file is one of generation; `InputError` where one is that says nothing useful.
    """
    measured, settings = None, {}
    for path in paths:
        text, file = read_text(path), file_name(path)
        if not any(sign in text for sign in ('"output_throughput"', '"benchmarks"', '"tokens_per_second"', '"serve"')):
            continue
        data = parse_json(text, file, "give a JSON of vllm bench serve or guidellm").data
        if not isinstance(data, dict):
            continue
        if "serve" in data and "weight_format" in data:
            settings = data
            continue
        if measured is not None:
            raise fault(file, 1, f"{measured.file} already contains the measurement", "give one at a time")
        if "output_throughput" in data:
            measured = _of_vllm(data, file)
        elif isinstance(data.get("benchmarks"), list):
            measured = _of_guidellm(data["benchmarks"], file)
        elif {"tokens_per_second", "num_requests"} <= data.keys():
            what = "tokens of prompts and of answers are not apart in it"
            raise fault(file, 1, what, "use vllm bench serve, as generate.py --measure does")
    if settings and measured is None:
        raise fault(file_name(paths[0]), 1, "settings without a measurement", "give the JSON of generate.py --measure")
    return measured, settings


def _of_vllm(data: dict[str, Any], file: str) -> Measurement:
    """Return what `vllm bench serve --save-result` wrote."""
    requests = int(_number(data, "completed", file))
    rate = data.get("request_rate", "inf")
    if rate not in ("inf", None) and data.get("max_concurrency") is None:
        raise fault(file, 1, f"requests arrived at {rate} per second: the engine may have waited for them", FULL)
    limit = data.get("max_concurrency")
    return Measurement(
        file,
        "vllm bench serve",
        requests,
        min(requests, int(_number(data, "max_concurrency", file)) if limit is not None else requests),
        _number(data, "total_input_tokens", file) / requests,
        _number(data, "total_output_tokens", file) / requests,
        _number(data, "output_throughput", file),
        _milliseconds(data, "mean_ttft_ms", file),
        _milliseconds(data, "mean_tpot_ms", file),
        int(data["failed"]) if isinstance(data.get("failed"), int) else 0,
    )


def _of_guidellm(benchmarks: list[Any], file: str) -> Measurement:
    """Return the fastest of the benchmarks of GuideLLM: the others have fewer requests in flight."""
    found = [_of_benchmark(benchmark, file) for benchmark in benchmarks]
    if not found:
        raise fault(file, 1, "benchmarks is empty", "give the JSON of a finished run of guidellm")
    return max(found, key=lambda measurement: measurement.output_tokens_per_second)


def _of_benchmark(one: Any, file: str) -> Measurement:
    metrics = one.get("metrics") if isinstance(one, dict) else None
    if not isinstance(metrics, dict):
        raise fault(file, 1, "a benchmark without metrics", "give the JSON of a finished run of guidellm")

    def mean(name: str) -> dict[str, Any]:
        part = metrics.get(name)
        done = part.get("successful") if isinstance(part, dict) else None
        return {name: done.get("mean")} if isinstance(done, dict) else {}

    def figure(name: str) -> float:
        return _number(mean(name), name, file)

    totals = metrics.get("request_totals")
    totals = totals if isinstance(totals, dict) else {}
    requests = int(_number(totals, "successful", file))
    flight = min(requests, max(1, round(figure("request_concurrency"))))
    return Measurement(
        file, "guidellm", requests, flight,
        figure("prompt_token_count"), figure("output_token_count"), figure("output_tokens_per_second"),
        _milliseconds(mean("time_to_first_token_ms"), "time_to_first_token_ms", file),
        _milliseconds(mean("inter_token_latency_ms"), "inter_token_latency_ms", file),
        int(totals["errored"]) if isinstance(totals.get("errored"), int) else 0,
    )  # fmt: skip


def _milliseconds(data: dict[str, Any], key: str, file: str) -> float | None:
    """Return seconds; None where they are not there, or 0 because answers have one token."""
    return _number(data, key, file) / 1000.0 if data.get(key) else None


def _number(data: dict[str, Any], key: str, file: str) -> float:
    """Return a figure; `InputError` where it is missing or cannot be one."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e15 or math.isnan(value):
        what = f"{key} is missing" if value is None else f"{key} is {str(value)[:40]}"
        raise fault(file, 1, what, "a number above 0; is it the file of a finished measurement?")
    return float(value)
