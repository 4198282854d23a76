"""Odds that a plan states, against runs that share nothing with its policy: drawn markets, 2,000 runs on each.

    python -m tests.independent.spot_odds [SEED]

prints the table. The markets of a seed are used for nothing else: no figure of the program was chosen by them.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import planner
from planner.analysis.job_runs import build_job_runs
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Assignment, Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.prepare import prepare
from planner.spot.run import SpotRun
from tests.helpers.bare_plans import bare_plan
from tests.independent.spot import Job, Outcome, Rates, simulate

RUNS, SEED = 2000, 5101
OPTIONS = SolveOptions(as_of=datetime.date(2026, 11, 21))
DEMAND_USD = 0.5


@dataclass(frozen=True)
class Market:
    up: Rates
    down: Rates
    spot_usd: float

    def offer(self, provider: str, demand: bool, gpu: str = "RTX4090", demand_usd: float = DEMAND_USD) -> str:
        up, down = self.up.mean(), self.down.mean()
        sold = f"usd_per_hour: {demand_usd}, " if demand else ""
        blocks = [
            f"{name}: {{ages_hours: {list(one.ages)}, ends_per_hour: {list(one.rates)}}}"
            for name, one in (("up", self.up), ("outage", self.down))
        ]
        prices = f"{sold}spot_usd_per_hour: {self.spot_usd}, date: 2026-11-20"
        means = f"availability: {up / (up + down):.6f}, mean_up_hours: {up:.5f}"
        machine = f"provider: {provider}, instance: x, gpu: {gpu}, gpus: 1"
        return f"  - {{{machine}, {prices}, spot: {{{means}, {', '.join(blocks)}}}}}\n"


@dataclass(frozen=True)
class Row:
    kind: str
    market: str
    stated: float  # percent
    simulated: float

    @property
    def over(self) -> float:
        """How far the statement is too cautious, in points; negative where it promises too much."""
        return self.simulated - self.stated

    def __str__(self) -> str:
        return f"{self.kind:22} {self.market:44} {self.stated:6.1f} {self.simulated:6.1f} {self.over:+6.1f}"


def draw_market(rng: np.random.Generator) -> Market:
    """Means from half an hour to half a day, young durations that end faster or more slowly than old ones."""

    def rates(least: float, most: float) -> Rates:
        mean = float(np.exp(rng.uniform(math.log(least), math.log(most))))
        age, young, old = rng.uniform(0.1, 0.6) * mean, rng.uniform(0.5, 1.8) / mean, rng.uniform(0.4, 1.0) / mean
        return Rates((0.0, round(float(age), 3)), (round(float(young), 4), round(float(old), 4)))

    return Market(rates(0.5, 12), rates(0.3, 6), round(DEMAND_USD * float(rng.uniform(0.1, 0.5)), 4))


def scenario_of(offers: str, jobs: list[tuple[float, float]], limits: str = "{}") -> Scenario:
    """Jobs of (tokens, deadline in hours)."""
    lines = "".join(
        f"  - {{name: j{number}, architecture: mistral-7b, work: {{tokens: {tokens:.0f}}}, deadline: {hours:.2f}h, "
        "techniques: {method: lora}}\n"
        for number, (tokens, hours) in enumerate(jobs)
    )
    return parse_scenario(f"schema: 2\nname: drawn\noffers:\n{offers}jobs:\n{lines}limits: {limits}\n")


def facts_of(scenario: Scenario, plan: Plan) -> dict[str, SpotRun]:
    """How long work, starts and checkpoints of each job take: what runs are made of, no odds."""
    return {one.job.name: one.run for one in build_job_runs(prepare(scenario), plan)}


def job_of(facts: SpotRun, job: Assignment, market: Market) -> Job:
    """A job on spot alone."""
    return Job(
        work=facts.work_hours,
        restart=facts.restart_hours,
        interval=facts.interval_hours,
        stall=facts.stall_hours,
        write=facts.write_hours,
        notice=facts.last_checkpoint,
        sigma=job.sigma_in_tails,
        spot_usd=market.spot_usd,
        demand_usd=math.inf,
        deadline=math.inf,
    )


@dataclass(frozen=True)
class Policies:
    """What the jobs of one plan are made of and the tables that they follow, by name: computed once for all of them."""

    facts: dict[str, SpotRun]
    tables: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, scenario: Scenario, plan: Plan) -> Policies:
        return cls(facts_of(scenario, plan), planner.policy_tables(scenario, plan))


def run_policy(
    policies: Policies,
    job: Assignment,
    market: Market,
    seed: int,
    latest: float | None = None,
    demand_usd: float = DEMAND_USD,
) -> Outcome:
    """Follow the policy of a job; runs of one seed up to one latest hour see the same market."""
    table, deadline = policies.tables[job.name], job.deadline_hours or math.inf
    one = replace(
        job_of(policies.facts[job.name], job, market),
        demand_usd=demand_usd,
        deadline=deadline,
        guaranteed=table["guaranteed_hours"],
        table=table,
    )
    return simulate(one, market.up, market.down, RUNS, seed, latest or 1.6 * deadline)


def policy_rows(seed: int, number: int) -> Iterator[Row]:
    """Budgets of one job that may go on demand: dollars at three confidences, and the deadline."""
    rng, found = np.random.default_rng([seed, 1]), 0
    while found < number:
        market, tokens = draw_market(rng), float(rng.uniform(20e6, 120e6))
        hours = tokens / 2280 / 3600 * float(rng.uniform(1.25, 3.0)) + 0.5
        scenario = scenario_of(market.offer("a", demand=True), [(tokens, hours)])
        plan = bare_plan(scenario, OPTIONS)
        if not plan.jobs or plan.jobs[0].spot is None or plan.cost_at_confidence is None:
            continue
        found += 1
        outcome = run_policy(Policies.of(scenario, plan), plan.jobs[0], market, seed + found)
        name = f"up {market.up.mean():.1f} h, out {market.down.mean():.1f} h, by {hours:.1f} h"
        yield Row("dollars, policy", name, 90.0, 100 * float(np.mean(outcome.usd <= plan.cost_at_confidence)))
        cases = sorted(one for row in plan.jobs[0].usd_of_runs for one in row)
        for share in (0.5, 0.75):
            usd = float(np.quantile(cases, share))
            yield Row("dollars, policy", name, 100 * share, 100 * float(np.mean(outcome.usd <= usd)))


def spot_only_rows(seed: int, number: int) -> Iterator[Row]:
    """Hours and dollars of one job that has nothing but spot."""
    rng = np.random.default_rng([seed, 2])
    for each in range(number):
        market, tokens = draw_market(rng), float(rng.uniform(20e6, 120e6))
        scenario = scenario_of(market.offer("a", demand=False), [(tokens, 1500.0)])
        plan = bare_plan(scenario, OPTIONS)
        if not plan.jobs:
            continue
        job = plan.jobs[0]
        one, late = job_of(facts_of(scenario, plan)[job.name], job, market), job.hours.at_confidence
        outcome = simulate(one, market.up, market.down, RUNS, seed + each, 2 * late)
        name = f"up {market.up.mean():.1f} h, out {market.down.mean():.1f} h, {one.work:.1f} h of work"
        yield Row("hours, spot only", name, 90.0, 100 * float(np.mean(outcome.hours <= late)))
        yield Row("dollars, spot only", name, 90.0, 100 * float(np.mean(outcome.usd <= job.cost_at_confidence)))
        cases = sorted(one for row in job.hours_of_runs for one in row)
        usual = float(np.quantile(cases, 0.5))
        yield Row("hours, spot only", name, 50.0, 100 * float(np.mean(outcome.hours <= usual)))


def generation_rows(seed: int, number: int) -> Iterator[Row]:
    """Hours and dollars of answers that nothing but one spot machine gives."""
    rng = np.random.default_rng([seed, 5])
    for each in range(number):
        market, requests = draw_market(rng), float(rng.uniform(2e4, 1.2e5))
        scenario = parse_scenario(
            f"schema: 2\nname: drawn\noffers:\n{market.offer('a', demand=False)}jobs:\n  - {{name: g, kind: inference, "
            f"architecture: mistral-7b, work: {{requests: {requests:.0f}, input_tokens: 800, output_tokens: 200}}, "
            "techniques: {engine: vllm, weight_bits: 16}, deadline: 1500h}\nlimits: {max_gpus: 1}\n"
        )
        plan = bare_plan(scenario, OPTIONS)
        if not plan.jobs:
            continue
        job = plan.jobs[0]
        one, late = job_of(facts_of(scenario, plan)[job.name], job, market), job.hours.at_confidence
        outcome = simulate(one, market.up, market.down, RUNS, seed + each, 2 * late)
        name = f"up {market.up.mean():.1f} h, out {market.down.mean():.1f} h, {one.work:.1f} h of work"
        yield Row("hours, generation", name, 90.0, 100 * float(np.mean(outcome.hours <= late)))
        yield Row("dollars, generation", name, 90.0, 100 * float(np.mean(outcome.usd <= job.cost_at_confidence)))
        cases = sorted(one for row in job.hours_of_runs for one in row)
        usual = float(np.quantile(cases, 0.5))
        yield Row("hours, generation", name, 50.0, 100 * float(np.mean(outcome.hours <= usual)))


def joint_rows(seed: int, number: int) -> Iterator[Row]:
    """Dollars of two jobs together, on markets of their own at speeds that err alike."""
    rng, found = np.random.default_rng([seed, 3]), 0
    while found < number:
        markets = [draw_market(rng), draw_market(rng)]
        jobs = []
        for _ in markets:
            tokens = float(rng.uniform(30e6, 90e6))
            jobs.append((tokens, tokens / 2280 / 3600 * float(rng.uniform(1.3, 2.5)) + 0.5))
        offers = "".join(one.offer(name, demand=True) for one, name in zip(markets, "ab", strict=True))
        scenario = scenario_of(offers, jobs)
        plan = bare_plan(scenario, OPTIONS)
        if len(plan.jobs) < 2 or any(job.spot is None for job in plan.jobs) or plan.cost_at_confidence is None:
            continue
        found += 1
        policies = Policies.of(scenario, plan)
        usd = sum(
            run_policy(policies, job, markets["ab".index(job.provider)], seed + 10 * found + place).usd
            for place, job in enumerate(plan.jobs)
        )
        yield Row("dollars, two jobs", "", 90.0, 100 * float(np.mean(usd <= plan.cost_at_confidence)))


def one_market_rows(seed: int, number: int) -> Iterator[Row]:
    """Dollars of two jobs together on one market, at speeds that err alike."""
    rng, found = np.random.default_rng([seed, 6]), 0
    while found < number:
        market, jobs = draw_market(rng), []
        for _ in range(2):
            tokens = float(rng.uniform(30e6, 90e6))
            jobs.append((tokens, tokens / 2280 / 3600 * float(rng.uniform(1.3, 2.5)) + 0.5))
        scenario = scenario_of(market.offer("a", demand=True), jobs)
        plan = bare_plan(scenario, OPTIONS)
        if len(plan.jobs) < 2 or any(job.spot is None for job in plan.jobs) or plan.cost_at_confidence is None:
            continue
        found += 1
        latest, policies = 1.6 * max(hours for _, hours in jobs), Policies.of(scenario, plan)
        usd = sum(run_policy(policies, job, market, seed + found, latest).usd for job in plan.jobs)
        yield Row("dollars, one market", "", 90.0, 100 * float(np.mean(usd <= plan.cost_at_confidence)))


def mixed_rows(seed: int, number: int) -> Iterator[Row]:
    """Deadline, hours and dollars of one job on spot up to an hour, then on demand."""
    rng, found = np.random.default_rng([seed, 4]), 0
    while found < number:
        market, tokens = draw_market(rng), float(rng.uniform(20e6, 120e6))
        hours, least = tokens / 2280 / 3600 * float(rng.uniform(1.2, 2.5)) + 0.5, float(rng.uniform(0.1, 0.7))
        limits = f"{{spot_share: {{min: {least:.3f}, max: {min(0.95, least + float(rng.uniform(0, 0.3))):.3f}}}}}"
        scenario = scenario_of(market.offer("a", demand=True), [(tokens, hours)], limits)
        plan = bare_plan(scenario, OPTIONS)
        if not plan.jobs or not 0 < plan.jobs[0].spot_share < 1 or plan.jobs[0].spot is not None:
            continue
        found += 1
        job, late = plan.jobs[0], plan.jobs[0].hours.at_confidence
        one = job_of(facts_of(scenario, plan)[job.name], job, market)
        one = replace(one, demand_usd=DEMAND_USD, switch=job.switch_to_on_demand_at_hours or math.inf)
        outcome = simulate(one, market.up, market.down, RUNS, seed + found, 2 * late + 3 * one.work)
        name = f"up {market.up.mean():.1f} h, out {market.down.mean():.1f} h, {job.spot_share:.0%} of {one.work:.1f} h"
        in_time = 100 * float(np.mean(outcome.hours <= hours))
        stated = 100 * (job.deadline_probability or 0.0)  # 97.5 is stated as "at least"
        yield Row("deadline, fixed share", name, stated, min(in_time, 97.5) if stated >= 97.5 else in_time)
        yield Row("hours, fixed share", name, 90.0, 100 * float(np.mean(outcome.hours <= late)))
        usd = 100 * float(np.mean(outcome.usd <= job.cost_at_confidence + 0.005))
        yield Row("dollars, fixed share", name, 90.0, usd)


def statements(
    seed: int, policies: int = 14, alone: int = 8, pairs: int = 4, answers: int = 5, mixes: int = 5
) -> Iterator[Row]:
    """Policies, then jobs on spot alone, pairs of jobs, generation on spot alone, and fixed shares of two markets."""
    yield from policy_rows(seed, policies)
    yield from spot_only_rows(seed, alone)
    yield from joint_rows(seed, pairs)
    yield from one_market_rows(seed, pairs // 2)
    yield from generation_rows(seed, answers)
    yield from mixed_rows(seed, mixes)


def summary(found: list[Row]) -> str:
    over = [one.over for one in found]
    return (
        f"{len(found)} statements: within 3 points {sum(abs(one) <= 3 for one in over)}, least {min(over):+.1f}, "
        f"too cautious by over 3 points {sum(one > 3 for one in over)}"
    )


if __name__ == "__main__":
    drawn = int(sys.argv[1]) if len(sys.argv) > 1 else SEED
    table = []
    for each in statements(drawn):
        print(each, flush=True)
        table.append(each)
    print(summary(table))
