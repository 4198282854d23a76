"""Portfolios without time: jobs that start at once and share a budget, GPUs, quotas and stock, `--at-once 50 500`."""

from __future__ import annotations

import random
from dataclasses import dataclass
from time import perf_counter, process_time

from benchmarks.schedule.portfolios import ARCHITECTURES, SEED, peak_gb
from planner.documents.files import data_folder
from planner.loading.scenario_file import parse_scenario
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.optimise_choice import optimise
from planner.solving.prepare import prepare


def draw_at_once(count: int, seed: int = SEED) -> Scenario:
    """Return a portfolio whose GPUs, quotas and stock of own machines are too few for every job's cheapest plan."""
    draw = random.Random(f"{seed}-{count}-at-once")
    jobs = [
        f"  - {{name: job-{number:03d}, architecture: {draw.choice(ARCHITECTURES)}, techniques: {{method: lora}}, "
        f"work: {{tokens: {draw.randrange(20, 161)}000000}}, deadline: {draw.choice([12, 24, 48, 96])}h}}"
        for number in range(count)
    ]
    own = "own: {power_watts: 500, usd_per_kwh: 0.3}"
    text = (
        f"name: at-once-{count}\ninventory: [market]\nschedule: side_by_side\n"
        f"offers: [{{provider: lab, gpu: RTX4090, gpus: 1, stock: {max(1, count // 8)}, {own}}}]\n"
        f"limits: {{spot_share: {{max: 0}}, max_gpus: {count * 5 // 4}, budget_usd: {count * 12}, "
        f"quota: {{vast: {count // 4}, runpod-community: {count // 4}, runpod-secure: {count // 4}}}}}\n"
        "jobs:\n" + "\n".join(jobs) + "\n"
    )
    return parse_scenario(text, data_folder("scenarios"))


@dataclass(frozen=True)
class MeasuredAtOnce:
    """What one portfolio took and cost."""

    name: str
    prepare_cpu_seconds: float
    rows: int
    kept: int
    seconds: float
    cpu_seconds: float
    usd: float | None
    gap: float | None
    peak_gb: float

    def __str__(self) -> str:
        plan = "no plan" if self.usd is None else f"${self.usd:,.2f} gap {self.gap or 0.0:.3%}"
        return (
            f"{self.name:<16} prepared {self.prepare_cpu_seconds:.1f} CPU s; {self.rows:,} rows, {self.kept:,} after "
            f"dominance; {plan} in {self.seconds:.2f} s ({self.cpu_seconds:.2f} CPU s), {self.peak_gb:.2f} GB"
        )


def measure_at_once(count: int, seed: int = SEED) -> MeasuredAtOnce:
    """Prepare and solve one portfolio without time."""
    begun = process_time()
    prepared = prepare(draw_at_once(count, seed))
    ready, started = process_time(), perf_counter()
    found = optimise(prepared, SolveOptions())
    first, rows = (
        found.choice.first,
        len(found.table) + found.dominated + sum(one.dominated for one in prepared.screened),
    )
    return MeasuredAtOnce(
        f"at-once-{count}",
        ready - begun,
        rows,
        len(found.table),
        perf_counter() - started,
        process_time() - ready,
        first.objective if found.rows else None,
        first.gap,
        peak_gb(),
    )
