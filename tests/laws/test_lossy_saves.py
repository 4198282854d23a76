"""A technique that rounds is used only where it saves money or time."""

from __future__ import annotations

import datetime
import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from planner.configurations.recipe import lossiness_of
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.library.technique_tables import TECHNIQUE_FIELDS
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.prepare import prepare
from planner.solving.solve import solve

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
GPUS = ("RTX4090", "A100-80GB")
OWN = {"power_watts": 500, "usd_per_kwh": 0.3}
TOLERANCE = 1e-9


@cache
def library() -> Library:
    return read_library(["llama-2-7b"])


def question(jobs: list[dict[str, Any]], offers: list[dict[str, Any]], **more: Any) -> Scenario:
    source = {"source": "illustration, not a price", "gpus": 1}
    text = {"schema": 2, "jobs": jobs, "offers": [{**source, **one} for one in offers], **more}
    return parse_scenario(json.dumps(text))


def job(name: str, hours: dict[str, float], **more: Any) -> dict[str, Any]:
    runs = [{"gpu": gpu, "gpus": 1, "hours": each} for gpu, each in hours.items()]
    return {"name": name, "architecture": "llama-2-7b", "work": {"tokens": 20e6}, "measured": runs, **more}


@st.composite
def questions(draw: st.DrawFn) -> Scenario:
    """One or two jobs, observed on some GPUs or on none, on own and rented machines, which they may have to share."""
    count = draw(st.integers(1, 2))
    seen = draw(st.lists(st.sampled_from(GPUS), unique=True))
    hours = {gpu: float(draw(st.integers(2, 20))) for gpu in seen}
    techniques = draw(
        st.sampled_from(
            [
                {},
                {"method": "lora", "lora": {"rank": [8, 32]}},
                {"method": "lora", "weight_bits": [4, 16], "precision": ["bf16_mixed", "fp8_torchao"]},
                {"optimizer": ["adamw", "adamw_8bit"]},
            ]
        )
    )
    offers: list[dict[str, Any]] = [{"provider": "cloud", "gpu": "A100-80GB", "usd_per_hour": 1.5}]
    if draw(st.booleans()):
        offers.append({"provider": "lab", "gpu": "RTX4090", "own": OWN, "stock": 1})
    if draw(st.booleans()):
        offers.append({"provider": "steps", "gpu": "RTX4090", "usd_per_hour": 0.4, "billing": {"step_seconds": 86400}})
    jobs = [job(f"j{number}", hours, techniques=techniques) for number in range(count)]
    deadline = draw(st.sampled_from([None, "60h"]))
    if deadline:
        jobs = [{**one, "deadline": deadline} for one in jobs]
    objective = draw(st.sampled_from(["cost", "time"]))
    return question(jobs, offers, objective=objective, solve={"ties": draw(st.sampled_from([0, 1.0]))})


def better_without(scenario: Scenario, plan: Plan) -> list[str]:
    """Return the jobs for which a less lossy recipe on the same machines costs no more and ends no later."""
    found, prepared = [], prepare(scenario, library())
    for index, one in enumerate(plan.jobs):
        candidates, screened = prepared.candidates[index], prepared.screened[index]
        table, recipes = screened.table, candidates.recipes
        fields = {name: getattr(one.techniques, name) for name in (*TECHNIQUE_FIELDS, "framework", "lora_rank")}
        same = [recipe for recipe in recipes if all(getattr(recipe, key) == value for key, value in fields.items())]
        mine = min(int(lossiness_of(recipes)[recipes.index(recipe)]) for recipe in same)
        offer = prepared.market.labels.index(one.offer)
        method = np.asarray([recipe.method == one.techniques.method for recipe in recipes])[table.recipe]
        rows = (table.offer == offer) & (table.gpus == one.gpus) & (table.lossiness < mine) & method
        cheap = table.cost_usd(one.spot_share) <= one.cost_usd + TOLERANCE
        early = table.late_hours(one.spot_share) <= one.hours.at_confidence + TOLERANCE
        if np.any(rows & cheap & early):
            found.append(one.name)
    return found


@pytest.mark.long
@settings(derandomize=True, max_examples=40, deadline=None)
@given(questions())
@example(question([job("a", {"RTX4090": 10})], [{"provider": "lab", "gpu": "RTX4090", "own": OWN}]))
@example(
    question(
        [job(name, {"RTX4090": 10}, deadline="24h") for name in "ab"],
        [{"provider": "lab", "gpu": "RTX4090", "own": OWN, "stock": 1}],
    )
)
def test_no_plan_rounds_where_the_same_machine_without_costs_no_more_and_ends_no_later(scenario: Scenario) -> None:
    """On own machines, and where hours were observed, 4 and 16 bits cost the same: 16 bits are taken."""
    plan = solve(scenario, OPTIONS, library())
    assert plan.jobs
    assert better_without(scenario, plan) == []
