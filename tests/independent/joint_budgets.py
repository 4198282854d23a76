"""Budgets of several jobs, against runs that share nothing with the odds of plans: drawn scenarios, 2,000 runs of each.

    python -m tests.independent.joint_budgets [SEED]

prints the table. Jobs on one offer see the same market, minute by minute; different offers have markets of their own;
the speeds of all jobs err alike. The scenarios of a seed are used for nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

import planner
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Assignment, Plan
from planner.scenario.scenario import Scenario
from tests.independent.spot import Floats, slowness
from tests.independent.spot_odds import DEMAND_USD, OPTIONS, RUNS, Market, Policies, Row, draw_market, run_policy

SEED = 8117
TRIES = 8
"""Draws for each scenario that is asked for: some have a plan of another kind."""
SMALL, LARGE = ("mistral-7b", "RTX4090", 2280.0), ("qwen2.5-32b", "A100-80GB", 906.0)
"""Model, the only GPU that is cheap and large enough for it, tokens per second of a LoRA run there."""
DEMAND = {"RTX4090": DEMAND_USD, "A100-80GB": 3 * DEMAND_USD}
KINDS = {
    "one market": (SMALL, SMALL),
    "one market, three jobs": (SMALL, SMALL, SMALL),
    "two markets": (SMALL, LARGE),
    "two markets, three jobs": (SMALL, SMALL, LARGE),
    "spot and on demand": (SMALL, LARGE),  # the large GPU is not sold on spot
}
"""The jobs of each kind."""


@dataclass(frozen=True)
class Drawn:
    """A scenario without a budget, and the spot market of each GPU."""

    text: str
    markets: dict[str, Market]

    def within(self, budget_usd: float) -> Scenario:
        return parse_scenario(f"{self.text}limits: {{budget_usd: {budget_usd:.4f}}}\n")


def draw(rng: np.random.Generator, kind: str) -> Drawn:
    """Return jobs of four to twelve hours, and an offer of each GPU that they need."""
    offers, markets, jobs = dict[str, str](), dict[str, Market](), ""
    for number, (model, gpu, speed) in enumerate(KINDS[kind]):
        if gpu not in offers:
            one, usd = draw_market(rng), DEMAND[gpu]
            markets[gpu] = Market(one.up, one.down, round(one.spot_usd * usd / DEMAND_USD, 4))
            offers[gpu] = markets[gpu].offer(gpu[0].lower(), demand=True, gpu=gpu, demand_usd=usd)
            if kind == "spot and on demand" and gpu == LARGE[1]:
                offers[gpu] = f"  - {{provider: b, instance: x, gpu: {gpu}, gpus: 1, usd_per_hour: {usd}}}\n"
        hours = float(rng.uniform(4, 12))
        deadline = hours * float(rng.uniform(1.3, 2.5)) + 0.5
        work = f"architecture: {model}, work: {{tokens: {hours * 3600 * speed:.0f}}}"
        jobs += f"  - {{name: j{number}, {work}, deadline: {deadline:.2f}h, techniques: {{method: lora}}}}\n"
    return Drawn(f"schema: 2\nname: drawn\noffers:\n{''.join(offers.values())}jobs:\n{jobs}", markets)


def kind_of(plan: Plan) -> str:
    """Return what the jobs of a plan rent, in the words of `KINDS`."""
    on_spot = [job.gpu for job in plan.jobs if job.spot is not None]
    if len(on_spot) < len(plan.jobs):
        return "spot and on demand" if len(on_spot) == 1 else "on demand"
    markets = "one market" if len(set(on_spot)) == 1 else "two markets"
    return markets + (", three jobs" if len(on_spot) == 3 else "")


def simulated_usd(drawn: Drawn, scenario: Scenario, plan: Plan, seed: int) -> Floats:
    """Return the dollars of all jobs together in each run (runs,)."""
    latest = 1.6 * max(job.deadline_hours or 0.0 for job in plan.jobs)
    total, policies = np.zeros(RUNS), Policies.of(scenario, plan)
    for job in plan.jobs:
        if job.spot is None:
            total += _usd_on_demand(job)
            continue
        # One seed and one latest hour: the same market. Different GPUs have markets of their own.
        place = sorted(drawn.markets).index(job.gpu)
        total += run_policy(policies, job, drawn.markets[job.gpu], seed + place, latest, DEMAND[job.gpu]).usd
    return total


def _usd_on_demand(job: Assignment) -> Floats:
    """Return the dollars of a job (runs,) whose hours all err alike."""
    return job.cost_usd * slowness(job.sigma_in_tails, (np.arange(RUNS) + 0.5) / RUNS)


def statements(seed: int, each: int = 5, kinds: Collection[str] = tuple(KINDS)) -> Iterator[Row]:
    """Yield what plans state within the smallest budget, and within a larger one, of `each` scenarios of some kinds.

    *Smallest*: the budget that a scenario with too small a one is said to need, which 90 % are asked of. *Total*: what
    the plan states at 90 %. *Chance*: the stated probability of the budget, which may be up to a tenth larger.
    """
    for number, kind in enumerate(KINDS):
        if kind not in kinds:
            continue
        rng, found, tried = np.random.default_rng([seed, number]), 0, 0
        while found < each and tried < TRIES * each:
            tried += 1
            drawn, larger = draw(rng, kind), float(rng.uniform(1.0, 1.1))
            rows = list(_rows_of(drawn, larger, kind, seed + 100 * number + 2 * tried))
            found += bool(rows)
            yield from rows


def _rows_of(drawn: Drawn, larger: float, kind: str, seed: int) -> Iterator[Row]:
    """Yield the rows of one scenario; none where its plan is of another kind."""
    least = smallest_budget(planner.solve(drawn.within(0.01), options=OPTIONS))
    for name, budget in (("smallest", least), ("larger", least * larger)):
        plan = planner.solve(scenario := drawn.within(budget), options=OPTIONS)
        assert plan.cost_at_confidence is not None and plan.budget_probability is not None, plan.status
        if kind_of(plan) != kind:
            return
        usd, stated = simulated_usd(drawn, scenario, plan, seed), 100 * plan.budget_probability
        within = 100 * float(np.mean(usd <= budget))
        at = f"{kind}, ${plan.cost_at_confidence:.2f} of ${budget:.2f}"
        if name == "smallest":
            yield Row("smallest budget", at, 90.0, within)
        total = 100 * float(np.mean(usd <= plan.cost_at_confidence + 0.005))
        yield Row(f"total, {name} budget", at, 90.0, total)
        yield Row(f"chance, {name} budget", at, stated, min(within, 97.5) if stated >= 97.5 else within)


def smallest_budget(plan: Plan) -> float:
    """Return the budget that alone makes a plan possible."""
    assert plan.infeasible is not None
    ways = [[one for one in plan.infeasible.relax if one.way == way.way] for way in plan.infeasible.relax]
    return next(float(way[0].change_to) for way in ways if [one.limit for one in way] == ["limits.budget_usd"])


def summary(found: list[Row]) -> str:
    """Return one line for each kind of statement."""
    lines = []
    for kind in dict.fromkeys(row.kind for row in found):
        over = [row.over for row in found if row.kind == kind]
        lines.append(
            f"{kind:24} {len(over):3}: within 3 points {sum(abs(one) <= 3 for one in over):3}, least {min(over):+.1f}, "
            f"too cautious by over 3 points {sum(one > 3 for one in over)}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    table = []
    for one in statements(int(sys.argv[1]) if len(sys.argv) > 1 else SEED):
        print(one, flush=True)
        table.append(one)
    print(summary(table))
