"""Budgets of several jobs, against runs that share nothing with the planner's odds: drawn scenarios, 2,000 runs of each.

    python -m tests.independent.joint_budgets [SEED]

prints the table. Jobs on one offer see the same market, minute by minute; different offers have markets of their own;
the speeds of all jobs err alike. The scenarios of a seed are used for nothing else.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import planner
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Assignment, Plan
from planner.scenario.scenario import Scenario
from tests.independent.spot import Floats, slowness
from tests.independent.spot_odds import DEMAND_USD, OPTIONS, RUNS, Market, Row, draw_market, facts_of, run_policy

SEED = 7301
TRIES = 40
"""Draws for each scenario that is asked for: many have a plan of another kind."""
SMALL, LARGE = ("mistral-7b", "RTX4090", 2280.0), ("qwen2.5-32b", "A100-80GB", 906.0)
"""Model, the only GPU that is cheap and large enough for it, tokens per second of a LoRA run there."""
DEMAND = {"RTX4090": DEMAND_USD, "A100-80GB": 3 * DEMAND_USD}


@dataclass(frozen=True)
class Drawn:
    """A scenario without a budget, and the market of each offer."""

    text: str
    markets: dict[str, Market]

    def within(self, limits: str) -> Scenario:
        return parse_scenario(f"{self.text}limits: {{{limits}}}\n")


KINDS = {
    "one market": ((SMALL, False), (SMALL, False)),
    "one market, three jobs": ((SMALL, False), (SMALL, False), (SMALL, False)),
    "two markets": ((SMALL, False), (LARGE, False)),
    "two markets, three jobs": ((SMALL, False), (SMALL, False), (LARGE, False)),
    "spot and on demand": ((SMALL, False), (LARGE, True)),
}
"""The jobs of each kind: what they train, and whether their deadline leaves no time for spot."""


def draw(rng: np.random.Generator, kind: str) -> Drawn:
    """Return jobs of four to twelve hours, and a market for each GPU that they need."""
    offers, markets, jobs = "", dict[str, Market](), ""
    for number, ((model, gpu, speed), is_tight) in enumerate(KINDS[kind]):
        if gpu not in markets:
            one = draw_market(rng)
            factor = DEMAND[gpu] / DEMAND_USD
            markets[gpu] = Market(one.up, one.down, round(one.spot_usd * factor, 4))
            offer = markets[gpu].offer(gpu[0].lower(), demand=True)
            offers += offer.replace("gpu: RTX4090", f"gpu: {gpu}").replace(
                f"usd_per_hour: {DEMAND_USD},", f"usd_per_hour: {DEMAND[gpu]},"
            )
        hours = float(rng.uniform(4, 12))
        deadline = hours * (1.13 if is_tight else float(rng.uniform(1.3, 2.5))) + 0.5
        work = f"architecture: {model}, work: {{tokens: {hours * 3600 * speed:.0f}}}"
        jobs += f"  - {{name: j{number}, {work}, deadline: {deadline:.2f}h, techniques: {{method: lora}}}}\n"
    return Drawn(f"schema: 2\nname: drawn\noffers:\n{offers}jobs:\n{jobs}", markets)


def kind_of(plan: Plan) -> str:
    """Return what the jobs of a plan rent, in the words of `KINDS`."""
    on_spot = [job.gpu for job in plan.jobs if job.spot is not None]
    if len(on_spot) < len(plan.jobs):
        return "spot and on demand" if len(on_spot) == 1 and len(plan.jobs) == 2 else "other"
    markets = "one market" if len(set(on_spot)) == 1 else "two markets"
    return markets + (", three jobs" if len(on_spot) == 3 else "")


def simulated_usd(drawn: Drawn, scenario: Scenario, plan: Plan, seed: int) -> Floats:
    """Return the dollars of all jobs together in each run (runs,)."""
    latest = 1.6 * max(job.deadline_hours or 0.0 for job in plan.jobs)
    total = np.zeros(RUNS)
    for job in plan.jobs:
        if job.spot is None:
            total += _usd_on_demand(scenario, plan, job)
            continue
        # One seed and one latest hour: the same market. Different GPUs have markets of their own.
        place = sorted(drawn.markets).index(job.gpu)
        total += run_policy(scenario, plan, job, drawn.markets[job.gpu], seed + place, latest, DEMAND[job.gpu]).usd
    return total


def _usd_on_demand(scenario: Scenario, plan: Plan, job: Assignment) -> Floats:
    facts = facts_of(scenario, plan)[job.name]
    slow = slowness(job.sigma_tail, (np.arange(RUNS) + 0.5) / RUNS)
    outside = (job.cost_usd / facts.on_demand_usd_per_hour) - facts.work_hours  # start and load, which errs as all else
    return np.asarray(slow * (facts.work_hours + outside) * facts.on_demand_usd_per_hour)


@dataclass(frozen=True)
class Asked:
    """What was asked of a budget: the rows of the table, and whether the plan says that it was kept too cautiously."""

    rows: tuple[Row, ...]


def statements(seed: int, each: int = 5) -> Iterator[Row]:
    """Return, of `each` scenarios of every kind, what a plan states within the smallest budget and within a larger one.

    *smallest budget*: the one that a scenario with too small a budget is said to need; 90 % are asked for. *total*: what
    the plan states at 90 %. *budget*: the stated probability of a budget between the smallest and what the plan without
    one needs.
    """
    for number, kind in enumerate(KINDS):
        rng, found = np.random.default_rng([seed, number]), 0
        for attempt in range(TRIES * each):
            if found == each:
                break
            rows = rows_of(draw(rng, kind), rng, kind, seed + 100 * number + 3 * attempt)
            found += bool(rows)
            yield from rows


def rows_of(drawn: Drawn, rng: np.random.Generator, kind: str, seed: int) -> list[Row]:
    share = float(rng.uniform(0.0, 1.0))
    free = planner.solve(drawn.within("budget_usd: 1000000"), options=OPTIONS)
    if not free.jobs or kind_of(free) != kind:
        return []
    refused = planner.solve(drawn.within("budget_usd: 0.01"), options=OPTIONS)
    assert refused.infeasible is not None
    least = next(float(one.change_to) for one in refused.infeasible.relax if one.limit == "limits.budget_usd")  # type: ignore[arg-type]
    rows = []
    needed = free.cost_at_confidence or 0.0
    for name, budget in (("smallest budget", least), ("budget", least + share * (needed - least))):
        scenario = drawn.within(f"budget_usd: {budget:.4f}")
        plan = planner.solve(scenario, options=OPTIONS)
        if not plan.jobs or plan.cost_at_confidence is None or plan.budget_probability is None:
            rows.append(Row(name, f"{kind}: no plan within ${budget:.2f}", 90.0, 0.0))
            continue
        usd = simulated_usd(drawn, scenario, plan, seed)
        within = 100 * float(np.mean(usd <= budget))
        at = f"{kind} (of ${budget:.2f}: {plan.cost_at_confidence:.2f})"
        if name == "smallest budget":
            rows.append(Row(name, at, 90.0, within))
        rows.append(Row(f"total, {name}", at, 90.0, 100 * float(np.mean(usd <= plan.cost_at_confidence + 0.005))))
        stated = 100 * plan.budget_probability
        rows.append(Row(f"chance, {name}", at, stated, min(within, 97.5) if stated >= 97.5 else within))
    return rows


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
    table, scenarios = [], Counter[str]()
    for one in statements(int(sys.argv[1]) if len(sys.argv) > 1 else SEED):
        print(one, flush=True)
        table.append(one)
    print(summary(table))
