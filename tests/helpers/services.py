"""A small service for tests: four different loads of a day, three offers, a service that answers by the token."""

from __future__ import annotations

import json
import random

from planner.loading.scenario_file import parse_scenario
from planner.scenario.scenario import Scenario

MACHINES = """\
offers:
  - {provider: one, gpu: H100-80GB, gpus: 1, usd_per_hour: 2.5, date: "2026-11-01", source: test}
  - provider: two
    gpu: L40S
    gpus: 1
    usd_per_hour: 0.9
    spot_usd_per_hour: 0.4
    spot: {availability: 0.9, mean_up_hours: 20}
    date: "2026-11-01"
    source: test
"""
"""One card on demand and one that is also on spot."""


def answering(usd: float) -> str:
    """Return an offer that answers by the token, at dollars of a million tokens in or out."""
    return f"""\
  - provider: three
    region: any
    managed: {{architectures: llama-3.1-8b, usd_per_million_input_tokens: {usd}, usd_per_million_output_tokens: {usd}}}
    date: "2026-11-01"
    source: test
"""


SERVICE_FILE = f"""
schema: 2
name: desk
jobs:
  - name: desk
    kind: serve
    architecture: llama-3.1-8b
    load:
      per_second: 20
      profile: [1, 1, 1, 1, 1, 1, 1, 4, 4, 10, 10, 10, 10, 10, 10, 10, 10, 7, 7, 4, 4, 1, 1, 1]
      input_tokens: 800
      output_tokens: 200
    latency: {{ttft: 1s, tpot: 40ms, share: 0.95}}
    replicas: {{min: 2}}
    techniques: {{engine: vllm, weight_bits: [16, 8]}}
{MACHINES}  - {{provider: two, gpu: A100-80GB, gpus: 1, usd_per_hour: 1.6, date: "2026-11-01", source: test}}
{answering(0.1)}"""


def desk(*settings: str) -> Scenario:
    """Return the scenario of the small service with settings applied."""
    return parse_scenario(SERVICE_FILE, set_=settings)


def drawn_service(seed: int) -> tuple[Scenario, random.Random]:
    """Return a service of drawn lengths, load and limits, and the generator to go on with."""
    draw = random.Random(seed)
    lengths = [
        {"input_tokens": draw.randint(20, 4000), "output_tokens": draw.choice([1, 20, 150, 600]), "count": count}
        for count in range(1, draw.choice([2, 4, 41]))
    ]
    load = {draw.choice(["per_second", "concurrent"]): 20, "lengths": lengths}
    load |= {"prefix_tokens": 16} if draw.random() < 0.5 else {}
    latency = {
        "ttft": f"{draw.choice([1, 2, 3])}s",
        "tpot": f"{draw.choice([60, 120, 400])}ms",
        "share": draw.choice([0.5, 0.9, 0.99]),
    }
    job = {"name": "drawn", "kind": "serve", "architecture": "llama-3.1-8b", "load": load, "latency": latency}
    job |= {"confidence": draw.choice([0.5, 0.8]), "efficiency": draw.choice([1.0, 0.8])}
    limits = {"vram_headroom": draw.choice([0.05, 0.5])}  # half of an L40S has few places beside the weights
    file = f"schema: 2\nname: drawn\njobs: [{json.dumps(job)}]\nlimits: {json.dumps(limits)}\n{MACHINES}"
    return parse_scenario(file), draw
