"""Plans of services on made-up machines, small enough to be worked by hand, for the tests of their export."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from planner.cli.options import scenario_of
from planner.exports.facts import Wishes
from planner.loading.scenario_file import parse_scenario
from planner.results.fleet import Fleet, FleetKind, LatencyLimit, Service
from planner.results.plan import Inputs, Plan
from planner.scenario.inference_job import ServeJob
from planner.scenario.limits import with_offers
from planner.services.served_kinds import GivenService, choose_service
from planner.services.service_files import export_service
from planner.services.solve_fleet import joined
from tests.helpers import generation
from tests.helpers.exported_plans import solved

NIGHT_AND_DAY = (1,) * 9 + (3,) * 8 + (1,) * 7
"""Machines of a day: three from 9 to 17."""
OFFERS = [
    {"provider": "aws", "region": "us-east-1", "instance": "g6e.xlarge", "gpu": "L40S", "gpus": 1,
     "usd_per_hour": 1.861, "spot_usd_per_hour": 0.8, "source": "made up"},
    {"provider": "aws", "region": "us-east-2", "instance": "g6e.12xlarge", "gpu": "L40S", "gpus": 4,
     "usd_per_hour": 10.49, "source": "made up"},
]  # fmt: skip


def kind(**changes: Any) -> FleetKind:
    """Return machines of one L40S on demand: two requests a second each, three of them from 9 to 17, else one."""
    made = {
        "provider": "aws", "region": "us-east-1", "instance": "g6e.xlarge", "offer": "aws/us-east-1/g6e.xlarge",
        "market": "on demand", "gpu": "L40S", "gpus": 1, "engine": "vllm", "weight_format": "fp8", "weight_bits": 8,
        "kv_bits": 16, "gpus_per_replica": 1, "replicas": 1, "capacity": 2.0, "binds": "TPOT", "usd_per_hour": 1.861,
        "start_hours": 0.11, "start_usd": 0.2, "ttft_seconds": 0.5, "tpot_seconds": 0.03, "committed": 0,
        "by_hour": NIGHT_AND_DAY,
    }  # fmt: skip
    return FleetKind.model_validate({**made, **changes})


LARGE = {
    "instance": "g6e.12xlarge", "offer": "aws/us-east-2/g6e.12xlarge", "region": "us-east-2", "gpus": 4,
    "replicas": 4, "capacity": 8.0, "usd_per_hour": 10.49,
}  # fmt: skip
"""Changes that make a kind a machine of four L40S with a replica on each."""


def written(**job: Any) -> dict[str, Any]:
    """Return the scenario of the service as a file has it, with changes of its job."""
    load = {"per_second": 5, "profile": [1] * 9 + [5] * 8 + [1] * 7, "input_tokens": 800, "output_tokens": 200}
    made = {"name": "answers", "kind": "serve", "architecture": "llama-3.1-8b", "load": load}
    return {"schema": 2, "name": "s", "jobs": [{**made, **job}]}


@cache
def _other() -> Plan:
    """Return a plan of the same version, whose job is replaced."""
    return generation.plan()


def plan(*kinds: FleetKind, **job: Any) -> Plan:
    """Return a plan of such kinds (default: `kind()`); the load is two thirds to five sixths of their capacity."""
    kinds = kinds or (kind(),)
    (asked,) = parse_scenario(json.dumps({**written(**job), "offers": OFFERS})).jobs
    assert isinstance(asked, ServeJob)
    load = tuple(asked.load.hourly)
    able = [sum(one.capacity * one.by_hour[hour] for one in kinds) for hour in range(len(load))]
    replicas = tuple(sum(one.by_hour[hour] * one.replicas for one in kinds) for hour in range(len(load)))
    fleet = Fleet(
        kinds=kinds, load=load, unit=asked.load.unit, replicas_by_hour=replicas, use=0.7,
        use_by_hour=tuple(wanted / most for wanted, most in zip(load, able, strict=True)),
        usd_per_month=1234.5, usd_per_million_tokens=0.25, usd_per_thousand_requests=0.25, starts=2, start_usd=0.4,
        spot_share=0.0, served_share=1.0, within_limits_share=0.95,
        limits=(LatencyLimit(name="tpot", limit_seconds=0.04, predicted_seconds=0.03),),
    )  # fmt: skip
    service = Service(
        name="answers", architecture="llama-3.1-8b", for_hours=720.0, input_tokens=800.0, output_tokens=200.0,
        prefix_tokens=asked.load.prefix_tokens, cost_usd=1200.0, bound_usd=1190.0, price_date="2026-11-21",
        price_age_days=0, price_source="made up", fleet=fleet,
    )  # fmt: skip
    inputs = Inputs(scenario=written(**job), offers=tuple(OFFERS), versions={"planner": "1.2.3"})
    return _other().model_copy(update={"scenario": "s", "jobs": (), "services": (service,), "inputs": inputs})


def with_job(trained_as: str = "spot") -> Plan:
    """Return a plan of a run (`SETTINGS` of exported plans; default: on spot) and of the service, in one scenario."""
    trained, served = solved(trained_as), plan()
    assert trained.inputs is not None and served.inputs is not None
    jobs = [*trained.inputs.scenario["jobs"], *served.inputs.scenario["jobs"]]
    scenario = {**trained.inputs.scenario, "jobs": jobs}
    inputs = trained.inputs.model_copy(update={"scenario": scenario, "offers": (*trained.inputs.offers, *OFFERS)})
    whole = parse_scenario(json.dumps(with_offers({**scenario, "inventory": []}, inputs.offers)))
    return joined(whole, trained, served).model_copy(update={"inputs": inputs})


def given(made: Plan) -> GivenService:
    """Return the service of a plan with its scenario."""
    return choose_service(made, scenario_of(made, "plan.json"), "plan.json", None)


def texts(made: Plan, *targets: str, model_id: str | None = None) -> dict[str, str]:
    """Return the exported files."""
    return export_service(given(made), targets, Wishes(model_id), "plan.json")
