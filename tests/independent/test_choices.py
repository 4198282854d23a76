"""Economic choices computed again by arithmetic: terms, paid hours, billing, services, value of time, trials, batch.

Hours of a run are given as observed, so that nothing of the planner's estimates enters: what is left is the choice.
"""

from __future__ import annotations

import math
from random import Random

import pytest

from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.results.plan import Assignment
from planner.solving.solve import solve
from tests.helpers.open_scenarios import BATCH

HOURS_OF_A_MONTH = 730.0
HEAD = """\
schema: 2
name: choice
jobs:
  - name: run
    architecture: llama-3-8b
    work: {{tokens: {tokens:.0f}}}
    deadline: 80d
    techniques: {{method: lora}}
    measured: [{measured}]
    trials: {{count: {trials}, at_once: {at_once}}}
objective: {objective}
offers:
"""
SOURCE = 'source: "illustration, not a price"'
CASES = range(12)


def rented(name: str, usd: float, gpu: str = "A100-80GB", **more: object) -> str:
    """Return an offer of one GPU."""
    keys = "".join(f", {key}: {value}" for key, value in more.items())
    return f"  - {{provider: {name}, gpu: {gpu}, gpus: 1, usd_per_hour: {usd}, stock: 9{keys}, {SOURCE}}}\n"


def planned(
    offers: list[str],
    hours: dict[str, float],
    *,
    tokens: float = 1e7,
    trials: int = 1,
    at_once: int = 1,
    objective: str = "cost",
) -> Assignment:
    """Return how the only job of a scenario is run; `hours` are those of a run, by GPU."""
    measured = ", ".join(f"{{gpu: {gpu}, gpus: 1, hours: {value}}}" for gpu, value in hours.items())
    figures = {"tokens": tokens, "measured": measured, "trials": trials, "at_once": at_once, "objective": objective}
    (job,) = solve(parse_scenario(HEAD.format(**figures) + "".join(offers))).jobs
    return job


def check(job: Assignment, dollars: dict[str, float]) -> None:
    """Fail where the plan is not the cheapest of these, to the cent."""
    least = min(dollars, key=lambda name: dollars[name])
    assert job.cost_usd == pytest.approx(dollars[least], abs=0.01), dollars
    assert dollars[job.provider] == pytest.approx(dollars[least], abs=0.01), dollars


@pytest.mark.slow
@pytest.mark.parametrize("seed", CASES)
def test_a_term_is_taken_where_its_whole_months_cost_less_than_the_hours(seed: int) -> None:
    """Its dollars are due in full, with what is paid at the start; hours are those of the run."""
    random = Random(seed)
    hours, usd = random.uniform(50, 560), random.uniform(1, 4)
    committed, upfront = usd * random.uniform(0.3, 0.9), random.choice([0.0, 100.0])
    term = f"{{months: 1, upfront_usd: {upfront}}}"
    offers = [rented("hourly", usd), rented("monthly", committed, commitment=term)]
    job = planned(offers, {"A100-80GB": hours})
    check(job, {"hourly": hours * usd, "monthly": HOURS_OF_A_MONTH * committed + upfront})


@pytest.mark.slow
@pytest.mark.parametrize("seed", CASES)
def test_started_steps_and_least_hours_are_billed(seed: int) -> None:
    """By the second, by the started hour, or by the day."""
    random = Random(seed)
    hours, usd = random.uniform(0.5, 30), random.uniform(1, 3)
    step, day = usd * random.uniform(0.5, 1), usd * random.uniform(0.3, 0.9)
    offers = [
        rented("seconds", usd),
        rented("steps", step, billing="{step_seconds: 3600}"),
        rented("days", day, billing="{minimum_hours: 24}"),
    ]
    dollars = {"seconds": hours * usd, "steps": math.ceil(hours) * step, "days": max(hours, 24.0) * day}
    check(planned(offers, {"A100-80GB": hours}), dollars)


@pytest.mark.slow
@pytest.mark.parametrize("seed", CASES)
def test_a_service_by_the_token_is_taken_where_it_costs_less_than_the_hours_of_all_trials(seed: int) -> None:
    """Each trial is paid for in full, at least its least dollars."""
    random = Random(seed)
    hours, usd, trials = random.uniform(15, 60), random.uniform(1, 4), random.randint(1, 4)
    tokens, price, least = random.uniform(2e7, 3e8), random.uniform(0.5, 5), random.choice([0.0, 60.0])
    managed = (
        "  - {provider: service, managed: {architectures: [llama-3-8b], "
        f"usd_per_million_tokens: {price}, minimum_usd: {least}, tokens_per_second: 9000}}, {SOURCE}}}\n"
    )
    job = planned([rented("hourly", usd), managed], {"A100-80GB": hours}, tokens=tokens, trials=trials)
    of_service = trials * max(round(tokens) / 1e6 * price, least)
    check(job, {"hourly": trials * hours * usd, "service": of_service})


@pytest.mark.slow
@pytest.mark.parametrize("seed", CASES)
def test_a_faster_machine_is_taken_where_the_hours_that_it_saves_are_worth_its_price(seed: int) -> None:
    """Dollars plus hours times their value; trials side by side take fewer hours for the same dollars."""
    random = Random(seed)
    trials, at_once = random.choice([(1, 1), (4, 1), (4, 2), (4, 4)])
    hours = {"A100-80GB": random.uniform(5, 40)}
    hours["H100-80GB"] = hours["A100-80GB"] * random.uniform(0.3, 0.7)
    usd = {"A100-80GB": random.uniform(1, 2), "H100-80GB": random.uniform(2, 5)}
    value = random.choice([0.5, 2.0, 10.0])
    offers = [rented(gpu.lower(), usd[gpu], gpu) for gpu in hours]
    objective = f"{{value_of_time_usd_per_hour: {value}}}"
    job = planned(offers, hours, trials=trials, at_once=at_once, objective=objective)
    worth = {gpu: trials * hours[gpu] * usd[gpu] + trials / at_once * hours[gpu] * value for gpu in hours}
    best = min(worth, key=lambda gpu: worth[gpu])
    assert worth[job.gpu] <= worth[best] * 1.01, worth
    assert job.cost_usd == pytest.approx(trials * hours[job.gpu] * usd[job.gpu], abs=0.01)
    assert job.hours.expected == pytest.approx(trials / at_once * hours[job.gpu], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", CASES)
def test_hours_that_are_paid_for_go_to_the_runs_that_save_most(seed: int) -> None:
    """Of all sets of runs that fit into them, tried one by one."""
    random = Random(seed)
    hours = [random.uniform(20, 150) for _ in range(3)]
    left, usd = random.uniform(60, 320), random.uniform(1, 4)
    jobs = "".join(
        f"  - {{name: run-{index}, architecture: llama-2-7b, work: {{tokens: 1e9}}, deadline: 80d, "
        f"measured: [{{gpu: A100-80GB, gpus: 1, hours: {value}}}]}}\n"
        for index, value in enumerate(hours)
    )
    paid = f"  - {{provider: paid, gpu: A100-80GB, gpus: 1, committed_hours: {left}, stock: 9, {SOURCE}}}\n"
    plan = solve(parse_scenario(f"schema: 2\nname: left\njobs:\n{jobs}offers:\n{paid}{rented('hourly', usd)}"))
    factors = {job.name: job.hours.at_confidence / job.hours.expected for job in plan.jobs}
    late = [value * factors[f"run-{index}"] for index, value in enumerate(hours)]
    sets = [[index for index in range(3) if chosen >> index & 1] for chosen in range(8)]
    saved = max(
        sum(hours[index] for index in some) for some in sets if sum(late[index] for index in some) <= left + 1e-9
    )
    assert plan.least_cost_usd == pytest.approx((sum(hours) - saved) * usd, abs=0.02)


def tokens_at(batch: int, tokens: float, first: int, sequence: int) -> float:
    """Return the tokens at a batch by the hyperbola of the critical batch (arXiv:1812.06162, arXiv:2410.21676)."""
    critical = 5 * 11_730 * (tokens / 1e6) ** 0.47
    return float(tokens * (1 + batch * sequence / critical) / (1 + first * sequence / critical))


@pytest.mark.slow
@pytest.mark.parametrize("deadline", ["4h", "8h", "20d"])
def test_the_cheapest_batch_is_found_again_by_trying_each(deadline: str) -> None:
    """Each batch with its own tokens, as a run of which nothing is open: none in time is cheaper by more than a tie.

    A larger batch is as uncertain as its law, so one that keeps the deadline alone may not keep it in the range.
    """
    text = BATCH.replace("kind: pretrain", f"kind: pretrain\n    deadline: {deadline}")
    (job,) = solve(parse_scenario(text)).jobs
    assert job.model is not None and job.model.batch is not None
    tried = {}
    for batch in (128, 256, 512, 1024):
        tokens = tokens_at(batch, 20e9, 128, job.sequence_length)
        one = text.replace("{from: 128, to: 1024}", str(batch)).replace("20e9", f"{tokens:.0f}")
        plan = solve(parse_scenario(one))
        if plan.cost is not None:
            tried[batch] = plan.cost.expected
        if batch == job.global_batch:
            assert job.model.tokens == pytest.approx(tokens, rel=1e-9)
            assert plan.cost is not None and plan.cost.expected == pytest.approx(job.cost_usd, rel=0.01)
    smaller = {batch: usd for batch, usd in tried.items() if batch < job.global_batch}
    assert not smaller or min(smaller.values()) >= job.cost_usd * 0.99, tried
    assert job.global_batch == min(tried, key=lambda batch: tried[batch]) or deadline != "20d"


@pytest.mark.slow
def test_more_budget_and_more_time_never_cost_more() -> None:
    """Dollars of the same run under looser limits."""
    base = parse_scenario(BATCH.replace("kind: pretrain", "kind: pretrain\n    deadline: 6h"))
    costs = []
    for hours in (4, 6, 9, 30):
        plan = solve(change_scenario(base, [f"jobs.0.deadline={hours}h"]))
        assert plan.least_cost_usd is not None
        costs.append(plan.least_cost_usd)
    assert costs == sorted(costs, reverse=True)
