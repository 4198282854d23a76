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
        "note": "within error",
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
        "sigma_in_tails": 0.25,
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
        "methods": LADDER,
        "next_best": RUNNER_UP,
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
        "cost": {"expected": 2.82, "low": 2.3, "high": 3.6},
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
        "cost": None,
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


def make_service_plan(**changes: Any) -> Plan:
    """A proven plan of one service: three cards by day and one by night, at a cloud, on demand."""
    by_hour = [1] * 8 + [3] * 10 + [1] * 6
    load = [0.5 + 0.25 * (hour % 3) if count == 1 else 8.0 for hour, count in enumerate(by_hour)]
    kind = {
        **{"provider": "cloud", "region": "any", "instance": "1x-l40s", "offer": "cloud/any/1x-l40s"},
        **{"market": "on demand", "gpu": "L40S", "gpus": 1, "engine": "vllm", "weight_format": "fp8-weights"},
        **{"weight_bits": 8, "kv_bits": 16, "gpus_per_replica": 1, "replicas": 1, "capacity": 3.0, "binds": "TPOT"},
        **{"usd_per_hour": 0.9, "start_hours": 0.1, "start_usd": 0.09, "ttft_seconds": 0.8, "tpot_seconds": 0.03},
        **{"committed": 0, "by_hour": by_hour},
    }
    limit = {"name": "ttft", "limit_seconds": 1.0, "predicted_seconds": 0.8}
    fleet = {
        **{"kinds": [kind], "load": load, "unit": "requests/s", "replicas_by_hour": by_hour, "use": 0.6},
        **{"use_by_hour": [each / (3.0 * count) for each, count in zip(load, by_hour, strict=True)]},
        **{"usd_per_month": 1204.0, "usd_per_million_tokens": 0.1, "usd_per_thousand_requests": 0.05, "starts": 2},
        **{"start_usd": 0.18, "spot_share": 0.0, "served_share": 1.0, "within_limits_share": 0.95, "limits": [limit]},
        "baselines": [{"name": "the peak, always on", "usd_per_month": 1971.0, "machines": "3 x L40S at cloud"}],
    }
    service = {
        **{"name": "desk", "architecture": "llama-3.1-8b", "for_hours": 730.0, "input_tokens": 800.0},
        **{"output_tokens": 200.0, "prefix_tokens": 0, "cost_usd": 1204.0, "bound_usd": 1204.0, "price_date": ""},
        **{"price_age_days": 12, "price_source": "test", "fleet": fleet, "kinds_made": 12},
    }
    data: dict[str, Any] = {
        **{"scenario": "desk", "status": "optimal", "objective": 1204.0, "bound": 1204.0, "gap": 0.0},
        **{"solver": "highs", "seconds": 0.1, "as_of": "2026-09-01"},
        "candidates": {"made": 12, "rejected": 0, "dominated": 11, "offers": 3},
        "cost": {"expected": 1204.0, "low": 1204.0, "high": 1204.0},
        "hours": {"expected": 730.0, "low": 730.0, "high": 730.0, "at_confidence": 730.0},
        "services": [service],
    }
    return Plan.model_validate({**data, **changes})
