"""Predicted against simulated latency of every kind of replica in the shipped market, for several loads.

    python -m benchmarks.serving_latency [LOAD...]      a row of the table for each load; 4,000 requests a case

A case is a GPU with an engine, a format and a division, at a share of its capacity. The ratio is predicted over
simulated, of the latency that 95 % of the requests stay below, for Poisson arrivals.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from planner.generation.engine_recipes import ServingRecipe, serving_recipes
from planner.generation.replica_enumeration import ServedGpu, replica_speeds
from planner.library.reading import read_library
from planner.loading.scenario_file import read_scenario
from planner.scenario.inference_job import ServeJob
from planner.services.fleet_kinds import latency_at_use, replica_capacities
from planner.services.simulated_engine import Run, simulate_runs, speeds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

SCENARIO = "serve-office-hours"
JOB = f"jobs.{SCENARIO}."
LENGTHS = (
    "[{input_tokens: 200, output_tokens: 50, count: 30}, {input_tokens: 800, output_tokens: 200, count: 40}, "
    "{input_tokens: 3000, output_tokens: 400, count: 20}, {input_tokens: 6000, output_tokens: 100, count: 10}]"
)
LOADS: dict[str, tuple[str, ...]] = {
    "800 + 200, 1 s, 40 ms": (),
    "800 + 200, 10 s, 200 ms": ("latency.ttft=10s", "latency.tpot=200ms"),
    "500 + 2,000, 1 s, 60 ms": ("load.input_tokens=500", "load.output_tokens=2000", "latency.tpot=60ms"),
    "12,000 + 300, 8 s, 80 ms": (
        *("load.input_tokens=12000", "load.output_tokens=300"),
        *("latency.ttft=8s", "latency.tpot=80ms"),
    ),
    "four lengths, 3 s, 60 ms": (
        *("load.input_tokens=null", "load.output_tokens=null", f"load.lengths={LENGTHS}"),
        *("latency.ttft=3s", "latency.tpot=60ms"),
    ),
    "800 + 200, 10 s, 200 ms, one place": (
        *("latency.ttft=10s", "latency.tpot=200ms"),
        *("techniques.engine=llama.cpp", "techniques.weight_bits=[8]"),
    ),
    "800 + 200, 10 s, 200 ms, 20 places": (
        *("latency.ttft=10s", "latency.tpot=200ms"),
        *("techniques.engine=exllamav2", "techniques.weight_bits=[16]"),
    ),
    "800 + 200, a mixture of experts": ("architecture=qwen3-30b-a3b",),
}
USES = (0.3, 0.6, 0.85)
"""Shares of a capacity."""
REQUESTS = 4000


def ratios(settings: Sequence[str]) -> np.ndarray:
    """Return predicted over simulated TTFT and TPOT (cases, 2) of one load."""
    scenario = read_scenario(SCENARIO, set_=[f"{JOB}{one}" for one in settings])
    job = scenario.jobs[0]
    assert isinstance(job, ServeJob)
    library = read_library([job.architecture])
    architecture = library.architecture(job.architecture)
    machines = sorted({(library.gpu(one.card).name, one.gpus) for one in scenario.offers if one.rents_gpus})
    made = [
        ServedGpu(gpu, one)
        for gpu, gpus in machines
        for one in serving_recipes(job, architecture, library.gpu(gpu), gpus)
        if isinstance(one, ServingRecipe) and one.weight_bits in job.techniques.weight_bits
    ]
    speeds = replica_speeds(job, architecture, list(dict.fromkeys(made)), library, None)
    found = replica_capacities(job, speeds, library)
    able = np.flatnonzero((found.rate > 0) & (speeds.flight >= 1))
    runs, predicted = [], []
    for use in USES:
        first, each = latency_at_use(job, speeds, library, np.full(len(found.rate), use))
        for kind in able.tolist():
            runs.append(Run(kind, use * float(found.rate[kind]), 1.0, use * float(found.flight[kind]), REQUESTS))
            predicted.append((first[kind], each[kind]))
    share = job.latency.share
    met = simulate_runs(speeds_of(job, speeds, found.slow), runs, 1.0, np.random.default_rng(1))
    simulated = [(np.quantile(one.first, share), np.nanquantile(one.each, share)) for one in met]
    return np.asarray(predicted) / np.asarray(simulated)


def row(name: str, found: np.ndarray) -> str:
    """Return a row of the table."""
    cells = []
    for column in found.T:
        inside = float(np.mean(np.abs(column - 1.0) < 0.2))
        cells.append(f"{np.median(column):.2f}, {inside:.1%}".replace("%", " %"))
    return f"| {name}: {len(found):,} cases | {' | '.join(cells)} |"


def main(names: Sequence[str]) -> None:
    """Print the table of some loads, or of all."""
    for name in names or LOADS:
        print(row(name, ratios(LOADS[name])), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
