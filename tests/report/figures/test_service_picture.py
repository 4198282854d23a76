"""The picture of a service: machines by the hour, each kind named, with the first line of the plan as its title."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from planner.cli import main

SERVICE = """
schema: 2
name: chat
jobs:
  - name: chat
    kind: serve
    architecture: llama-3.1-8b
    load: {per_second: 20, profile: [1, 1, 1, 1, 1, 1, 2, 4, 8, 10, 10, 10, 9, 9, 10, 10, 9, 8, 5, 4, 3, 2, 1, 1],
           input_tokens: 800, output_tokens: 200}
    latency: {ttft: 1s, tpot: 40ms, share: 0.95}
    techniques: {engine: vllm, weight_bits: [16, 8]}
offers:
  - {provider: one, gpu: H100-80GB, gpus: 1, usd_per_hour: 2.5}
"""


@pytest.mark.slow
def test_solve_draws_a_service_by_the_hour(tmp_path: Path) -> None:
    """`planner solve --plot` names the machines and draws as many as the plan has."""
    (tmp_path / "chat.yaml").write_text(SERVICE, encoding="utf-8")
    picture = tmp_path / "chat.svg"
    done = CliRunner().invoke(main, ["solve", str(tmp_path / "chat.yaml"), "--plot", str(picture)])
    assert done.exit_code == 0, done.output
    shown = " ".join(part.strip() for part in ET.fromstring(picture.read_text(encoding="utf-8")).itertext())
    assert done.output.partition(":")[0] in shown
    for text in ("1 to 2 x H100-80GB at one, on demand", "replicas", "capacity within the limits", "6:00"):
        assert text in shown
