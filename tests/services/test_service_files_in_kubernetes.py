"""Services read by the tools that they are for; uv makes each an environment. Run with `-m ecosystem`.

Checked in November 2026 with skypilot 0.14.1, kubernetes-validate 1.37.0 and HAProxy 2.6.12; options of the servers
against the sources of vllm 0.33.0 and sglang 0.5.23 in tests/generation/test_engines_read_the_files.py. Those of
TensorRT-LLM are those of its documentation, because its parser cannot be started without a GPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.helpers.environments import tool_python
from tests.helpers.exported_services import LARGE, kind, plan, texts
from tests.helpers.tool_checks import __file__ as tool_checks

if TYPE_CHECKING:
    from pathlib import Path

    from planner.results.plan import Plan

pytestmark = pytest.mark.ecosystem

PLANS = {
    "one kind": lambda: plan(),
    "flat": lambda: plan(kind(by_hour=(3,) * 24)),
    "spot": lambda: plan(kind(market="spot", availability=0.6)),
    "two kinds, none at night": lambda: plan(kind(**LARGE), kind(by_hour=(0,) * 9 + (1,) * 8 + (0,) * 7)),
    "served adapters": lambda: plan(adapter={"rank": 16, "served": 3}),
    "unnamed weights": lambda: plan(adapter={"rank": 16, "merged": True}),
    "SGLang": lambda: plan(kind(**LARGE, engine="sglang")),
    "TensorRT-LLM": lambda: plan(kind(engine="trt-llm")),
}
"""Plans by what is different in them."""


@pytest.fixture(params=sorted(PLANS))
def made(request: pytest.FixtureRequest) -> Plan:
    """Return one of the plans."""
    found: Plan = PLANS[request.param]()
    return found


def read_with(tool: str, python: Path, made: Plan, folder: Path) -> None:
    """Write the files of a target and let `tool_checks` read them in the environment of the tool."""
    place = folder / "service" / tool
    place.mkdir(parents=True)
    (place / "adapters").mkdir()
    for name, text in texts(made, tool, model_id=None).items():
        (place / name).write_text(text)
    home = {"PATH": os.environ["PATH"], "HOME": str(folder), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    command = [str(python), str(tool_checks), tool, str(folder)]
    done = subprocess.run(command, env=home, capture_output=True, text=True, check=True)
    found = yaml.safe_load(done.stdout.strip().splitlines()[-1])
    assert found and set(found.values()) == {""}, found


def test_skypilot_reads_every_service(made: Plan, tmp_path: Path) -> None:
    """Its task, the specification of the service, and what it checks before `sky serve up`."""
    read_with("skypilot", tool_python("skypilot==0.14.1"), made, tmp_path)


def test_kubernetes_accepts_every_object(made: Plan, tmp_path: Path) -> None:
    """Deployments, Services, CronJobs, the account and the balancer, strictly by the schema of version 1.34."""
    read_with("kubernetes", tool_python("kubernetes-validate==1.37.0", "pyyaml"), made, tmp_path)


def test_haproxy_accepts_the_balancer(tmp_path: Path) -> None:
    """`haproxy -c`, where it is installed."""
    haproxy = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if haproxy is None:
        pytest.skip("needs HAProxy")
    found = texts(PLANS["two kinds, none at night"](), "kubernetes")["kubernetes-balancer.yaml"]
    (tmp_path / "haproxy.cfg").write_text(next(yaml.safe_load_all(found))["data"]["haproxy.cfg"])
    command = [haproxy, "-c", "-f", str(tmp_path / "haproxy.cfg")]
    done = subprocess.run(command, env={"NAMESPACE": "default"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
