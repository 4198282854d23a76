"""Every kind that a search makes of a service, chosen or not, has the figures of its evaluation."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.candidates.market import build_market
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.scenario.inference_job import ServeJob
from planner.scenario.scenario import Scenario
from planner.services import fleet_kinds
from planner.services.evaluated_fleet import evaluate_fleet, evaluate_service
from planner.services.fleet_kinds import Capacities, replica_capacities, served_kinds
from planner.services.fleet_plan import compare_with_search, fleet_problem, named_kinds
from tests.helpers.services import SERVICE_FILE, drawn_service

COMMITMENT = """  - provider: two
    gpu: L40S
    gpus: 2
    usd_per_hour: 0.5
    commitment: {months: 1, upfront_usd: 100}
    fees: {public_ip_usd_per_hour: 0.005}
    date: "2026-11-01"
    source: test
"""


def differences(scenario: Scenario) -> tuple[int, list[str]]:
    """Return how many kinds the search makes, and where one machine of each in every hour is not as evaluated."""
    (job,) = scenario.jobs
    assert isinstance(job, ServeJob)
    library, market = read_library([job.architecture]), build_market(scenario, read_library([job.architecture]))
    served = served_kinds(job, library.architecture(job.architecture), market, scenario.limits, library)
    fleets = np.ones((24, len(served.kinds)))
    named = named_kinds(served, market, fleets, range(len(served.kinds)))
    fleet = evaluate_fleet(named, job, scenario, library)
    made = evaluate_service(fleet, datetime.date(2026, 11, 21))
    wrong = compare_with_search(fleet, made, served, fleet_problem(served, market, scenario), fleets)
    return len(served.kinds), [str(one) for one in wrong]


@pytest.mark.slow
def test_known_capacities_serve_where_a_replica_answers_the_same_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """On fewer offers, and with more replicas, they are those computed again; another latency or headroom has its own.

    A capacity depends on neither the other recipes nor what the fleet keeps.
    """
    scenario = drawn_service(3)[0]
    (job,) = scenario.jobs
    assert isinstance(job, ServeJob)
    library, market = read_library([job.architecture]), build_market(scenario, read_library([job.architecture]))
    args, usual, computed = (library.architecture(job.architecture), market), replica_capacities, list[int]()

    def counted(*given: Any) -> Capacities:
        computed.append(1)
        return usual(*given)

    whole = served_kinds(job, *args, scenario.limits, library)
    monkeypatch.setattr(fleet_kinds, "replica_capacities", counted)
    gpu = next(iter({market.offers[kind.offer].gpu for kind in whole.kinds}))
    fewer = scenario.limits.model_copy(update={"gpus": scenario.limits.gpus.model_copy(update={"allow": (gpu,)})})
    more = job.model_copy(update={"replicas": job.replicas.model_copy(update={"min": 3}), "most_kinds": 1})
    found = served_kinds(more, *args, fewer, library, whole)
    assert not computed and 0 < len(found.speeds.which) <= len(whole.speeds.which)
    again = served_kinds(more, *args, fewer, library)
    assert [replace(kind, capacity=0.0) for kind in found.kinds] == [
        replace(kind, capacity=0.0) for kind in again.kinds
    ]
    np.testing.assert_allclose(found.capacities.rate, again.capacities.rate)
    np.testing.assert_array_equal(found.capacities.binds, again.capacities.binds)
    computed.clear()
    tighter = job.model_copy(update={"latency": job.latency.model_copy(update={"share": 0.5})})
    served_kinds(tighter, *args, scenario.limits, library, whole)
    roomier = scenario.limits.model_copy(update={"vram_headroom": 0.3})
    served_kinds(job, *args, roomier, library, whole)
    assert len(computed) == 2


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3, 8, 19, 22])
def test_kinds_of_drawn_services_are_as_evaluated(seed: int) -> None:
    """Held by either latency, by the wait for a place or near saturation; on demand and on spot."""
    kinds, wrong = differences(drawn_service(seed)[0])
    assert kinds > 3
    assert wrong == []


def committed_usd_per_hour(hours: float, *more: str) -> float:
    """Return what an hour of a committed machine costs a service of so many hours, next to offers of its provider."""
    scenario = parse_scenario(SERVICE_FILE + COMMITMENT + "".join(more), set_=(f"jobs.desk.for={hours}h",))
    library, market = read_library([scenario.jobs[0].architecture]), build_market(scenario, read_library([]))
    (job,) = scenario.jobs
    assert isinstance(job, ServeJob)
    kinds = served_kinds(job, library.architecture(job.architecture), market, scenario.limits, library).kinds
    return next(kind.usd_per_hour for kind in kinds if kind.market == "committed")


@pytest.mark.slow
def test_a_service_renews_its_terms_or_goes_on_by_the_hour() -> None:
    """A month of two L40S is $465 and $0.005 an hour; after it the same machine at $2 an hour, or another month."""
    hourly = (
        "  - {provider: two, gpu: L40S, gpus: 2, usd_per_hour: 2.0, fees: {public_ip_usd_per_hour: 0.005}, source: t}\n"
    )
    assert committed_usd_per_hour(720) == pytest.approx(465 / 720 + 0.005)
    assert committed_usd_per_hour(800) == pytest.approx(930 / 800 + 0.005)
    assert committed_usd_per_hour(800, hourly) == pytest.approx((465 + 70 * 2) / 800 + 0.005)
    assert committed_usd_per_hour(1400, hourly) == pytest.approx(930 / 1400 + 0.005)


@pytest.mark.slow
def test_a_commitment_with_fees_is_as_evaluated() -> None:
    """Two GPUs a machine, for a month, with an address that is paid by the hour; started in 0.2 h."""
    hourly = "  - {provider: two, gpu: L40S, gpus: 2, usd_per_hour: 2.0, source: test}\n"
    for hours in (720, 800):
        set_ = ("jobs.desk.cold_start=0.2h", f"jobs.desk.for={hours}h")
        kinds, wrong = differences(parse_scenario(SERVICE_FILE + COMMITMENT + hourly, set_=set_))
        assert kinds > 3
        assert wrong == []
