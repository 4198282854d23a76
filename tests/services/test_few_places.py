"""Replicas that answer one request at a time, or a few: the latency of a plan against the simulated engine."""

from __future__ import annotations

import numpy as np
import pytest

from planner.generation.engine_recipes import serving_recipe
from planner.generation.replica_enumeration import ReplicaSpeeds, ServedGpu, replica_speeds
from planner.library.engines import read_engines
from planner.library.reading import read_library
from planner.library.schema import Library
from planner.scenario.inference_job import ServeJob
from planner.services.fleet_kinds import HELD_BY, latency_at_use, replica_capacities
from planner.services.simulated_engine import Run, simulate_runs, speeds_of
from tests.helpers.services import desk

SHARE = 0.95
LIMITS = ("jobs.desk.latency.ttft=10s", "jobs.desk.latency.tpot=200ms")


def replicas(monkeypatch: pytest.MonkeyPatch, places: int, *settings: str) -> tuple[ServeJob, ReplicaSpeeds, Library]:
    """Return one H100 whose engine has so many places."""
    job = desk("jobs.desk.techniques.engine=llama.cpp", *LIMITS, *settings).jobs[0]
    assert isinstance(job, ServeJob)
    engines = read_engines().engines
    monkeypatch.setitem(engines, "llama.cpp", engines["llama.cpp"].model_copy(update={"sequences": places}))
    library = read_library([job.architecture])
    which = [ServedGpu("H100-80GB", serving_recipe("llama.cpp", "bf16", 16, 1, 1))]
    return job, replica_speeds(job, library.architecture(job.architecture), which, library, None), library


@pytest.mark.slow
@pytest.mark.parametrize("places", [1, 2, 4])
@pytest.mark.parametrize("use", [0.6, 0.8, 1.0])
def test_predicted_latency_is_that_of_a_simulated_replica(
    monkeypatch: pytest.MonkeyPatch, places: int, use: float
) -> None:
    """95 % of 20,000 requests: both latencies within 20 %, and at full capacity the asked share within the limit."""
    job, speeds, library = replicas(monkeypatch, places)
    found = replica_capacities(job, speeds, library)
    first, each = latency_at_use(job, speeds, library, np.array([use]), found)
    run = Run(0, use * float(found.rate[0]), 1.0, use * float(found.flight[0]), 20_000)
    met = simulate_runs(speeds_of(job, speeds, found.slow), [run], 1.0, np.random.default_rng(1))[0]
    assert float(first[0]) == pytest.approx(float(np.quantile(met.first, SHARE)), rel=0.2)
    assert float(each[0]) == pytest.approx(float(np.nanquantile(met.each, SHARE)), rel=0.2)
    assert float(np.mean(met.first <= 10.0)) >= SHARE - 0.01


@pytest.mark.long
def test_more_places_and_more_time_never_lower_the_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    """From one place to 64, and from half a second to the first token to 100 s."""
    rates = []
    for places in (1, 2, 3, 4, 8, 16, 64):
        job, speeds, library = replicas(monkeypatch, places)
        rates.append(float(replica_capacities(job, speeds, library).rate[0]))
    assert np.all(np.diff(rates) > 0)
    job, speeds, library = replicas(monkeypatch, 1)
    found = [
        replica_capacities(
            job.model_copy(update={"latency": job.latency.model_copy(update={"ttft_seconds": one})}), speeds, library
        )
        for one in (0.5, 2.0, 5.0, 20.0, 100.0)
    ]
    assert np.all(np.diff([float(one.rate[0]) for one in found]) >= 0)
    assert [HELD_BY[int(one.binds[0])] for one in found][1::3] == ["KV", "compute"]
    assert float(found[-1].rate[0]) == pytest.approx(0.85 * float(found[-1].greatest[0]))
