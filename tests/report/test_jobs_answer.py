"""The answer of several jobs and of services: what all rent first, alike jobs on one line, nothing lost."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.report import words
from planner.report.plan_answer import ROWS_OF_JOBS, render_answer, risks_of_jobs, rows_of, why_text_of_jobs
from planner.report.plan_sections import bill_text
from planner.report.words import LEAST_WIDTH, MOST_WIDTH, text_width, without_blocks
from planner.results.plan import Inputs, Plan, needed_at_once, plan_figures
from planner.results.plan_parts import Reservation, Spread
from tests.helpers.plans import make_assignment, make_plan, make_service_plan


def team(*jobs: Any, **changes: Any) -> Plan:
    """The plan of several jobs, with the sums that follow from them."""
    needs = needed_at_once(jobs)
    whole = plan_figures(tuple(jobs))
    cost, hours = whole["cost"].model_dump(), whole["hours"].model_dump()
    data = {"scenario": "team", "cost": cost, "hours": hours, "at_one_time": [one.model_dump() for one in needs]}
    return make_plan(*jobs, **data | changes)


def make_reservation(usd: float) -> Reservation:
    """Two machines for ten days."""
    return Reservation(
        offer="cloud/any/8x", count=2, start_hours=0.0, end_hours=240.0, usd=usd, used_hours=400.0, used_share=0.8
    )


def private(name: str, usd: float = 3.0, **changes: Any) -> Any:
    """A job on one card of a private host."""
    cost = {"expected": usd, "low": usd, "high": usd}
    own = {"name": name, "gpu": "A5000", "tier": "community", "cost_usd": usd, "cost": cost, "next_best": []}
    return make_assignment(**own | {"end_at_hours": 28.0} | changes)


def test_alike_jobs_stand_on_one_line_below_what_all_rent() -> None:
    """The first line has machines, dollars and the time at the confidence; what three of four share is said once."""
    times = {"expected": 8.0, "low": 7.0, "high": 9.0, "at_confidence": 9.0}
    big = {"gpu": "H100-80GB", "provider": "lambda", "tier": "secure", "spot_share": 1.0, "hours": times}
    plan = team(
        *(private(f"a-{n}") for n in range(3)), private("big", 20.0, end_at_hours=9.0, **big), price_age_days=90
    )
    lines = render_answer(plan).splitlines()
    assert lines[0] == "team: 4 jobs on 3 x A5000 at vast and 1 x H100-80GB at lambda, $29.00, by 28.0 h"
    assert sum(line.startswith("! ") for line in lines) == 3
    assert "! 3 of 4 jobs: private persons' machines" in lines[1]
    table = lines[lines.index("") + 1 :]
    assert table[0].split() == ["job", "machine", "by", "cost", "how"]
    assert table[1].split()[:4] == ["a-0", "and", "2", "alike"] and "$9.00" in table[1]
    assert table[2].split()[0] == "big" and "spot" in table[2] and "$20.00" in table[2]
    assert "optimal" not in lines[0] and "proven best" in "\n".join(lines) and "at one time" not in "\n".join(lines)


def test_of_many_jobs_the_dearest_rows_are_shown_and_the_sum_of_the_rest() -> None:
    """Dollars on the screen add up to those of the plan, and the smallest jobs are those left out."""
    plan = team(*(private(f"job-{n}", 1.0 + n) for n in range(30)))
    lines = render_answer(plan).splitlines()
    start = next(n for n, line in enumerate(lines) if line.split()[:1] == ["job"])
    table = lines[start + 1 : lines.index("", start)]
    shown = [float(word.replace("$", "").replace(",", "")) for line in table for word in line.split() if word[0] == "$"]
    assert len(table) == ROWS_OF_JOBS + 1 and sum(shown) == pytest.approx(sum(1.0 + n for n in range(30)))
    assert "10 more jobs" in table[-1] and shown[-1] == 55.0  # 1 + ... + 10


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([1.0, 2.5, 1234.5]), st.sampled_from(["A5000", "H100-80GB"])), min_size=2),
    st.integers(LEAST_WIDTH, MOST_WIDTH),
)
def test_rows_lose_no_job_and_no_dollar_at_any_width(given_jobs: list[tuple[float, str]], width: int) -> None:
    """Each job is in one row, and no line is wider than asked."""
    jobs = [private(f"a-job-with-a-very-long-name-{n}", usd, gpu=gpu) for n, (usd, gpu) in enumerate(given_jobs)]
    plan = team(*jobs)
    rows = rows_of(plan)
    assert sorted(name for row in rows for name in row.names) == sorted(job.name for job in jobs)
    assert sum(row.cost_usd for row in rows) == pytest.approx(sum(job.cost_usd for job in jobs))
    with text_width(width):
        assert max(map(len, render_answer(plan).splitlines())) <= width


def test_a_risk_of_one_job_names_it_and_one_of_all_does_not() -> None:
    """A conversion of one job has its name, the old prices of all have none."""
    plan = team(private("a", conversion="merge the adapter first"), private("b"), price_age_days=90)
    texts = [risk.text for risk in risks_of_jobs(plan)]
    assert "a: merge the adapter first" in texts and "prices 90 days old: planner prices update" in texts


def test_the_bill_of_all_jobs_adds_up_by_item() -> None:
    """Items of the same name are one; the total is that of the plan."""
    plan = team(private("a"), private("b", 4.0))
    plan = plan.model_copy(update={"cost": Spread(expected=5.64, low=5.0, high=6.0)})
    text = " ".join(render_answer(plan).split())
    assert "Bill $5.64 in all ($5.00 to 6.00): $5.44 GPU on demand, $0.20 storage; not included: transfer out" in text


def test_a_service_shows_machines_latency_and_hours() -> None:
    """Its first line has machines, dollars of a month and a latency; load and replicas have a character an hour."""
    lines = render_answer(make_service_plan()).splitlines()
    assert lines[0] == "desk: 1 to 3 x L40S at cloud, $1,204.00 a month, first token by 800 ms"
    assert "optimal" not in lines[0]
    strip = next(line for line in lines if "daily" in line)
    load, replicas = strip.split()[-2:]
    assert len(load) == len(replicas) == 24 and set(load) <= set(words.BLOCKS) and max(load) == words.BLOCKS[-1]
    assert set(replicas) == {"1", "3"}
    rows = [line.split() for line in lines if "$" in line]
    assert any(row[0] == ">" and row[1] == "plan" for row in rows) and any("always on" in line for line in lines)


def test_load_is_drawn_in_digits_where_blocks_cannot_be_written() -> None:
    """A terminal in latin-1 has no block characters."""
    with without_blocks():
        text = render_answer(make_service_plan())
    assert not set(text) & set(words.BLOCKS)
    assert "#" in next(line for line in text.splitlines() if "daily" in line)


AMOUNT = re.compile(r"-?[$][\d,]+[.]\d\d")


def _amounts(text: str) -> list[float]:
    return [float(found.replace("$", "").replace(",", "")) for found in AMOUNT.findall(text)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0.0, 30.0), min_size=1, max_size=6), st.floats(0.0, 900.0))
def test_items_of_the_short_bill_add_up_to_its_total_to_the_cent(amounts: list[float], reserved: float) -> None:
    """What cents leave over is an item of its own; a reservation is one, too."""
    items = [{"item": f"item {n}", "usd": usd} for n, usd in enumerate(amounts)]
    total = math.fsum(amounts) + reserved
    job = make_assignment(bill=[{"basis": "", **item} for item in items])
    made = [make_reservation(reserved)] if reserved else []
    text = bill_text([job], Spread(expected=total, low=total, high=total), made)
    first, *rest = _amounts(text)
    assert not rest or math.fsum(rest) == pytest.approx(first, abs=1e-6)
    assert not reserved >= 0.01 or "reserved" in text


def test_what_is_not_included_of_one_job_is_not_said_of_all() -> None:
    """Storage that one job pays and whose price is unknown for another is not both billed and left out."""
    bill = [{"item": "gpu on demand", "usd": 3.0, "basis": ""}, {"item": "storage", "usd": 0.2, "basis": ""}]
    whole = make_assignment(name="a", bill=bill)
    lacks = make_assignment(name="b", bill=[bill[0], {"item": "storage", "usd": 0.0, "basis": "not included"}])
    cost = Spread(expected=6.2, low=6.2, high=6.2)
    assert bill_text([whole, lacks], cost).endswith("$0.20 storage; not included: storage of b")
    assert bill_text([lacks, lacks], cost).endswith("; not included: storage")


def test_a_reservation_has_a_row_and_its_jobs_say_that_it_pays_for_them() -> None:
    """The column of dollars adds up to the plan, and no job reads as free."""
    jobs = (private("a", 0.0, reservation=0, bill=[]), private("b", 1.5, reservation=0))
    plan = team(*jobs, reservations=[make_reservation(100.0).model_dump()])
    lines = render_answer(plan).splitlines()
    rows = {line.split()[0]: line for line in lines if line.split()[:1] in (["a"], ["b"], ["reserved"])}
    assert "$0.00" not in "\n".join(lines) and rows["a"].split()[-2] == "reserved"
    assert _amounts(rows["b"]) == [1.5] and "+ $1.50" in rows["b"] and _amounts(rows["reserved"]) == [100.0]


def test_a_cell_goes_on_in_a_second_line_where_the_width_is_too_small() -> None:
    """Two ways that differ at the end of their machines still differ on the screen."""
    machine = "1 to 2 x RTXPRO6000-96GB at nebius, spot and 0 to 1 x {} at vast"
    with text_width(60):
        rows = [("plan", machine.format(gpu), "$1.00", "") for gpu in ("L4", "L40S")]
        lines = words.table([("way", "machine", "cost", "what"), *rows], right=(2,), cut=1)
    assert len(lines) == 5 and max(map(len, lines)) <= 60 and "..." not in "".join(lines)
    shown = " ".join(" ".join(lines).split())
    assert "x L4 at vast" in shown and "x L40S at vast" in shown and shown.count("$1.00") == 2


@pytest.mark.parametrize("columns", [LEAST_WIDTH, 80, MOST_WIDTH])
def test_the_first_line_of_a_service_names_both_kinds_or_how_many(columns: int) -> None:
    """Long names push out places and counts, never one of the kinds."""
    service = make_service_plan().services[0]
    kind = service.fleet.kinds[0].model_copy(update={"gpu": "RTXPRO6000-96GB", "provider": "massedcompute"})
    other = kind.model_copy(update={"gpu": "A100-PCIe-80GB", "market": "spot"})
    fleet = service.fleet.model_copy(update={"kinds": (kind, other)})
    plan = make_service_plan().model_copy(update={"services": (service.model_copy(update={"fleet": fleet}),)})
    with text_width(columns):
        lines = render_answer(plan).splitlines()
    head = [lines[0], *itertools.takewhile(lambda line: line.startswith("  "), lines[1:])]
    first = " ".join(" ".join(head).split())
    assert len(head) <= 2 and max(map(len, head)) <= columns and "$1,204.00 a month" in first
    assert ("RTXPRO6000-96GB" in first and "A100-PCIe-80GB" in first) or "2 kinds of machines" in first


def test_what_jobs_in_turn_hold_at_one_time_is_a_sum_of_one_moment() -> None:
    """Two kinds in turn are never held together; the most of each stands next to the busiest moment."""
    first = private("a", gpu="A5000", gpus=4, start_at_hours=0.0, end_at_hours=10.0)
    second = private("b", gpu="A40", gpus=2, start_at_hours=10.0, end_at_hours=20.0)
    small = private("c", gpu="A40", gpus=1, start_at_hours=0.0, end_at_hours=10.0)
    figures = plan_figures((first, second, small))
    together, each = figures["at_one_time"], figures["most_of_each"]
    assert [(one.gpu, one.gpus) for one in together] == [("A5000", 4), ("A40", 1)]
    assert [(one.gpu, one.gpus) for one in each] == [("A5000", 4), ("A40", 2)]
    assert plan_figures((first, small))["most_of_each"] == ()  # all at one time: said once
    needs = {"at_one_time": [one.model_dump() for one in together], "most_of_each": [one.model_dump() for one in each]}
    text = " ".join(render_answer(team(first, second, small, **needs)).split())
    assert "at most 4 x A5000 at vast, 2 x A40 at vast; at one time 4 x A5000 at vast, 1 x A40 at vast" in text


def test_rows_whose_cents_do_not_add_up_say_that_they_are_rounded() -> None:
    """Three jobs at $5.286 read as $15.87 and cost $15.86."""
    bill = [{"item": "power", "usd": 5.286, "basis": ""}]
    jobs = [private(name, 5.286, bill=bill, end_at_hours=hours) for name, hours in (("a", 1.0), ("b", 2.0), ("c", 3.0))]
    text = " ".join(render_answer(team(*jobs)).split())
    assert "Bill $15.86 in all: power; the rows above are rounded" in text
    even = [private(name, 5.0, bill=[]) for name in "ab"]
    assert "rounded" not in render_answer(team(*even))


def test_hosts_of_several_jobs_are_plural_and_an_earliest_end_is_called_so() -> None:
    """What others cost is not known: the setting tells it, which may be less where an early end was asked for."""
    plan = team(*(make_assignment(name=name, tier="community") for name in ("a", "b")), budget_usd=25.0)
    text = " ".join(render_answer(plan).split())
    assert "! private persons' machines; what others cost: --set 'limits.tiers.forbid=[community]'" in text
    assert "earliest end" not in text
    inputs = Inputs.model_construct(scenario={"objective": "time", "jobs": []}, offers=())
    assert "earliest end within $25.00" in why_text_of_jobs(plan.model_copy(update={"inputs": inputs}))
