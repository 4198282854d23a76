"""A service from its file to an audited plan: what the plan says, what its audit finds, and what is refused."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from planner.errors import AuditError, ScenarioError
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.services.fleet_kinds import ServedKinds, served_kinds
from planner.solving.prepare import prepare
from planner.solving.solve import solve
from tests.helpers.services import MACHINES, answering

FILE = (
    """
schema: 2
name: chat
jobs:
  - name: chat
    kind: serve
    architecture: llama-3.1-8b
    load:
      per_second: 30
      profile: [1, 1, 1, 1, 1, 1, 2, 4, 8, 10, 10, 10, 9, 9, 10, 10, 9, 8, 5, 4, 3, 2, 1, 1]
      input_tokens: 800
      output_tokens: 200
    latency: {ttft: 1s, tpot: 40ms, share: 0.95}
    replicas: {min: 2}
    techniques: {engine: vllm, weight_bits: [16, 8]}
"""
    + MACHINES
    + answering(0.1)
)


def chat(*settings: str) -> Scenario:
    """Return the scenario with settings applied."""
    return parse_scenario(FILE, set_=settings)


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Return the plan of the scenario."""
    return solve(chat())


@pytest.mark.long
def test_the_plan_carries_every_hour_and_costs_no_more_than_one_kind(plan: Plan) -> None:
    """Capacity covers the load, two replicas stand at night, and simpler fleets cost at least as much."""
    fleet = plan.services[0].fleet
    able = [sum(kind.capacity * kind.by_hour[hour] for kind in fleet.kinds) for hour in range(24)]
    assert all(one >= load for one, load in zip(able, fleet.load, strict=True))
    assert min(fleet.replicas_by_hour) >= 2
    assert all(one.usd_per_month is None or one.usd_per_month >= fleet.usd_per_month - 0.01 for one in fleet.baselines)
    assert all(one.limit_seconds is not None and one.predicted_seconds <= one.limit_seconds for one in fleet.limits)
    assert plan.gap is not None and plan.gap <= 0.01
    assert fleet.api[0].hosts_tuned == "no"


@pytest.mark.slow
def test_the_json_has_the_service_among_the_jobs_and_reads_back(plan: Plan) -> None:
    """`jobs[].fleet` is the contract; the same plan comes back."""
    data = json.loads(json.dumps(plan.model_dump(mode="json", by_alias=True)))
    assert len(data["jobs"]) == 1 and len(data["jobs"][0]["fleet"]["kinds"][0]["by_hour"]) == 24
    assert Plan.model_validate(data) == plan


@pytest.mark.long
def test_the_audit_finds_what_was_changed(plan: Plan) -> None:
    """One machine fewer at night, a cheaper hour, another capacity: each is a violation, the plan itself has none."""
    scenario, library = chat(), read_library(["llama-3.1-8b"])
    assert audit(plan, scenario, library) == []
    kind = plan.services[0].fleet.kinds[0]
    changes: tuple[dict[str, object], ...] = (
        {"by_hour": (0,) * 24},
        {"usd_per_hour": kind.usd_per_hour / 2},
        {"capacity": kind.capacity * 2},
        {"start_usd": kind.start_usd + 1},
        {"tpot_seconds": kind.tpot_seconds / 2},
    )
    for change in changes:
        service = plan.services[0]
        kinds = (kind.model_copy(update=change), *service.fleet.kinds[1:])
        fleet = service.fleet.model_copy(update={"kinds": kinds})
        other = plan.model_copy(update={"services": (service.model_copy(update={"fleet": fleet}),)})
        found = [one.what for one in audit(other, scenario, library)]
        assert found, change
    night = audit(other.model_copy(update={"services": (_asleep(plan),)}), scenario, library)
    assert any("hour 0: replicas" in one.what for one in night)


@pytest.mark.slow
@pytest.mark.parametrize(("figure", "factor"), [("capacity", 1.05), ("start_usd", 2.0)])
def test_a_search_with_other_figures_than_the_plan_is_an_error(
    monkeypatch: pytest.MonkeyPatch, figure: str, factor: float
) -> None:
    """Each kind carries 5 % more in the search, or starts at twice the dollars: no such plan is answered."""

    def wrong(*args: Any) -> ServedKinds:
        served = served_kinds(*args)
        kinds = (replace(kind, **{figure: getattr(kind, figure) * factor}) for kind in served.kinds)
        return replace(served, kinds=tuple(kinds))

    monkeypatch.setattr("planner.services.solve_fleet.served_kinds", wrong)
    with pytest.raises(AuditError, match=f"not the fleet that the search chose.*{figure}"):
        solve(chat())


def _asleep(plan: Plan):  # type: ignore[no-untyped-def]
    service = plan.services[0]
    kinds = tuple(one.model_copy(update={"by_hour": (0, *one.by_hour[1:])}) for one in service.fleet.kinds)
    return service.model_copy(update={"fleet": service.fleet.model_copy(update={"kinds": kinds})})


@pytest.mark.slow
def test_the_first_line_says_replicas_dollars_latency_and_proof(plan: Plan) -> None:
    """What a reader looks for is in the first lines."""
    text = " ".join(render(plan).split("\n\n")[0].split())
    assert text.startswith("chat: 2 to ") and "a month" in text and "95 % of requests within 40 ms per token" in text
    assert "per million tokens" in text and ("optimal" in text or "proven within" in text)
    assert all(len(line) <= 80 for line in render(plan).split("\n"))


@pytest.mark.slow
def test_a_time_limit_leaves_out_what_is_solved_beside_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simpler fleets and a looser latency are not searched for, and the first line says that nothing is proven."""
    monkeypatch.setattr("planner.services.fleet_program.perf_counter", itertools.count(0.0, 3600.0).__next__)
    late = solve(chat(), SolveOptions(time_limit_seconds=1.0))
    assert late.services and not late.services[0].fleet.baselines and late.services[0].looser is None
    text = " ".join(render(late).split())
    assert "no bound within the time limit" in text and "Simpler not computed within the time limit" in text
    assert audit(late, chat(), read_library(["llama-3.1-8b"])) == []


@pytest.mark.slow
def test_a_minute_of_a_tiny_load_is_said_in_minutes_and_powers_of_ten() -> None:
    """A service of a minute lasts no fraction of a day, and a load has no row of zeros."""
    text = " ".join(render(solve(chat("jobs.chat.for=1min", "jobs.chat.load.per_second=1e-9"))).split())
    assert "1e-10 to 1e-09 requests/s, the same every day, for 1 min" in text and "for the 1 min" in text


@pytest.mark.slow
def test_what_no_kind_can_meet_says_what_could_and_its_price() -> None:
    """One millisecond per token is met by nothing: the plan names a limit that is, and its dollars."""
    found = solve(chat("jobs.chat.latency.tpot=1ms"))
    assert found.status == "infeasible" and found.infeasible is not None
    assert found.infeasible.relax[0].limit == "jobs.chat.latency.tpot"
    setting = found.infeasible.relax[0].setting
    assert solve(chat(setting)).services


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("jobs.chat.load.profile=[1,2,3]", "a profile of 3 numbers"),
        ("jobs.chat.load.per_second=-1", "-1 is out of range"),
        ("jobs.chat.latency.tpot=40", "40 has no unit"),
        ("jobs.chat.load.concurrent=5", "per_second and concurrent contradict each other"),
        ("jobs.chat.load.profile=offise", "'offise' is no profile"),
        ("jobs.chat.load.input_tokens=null", "input_tokens is missing"),
    ],
)
def test_bad_input_is_one_line(setting: str, what: str) -> None:
    """Each fault names its place and what would be right."""
    with pytest.raises(ScenarioError, match=r"jobs\.chat") as error:
        chat(setting)
    assert len(error.value.faults) == 1 and what in error.value.faults[0].what


def test_a_share_of_one_on_spot_alone_and_other_commands_are_refused() -> None:
    """A zone is lost as a whole, so that a share of 1 needs machines on demand; candidates of runs are none."""
    with pytest.raises(ScenarioError, match="a share of 1 on spot alone"):
        solve(chat("jobs.chat.latency.share=1", "limits.spot_share={min: 1}"))
    with pytest.raises(ScenarioError, match="not supported for kind: serve"):
        prepare(chat())


@pytest.mark.parametrize(
    ("setting", "where"),
    [
        ("jobs.chat.load.output_tokens=1000000", "load.output_tokens"),
        ("jobs.chat.load.input_tokens=1000000", "load.input_tokens"),
        (
            "jobs.chat.load={per_second: 1, lengths: [{input_tokens: 9, output_tokens: 9},"
            " {input_tokens: 9, output_tokens: 200000}]}",
            "load.lengths.1.output_tokens",
        ),
    ],
)
def test_a_length_beyond_the_context_is_named_where_it_stands(setting: str, where: str) -> None:
    """A service has a load, and the longer of input and output is the one to change."""
    with pytest.raises(ScenarioError, match="exceed the context") as error:
        solve(chat(setting))
    assert [fault.where for fault in error.value.faults] == [f"jobs.chat.{where}"]


@pytest.mark.long
@pytest.mark.parametrize(
    "tighter",
    [
        ("jobs.chat.latency.tpot=30ms",),
        ("jobs.chat.latency.ttft=400ms",),
        ("jobs.chat.latency.share=0.99",),
        ("jobs.chat.replicas.min=4",),
        ("jobs.chat.headroom=0.2",),
        ("limits.spot_share={max: 0}",),
    ],
)
def test_more_that_is_asked_never_costs_less(plan: Plan, tighter: tuple[str, ...]) -> None:
    """What is asked anyway has a bound that no fleet for more is below."""
    asked = solve(chat(*tighter))
    assert plan.bound is not None and asked.cost is not None
    assert asked.cost.expected >= plan.bound * (1 - 1e-9)
