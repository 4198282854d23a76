"""What a plan of generation says of adapters served in place of merged, and merged in place of served."""

from __future__ import annotations

from typing import Any

import pytest

from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.results.plan_parts import Option
from tests.helpers import generation

OFFERS = [generation.OFFER, {**generation.OFFER, "gpu": "H100-80GB", "usd_per_hour": 2.4}]


def plan(**changes: Any) -> Plan:
    """Return a plan on an L40S or an H100."""
    return generation.plan(offers=OFFERS, **changes)


def other_way(made: Plan) -> Option:
    """Return the rung of the adapters."""
    return made.jobs[0].methods[-1]


@pytest.mark.parametrize("served", [1, 4])
def test_served_adapters_show_the_cost_of_a_model_for_each(served: int) -> None:
    """As many runs, each with its part of the requests: what the scenario written so costs."""
    option = other_way(plan(adapter={"rank": 16, "served": served}))
    written = plan(
        adapter={"rank": 16, "merged": True}, trials=served, work={"requests": -(-20_000 // served)}
    )  # fmt: skip
    assert option.cost_usd == pytest.approx(written.least_cost_usd)
    assert option.label == ("merged" if served == 1 else "merged, 4 runs")
    assert not option.allowed and option.note == "adapter.merged: true"


def test_merged_adapters_show_the_cost_of_one_that_is_served() -> None:
    """Never less: it is read and computed in addition."""
    made = plan(adapter={"rank": 64, "merged": True})
    option, written = other_way(made), plan(adapter={"rank": 64, "served": 1})
    assert option.cost_usd == pytest.approx(written.least_cost_usd)
    assert made.least_cost_usd is not None and option.cost_usd is not None
    assert option.cost_usd >= made.least_cost_usd
    assert f"adapter served ${option.cost_usd:.2f}" in " ".join(render(made).split())
    assert "(adapter.served: 1)" in " ".join(render(made).split())


def test_a_table_of_lengths_is_shared_among_the_runs() -> None:
    """Each row has its part."""
    rows = [{"input_tokens": 500, "output_tokens": 100, "count": 900}, {"input_tokens": 90, "output_tokens": 9}]
    none = {"requests": None, "input_tokens": None, "output_tokens": None}
    option = other_way(plan(adapter={"rank": 8, "served": 3}, work={**none, "lengths": rows}))
    parts = [{**rows[0], "count": 300}, rows[1]]
    written = plan(adapter={"rank": 8, "merged": True}, trials=3, work={**none, "lengths": parts})
    assert option.cost_usd == pytest.approx(written.least_cost_usd)


def test_what_no_limit_allows_is_said_so() -> None:
    """Forty starts one after the other miss a deadline that one start meets."""
    option = other_way(plan(adapter={"rank": 8, "served": 40}, deadline="2h"))
    assert option.cost_usd is None and option.note == "no configuration within the limits"


def test_a_plan_without_adapters_has_no_such_rung() -> None:
    """Engines and bits alone."""
    assert all(one.label.startswith("vLLM") for one in plan().jobs[0].methods)
