"""Every pair of options of the schema in one small scenario that has a plan, which the audit passes.

A fault in the audit or in the search shows where two options meet that no other test puts together. Rows of options
are drawn so that few scenarios hold all pairs (a pairwise cover). Options that exclude each other are refused with a
message: such a row is drawn again, and a pair that no row could be made of stays open.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from planner.errors import ScenarioError
from planner.scenario.scenario import SolveOptions
from tests.helpers.bare_plans import plan_if_any
from tests.helpers.stage_scenarios import AS_OF, JOB, library, read

OPTIONS = SolveOptions(as_of=AS_OF, time_limit_seconds=10)
ATTEMPTS = 3
"""Rows that are drawn for a pair before it stays open."""
LEAST_SHARE = 0.93
"""Of all pairs: what the rows must hold in plans, and then no more are drawn. Most others exclude each other."""
SPOT = {"spot_usd_per_hour": 0.4, "spot": {"availability": 0.8, "mean_up_hours": 5}}
OWN = {"power_watts": 500, "usd_per_kwh": 0.3, "purchase_usd": 1500, "lifetime_hours": 15000}
BUY = {"purchase_usd": 2000, "residual_share": 0.5, "usd_per_kwh": 0.18, "power_watts": 500}
SERVICE = {"architectures": ["tinyllama-1.1b"], "method": "lora", "usd_per_million_tokens": 0.05}
RATE = {"gpu": "A100-80GB", "gpus": 1}
PROMPTS = {"requests": 500, "input_tokens": 300, "output_tokens": 50}
NIGHT = [{"from": "0h", "to": "11h", "every": "24h"}]

JOB_OPTIONS: dict[str, list[Any]] = {
    "work": [None, {"samples": 3000, "tokens_per_sample": 300, "epochs": 2}, {"steps": 200}],
    "sequence_length": [None, 512],
    "packing": [None, "padded", "fixed"],
    "length_cv": [None, 0.3],
    "deadline": [None, "40h", "30d"],
    "start_slack": [None, "1h"],
    "release": [None, "2h"],
    "due": [None, {"due": "3h", "late_usd_per_hour": 0.5}],
    "confidence": [None, 0.5, {"deadline": 0.95, "memory": 0.9}],
    "framework": [None, "hf", "unsloth"],
    "techniques": [
        None,
        {"method": "full"},
        {"method": "lora", "weight_bits": [16, 4]},
        {"method": "lora", "optimizer": "adamw_paged", "activation_checkpointing": "full", "weight_bits": 16},
    ],
    "penalty_usd": [None, {"four_bit": 0.3, "lora": 0.2}],
    "lora": [None, {"rank": [8, 64], "targets": "attention"}],
    "efficiency": [None, 0.8],
    "storage_gb_per_second": [None, 0.00001],
    "measured": [
        None,
        {**RATE, "tokens_per_second": 9000, "micro_batch": 2},
        {**RATE, "hours": 3},
        {**RATE, "tokens_per_second": 9000, "peak_vram_gib": 30},
    ],
    "trials": [None, 3, {"count": 4, "at_once": 2}, {"count": 4, "halving": 2}, {"count": 2, "split": True}],
    "early_stopping": [None, 0.5],
    "data_gb": [None, 40],
}
STAGE_OPTIONS: dict[str, list[Any]] = {
    "ingest": [None, {"raw_gb": 5}, {"raw_gb": 20, "on": "cpu"}],
    "transfer": [None, {"region": "west", "egress_usd_per_gb": 0.09, "gb_per_second": 0.1}],
    "evaluation": [None, {"share": 0.1, "on": ["machine", "cpu"]}, PROMPTS],
    "checkpoints": [None, {"count": 5, "keep": 2}, {"count": 2, "contents": "weights", "asynchronous": False}],
    "export": [None, {}, {"format": "merged", "on": "cpu"}, {"format": "gptq"}],
    "retention": [None, "10d"],
}
OFFER_OPTIONS: dict[str, list[Any]] = {
    "paid": [
        {"usd_per_hour": 1.0},
        {"usd_per_hour": 1.0, **SPOT},
        {"spot_usd_per_hour": 0.4},
        {"own": OWN},
        {"buy": BUY},
        {"usd_per_hour": 0.3, "commitment": {"months": 1, "upfront_usd": 1}},
        {"usd_per_hour": None, "committed_hours": 100},
        {"block": {"start": "1h", "end": "100h", "usd": 3}},
        {"managed": SERVICE},
    ],
    "gpus": [None, 2],
    "max_nodes": [None, 2],
    "stock": [None, 1],
    "lead_hours": [None, 1.5],
    "available": [None, NIGHT, [{"from": "1h", "to": "200h"}]],
    "billing": [None, {"step_seconds": 3600}, {"minimum_hours": 6}],
    "fees": [None, {"storage_usd_per_gb_month": 2.0, "egress_usd_per_gb": 0.1, "ingress_usd_per_gb": 0.02}],
    "community": [None, True],
    "region": [None, "west"],
    "ram_gb": [None, 128],
    "disk_gb_per_second": [None, 0.3],
}
LIMIT_OPTIONS: dict[str, list[Any]] = {
    "budget_usd": [None, 200.0],
    "max_gpus": [None, 2],
    "max_hours": [None, 300],
    "max_usd_per_hour": [None, 9.0],
    "budgets": [None, [{"per": "day", "usd": 30}], [{"from": "1h", "to": "20h", "usd": 9}]],
    "quota": [None, {"p": 2}],
    "spot_share": [None, {"max": 0.5}],
    "waiting_usd_per_hour": [None, 0.05],
    "vram_headroom": [None, 0.1],
    "fallbacks": [None, 1],
    "typical_stock": [None, 1],
}
OTHER_OPTIONS: dict[str, list[Any]] = {
    "second": [None, {}, {"after": "a"}],
    "objective": [None, "time", {"value_of_time_usd_per_hour": 0.4}],
    "ties": [None, 0],
    "schedule": [None, "side_by_side"],
    "adjust": [None, [{"usd_per_hour_factor": 1.2}]],
    "now": [None, "2026-01-02T09:00"],
}
FACTORS = {
    (group, name): values
    for group, options in (
        ("job", JOB_OPTIONS),
        ("stages", STAGE_OPTIONS),
        ("offer", OFFER_OPTIONS),
        ("limits", LIMIT_OPTIONS),
        ("other", OTHER_OPTIONS),
    )
    for name, values in options.items()
}
Row = dict[tuple[str, str], int]
Pair = frozenset[tuple[tuple[str, str], int]]


def scenario_data(row: Row) -> dict[str, Any]:
    """The scenario of a row: the number of the value of each option, of which 0 is left out."""
    given: dict[str, dict[str, Any]] = {"job": {}, "stages": {}, "offer": {}, "limits": {}, "other": {}}
    for (group, name), number in row.items():
        if (value := FACTORS[group, name][number]) is not None:
            given[group][name] = value
    job, other, limits, offer = given["job"], given["other"], given["limits"], given["offer"]
    due, penalty, measured = job.pop("due", {}), job.pop("penalty_usd", None), job.pop("measured", None)
    techniques = job.pop("techniques", {})
    techniques = {**techniques, **({"penalty_usd": penalty} if penalty else {})}
    first = {**JOB, **job, **due, "name": "a", "techniques": techniques, "stages": given["stages"]}
    first |= {"measured": [measured]} if measured else {}
    jobs = [first]
    if (second := other.get("second")) is not None:
        jobs.append({**JOB, "name": "b", "work": {"tokens": 2e6}, **second})
    paid = offer.pop("paid")
    machine = {} if "managed" in paid else {"gpu": "A100-80GB", "gpus": 1}
    cheap = {**machine, "provider": "p", "date": "2025-12-01", **offer, **paid}
    data: dict[str, Any] = {
        "name": "pairs",
        "jobs": jobs,
        "offers": [
            {key: value for key, value in cheap.items() if value is not None},
            {"provider": "q", "gpu": "A100-80GB", "gpus": 1, "usd_per_hour": 4.0, "date": "2025-12-01"},
            {"provider": "c", "cpu_cores": 16, "ram_gb": 64, "usd_per_hour": 0.6},
        ],
        "limits": limits,
        **{key: other[key] for key in ("objective", "schedule", "adjust", "now") if key in other},
    }
    if "ties" in other:
        data["solve"] = {"ties": other["ties"]}
    if "buy" in paid:
        data["horizon"] = {"months": 12, "hours_per_month": 200}
    return data


def pairs_of(row: Row) -> set[Pair]:
    return {frozenset(pair) for pair in combinations(row.items(), 2)}


def drawn(pair: Pair, left: set[Pair], chance: random.Random) -> Row:
    """A row that holds a pair and many of those that are left: each option takes the best of its values."""
    row: Row = dict(sorted(pair))
    names = [name for name in FACTORS if name not in row]
    chance.shuffle(names)
    for name in names:
        numbers = list(range(len(FACTORS[name])))
        chance.shuffle(numbers)
        gains = [sum(frozenset({(name, number), one}) in left for one in row.items()) for number in numbers]
        # Half of the options stay as they are by default: a scenario with all of them has no plan.
        row[name] = numbers[gains.index(max(gains))] if chance.random() < 0.5 else 0
    return row


def has_plan(row: Row) -> bool:
    """Whether a row is accepted and has a plan; AuditError where the audit does not pass it."""
    try:
        return plan_if_any(read(scenario_data(row)), OPTIONS, library()).cost_usd is not None
    except ScenarioError:
        return False


def _rank(tries: dict[Pair, int]) -> Callable[[Pair], Any]:
    return lambda pair: (tries[pair], sorted(pair))


def cover(seed: int) -> tuple[set[Pair], set[Pair]]:
    """The pairs that plans hold, and all pairs."""
    chance = random.Random(seed)
    values = [(name, number) for name, found in FACTORS.items() for number in range(len(found))]
    every = {frozenset(pair) for pair in combinations(values, 2) if pair[0][0] != pair[1][0]}
    left, tries = set(every), dict.fromkeys(every, 0)
    while open_pairs := sorted(
        (one for one in left if tries[one] < ATTEMPTS), key=lambda one: (tries[one], sorted(one))
    ):
        pair = chance.choice(open_pairs[: max(1, len(open_pairs) // 4)])
        tries[pair] += 1
        row = drawn(pair, left, chance)
        if has_plan(row):
            left -= pairs_of(row)
        if len(left) <= (1 - LEAST_SHARE) * len(every):
            break
    return every - left, every


@pytest.mark.long
def test_every_pair_of_options_has_a_plan_that_passes_its_audit() -> None:
    """The audit raises where it does not; nearly all pairs are in some plan."""
    held, every = cover(seed=1)
    assert len(held) >= LEAST_SHARE * len(every)
