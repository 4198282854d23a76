"""Plans made by hand for the tests of the reports; the figures mean nothing."""

from __future__ import annotations

from typing import Any

from planner.results.plan import Assignment, Plan

TECHNIQUES: dict[str, Any] = {
    "method": "lora",
    "weight_bits": 4,
    "quant": "nf4",
    "precision": "bf16_mixed",
    "activation_checkpointing": "full",
    "micro_batch": 2,
    "accumulation_steps": 32,
    "sharding": "none",
    "attention": "flash",
    "optimizer": "adamw",
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "framework": "hf",
    "lora_rank": 16,
    "lora_targets": "all-linear",
}

VRAM: dict[str, Any] = {
    "peak": 13.14,
    "allocated": 11.1,
    "usable": 23.6,
    "fit_probability": 0.993,
    "phase": "end of forward (logits)",
    "parts": {"weights": 4.31, "stored_activations": 3.18, "logits": 2.92, "adapters": 0.74, "working_set": 0.01},
}

BILL: tuple[dict[str, Any], ...] = (
    {"item": "gpu on demand", "usd": 2.718, "quantity": 21.42, "unit": "h", "rate_usd": 0.1269},
    {"item": "storage", "usd": 0.102, "quantity": 60.0, "unit": "GB", "rate_usd": 0.0017, "basis": "assumed"},
    {"item": "transfer in", "usd": 0.0, "quantity": 16.0, "unit": "GB", "rate_usd": 0.0},
    {"item": "transfer out", "usd": 0.0, "basis": "unknown: not included"},
)

LADDER: tuple[dict[str, Any], ...] = (
    {"label": "QLoRA", "provider": "vast", "gpu": "RTX3090", "gpus": 1, "cost_usd": 2.82, "hours": 21.4},
    {"label": "LoRA", "provider": "vast", "gpu": "A6000", "gpus": 1, "cost_usd": 3.02, "hours": 9.1},
    {
        "label": "full",
        "provider": "lambda",
        "gpu": "H100-80GB",
        "gpus": 4,
        "cost_usd": 5.21,
        "hours": 1.7,
        "allowed": False,
        "note": "excluded by `techniques.method`",
    },
)

RUNNER_UP: tuple[dict[str, Any], ...] = (
    {
        "label": "vast/US/1x",
        "provider": "vast",
        "gpu": "RTX3080Ti",
        "gpus": 1,
        "cost_usd": 2.84,
        "hours": 23.0,
        "note": "no real difference",
    },
    {
        "label": "runpod/any/1x",
        "provider": "runpod",
        "gpu": "RTX3090",
        "gpus": 1,
        "cost_usd": 4.61,
        "hours": 21.4,
        "note": "63 % dearer",
    },
)


def make_assignment(**changes: Any) -> Assignment:
    """One job on one card; `changes` replace fields, those of `techniques` and `vram_gib` one by one."""
    data: dict[str, Any] = {
        "name": "quickstart",
        "architecture": "mistral-7b",
        "provider": "vast",
        "region": "Quebec",
        "instance": "1x-rtx3090",
        "offer": "vast/Quebec/1x-rtx3090",
        "gpu": "RTX3090",
        "gpus": 1,
        "gpus_per_instance": 1,
        "instances": 1,
        "interconnect": "pcie",
        "spot_share": 0.0,
        "switch_to_on_demand_at_hours": None,
        "tokens_per_second": 1193.7,
        "tokens_per_second_low": 951.2,
        "tokens_per_second_high": 1488.9,
        "sequence_length": 2048,
        "global_batch": 64,
        "packing": "packed",
        "steps": 687,
        "step_seconds": 109.8,
        "sigma": 0.17,
        "sigma_tail": 0.25,
        "hours": {"expected": 21.42, "low": 17.0, "high": 27.1, "at_confidence": 28.0},
        "start_hours": 0.31,
        "training_hours": 20.6,
        "deadline_hours": 36.0,
        "deadline_probability": 0.972,
        "cost": {"expected": 2.82, "low": 2.3, "high": 3.6},
        "cost_at_confidence": 3.7,
        "cost_usd": 2.82,
        "bill": BILL,
        "price_date": "2026-08-20",
        "price_age_days": 12,
        "price_source": "vast listing",
        "ladder": LADDER,
        "runner_up": RUNNER_UP,
    }
    data["techniques"] = {**TECHNIQUES, **changes.pop("techniques", {})}
    data["vram_gib"] = {**VRAM, **changes.pop("vram_gib", {})}
    return Assignment.model_validate({**data, **changes})


def make_plan(*jobs: Assignment, **changes: Any) -> Plan:
    """A proven plan of the given jobs, by default of one."""
    chosen = jobs or (make_assignment(),)
    data: dict[str, Any] = {
        "scenario": "quickstart",
        "status": "optimal",
        "objective": 2.82,
        "bound": 2.82,
        "gap": 0.0,
        "solver": "highs",
        "seconds": 0.2,
        "as_of": "2026-09-01",
        "candidates": {"made": 2954, "rejected": 410, "dominated": 2500},
        "cost_usd": {"expected": 2.82, "low": 2.3, "high": 3.6},
        "hours": {"expected": 21.42, "low": 17.0, "high": 27.1, "at_confidence": 28.0},
        "jobs": [job.model_dump() for job in chosen],
    }
    return Plan.model_validate({**data, **changes})


def make_infeasible(**changes: Any) -> Plan:
    """The answer to a question that nobody can satisfy."""
    found: dict[str, Any] = {
        "status": "infeasible",
        "objective": None,
        "bound": None,
        "gap": None,
        "cost_usd": None,
        "hours": None,
        "jobs": [],
        "infeasible": {
            "relax": [
                {
                    "limit": "jobs.too-tight.deadline",
                    "from": 2.0,
                    "to": 2.63,
                    "then": "8 x H100-80GB at lambda, $71.30",
                },
                {"limit": "limits.budget_usd", "from": 10.0, "to": 1044.8, "then": "", "way": 2},
            ],
            "nearest": [
                {
                    "job": "too-tight",
                    "what": "RTX4090",
                    "reason": "does not fit in 23.6 GiB",
                    "shortfall": 1.31,
                    "unit": "GiB",
                },
                {
                    "job": "too-tight",
                    "what": "8 x A100",
                    "reason": "misses the deadline",
                    "shortfall": 0.9,
                    "unit": "h",
                },
            ],
        },
    }
    return make_plan(**{"scenario": "too-tight", **found, **changes})
