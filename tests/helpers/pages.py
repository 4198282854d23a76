"""The page of `planner app` on small scenarios: opened scenarios, a client, and a server in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from planner.loading.scenario_file import load_scenario
from planner.web.app_page import OpenedScenario
from tests.helpers.frozen_data import ROOT
from tests.helpers.reports import OPTIONS

CALM: dict[str, Any] = {
    "name": "calm",
    "schema": 2,
    "jobs": [
        {"name": "tune", "architecture": "tinyllama-1.1b", "work": {"tokens": "100M"}, "deadline": "20h",
         "techniques": {"method": "lora"}}
    ],
    "offers": [
        {"provider": "cheap", "gpu": "RTX3090", "gpus": 1, "usd_per_hour": 0.4, "spot_usd_per_hour": 0.1},
        {"provider": "fast", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 3.0},
        {"provider": "faster", "gpu": "H100-80GB", "gpus": 8, "usd_per_hour": 26.0},
    ],
}  # fmt: skip
"""A job of minutes to hours on three offers, with names without surprises."""

MOVES: dict[str, str] = {
    **{
        "model": "qwen3-0.6b",
        "tokens": "40M",
        "sequence_length": "1024",
        "deadline": "2h",
        "budget": "3",
        "max_gpus": "1",
    },
    **{"spot": "off", "prices": "1.5", "gpus": "!RTX3090", "providers": "fast,faster"},
    **{"objective": "time", "confidence": "0.8"},
    **{"framework": "hf", "method": "full", "weight_bits": "16", "precision": "fp32", "optimizer": "adamw_8bit"},
    **{"activation_checkpointing": "full", "sharding": "zero3", "offload": "none"},
}
"""A value for every field of the small scenario."""

OFFICE: dict[str, Any] = {
    "name": "office",
    "schema": 2,
    "jobs": [
        {"name": "chat", "kind": "serve", "architecture": "llama-3.1-8b",
         "load": {"per_second": 4, "profile": [1] * 9 + [3] * 8 + [1] * 7, "input_tokens": 600, "output_tokens": 150},
         "latency": {"ttft": "2s", "tpot": "60ms"}, "for": "30d", "techniques": {"engine": "vllm"}}
    ],
    "offers": [
        {"provider": "cloud", "gpu": "L40S", "gpus": 1, "usd_per_hour": 1.0, "spot_usd_per_hour": 0.4},
        {"provider": "other", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 3.0},
    ],
}  # fmt: skip
"""A service with two kinds of machines and a busier day: solved in tenths of a second."""

OFFICE_MOVES: dict[str, str] = {
    **{"model": "qwen2.5-7b", "per_second": "8", "profile": "flat", "input_tokens": "900", "output_tokens": "300"},
    **{"prefix_tokens": "200", "ttft": "1500ms", "tpot": "40ms", "share": "0.9", "replicas": "2", "headroom": "0.2"},
    **{"for": "10d", "engine": "sglang", "weight_bits": "16", "budget": "2000", "max_gpus": "3", "spot": "off"},
    **{"kinds": "3", "prices": "1.5", "gpus": "!L40S", "providers": "other"},
}
"""A value for every field of the small service, but for requests in flight, which take the place of those a second."""

PROMPTS: dict[str, Any] = {
    "name": "label",
    "schema": 2,
    "jobs": [
        {"name": "label", "kind": "inference", "architecture": "llama-3.1-8b", "deadline": "24h",
         "work": {"requests": 100000, "input_tokens": 600, "output_tokens": 100}, "techniques": {"engine": "vllm"}}
    ],
    "offers": OFFICE["offers"],
}  # fmt: skip
"""A batch of prompts."""

PROMPT_MOVES: dict[str, str] = {
    **{"model": "qwen2.5-7b", "requests": "2M", "input_tokens": "900", "output_tokens": "300"},
    **{"prefix_tokens": "200", "deadline": "12h", "engine": "sglang", "weight_bits": "16", "budget": "50"},
    **{"max_gpus": "1", "spot": "off", "prices": "1.5", "gpus": "!L40S", "providers": "other", "objective": "time"},
}
"""A value for every field of the batch."""

SESSION = "0123456789abcdef"


def opened(folder: Path, data: Mapping[str, Any] = CALM) -> OpenedScenario:
    """Return a scenario of a file in a folder, as `planner app` opens it."""
    path = folder / "s.yaml"
    path.write_text(json.dumps(data), encoding="utf-8")
    loaded = load_scenario(path)
    assert loaded.source.document is not None
    return OpenedScenario(loaded.scenario, loaded.source.document.data, str(path), (), (str(path),))


class Page:
    """What the page does with the server: its token in every request."""

    def __init__(self, client: Any):
        self.client = client
        self.source: str = client.get("/").text
        found = re.search(r'"token":"([^"]+)"', self.source)
        assert found is not None
        self.headers = {"X-Planner-Token": found[1]}

    def post(self, task: str, session: str = SESSION, **content: Any) -> Any:
        """Return the response to a request of the page."""
        return self.client.post(f"/api/{task}", json={"session": session, **content}, headers=self.headers)

    def plan(self, values: Mapping[str, str], **content: Any) -> dict[str, Any]:
        """Return the answer to a request for a plan."""
        response = self.post("plan", values=dict(values), **content)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer


@contextmanager
def client_of(scenario: OpenedScenario, limit_seconds: float = 1200.0) -> Iterator[Page]:
    """Yield the page of a server in this process; what it solves runs in processes of its own."""
    from starlette.testclient import TestClient

    from planner.web.server import create_app

    app = create_app(scenario, OPTIONS, limit_seconds)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        yield Page(client)


@contextmanager
def served(*arguments: str, cwd: Path | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield the address that `planner app` prints, and its process; Ctrl-C ends it."""
    command = [sys.executable, "-m", "planner", "app", *arguments, "--no-browser", "--as-of", "2026-11-21"]
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=cwd, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", line)
        try:
            assert found is not None, (line, process.poll())
            yield found[0], process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(200)
