"""The smallest changes of jobs that leave batch or model open: each has a plan, a slightly smaller one has none."""

from __future__ import annotations

import datetime
import json
import math
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from planner.library.reading import read_library
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.results.plan import Plan
from planner.results.plan_parts import Relaxation
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
MODELS = ["llama-3.2-1b", "qwen2.5-1.5b", "llama-3.2-3b"]
SMALL = ["smollm2-360m", "llama-14x1792"]
STEPS = {"deadline": 0.02, "budget_usd": 0.02, "max_gpus": 1.0, "memory": 0.01}
"""What a change may be too large by: it is rounded to a hundredth, and a confidence is one."""


@cache
def library() -> Library:
    return read_library([*MODELS, *SMALL])


def scenario_of(job: dict[str, Any], limits: dict[str, Any]) -> Scenario:
    """A job of pretraining on two kinds of machines without spot markets."""
    offers = [
        {"provider": "p0", "gpu": "H100-80GB", "gpus": 8, "usd_per_hour": 20.0, "max_nodes": 8},
        {"provider": "p1", "gpu": "A100-80GB", "gpus": 8, "usd_per_hour": 10.0, "max_nodes": 4},
    ]
    given = {"name": "x", "kind": "pretrain", "framework": "torchtitan", **job}
    return parse_scenario(
        json.dumps(
            {"schema": 2, "name": "open", "jobs": [given], "offers": offers, "limits": limits, "solve": {"ties": 0}}
        )
    )


def scenario_of_several(jobs: list[dict[str, Any]], limits: dict[str, Any], with_spot: bool = False) -> Scenario:
    """Jobs that train the best models, on two of each machine, with a spot market of one of them or without."""
    one = scenario_of({**OPEN_BATCH, "deadline": "2h"}, limits)
    spot = {"spot_usd_per_hour": 8.0, "spot": {"availability": 0.8, "mean_up_hours": 5.0}} if with_spot else {}
    offers = [{**offer.model_dump(mode="json", exclude_unset=True), "max_nodes": 2} for offer in one.offers]
    best = {"kind": "pretrain", "framework": "torchtitan", "work": {"tokens": "best"}}
    named = [{"name": f"job{number}", **best, **job} for number, job in enumerate(jobs)]
    held = {"schema": 2, "name": "open", "jobs": named, "offers": [{**offers[0], **spot}, offers[1]]}
    return parse_scenario(json.dumps({**held, "limits": limits, "objective": "loss", "solve": {"ties": 0}}))


OPEN_BATCH = {"architecture": "llama-3.2-1b", "work": {"tokens": 60e9}, "global_batch": {"from": 128, "to": 1024}}
OPEN_MODEL = {"architecture": MODELS, "work": {"loss": 2.6}, "global_batch": 256}


def ways(plan: Plan) -> list[list[Relaxation]]:
    """The relaxations of a plan, each with all its changes."""
    assert plan.infeasible is not None and plan.infeasible.relax
    numbers = sorted({one.way for one in plan.infeasible.relax})
    return [[one for one in plan.infeasible.relax if one.way == number] for number in numbers]


def check(scenario: Scenario) -> None:
    """Solve with each stated change, and with a little less of each amount."""
    plan = solve(scenario, OPTIONS, library())
    if plan.jobs:
        return
    for way in ways(plan):
        changed = solve(change_scenario(scenario, [one.setting for one in way]), OPTIONS, library(), explains=False)
        assert changed.jobs and changed.cost is not None
        assert changed.cost.expected == pytest.approx(way[0].cost_usd, rel=1e-6)
        for place, one in enumerate(way):
            step = STEPS[one.limit.rpartition(".")[2]]
            assert isinstance(one.change_to, float) and isinstance(one.change_from, float)
            if abs(one.change_to - one.change_from) < step:
                continue
            less = round(one.change_to - math.copysign(step, one.change_to - one.change_from), 2)
            path, _, text = one.setting.partition("=")
            smaller = f"{path}={less:.10g}{'h' if text.endswith('h') else ''}"
            settings_ = [smaller if other == place else each.setting for other, each in enumerate(way)]
            assert not solve(change_scenario(scenario, settings_), OPTIONS, library(), explains=False).jobs


@pytest.mark.long
@pytest.mark.parametrize(
    ("job", "limits"),
    [({**OPEN_BATCH, "deadline": "2h"}, {}), ({**OPEN_MODEL, "deadline": "30d"}, {"budget_usd": 50})],
    ids=["deadline of an open batch", "budget of an open model"],
)
def test_every_batch_and_model_is_tried(job: dict[str, Any], limits: dict[str, Any]) -> None:
    """Larger batches need less time, and other models fewer dollars, than the alternative that is looked at first."""
    check(scenario_of(job, limits))


@pytest.mark.long
@settings(max_examples=5, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.sampled_from([OPEN_BATCH, OPEN_MODEL]), st.floats(1.0, 30.0), st.sampled_from([None, 100, 1000]))
def test_a_slightly_smaller_change_has_no_plan(job: dict[str, Any], hours: float, budget: float | None) -> None:
    """Whatever limits the job."""
    limits = {"max_gpus": 32, **({} if budget is None else {"budget_usd": budget})}
    check(scenario_of({**job, "deadline": f"{hours:.1f}h"}, limits))


BATCHES = {"from": 128, "to": 1024}
MODELS_ONLY = {"architecture": SMALL, "global_batch": 256}
LATE = {"architecture": "llama-3.2-1b", "global_batch": BATCHES, "deadline": "0.5h"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("jobs", "budget"),
    [([LATE, MODELS_ONLY], 3000), ([MODELS_ONLY, MODELS_ONLY], 5)],
    ids=["deadline of an open batch", "budget of open models"],
)
def test_every_batch_and_model_of_several_jobs_is_tried(jobs: list[dict[str, Any]], budget: float) -> None:
    """A larger batch of one job needs less time than the alternative that is looked at first."""
    check(scenario_of_several(jobs, {"budget_usd": budget}))


@pytest.mark.long
def test_the_budget_stated_for_policies_on_spot_has_a_plan() -> None:
    """The search counts dollars on mean markets, where it is too small: the cheapest runs are tried without it."""
    jobs = [{"architecture": SMALL[0], "global_batch": batch} for batch in (128, 256)]
    scenario = scenario_of_several(jobs, {"budget_usd": 3}, with_spot=True)
    (way,) = ways(solve(scenario, OPTIONS, library()))
    plan = solve(change_scenario(scenario, [one.setting for one in way]), OPTIONS, library(), explains=False)
    assert plan.cost is not None and plan.cost.expected == pytest.approx(way[0].cost_usd, rel=1e-6)


@pytest.mark.long
@settings(max_examples=2, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.lists(st.floats(0.1, 3.0), min_size=2, max_size=2), st.sampled_from([10, 100, 1000]))
def test_a_slightly_smaller_change_of_several_jobs_has_no_plan(hours: list[float], budget: float) -> None:
    """Whatever limits the jobs: a deadline of one, of both, or the budget."""
    jobs = [
        {"architecture": SMALL, "global_batch": {"from": 512, "to": 1024}, "deadline": f"{hours[0]:.2f}h"},
        {"architecture": [*SMALL, "llama-3.2-1b"], "global_batch": 256, "deadline": f"{hours[1]:.2f}h"},
    ]
    check(scenario_of_several(jobs, {"budget_usd": budget}))
