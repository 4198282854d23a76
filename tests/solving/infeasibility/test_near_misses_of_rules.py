"""A near miss names the rule of techniques where memory is not what is missing."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from planner.loading.scenario_file import parse_scenario
from planner.report.explanation_text import format_near_miss
from planner.results.plan import Plan
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))


def planned(
    gpu: str, techniques: dict[str, Any], gpus: tuple[int, ...] = (1, 2, 4), model: str = "llama-3.1-8b"
) -> Plan:
    """The plan of a job of a fixed batch on machines of one GPU."""
    job = {"architecture": model, "work": {"tokens": "5M"}, "global_batch": 16, "sequence_length": 1024}
    offers = [{"provider": f"p{count}", "gpu": gpu, "gpus": count, "usd_per_hour": count / 2} for count in gpus]
    return solve(
        parse_scenario(json.dumps({"jobs": [{**job, "framework": "hf", "techniques": techniques}], "offers": offers})),
        OPTIONS,
    )


def misses(plan: Plan) -> list[str]:
    assert plan.infeasible is not None
    return [format_near_miss(one) for one in plan.infeasible.nearest]


def test_a_base_that_cannot_be_sharded_names_the_rule_before_the_memory() -> None:
    """Four cards would hold GPTQ weights in shards; no rule is named of two, which are too few for that as well."""
    quantised = {"method": "lora", "weight_bits": 4, "quant": "gptq"}
    found = misses(planned("RTX3090", quantised, model="llama-3-70b"))
    assert found[0].startswith("4 x RTX3090, QLoRA, zero3: refused: GPTQ weights load whole on every card")
    assert found[0].endswith("it would fit in memory") and "does not fit in" in found[1] and len(found) == 2
    assert not any("refused" in one for one in misses(planned("RTX3090", quantised, (1, 2), "llama-3-70b")))


@pytest.mark.parametrize(
    ("gpu", "techniques", "reason"),
    [
        ("T4", {"method": "lora", "weight_bits": 4, "precision": "bf16"}, "refused: the card has no bf16"),
        ("RTX4090", {"method": "lora", "weight_bits": 4, "precision": "fp8_te"}, "refused: only NeMo and Megatron-LM"),
    ],
)
def test_what_the_job_asks_for_and_a_rule_refuses_is_named(gpu: str, techniques: dict[str, Any], reason: str) -> None:
    """Of several rules that refuse every recipe the recipes that break the fewest are named."""
    found = [one for one in misses(planned(gpu, techniques)) if "refused" in one]
    assert len(found) == 1 and found[0].partition(": ")[2].startswith(reason)


def test_a_deadline_that_is_missed_names_no_rule() -> None:
    """Where a candidate fits, no rule is the cause."""
    job = {"architecture": "llama-3.1-8b", "work": {"tokens": "5B"}, "deadline": "1h", "framework": "hf"}
    offers = [{"provider": "p", "gpu": "RTX4090", "gpus": 1, "usd_per_hour": 0.5}]
    found = misses(solve(parse_scenario(json.dumps({"jobs": [job], "offers": offers})), OPTIONS))
    assert found and not any("refused" in one for one in found)
