"""An estimate of generation as text: the summary, memory as bars, speed, latency, dollars."""

from __future__ import annotations

from planner.report import words
from planner.report.estimate_text import draw_bar
from planner.report.words import line_room
from planner.results.inference import InferenceEstimate
from planner.results.plan_parts import Spread
from planner.units import MILLISECONDS


def render_inference(estimate: InferenceEstimate) -> str:
    """Return the text without a final newline."""
    lines = [
        _summary(estimate),
        *words.second_lines(estimate.conversion),
        "",
        *words.section("Serve", words.wrap_all(_serve(estimate), line_room(), 2)),
        *words.section("Memory", _memory(estimate)),
        *words.section("Speed", words.wrap_all(_speed(estimate), line_room(), 2)),
        *words.section("Price", words.wrap_all(_price(estimate), line_room(), 2)),
        *words.section("Basis", words.wrap_all(_basis(estimate), line_room(), 2)),
        *words.section("Assumed", words.wrap_lines(", ".join(estimate.assumed), line_room(), 3)),
        *words.section("Notes", words.wrap_all(estimate.notes, line_room(), 3)),
    ]
    return "\n".join(lines)


def _summary(estimate: InferenceEstimate) -> str:
    what = f"{words.sanitise(estimate.architecture)} on {words.gpus(estimate.gpus, estimate.gpu)}, {estimate.engine}"
    return f"{what}: {_range(estimate.output_tokens_per_second)} output tokens/s"


def _serve(estimate: InferenceEstimate) -> list[str]:
    shared = f", {estimate.prefix_tokens:,} of them shared" if estimate.prefix_tokens else ""
    formats = f"weights {estimate.weight_format}, cache {estimate.kv_bits} bits"
    lengths = f"{estimate.input_tokens:,} tokens in{shared}, {estimate.output_tokens:,} out"
    split = {"tensor": estimate.tensor_parallel, "pipeline": estimate.pipeline_parallel}
    divided = [f"{name} parallel {degree}" for name, degree in split.items() if degree > 1]
    return [", ".join([formats, lengths, *divided])]


def _memory(estimate: InferenceEstimate) -> list[str]:
    memory, fits = estimate.memory_gib, estimate.requests_that_fit
    lines = [f"{words.gib(memory.usable)} GiB per GPU for {estimate.engine}"]
    parts = sorted(memory.parts.items(), key=lambda part: -part[1])
    lines += [draw_bar(name, size, memory.usable, words.gib, "#") for name, size in parts if size > 0]
    counts = f"{fits.typical:,} requests fit at their mean length, {fits.whole:,} at their full length"
    longest = f"{fits.longest:,} at the model's longest context"
    room = f"{memory.kv_tokens:,} tokens of {memory.kv_bytes_per_token / 1024:,.4g} KiB in the cache"
    if memory.kv_tokens_range is not None:
        room += f" ({memory.kv_tokens_range.low:,.0f} to {memory.kv_tokens_range.high:,.0f})"
    states = [] if memory.state_sequences is None else [f"state of {memory.state_sequences:,} sequences"]
    return [*lines, *words.wrap_all([f"{counts}, {longest}", room, *states], line_room(), 2)]


def _speed(estimate: InferenceEstimate) -> list[str]:
    requests = f"{words.significant(estimate.requests_per_second)} requests/s"
    lines = [f"{estimate.in_flight:,} requests in flight (limit: {estimate.binds}), {requests}"]
    lines.append(f"time to first token {_range(estimate.ttft_seconds)} s")
    if estimate.output_tokens > 1:
        scaled = estimate.tpot_seconds
        factors = {name: getattr(scaled, name) * MILLISECONDS for name in ("expected", "low", "high")}
        lines[-1] += f", per token after it {_range(type(scaled)(**factors))} ms"
    lines.append(f"one request alone: {words.significant(estimate.single_output_tokens_per_second)} tokens/s")
    if estimate.makespan_seconds is not None:
        lines.append(f"{estimate.requests:,} requests take {words.significant(estimate.makespan_seconds)} s")
    return lines


def _range(spread: Spread) -> str:
    figures = (words.significant(value) for value in (spread.expected, spread.low, spread.high))
    return "{} ({} to {})".format(*figures)


def _price(estimate: InferenceEstimate) -> list[str]:
    prices = estimate.prices
    if prices is None:
        return ["no price: the shipped market does not rent this GPU; give --usd-per-gpu-hour"]
    tokens = f"${words.significant(prices.usd_per_million_output_tokens)} per million output tokens"
    if prices.usd_per_million_input_tokens is not None:
        tokens = f"${words.significant(prices.usd_per_million_input_tokens)} per million input tokens, {tokens}"
    each = f"${words.significant(prices.usd_per_thousand_requests)} per 1,000 requests"
    return [tokens, f"{each}, at ${words.significant(prices.usd_per_gpu_hour)} per GPU-hour ({prices.basis})"]


def _basis(estimate: InferenceEstimate) -> list[str]:
    return [f"{estimate.evidence}; standard deviation of ln(speed) {estimate.sigma:.2f}, ranges hold 80 %"]
