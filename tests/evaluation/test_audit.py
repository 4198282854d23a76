"""The audit finds nothing in a plan that `solve` made, and something in every plan that was tampered with."""

from __future__ import annotations

import datetime
from functools import cache
from typing import Any

import pytest

from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve
from tests.helpers.tampered_plans import audited_leaves, evaluate_once, name_of, spread, tampered, with_value

AS_OF = datetime.date(2026, 1, 1)

SCENARIO = """
name: two-jobs
offers:
  - {provider: lambda, region: west, instance: mixed, gpu: A100-80GB, gpus: 1,
     usd_per_hour: 2.0, spot_usd_per_hour: 1.2, spot: {availability: 0.9, mean_up_hours: 10},
     stock: 3, max_nodes: 2, network_gbps: 100, date: 2025-12-01, source: a list,
     fees: {egress_usd_per_gb: 0.1, ingress_usd_per_gb: 0.05, storage_usd_per_gb_month: 5}}
  - {provider: aws, region: east, instance: big, gpu: H100-80GB, gpus: 8, usd_per_hour: 30,
     date: 2025-11-01, source: a list,
     billing: {step_seconds: 3600, minimum_hours: 1}}
jobs:
  - name: chat
    architecture: mistral-7b
    work: {samples: 20000, tokens_per_sample: 600, epochs: 3}
    data_gb: 20
    sequence_length: 2048
    global_batch: 64
    deadline: 2d
    techniques:
      {penalty_usd: {four_bit: 3, lora: 1}, weight_bits: [4, 16], method: lora, sharding: [ddp, zero3],
       activation_checkpointing: [selective, full]}
  - name: wide
    architecture: tinyllama-1.1b
    work: {tokens: 1e9}
    sequence_length: 2048
    global_batch: 64
    deadline: 8h
    techniques: {method: full}
limits:
  budget_usd: 300
  max_gpus: 12
  quota: {aws: 8}
  spot_share: {min: 0, max: 0.999}
adjust:
  - {match: {provider: lambda}, usd_per_hour_factor: 1.1}
"""


@cache
def scenario() -> Scenario:
    return parse_scenario(SCENARIO)


@cache
def library() -> Library:
    return read_library(["mistral-7b", "tinyllama-1.1b", "mixtral-8x7b"])


@cache
def plan() -> Plan:
    return solve(scenario(), SolveOptions(as_of=AS_OF), library())


def changed(*changes: tuple[str, Any]) -> Plan:
    """The plan with values at dotted paths replaced."""
    data: Any = plan().model_dump()
    for dotted, value in changes:
        path = tuple(int(part) if part.isdigit() else part for part in dotted.split("."))
        data = with_value(data, path, value)
    return Plan.model_validate(data)


def whats(found: Plan, question: Scenario | None = None, **options: Any) -> list[str]:
    return [one.what for one in audit(found, question or scenario(), library(), **options)]


def test_the_plan_is_worth_tampering_with() -> None:
    """The plan under test has both markets, known and unknown fees, a rounded bill and a penalty."""
    chat, wide = plan().jobs
    assert 0 < chat.spot_share < 1
    assert {line.item for line in chat.bill} >= {"gpu on demand", "gpu spot", "storage", "transfer in"}
    assert wide.gpus > 1
    assert any(line.basis for line in wide.bill)
    assert plan().objective != pytest.approx(plan().cost.expected if plan().cost_usd else 0, abs=0.1)


def test_a_plan_that_solve_made_stands() -> None:
    """Recomputed from scenario and library alone, everything in the plan comes out again."""
    assert audit(plan(), scenario(), library()) == []


def test_a_plan_read_back_from_its_json_stands() -> None:
    """Writing a plan and reading it again loses nothing that the audit looks at."""
    again = Plan.model_validate_json(plan().model_dump_json(by_alias=True))
    assert audit(again, scenario(), library()) == []


@pytest.mark.long
def test_every_changed_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan in which any single audited value was changed is refused by its types or by the audit.

    Every kind of value is changed, at one in two of its places: in the bill of one job or of the other.
    """
    evaluate_once(monkeypatch)
    paths = audited_leaves(plan())
    for path in spread(paths, [name_of(path) for path in paths], every=2):
        wrong = tampered(plan(), path, AS_OF.isoformat())
        assert wrong is None or audit(wrong, scenario(), library()) != [], path


@pytest.mark.parametrize("status", ["optimal", "infeasible", "no_plan"])
def test_a_status_that_does_not_fit_the_rest_is_found(status: str) -> None:
    """Optimal needs a proof, and where there is no plan there are no jobs."""
    assert whats(changed(("status", status), ("bound", None), ("gap", None))) != []


def test_a_plan_stopped_at_a_limit_needs_no_bound() -> None:
    """Feasible without bound and gap is honest."""
    assert whats(changed(("status", "feasible"), ("bound", None), ("gap", None))) == []


def test_a_gap_is_optimal_only_where_it_was_asked_for() -> None:
    """A gap of one per cent is a proof of what was asked only to someone who asked for one per cent."""
    objective = plan().objective
    assert objective is not None
    wide = changed(("bound", objective * 0.99), ("gap", 0.01))
    assert whats(wide) == ["gap of an optimal plan"]
    assert whats(wide, asked_gap=0.01) == []


def test_a_missing_job_is_found() -> None:
    """All jobs of the scenario have to be run."""
    assert "times placed" in whats(changed(("jobs", [plan().jobs[0].model_dump()])))


def test_a_job_run_twice_is_found() -> None:
    """Once is enough, and what runs twice costs twice."""
    twice = [job.model_dump() for job in (*plan().jobs, plan().jobs[0])]
    assert "times placed" in whats(changed(("jobs", twice)))


def test_a_dropped_line_of_the_bill_is_found() -> None:
    """A bill that leaves out what is used is wrong even where its sum is given right."""
    lines = [line.model_dump() for line in plan().jobs[0].bill if line.item != "storage"]
    assert "bill[storage]" in whats(changed(("jobs.0.bill", lines)))


def scenario_mapping() -> dict[str, Any]:
    """The keys of the scenario, with its offers as mappings."""
    data = scenario().model_dump(by_alias=True)
    return {key: value for key, value in data.items() if key not in ("offers_inline", "for_sale", "jobs_written")}


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ({"limits": {"budget_usd": 3}}, "limits.budget_usd"),
        ({"limits": {"max_gpus": 1}}, "limits.max_gpus"),
        ({"limits": {"quota": {"lambda": 0, "aws": 0}}}, "limits.quota"),
        ({"limits": {"max_hours": 0.5}}, "max_hours at confidence"),
        ({"limits": {"gpus": {"forbid": ["A100-80GB", "H100-80GB"]}}}, "limits.gpus"),
        ({"limits": {"providers": {"forbid": ["lambda", "aws"]}}}, "limits.providers"),
        ({"limits": {"regions": {"forbid": ["west", "east"]}}}, "limits.regions"),
        ({"limits": {"spot_share": {"min": 0.9, "max": 1.0}}}, "spot_share"),
        ({"limits": {"tools": ["litgpt"]}}, "limits.tools"),
        ({"limits": {"tools": ["huggingface"]}}, "limits.tools"),
        ({"limits": {"vram_headroom": 0.99}}, "VRAM need in GiB"),
        ({"objective": "time"}, "objective"),
        ({"objective": {"value_of_time_usd_per_hour": 9}}, "objective"),
        ({"adjust": []}, "rate"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_plan_is_held_to_the_limits_asked(setting: dict[str, Any], what: str) -> None:
    """A plan made for one question fails the audit of a stricter or another one."""
    data = scenario_mapping()
    for key, value in setting.items():
        data[key] = data[key] | value if key == "limits" else value
    found = whats(plan(), Scenario.model_validate(data))
    assert any(what in one for one in found), found


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ({"deadline": "2h"}, "deadline_hours at confidence"),
        ({"confidence": 0.97}, "hours.at_confidence"),
        ({"global_batch": 128}, "micro_batch * accumulation * data_parallel"),
        ({"sequence_length": 1024}, "sequence_length"),
        ({"architecture": "mixtral-8x7b"}, "sigma_in_tails"),
        ({"efficiency": 0.9}, "tokens_per_second"),
        ({"packing": "fixed"}, "steps"),
        ({"techniques": {"method": "full"}}, "method"),
        ({"techniques": {"precision": "fp32"}}, "precision"),
        ({"techniques": {"optimizer": "adamw_8bit"}}, "optimizer"),
        ({"techniques": {"attention": "eager"}}, "attention"),
        ({"lora": {"rank": 8}}, "lora_rank"),
        ({"framework": "megatron"}, "recipe"),
        ({"data_gb": 21}, "start_hours"),
        ({"work": {"steps": 10}}, "steps"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_plan_is_held_to_the_job_asked(setting: dict[str, Any], what: str) -> None:
    """A plan made for one job fails the audit of another one."""
    data = scenario_mapping()
    job = data["jobs"][0]
    if "deadline" in setting or "lora" in setting or "work" in setting:
        job = {key: value for key, value in job.items() if key not in setting}
    data["jobs"] = [job | setting, *data["jobs"][1:]]
    assert what in whats(plan(), Scenario.model_validate(data))


def test_stock_is_counted_over_all_jobs() -> None:
    """More instances than an offer has are found."""
    data = scenario_mapping()
    data["offers"] = [offer | {"stock": 0} for offer in data["offers"]]
    assert "stock of lambda/west/mixed" in whats(plan(), Scenario.model_validate(data))


@pytest.mark.slow
def test_an_infeasible_scenario_has_a_sound_answer() -> None:
    """A plan without jobs, with its explanation, stands; one that claims a cost does not."""
    data = scenario_mapping()
    data["limits"] = data["limits"] | {"budget_usd": 0.01}
    question = Scenario.model_validate(data)
    answer = solve(question, SolveOptions(as_of=AS_OF), library())
    assert answer.status == "infeasible"
    assert audit(answer, question, library()) == []
    assert audit(answer.model_copy(update={"objective": 1.0}), question, library()) != []
