"""Plans with every stage, trials and ways to pay: any single value that was changed is found; a law of random ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario
from tests.helpers.stage_scenarios import AS_OF, JOB, LORA, RENTED, library, question, read, solved
from tests.helpers.tampered_plans import Path, audited_leaves, evaluate_once, name_of, spread, tampered

FEES = {
    "ingress_usd_per_gb": 0.05,
    "egress_usd_per_gb": 0.1,
    "storage_usd_per_gb_month": 2.0,
    "network_storage_usd_per_gb_month": 0.07,
    "public_ip_usd_per_hour": 0.25,
}
SERVICE_FEES = {key: usd for key, usd in FEES.items() if key != "public_ip_usd_per_hour"}
SPOT = {"availability": 0.9, "mean_up_hours": 5}
GPU = {**RENTED, "fees": FEES, "spot_usd_per_hour": 1.0, "spot": SPOT, "billing": {"step_seconds": 3600}}
CPU = {"provider": "c", "region": "west", "cpu_cores": 16, "ram_gb": 64, "usd_per_hour": 0.6, "fees": FEES}
STAGES: dict[str, Any] = {
    "ingest": {"raw_gb": 50, "tokens": 1e9, "on": "cpu"},
    "transfer": {"region": "west", "egress_usd_per_gb": 0.09, "gb_per_second": 0.2},
    "evaluation": {"share": 0.1, "on": "cpu"},
    "checkpoints": {"count": 5, "keep": 2, "asynchronous": False},
    "export": {"merged": True, "gb_per_second": 0.05},
    "retention": "30d",
}
YEAR = {**RENTED, "usd_per_hour": 0.5, "commitment": {"months": 12, "upfront_usd": 1000}, "fees": FEES}
SERVICE: dict[str, Any] = {"architectures": ["tinyllama-1.1b"], "method": "full"}
TERMS = {"usd_per_million_tokens": 0.5, "usd_per_run": 1, "minimum_usd": 9}
OWN = {"power_watts": 500, "usd_per_kwh": 0.3, "purchase_usd": 1500, "lifetime_hours": 15000}
BUY = {
    "purchase_usd": 3000,
    "purchase_range_usd": [2000, 4000],
    "resale": {"used_share": 0.8, "half_life_months": 20, "half_life_range": [15, 30]},
    "life_months": 30,
    "without": "desk",
    "usd_per_kwh": 0.2,
    "idle_usd_per_month": 20,
}
UNPRICED = {"usd_per_hour": None, "spot_usd_per_hour": None, "spot": None}

QUESTIONS: dict[str, dict[str, Any]] = {
    "stages": question(
        {**GPU, "region": "east", "community": True},
        CPU,
        limits={"budget_usd": 500, "spot_share": {"min": 0.3, "max": 0.6}},
        data_gb=10,
        trials={"count": 4, "at_once": 3, "halving": 2},
        early_stopping=0.7,
        stages=STAGES,
        deadline="60h",
        techniques=LORA,
    ),
    "commitment": question(
        YEAR, {**RENTED, "stock": 0}, stages={**STAGES, "ingest": {"raw_gb": 1}, "evaluation": None}
    ),
    "service": question(
        {"provider": "s", "date": "2025-12-01", "managed": {**SERVICE, **TERMS}, "fees": SERVICE_FEES},
        trials=2,
        deadline="20h",
        data_gb=10,
        stages={**STAGES, "ingest": {"raw_gb": 50}},
    ),
    "own": question({**GPU, **UNPRICED, "own": OWN}),
    "bought": {
        **question({**RENTED, "usd_per_hour": 9}, {**RENTED, **UNPRICED, "lead_hours": 5, "buy": BUY}),
        "horizon": {"months": 24, "hours_per_month": 300, "interest": 0.05},
    },
    "timetable": {
        "name": "s",
        "now": "2026-01-01T09:00",
        "jobs": [
            {**JOB, "name": "first", "deadline": "9h"},
            {**JOB, "name": "second", "after": {"job": "first", "lag": "30m"}, "due": "1h", "late_usd_per_hour": 0.01},
            {**JOB, "name": "third", "release": "1h", "techniques": {**JOB["techniques"], "penalty_usd": {}}},
        ],
        "offers": [
            {**UNPRICED, "provider": "lab", "gpu": "A100-80GB", "gpus": 1, "own": OWN},
            {
                "provider": "block",
                "date": "2025-12-01",
                "gpu": "A100-80GB",
                "gpus": 1,
                "block": {"start": "2h", "end": "12h", "usd": 0.01},
            },
            RENTED,
        ],
        "limits": {"max_gpus": 2, "budgets": [{"per": "day", "usd": 50}], "max_usd_per_hour": 40},
    },
}


@cache
def scenario(name: str) -> Scenario:
    return read(QUESTIONS[name])


@cache
def plan(name: str) -> Plan:
    return solved(scenario(name))


def test_the_plans_are_worth_tampering_with() -> None:
    """One has every stage, both markets, gangs that wait and a rounded bill; the others every other way to pay."""
    told = plan("stages").jobs[0]
    items = {line.item for line in told.bill}
    assert items >= {"prepare data at c", "evaluation at c", "wait for trials", "lost on spot", "rounded up"}
    assert items >= {"checkpoints", "load between trials", "export", "kept after", "data leaving", "storage"}
    assert set(told.stage_hours) >= {"prepare data", "evaluation", "checkpoints", "load between trials", "export"}
    assert 0 < told.spot_share < 1
    assert plan("stages").budget_probability is not None
    assert plan("commitment").jobs[0].commitment is not None
    service = [line.item for line in plan("service").jobs[0].bill]
    assert service[:3] == ["tokens trained", "training runs", "minimum charge"]
    assert {*service[3:]} == {"kept after", "data leaving", "transfer in", "transfer out"}
    assert plan("timetable").reservations and plan("timetable").is_timetable
    assert {line.item for line in plan("own").jobs[0].bill} >= {"power", "wear of own machines"}


@cache
def places() -> list[tuple[str, Path]]:
    """Question and path of values to change: every kind of value, at one in three of its places in all plans."""
    found = [(name, path) for name in QUESTIONS for path in audited_leaves(plan(name))]
    return spread(found, [name_of(path) for _, path in found], every=3)


@pytest.mark.long
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_changed_value_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan in which any single value was changed is refused by its types or by the audit."""
    evaluate_once(monkeypatch)
    tried = [path for question, path in places() if question == name]
    assert len(tried) > 30
    for path in tried:
        wrong = tampered(plan(name), path, AS_OF.isoformat())
        assert wrong is None or audit(wrong, scenario(name), library()) != [], path


@pytest.mark.parametrize("stage", ["ingest", "evaluation"])
def test_a_stage_that_is_left_out_is_found(stage: str) -> None:
    """A plan that forgets the machine of a stage has no place for it."""
    data = plan("stages").model_dump()
    data["jobs"][0]["separate_machines"] = [
        one for one in data["jobs"][0]["separate_machines"] if one["stage"] != stage
    ]
    found = audit(Plan.model_validate(data), scenario("stages"), library())
    assert f"place of {stage}" in {one.what for one in found}


def sometimes(**choices: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of the keys, or none."""
    return st.fixed_dictionaries({}, optional=choices)


def of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


FEE = of(0.0, 0.05, 1.0)
PAID = {
    "on demand": {**RENTED},
    "spot": {**RENTED, "usd_per_hour": None, "spot_usd_per_hour": 0.7},
    "both": {**RENTED, "spot_usd_per_hour": 0.9, "spot": SPOT},
    "strangers": {**RENTED, "community": True},
    "year": {key: value for key, value in YEAR.items() if key != "fees"},
    "left": {**RENTED, "usd_per_hour": None, "committed_hours": 300},
    "own": {**RENTED, "usd_per_hour": None, "own": {"power_watts": 500, "usd_per_kwh": 0.3}},
}
MACHINES = st.builds(
    lambda paid, rest: {**PAID[paid], "instance": paid, **rest},
    of(*PAID),
    sometimes(
        fees=sometimes(**{key: FEE for key in FEES}),
        billing=of({"step_seconds": 3600}, {"minimum_hours": 24}),
        region=of("east", "west"),
        gpus=of(1, 2),
        max_nodes=of(2),
        disk_gb_per_second=of(0.2, 3.0),
        download_gb_per_second=of(0.1, 2.0),
        cpu_cores=of(16),
    ),
)
SERVICES = sometimes(usd_per_run=of(3.0), minimum_usd=of(20.0), tokens_per_second=of(5000.0)).map(
    lambda terms: {"provider": "s", "managed": {**SERVICE, "usd_per_million_tokens": 0.5, **terms}}
)
SERVICES = st.builds(lambda service, rest: {**service, **rest}, SERVICES, sometimes(fees=of(FEES), region=of("west")))
WORKFLOWS = sometimes(
    trials=of(2, {"count": 3, "at_once": 2}, {"count": 9, "halving": 3}, {"count": 4, "at_once": 3, "halving": 2}),
    early_stopping=of(0.6),
    data_gb=of(20.0),
    confidence=of(0.5, 0.8),
    storage_gb_per_second=of(0.01),
    stages=sometimes(
        ingest=of({"raw_gb": 5}, {"raw_gb": 50, "tokens": 1e8, "on": "machine"}),
        transfer=of({"egress_usd_per_gb": 0.09}, {"region": "west", "gb_per_second": 0.05}),
        evaluation=of({"share": 0.2}, {"tokens": 1e6, "on": "cpu"}, {"share": 0.1, "on": ["machine", "cpu"]}),
        checkpoints=of({"count": 10}, {"count": 2, "contents": "weights", "asynchronous": False}),
        export=of({}, {"merged": True, "gb_per_second": 0.01}),
        retention=of("30d"),
    ),
)


@pytest.mark.long
@settings(derandomize=True, max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(MACHINES | SERVICES, min_size=1, max_size=3), WORKFLOWS)
def test_the_lines_of_every_bill_sum_to_its_cost(offers: list[dict[str, Any]], workflow: dict[str, Any]) -> None:
    """Whatever stages, trials and ways to pay: the audit stands, and the items sum to the total to the cent."""
    asked = {"name": "s", "offers": [*offers, CPU], "jobs": [{**JOB, **workflow}]}
    try:
        found = solved(read(asked))
    except ScenarioError:  # nothing that trains, or no offer for a stage
        return
    for told in found.jobs:
        cents = sum(round(line.usd * 100, 6) for line in told.bill)
        assert cents == pytest.approx(told.cost_usd * 100, abs=0.5)
        assert all(line.usd >= 0 for line in told.bill)
        assert told.hours.expected <= told.hours.high
