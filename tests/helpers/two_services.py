"""Two small services for tests, one busy by day and one by night, on cards of which there may be few."""

from __future__ import annotations

from planner.loading.scenario_file import parse_scenario
from planner.scenario.scenario import Scenario

_SERVICE = """\
  - name: {name}
    kind: serve
    architecture: {architecture}
    load: {{per_second: 10, profile: [{profile}], input_tokens: 800, output_tokens: 200}}
    latency: {{ttft: 1s, tpot: 40ms, share: 0.95}}
    techniques: {{engine: vllm, weight_bits: [16, 8]}}
"""
DESK = _SERVICE.format(name="desk", architecture="llama-3.1-8b", profile=", ".join(["1"] * 8 + ["10"] * 10 + ["1"] * 6))
NIGHT = _SERVICE.format(
    name="night", architecture="mistral-7b", profile=", ".join(["9"] * 6 + ["1"] * 2 + ["9"] * 4 + ["1"] * 12)
)
OFFERS = """\
offers:
  - {provider: one, gpu: H100-80GB, gpus: 1, usd_per_hour: 2.5, date: "2026-11-01", source: test}
  - {provider: two, gpu: L40S, gpus: 1, usd_per_hour: 0.9, date: "2026-11-01", source: test}
"""
TWO_FILE = f"schema: 2\nname: two\njobs:\n{DESK}{NIGHT}{OFFERS}"


def two(*settings: str, swapped: bool = False) -> Scenario:
    """Return the scenario of both services with settings applied, in the order of the file or the other one."""
    text = f"schema: 2\nname: two\njobs:\n{NIGHT}{DESK}{OFFERS}" if swapped else TWO_FILE
    return parse_scenario(text, set_=settings)
