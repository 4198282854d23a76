"""Results of probes as the program writes them on a machine, for plans of the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from planner.results.plan import Plan, plan_fingerprint

DEVICES = {"A5000": "NVIDIA RTX A5000", "A100-80GB": "NVIDIA A100-SXM4-80GB", "H100-80GB": "NVIDIA H100 80GB HBM3"}


def probed(plan_of: Plan, seconds: float = 1.0, memory: float = 1.0, of: int = 0, **changes: Any) -> dict[str, Any]:
    """Return what a probe of one of the jobs measured: so many times the planned seconds and bytes."""
    job = plan_of.jobs[of]
    peak, step = memory * job.vram_gib.allocated, seconds * job.step_seconds
    found: dict[str, Any] = {
        **{"probe": 1, "status": "ok", "plan": plan_fingerprint(plan_of)},
        "run": {**job.techniques.model_dump(mode="json"), "gpus": job.gpus},
        **{"gpu_name": DEVICES.get(job.gpu, job.gpu), "gpu_gib": job.vram_gib.usable, "gpus": job.gpus},
        **{"allocated_gib": peak, "reserved_gib": 1.02 * peak, "driver_gib": 1.02 * peak + 0.5},
        **{"load_gib": 0.5 * peak, "host_gib": 4.0},
        **{"steps": [2 * step, *[step] * 9], "warm_up_steps": 2, "step_seconds": step, "step_spread": 0.01},
        "tokens_per_step": 0.97 * job.global_batch * job.sequence_length,
        "versions": {"python": "3.12.3", "torch": "2.11.0", "liger-kernel": "0.8.5", "driver": "580.159.04"},
    }
    return found | changes


def out_of_memory(plan: Plan) -> dict[str, Any]:
    """Return the result of a probe that ran out of memory in its first step."""
    nothing = {"steps": [], "warm_up_steps": 0, "step_seconds": None, "step_spread": None, "tokens_per_step": None}
    return probed(plan, status="oom", reached="step 1", error="", **nothing)


def write_probe_file(folder: Path, found: dict[str, Any]) -> str:
    """Write a result, and return the path of its file."""
    path = folder / "probe.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    return str(path)
