"""What a plan of generation says instead of what one of training says: replicas, requests, speed, dollars by token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.library.engines import read_engines
from planner.report import words
from planner.report.words import line_room
from planner.results.inference import ApiPrice, BulkGeneration
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
    each = f", per token {words.significant(made.tpot_seconds * MILLISECONDS)} ms" if made.output_tokens > 1 else ""
    first = f"first token {words.significant(made.ttft_seconds)} s{each}"
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
MOST_SERVICES = 3


def api_lines(made: BulkGeneration) -> list[str]:
    """Return what services take for the same tokens, and from which volume own machines pay; a line or two each."""
    lines = []
    for service in made.api[:MOST_SERVICES]:
        pays = words.pays_from(service.pays_from_requests, "requests", service.pays_on)
        lines += api_service_lines(service, "", pays)
    return lines


def api_service_lines(one: ApiPrice, per: str, pays: Sequence[str]) -> list[str]:
    """Return a service that answers by the token: its dollars, what it hosts, and from where own machines pay."""
    text = "; ".join([f"{words.sanitise(one.offer)}: {words.usd(one.usd)}{per}, {HOSTS[one.hosts_tuned]}", *pays])
    return words.wrap_lines(text, line_room(), 3)
