"""Every command on jobs and a service in one scenario: the figures of each alone, added up on one budget."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from planner.cli import main
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Plan
from planner.results.plan_parts import Part
from planner.results.simulation import Simulation
from planner.scenario.scenario import Scenario
from planner.services.fleet_problem import services_alone, without_services
from planner.solving.solve import solve
from tests.helpers.computed_once import compute_once
from tests.services.test_jobs_and_services import BOTH

AS_OF = ("--as-of", "2026-11-24")
WITH_SPOT = BOTH.replace("per_second: 30", "per_second: 4") + "limits: {budget_usd: 3000}\n"
FILE = "".join(line for line in WITH_SPOT.splitlines(keepends=True) if not line.startswith("    spot"))
"""A job, and the service that waits for it, on one budget that suffices, without machines on spot."""


@pytest.fixture(autouse=True)
def _computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked as text and as JSON, or by two commands, is computed once; `solve` of this module is not."""
    compute_once(monkeypatch)


def both(*settings: str) -> Scenario:
    """Return the scenario with settings applied."""
    return parse_scenario(FILE, set_=settings)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job and the service that waits for it, as a file."""
    path = tmp_path_factory.mktemp("both") / "both.yaml"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


def planner(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def answer(*arguments: str) -> Any:
    """Return the JSON document of a command that succeeds."""
    result = planner(*arguments, "--json", *AS_OF)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def lines_of(*arguments: str) -> list[str]:
    """Return the text of a command that succeeds; no line is wider than a terminal."""
    result = planner(*arguments, *AS_OF)
    assert result.exit_code == 0, result.output
    found = result.output.splitlines()
    assert all(len(line) <= 80 for line in found if not line.startswith("planner "))
    return found


@pytest.fixture(scope="module")
def plan() -> Plan:
    """The plan of both."""
    return solve(both())


def _usd(plan: Plan) -> float:
    """Return the expected dollars of a plan."""
    assert plan.cost is not None
    return plan.cost.expected


@pytest.mark.long
def test_what_if_adds_up_and_has_the_keys_of_either_alone(scenario: str, plan: Plan) -> None:
    """The dollars of jobs and service together are the difference, each side is the plan of solve."""
    changes = ("--set", "jobs.tune.work.tokens=40e6", "--set", "jobs.chat.latency.tpot=30ms")
    found = answer("what-if", scenario, *changes)
    after = solve(both("jobs.tune.work.tokens=40e6", "jobs.chat.latency.tpot=30ms"))
    assert after.cost is not None
    assert found["after"]["cost"]["expected"] == pytest.approx(after.cost.expected)
    assert found["before"]["cost"]["expected"] == pytest.approx(_usd(plan))
    [job], [service] = found["jobs"], found["services"]
    hours = after.services[0].for_hours
    cycle = after.services[0].cost_usd / after.services[0].fleet.usd_per_month
    assert hours == 720
    whole = job["delta"]["cost_usd"] + service["usd_per_month"] * cycle
    assert found["delta"]["cost_usd"] == pytest.approx(whole)
    assert {"bill", "changes", "delta"} <= job.keys() and {"changes", "proven_usd_per_month"} <= service.keys()
    text = "\n".join(lines_of("what-if", scenario, *changes))
    assert "in all" in text.split("\n")[0] and "\ntune\n" in text and "more a month" in text


@pytest.mark.long
def test_what_does_not_change_is_named(scenario: str, plan: Plan) -> None:
    """A change of the job leaves the service as it is, and one without effect says what it would take."""
    text = "\n".join(lines_of("what-if", scenario, "--set", "jobs.tune.work.tokens=40e6"))
    assert "service the same" in " ".join(text.split()) and "unchanged: chat" in text
    same = lines_of("what-if", scenario, "--set", "limits.budget_usd=4000")
    least = math.ceil(round(100 * (plan.cost_at_confidence or 0.0), 6)) / 100
    assert same[0].endswith("nothing changes") and any(f"a budget under ${least:,.2f}" in line for line in same)


@pytest.mark.slow
def test_a_row_of_vary_is_a_plan_of_both(scenario: str, plan: Plan) -> None:
    """Dollars in all, the machines of the job, and the fleet of the service with its dollars of a month."""
    found = answer("what-if", scenario, "--vary", "jobs.chat.latency.tpot=[40ms, 30ms]")
    same, tighter = found["cells"]
    assert same["cost_usd"] == pytest.approx(_usd(plan))
    assert tighter["cost_usd"] > same["cost_usd"] and tighter["jobs"] == same["jobs"]
    assert tighter["services"][0]["usd_per_month"] > same["services"][0]["usd_per_month"]


@pytest.mark.long
def test_each_relaxation_is_what_its_setting_gives(scenario: str, plan: Plan) -> None:
    """What is typed is a scenario, and it saves what is said: of both for a limit of both, else of its part."""
    forbid = ("--set", "limits.gpus.forbid=[L40S]", "--set", "limits.budget_usd=4000")
    base = answer("solve", scenario, *forbid)["cost"]["expected"]
    found = answer("explain", scenario, *forbid)
    paying = [step for step in found["next_steps"] if step["setting"]]
    assert {"limits.gpus", "jobs.chat.replicas.min"} <= {step["limit"] for step in paying}
    for step in paying:
        usd = answer("solve", scenario, *forbid, "--set", step["setting"])["cost"]["expected"]
        assert usd - base == pytest.approx(step["delta_usd"], abs=0.05)
    whole = next(step for step in paying if step["limit"] == "limits.gpus")
    assert whole["cost_usd"] == pytest.approx(_usd(plan))


@pytest.mark.slow
def test_why_not_asks_about_the_job_or_service_that_it_names(scenario: str) -> None:
    """Each has its own keys, and a query without a job, or with an unknown one, is refused in one line."""
    job = answer("explain", scenario, "--why-not", "job=tune,gpu=L40S")
    service = answer("explain", scenario, "--why-not", "job=chat,gpu=L40S")
    assert job["why_not"]["status"] == "possible" and service["why_not"]["status"] in ("chosen", "possible", "beyond")
    for query, what in (("gpu=L40S", "is missing"), ("job=nobody,gpu=L40S", "unknown job 'nobody'")):
        refused = planner("explain", scenario, "--why-not", query)
        assert refused.exit_code == 2 and what in refused.output and "chat" in refused.output
        assert len(refused.output.splitlines()) == 1


@pytest.mark.slow
def test_the_frontier_of_the_jobs_is_theirs_alone_on_what_the_service_leaves(scenario: str, plan: Plan) -> None:
    """Points are those of the jobs alone; the service's dollars are given once, and one line says so."""
    found = answer("frontier", scenario)
    service = plan.services[0].cost_usd
    assert found["services_usd"] == pytest.approx(service) and found["budget_usd"] == pytest.approx(3000 - service)
    assert found["points"][-1]["cost_usd"] == pytest.approx((plan.least_cost_usd or 0.0) - service)
    assert (
        found["notes"][0].startswith(f"the jobs alone: chat costs ${service:,.2f}")
        and "--job chat" in found["notes"][0]
    )


@pytest.mark.long
def test_the_frontier_of_the_service_keeps_the_budget_of_both(scenario: str, plan: Plan) -> None:
    """Its point at the asked limit is its plan; a tight budget leaves no point above it."""
    month = plan.services[0].fleet.usd_per_month
    tight = ("--set", f"limits.budget_usd={(plan.cost_at_confidence or 0.0) + 1}")
    budgets: tuple[tuple[tuple[str, ...], float | None], ...] = (((), None), (tight, month + 2))
    for budget, most in budgets:
        found = answer("frontier", scenario, *budget, "--job", "chat", "--points", "3")
        [asked] = [point for point in found["points"] if point["asked"]]
        assert asked["usd_per_month"] == pytest.approx(month, rel=1e-6)
        assert most is None or all(point["usd_per_month"] <= most for point in found["points"])
    refused = planner("frontier", scenario, "--job", "nobody")
    assert refused.exit_code == 2 and "no job 'nobody'; known: tune, chat" in refused.output
    assert "is for jobs next to a service" in planner("frontier", "quickstart", "--job", "quickstart").output


@pytest.mark.long
def test_simulate_has_the_figures_of_either_alone(tmp_path: Path) -> None:
    """The same seed gives the job the same runs, and the service the same requests, as in scenarios of their own."""
    from planner.analysis.simulate_question import simulate
    from planner.services.service_simulation import simulate_service

    path = tmp_path / "spot.yaml"
    path.write_text(WITH_SPOT, encoding="utf-8")
    found = answer("simulate", str(path), "--runs", "20")
    one = parse_scenario(WITH_SPOT)
    usd = solve(one).services[0].cost_usd
    job = simulate(without_services(one, usd), runs=20)
    service = simulate_service(services_alone(one), runs=20)
    assert isinstance(job, Simulation) and job.cost_usd is not None
    assert found["services_usd"] == pytest.approx(usd)
    assert found["cost_usd"]["mean"] == pytest.approx(job.cost_usd.mean)
    assert found["services"] == _plain(service)["services"] and found["jobs"] == _plain(job)["jobs"]
    text = "\n".join(lines_of("simulate", str(path), "--runs", "20"))
    assert f"the service below costs ${usd:,.2f}" in " ".join(text.split()) and "Poisson arrivals" in text


def _plain(found: Part) -> Any:
    return json.loads(found.model_dump_json(by_alias=True))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["explain", "frontier", "simulate", "what-if"])
def test_without_a_plan_for_both_the_budget_for_both_is_named(command: str, plan: Plan) -> None:
    """A budget that suffices for the service alone: infeasible, and the one change has the dollars of both."""
    alone, together = plan.services[0].cost_usd + 0.1, math.ceil(plan.cost_at_confidence or 0.0)
    poor = FILE.replace("budget_usd: 3000", f"budget_usd: {alone:.2f}")
    settings = ("--set", f"limits.budget_usd={alone - 0.05:.2f}") if command == "what-if" else ()
    result = CliRunner().invoke(main, [command, "-", *settings, *AS_OF], input=poor)
    assert result.exit_code == (0 if command == "explain" else 3)
    assert f"--set limits.budget_usd={together}" in result.output and "for the jobs and the service" in result.output


@pytest.mark.long
def test_the_report_has_both_frontiers_and_the_tornado(scenario: str, tmp_path: Path) -> None:
    """And the replays of the job; what is left out would be said."""
    path = str(tmp_path / "r.html")
    result = planner("report", scenario, "-o", path, "--runs", "50", *AS_OF)
    assert result.exit_code == 0, result.output
    page = Path(path).read_text(encoding="utf-8")
    for title in ("Cost of the jobs against time", "Dollars against the time per token", "What the plan depends on"):
        assert title in page, title
    assert "Simulated cost" in page and "least replicas 2" in page and "Binds" in page
