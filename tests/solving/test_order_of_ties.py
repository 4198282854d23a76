"""The order inside a tie: own machine, secure host, measured speed, known stock, fewer machines, fewer hours."""

from __future__ import annotations

import datetime
import itertools
import json
from functools import partial
from typing import Any

import numpy as np
import pytest

from planner.arrays import CandidateTable
from planner.candidates.market import offer_steps
from planner.candidates.run_hours import Evidence
from planner.formulation.constraints import find_undominated
from planner.formulation.program import SharedLimits
from planner.formulation.solvers import run
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.report.plan_text import LEAST_COST_IS, near_tie
from planner.results.plan import Plan
from planner.scenario.offer import Offer
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.optimise_choice import solve_lexicographic
from planner.solving.solve import solve
from planner.timetable.modes import undominated_modes
from planner.timetable.timetable_problem import Mode, Resource, Task, Timetable
from planner.timetable.timetable_result import solve_schedule
from tests.helpers.candidate_tables import NAN, make_table

OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
PLAIN = {"provider": "plain", "gpu": "A6000", "gpus": 1, "usd_per_hour": 0.5, "stock": 4}
OWN = {"power_watts": 1000, "usd_per_kwh": 0.5}
BETTER_AND_WORSE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # What is worse is better in later steps.
    "own": ({"own": OWN, "usd_per_hour": None, "gpu": "A6000"}, {"gpus": 2}),
    "evidence": ({"gpu": "RTX3090", "stock": None}, {"gpu": "L40", "gpus": 2}),
}


def scenario(*offers: dict[str, Any]) -> Scenario:
    job = {
        "architecture": "mistral-7b",
        "framework": "hf",
        "work": {"tokens": "20M"},
        "techniques": {"method": "lora", "weight_bits": 4},
    }
    written = [{key: value for key, value in one.items() if value is not None} for one in offers]
    return parse_scenario(json.dumps({"jobs": [job], "offers": written}))


def planned(*offers: dict[str, Any]) -> Plan:
    return solve(scenario(*offers), OPTIONS)


def usd_of(plan: Plan) -> float:
    assert plan.cost is not None
    return plan.cost.expected


@pytest.mark.parametrize("step", BETTER_AND_WORSE)
def test_what_a_step_prefers_is_planned_though_it_costs_half_a_percent_more(step: str) -> None:
    """The plan says what the least cost is and why it is not taken; a strict optimum takes it."""
    better, worse = ({**PLAIN, "provider": name, **one} for name, one in zip("bw", BETTER_AND_WORSE[step], strict=True))
    dear, cheap = (usd_of(planned(one)) for one in (better, worse))
    worse["usd_per_hour"] *= 0.995 * dear / cheap
    asked = scenario(better, worse)
    plan, strict = solve(asked, OPTIONS), solve(change_scenario(asked, ["solve.ties=0"]), OPTIONS)
    assert (plan.jobs[0].provider, strict.jobs[0].provider) == ("b", "w")
    assert plan.tie_decided_by == step and strict.tie_decided_by is None
    assert usd_of(strict) == plan.least_cost_usd == pytest.approx(0.995 * dear, rel=1e-3)
    assert LEAST_COST_IS[step] in " ".join(" ".join(near_tie(plan)).split()) and not near_tie(strict)


def test_no_runs_of_a_gpu_decide_a_tie_of_preference_tuning() -> None:
    """The speed of pairs is a prior on every GPU: what costs less is planned, on the GPU that was measured less."""
    measured, prior = (
        {**PLAIN, "provider": name, **one} for name, one in zip("bw", BETTER_AND_WORSE["evidence"], strict=True)
    )
    measured |= {"stock": 4}
    pairs = {"method": "dpo", "work": {"samples": 20_000, "tokens_per_sample": 1000}, "sequence_length": 1024}
    settings = [f"jobs.0.{key}={json.dumps(value)}" for key, value in pairs.items()]
    dear, cheap = (usd_of(solve(change_scenario(scenario(one), settings), OPTIONS)) for one in (measured, prior))
    prior["usd_per_hour"] *= 0.995 * dear / cheap
    plan = solve(change_scenario(scenario(measured, prior), settings), OPTIONS)
    assert plan.jobs[0].provider == "w"
    assert plan.tie_decided_by is None


def test_the_steps_of_offers() -> None:
    """Own or not, private host or not, stock known or not; a status of the provider's list is known, too."""
    plain = {"provider": "p", "gpu": "A6000", "gpus": 1, "usd_per_hour": 1.0}
    written = [{**plain, "stock_status": "high"}, plain, {**plain, "community": True, "stock": 3}]
    own = {"provider": "home", "gpu": "A6000", "gpus": 1, "own": OWN}
    offers = [Offer.model_validate(one) for one in (*written, own)]
    assert offer_steps(offers).tolist() == [[1, 0, 0], [1, 0, 1], [1, 1, 0], [0, 0, 0]]


def ranked(steps: tuple[int, ...], machines: int, hours: float, usd: float, **more: Any) -> dict[str, Any]:
    return {**{"tie_steps": steps, "instances": machines, "run_usd": (usd, NAN), "run_h": (hours, NAN)}, **more}


@pytest.mark.parametrize("place", range(6))
def test_an_earlier_step_outweighs_all_later_ones(place: int) -> None:
    """Of two rows within a tie the one better in one step wins, worse in all later ones and half a percent more."""
    worst = (1, 1, int(Evidence.PRIOR), 1, 9, 9.0)
    better = tuple(0 if step == place else one if step > place else 1 for step, one in enumerate(worst))
    worse = tuple(worst[step] if step == place else 0 if step > place else 1 for step in range(6))
    rows = [ranked(one[:4], int(one[4]) + 1, one[5] + 1.0, usd) for one, usd in ((worse, 1.0), (better, 1.005))]
    table = make_table(rows)
    assert find_undominated(table, SharedLimits(), keeps_ties=True).all()
    assert solve_lexicographic(table, SharedLimits(), run, lambda usd: 0.01 * usd).rows.tolist() == [1]
    assert solve_lexicographic(table, SharedLimits(), run).rows.tolist() == [0]
    assert solve_lexicographic(table, SharedLimits(), run, lambda usd: 0.001 * usd).rows.tolist() == [0]


def random_rows(draw: np.random.Generator, jobs: int) -> CandidateTable:
    rows = [
        ranked(
            tuple(int(draw.integers(most)) for most in (2, 2, 3, 2)),
            int(draw.integers(1, 4)),
            float(draw.integers(1, 9)),
            float(draw.choice([5.0, 5.02, 5.04, 5.06, 6.0])),
            job=f"job{job}",
            offer="abcd"[int(draw.integers(4))],
        )
        for job in range(jobs)
        for _ in range(5)
    ]
    return make_table(rows, jobs=[f"job{job}" for job in range(jobs)])


@pytest.mark.parametrize("seed", range(12))
def test_the_order_is_that_of_brute_force(seed: int) -> None:
    """One to three jobs, with GPUs that they share: the sums over the jobs are compared, step by step."""
    draw = np.random.default_rng(seed)
    jobs = 1 + seed % 3
    table, shared = random_rows(draw, jobs), SharedLimits(stock={"a": 3})
    kept = np.flatnonzero(find_undominated(table, shared, keeps_ties=True))
    groups = [np.flatnonzero(table.job == job).tolist() for job in range(jobs)]
    usd, hours = table.cost_usd(0.0), table.late_hours(0.0)
    feasible = [
        rows
        for one in itertools.product(*groups)
        if table.instances[rows := list(one)][table.offer[rows] == 0].sum() <= 3
    ]
    least = min(usd[rows].sum() for rows in feasible)
    for ties in (0.0, 0.01):
        near = [rows for rows in feasible if usd[rows].sum() <= least * (1 + max(ties, 1e-6))]
        value = min(key(table, hours, rows) for rows in near)
        found = solve_lexicographic(table.rows(kept), shared, partial(run), lambda reached, share=ties: share * reached)
        assert key(table, hours, kept[found.rows].tolist()) == value
        assert found.first.objective == pytest.approx(least)
        if not ties:
            assert usd[kept[found.rows]].sum() <= least * (1 + 1e-6) + 1e-9


def key(table: CandidateTable, hours: np.ndarray, rows: list[int]) -> tuple[float, ...]:
    """What a tie compares: sums over the jobs."""
    return (*table.tie_steps[rows].sum(axis=0).tolist(), int(table.instances[rows].sum()), float(hours[rows].sum()))


def test_of_equal_timetables_that_of_better_ranks_is_taken() -> None:
    """At equal cost the own machine goes before the faster rented one; a unit less decides against it."""
    own, rented = Mode("own", 90, 100, needs=((0, 1),)), Mode("rented", 60, 100, rank=1)
    assert sorted(undominated_modes([own, rented])) == [0, 1]
    for usd, expected in ((100, [0, 1]), (99, [1, 1])):
        modes = own, Mode("rented", 60, usd, rank=1)
        problem = Timetable(
            (Task("a", modes), Task("b", (modes[1], modes[1]))), resources=(Resource("own", 1),), horizon=1000
        )
        found = solve_schedule(problem, SolveOptions()).schedule
        assert found is not None and [found.mode(problem, 0).rank, found.mode(problem, 1).rank] == expected


def test_jobs_that_a_tie_would_put_on_one_machine_do_not_wait_for_it() -> None:
    """Both prefer the own machine by half a percent: one takes it, the other rents, and none takes turns for a tie."""
    own = {**PLAIN, "provider": "home", "own": OWN, "usd_per_hour": None, "stock": None}
    dear, cheap = (usd_of(planned(one)) for one in (own, PLAIN))
    asked = scenario(own, {**PLAIN, "usd_per_hour": 0.5 * 0.995 * dear / cheap})
    both = asked.model_copy(update={"jobs": (*asked.jobs, asked.jobs[0].model_copy(update={"name": "second"}))})
    plan = solve(both, OPTIONS)
    assert sorted(one.provider for one in plan.jobs) == ["home", "plain"] and not plan.is_timetable
    assert plan.tie_decided_by == "own"
