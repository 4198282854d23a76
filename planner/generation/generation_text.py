"""Generation as text: what a plan says of replicas, requests, speed and dollars, and an estimate as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.library.engines import read_engines
from planner.report import words
from planner.report.words import draw_bar, line_room
from planner.results.fleet import ApiPrice, BulkGeneration, InferenceEstimate
from planner.results.plan_parts import Spread
from planner.units import MILLISECONDS, figure_text

if TYPE_CHECKING:
    from collections.abc import Sequence


SHARE_SHOWN = 0.05
"""Least share of the time that is named."""


def engine_name(engine: str) -> str:
    """Return the name of an engine as its makers write it."""
    engines = read_engines().engines
    return engines[engine].label if engine in engines else engine


def engine_words(made: BulkGeneration) -> str:
    """Return engine, formats and how GPUs form replicas."""
    several = "" if made.gpus_per_replica == 1 else f" of {made.gpus_per_replica} GPUs"
    count = f"{made.replicas:,} replica{'' if made.replicas == 1 else 's'}{several}"
    return f"{engine_name(made.engine)}, {made.weight_format} weights, {made.kv_bits}-bit cache, {count}"


def request_words(made: BulkGeneration) -> str:
    """Return the work: requests and their lengths."""
    shared = f", {made.prefix_tokens:,} of them shared" if made.prefix_tokens else ""
    lengths = f"{figure_text(made.input_tokens)} tokens in{shared}, {figure_text(made.output_tokens)} out"
    return f"{made.requests:,} requests: {lengths}"


def serve_lines(made: BulkGeneration, machines: str, trials: str) -> list[str]:
    """Return engine, requests, machines and trials, a line each."""
    lines = words.wrap_lines(engine_words(made), line_room(), 2)
    return [*lines, *(words.shorten(line, line_room()) for line in (request_words(made), machines, trials) if line)]


BINDING = {"memory": "memory", "engine": "the engine's default", "requests": "there are no more"}


def flight_words(made: BulkGeneration) -> str:
    """Return the requests that fit and those that are in flight, and what holds their number."""
    fits = f"{made.requests_that_fit:,} requests fit"
    return f"{fits}; {made.in_flight:,} in flight per replica (limit: {BINDING[made.binds]})"


TIME_KINDS = {
    "prompts": "prompts (compute)",
    "products": "answers (compute)",
    "weights": "weights (bandwidth)",
    "cache": "cache (bandwidth)",
    "launches": "launches",
}


def speed_lines(made: BulkGeneration, rate: str) -> list[str]:
    """Return tokens and requests per second, what takes the time, and latency."""
    requests = made.output_tokens_per_second / made.output_tokens
    parts = sorted(made.time_shares.items(), key=lambda part: -part[1])
    shown = [f"{TIME_KINDS[name]} {words.percent(share)}" for name, share in parts if share >= SHARE_SHOWN]
    per_token = (
        f", per token {words.significant(made.tpot_seconds * MILLISECONDS)} ms" if made.output_tokens > 1 else ""
    )
    first = f"first token {words.significant(made.ttft_seconds)} s{per_token}"
    lines = [
        f"{rate.replace(' tokens/s', ' output tokens/s')}, {words.significant(requests)} requests/s",
        f"time goes to {', '.join(shown)}",
        f"{first}; {made.evidence}",
    ]
    return [line for text in lines for line in words.wrap_lines(text, line_room(), 2)]


def price_lines(made: BulkGeneration) -> list[str]:
    """Return dollars per 1,000 prompts and per million tokens: the whole bill by the time of each kind of token."""
    tokens = (
        f"${words.significant(made.usd_per_million_input_tokens)} per million tokens in, "
        f"${words.significant(made.usd_per_million_output_tokens)} out"
    )
    return words.wrap_lines(
        f"${words.significant(made.usd_per_thousand_requests)} per 1,000 requests; {tokens}", line_room(), 2
    )


HOSTS = {"yes": "hosts tuned weights", "dedicated": "tuned weights on own endpoints", "no": "base model only"}
MOST_API_PRICES = 3


def api_lines(made: BulkGeneration) -> list[str]:
    """Return what services take for the same tokens, and from which volume own machines pay; a line or two each."""
    lines = []
    for price in made.api[:MOST_API_PRICES]:
        pays = words.pays_from(price.pays_from_requests, "requests", price.pays_on)
        lines += api_price_lines(price, "", pays)
    return lines


def api_price_lines(price: ApiPrice, per: str, pays: Sequence[str]) -> list[str]:
    """Return a service that answers by the token: its dollars, what it hosts, and from where own machines pay."""
    text = "; ".join([f"{words.sanitise(price.offer)}: {words.usd(price.usd)}{per}, {HOSTS[price.hosts_tuned]}", *pays])
    return words.wrap_lines(text, line_room(), 3)


def render_inference(estimate: InferenceEstimate) -> str:
    """Return the text without a final newline."""
    lines = [
        *words.wrap_lines(_summary(estimate), words.width(), 2),
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
    where = f"{words.sanitise(estimate.architecture)} on {words.gpus(estimate.gpus, estimate.gpu)}, {estimate.engine}"
    return f"{where}: {_range(estimate.output_tokens_per_second)} output tokens/s"


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
    by_request = f"${words.significant(prices.usd_per_thousand_requests)} per 1,000 requests"
    return [tokens, f"{by_request}, at ${words.significant(prices.usd_per_gpu_hour)} per GPU-hour ({prices.basis})"]


def _basis(estimate: InferenceEstimate) -> list[str]:
    return [f"{estimate.evidence}; standard deviation of ln(speed) {estimate.sigma:.2f}, ranges hold 80 %"]
