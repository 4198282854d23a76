"""What rounds is told in the first lines unless it was asked for, with the price of doing without."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.library.engines import facts_on, quality_facts
from planner.library.technique_tables import read_techniques
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario
from planner.solving.solve import solve


def scenario(gpu: str, **techniques: Any) -> Scenario:
    job = {"name": "j", "architecture": "mistral-7b", "work": {"tokens": "5M"}, "techniques": techniques}
    offers = [
        {"provider": "small", "gpu": gpu, "gpus": 1, "usd_per_hour": 0.2},
        {"provider": "large", "gpu": "H200", "gpus": 1, "usd_per_hour": 40},
    ]
    return parse_scenario(json.dumps({"schema": 2, "jobs": [job], "offers": offers, "solve": {"ties": 0}}))


def told(plan: Plan) -> dict[str, float | None]:
    return {one.technique: one.cost_usd for one in plan.jobs[0].lossy_techniques}


def test_four_bits_that_nobody_asked_for_are_priced() -> None:
    """The price of 16 bits is what the plan costs once they are asked for."""
    asked = scenario("T4", method="lora")
    plan = solve(asked)
    assert plan.jobs[0].techniques.weight_bits == 4
    without = solve(change_scenario(asked, ["jobs.j.techniques.weight_bits=16"]))
    assert told(plan)["4-bit weights"] == pytest.approx(without.least_cost_usd)
    second = render(plan).splitlines()[1]
    assert second.startswith("  uses 4-bit weights (16-bit: $") and " and fp16 (bf16: $" in second


def test_what_was_asked_for_is_not_told_again() -> None:
    """One value that the job fixes is the user's own choice."""
    asked = scenario("T4", method="lora", weight_bits=4, precision="fp16_mixed")
    assert told(solve(asked)) == {} and "  uses " not in render(solve(asked))


def test_eight_bit_states_are_priced_for_full_training() -> None:
    """The optimizer is open unless the job names it; doing without may be impossible within the limits."""
    asked = scenario("H100-80GB", method="full", precision="bf16")
    plan = solve(asked)
    if plan.jobs[0].techniques.optimizer == "adamw_8bit":
        strict = solve(change_scenario(asked, ["jobs.j.techniques.optimizer=adamw"]))
        assert told(plan)["8-bit optimizer"] == pytest.approx(strict.least_cost_usd)
    only = solve(change_scenario(asked, ["jobs.j.techniques.optimizer=adamw_8bit"]))
    assert told(only) == {}


def test_no_plan_without_is_told_as_such() -> None:
    """Where no machine holds 16-bit weights, the first lines say that there is no such plan."""
    asked = change_scenario(
        scenario("T4", method="lora"), ["limits.gpus.allow=[T4]", "jobs.j.architecture=llama-2-13b"]
    )
    plan = solve(asked)
    if plan.jobs:
        assert told(plan)["4-bit weights"] is None
        assert "(16-bit: not within the limits)" in render(plan)


def test_every_fact_has_a_setting_and_a_source_and_fits_on_a_line() -> None:
    """Facts name techniques that exist; those that are noted are short."""
    table = read_techniques()
    names = {
        row.technique for field in ("method", "weight_bits", "optimizer") for row in table.of(field).values.values()
    }
    for fact in quality_facts():
        assert len(fact.setting) > 10 and "arXiv" in fact.source and len(fact.short) <= 69
        assert fact.technique in names or fact.value
    assert [fact.technique for fact in facts_on({"lora", "four_bit"}, {})] == ["lora", "four_bit"]
    assert facts_on(set(), {"precision": "fp16_mixed"})[0].short.startswith("fp16")


def test_the_plan_notes_what_is_published_of_its_techniques() -> None:
    """Beside the ladder, with the source in the JSON."""
    plan = solve(scenario("A6000", method="lora", weight_bits=16))
    (note,) = plan.jobs[0].quality
    assert "arXiv:2405.09673" in note.source and note.text in render(plan)


def test_fp8_is_used_only_where_it_is_listed_and_its_price_is_told() -> None:
    """Pretraining by torchtitan on H200: listed beside bf16 it wins, and the plan says what bf16 costs."""
    job = {
        **{"name": "j", "architecture": "llama-3.1-8b", "kind": "pretrain", "framework": "torchtitan"},
        **{"work": {"tokens": "100M"}, "sequence_length": 2048, "global_batch": 64},
    }
    offer = {"provider": "a", "gpu": "H200", "gpus": 8, "usd_per_hour": 32, "interconnect": "nvlink"}
    plain = parse_scenario(json.dumps({"schema": 2, "jobs": [job], "offers": [offer]}))
    without = solve(plain)
    assert without.jobs[0].techniques.precision == "bf16_mixed" and told(without) == {}
    listed = solve(change_scenario(plain, ["jobs.j.techniques.precision=[bf16_mixed, fp8_torchao]"]))
    assert listed.jobs[0].techniques.precision == "fp8_torchao"
    assert told(listed) == {"fp8": pytest.approx(without.least_cost_usd)}


def test_a_lower_rank_is_used_only_where_it_is_listed_and_the_price_of_the_highest_is_told() -> None:
    """Over 5B tokens rank 8 saves cents against rank 256, which changes what is learnt; over 5M it saves nothing."""
    short = change_scenario(scenario("A100-80GB", method="lora", weight_bits=16), ["jobs.j.framework=hf"])
    tied = solve(change_scenario(short, ["jobs.j.techniques.lora.rank=[256, 8, 64]", "solve.ties=0.05"]))
    assert tied.jobs[0].techniques.lora_rank == 256 and told(tied) == {}
    one = change_scenario(short, ["jobs.j.work.tokens=5e9"])
    highest = solve(change_scenario(one, ["jobs.j.techniques.lora.rank=256"]))
    assert highest.jobs[0].techniques.lora_rank == 256 and told(highest) == {}
    listed = solve(change_scenario(one, ["jobs.j.techniques.lora.rank=[256, 8, 64]"]))
    assert listed.jobs[0].techniques.lora_rank == 8
    assert told(listed) == {"LoRA rank 8": pytest.approx(highest.least_cost_usd)}
    assert listed.least_cost_usd < highest.least_cost_usd
    assert "LoRA r8 on a 16-bit base" in render(listed)
    assert solve(one).jobs[0].techniques.lora_rank == 16


def test_adafactor_and_sparse_attention_are_used_only_where_they_are_listed_and_their_prices_are_told() -> None:
    """Neither is the same training: the first lines say what AdamW, or full attention, would cost."""
    one = scenario("A100-80GB", method="lora", weight_bits=16)
    long = change_scenario(one, ["jobs.j.sequence_length=16384", "jobs.j.framework=hf"])
    plain = solve(long)
    assert plain.jobs[0].techniques.attention == "flash" and told(plain) == {}
    sparse = solve(change_scenario(long, ["jobs.j.techniques.attention=[flash, sparse]"]))
    assert sparse.jobs[0].techniques.attention == "sparse"
    assert told(sparse) == {"sparse attention": pytest.approx(plain.least_cost_usd)}
    full = change_scenario(one, ["jobs.j.techniques.method=full", "jobs.j.architecture=qwen2.5-3b"])
    listed = solve(change_scenario(full, ["jobs.j.techniques.optimizer=[adamw, adafactor]"]))
    if listed.jobs[0].techniques.optimizer == "adafactor":
        assert set(told(listed)) == {"Adafactor"}
    else:
        assert told(listed) == {}
