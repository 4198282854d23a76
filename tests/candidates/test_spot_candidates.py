"""Plans that follow a policy on spot: laws of what they cost, their guarantee, and their figures by replay."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.analysis.frontier_question import frontier_of_jobs
from planner.analysis.limit_sensitivity import explain
from planner.candidates.screening import CandidateObjective, screen
from planner.candidates.spot_candidates import SpotCandidates, SpotChoice
from planner.candidates.spot_search import BEST, BEST_OF_METHODS, LEAST_DOLLARS, SearchScope
from planner.evaluation.audit import audit
from planner.loading.scenario_file import read_scenario
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import SpotPlan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.optimise_choice import optimise
from planner.solving.prepare import prepare
from planner.spot.policy_cache import from_table, to_table
from planner.spot.replayed_runs import replay
from planner.spot.states import sample_states
from planner.spot.switching_policy import best_policy
from tests.helpers.bare_plans import bare_plan
from tests.helpers.stage_scenarios import AS_OF, JOB, RENTED, library, line, question, read, solved
from tests.helpers.tampered_plans import tampered

GRID = 0.01
"""Relative: two markets are computed on two grids, which may differ by so much (see tests of curves)."""
FEW = settings(derandomize=True, max_examples=3, deadline=None)

AVAILABILITIES = st.sampled_from([0.4, 0.6, 0.8, 0.95])
UP_HOURS = st.sampled_from([0.7, 2.0, 6.0])
DEADLINES = st.sampled_from([18, 20, 24, 36, 60])


def spot(
    usd: float = 0.8, availability: float = 0.7, up: float = 2.0, notice: float | None = None, **offer: Any
) -> dict[str, Any]:
    """One A100-80GB at $2 on demand, with a spot market."""
    market: dict[str, Any] = {"availability": availability, "mean_up_hours": up}
    if notice is not None:
        market["notice_seconds"] = notice
    return {**RENTED, "spot_usd_per_hour": usd, "spot": market, **offer}


def scenario_of(
    *offers: dict[str, Any], deadline: float = 36, worth: float = 0.0, limits: dict[str, Any] | None = None, **job: Any
) -> Scenario:
    """15 h of work (14.9 of training) on these offers, by a deadline in hours; `worth` dollars for an hour."""
    data = question(*offers, limits=limits, **{"work": {"tokens": 1e9}, "deadline": f"{deadline} h", **job})
    return read({**data, "objective": {"value_of_time_usd_per_hour": worth}} if worth else data)


def planned(*offers: dict[str, Any], **settings: Any) -> Assignment:
    """The plan of the one job, as solved and audited, without what is said of it."""
    return plan_of(*offers, **settings).assignment(JOB["name"])


def plan_of(*offers: dict[str, Any], **settings: Any) -> Plan:
    return bare_plan(scenario_of(*(offers or (spot(),)), **settings), SolveOptions(as_of=AS_OF), library())


def policy_of(told: Assignment) -> SpotPlan:
    assert told.spot is not None
    return told.spot


@pytest.mark.slow
@pytest.mark.parametrize("deadline", [36, 60])
def test_machines_that_are_always_there_cost_the_spot_price(deadline: float) -> None:
    """Availability 1 and no interruptions: on-demand arithmetic at the spot price, and nobody waits."""
    sure = planned(spot(0.8, 1.0, 1e9), deadline=deadline)
    plain = planned({**RENTED, "usd_per_hour": 0.8}, deadline=deadline)
    assert sure.spot_share == pytest.approx(1, abs=1e-6)
    assert sure.cost_usd == pytest.approx(plain.cost_usd, rel=1e-4)
    assert sure.hours.expected == pytest.approx(plain.hours.expected, rel=1e-4)
    assert policy_of(sure).interruptions == pytest.approx(0, abs=1e-6)


@pytest.mark.long
@FEW
@given(AVAILABILITIES, UP_HOURS, DEADLINES, st.sampled_from([0.3, 0.8, 1.5]), st.sampled_from([0.1, 0.4]))
def test_a_higher_spot_price_never_makes_it_cheaper(
    share: float, up: float, deadline: float, usd: float, more: float
) -> None:
    """The same market at more dollars an hour."""
    low = planned(spot(usd, share, up), deadline=deadline)
    high = planned(spot(usd + more, share, up), deadline=deadline)
    assert low.cost_usd <= high.cost_usd * (1 + 1e-6)


@pytest.mark.long
@FEW
@given(AVAILABILITIES, UP_HOURS, DEADLINES, st.sampled_from([(0.8, 1.0), (1.0, 0.5), (0.7, 0.5)]))
def test_a_worse_market_never_makes_it_cheaper(
    share: float, up: float, deadline: float, worse: tuple[float, float]
) -> None:
    """Lower availability, more interruptions, or both."""
    good = planned(spot(0.8, share, up), deadline=deadline)
    bad = planned(spot(0.8, share * worse[0], up * worse[1]), deadline=deadline)
    assert good.cost_usd <= bad.cost_usd * (1 + GRID)


@pytest.mark.long
@FEW
@given(AVAILABILITIES, UP_HOURS, st.lists(st.floats(17.5, 150), min_size=2, max_size=2), st.sampled_from([0.0, 1.0]))
def test_a_later_deadline_is_never_dearer_and_every_guarantee_holds(
    share: float, up: float, deadlines: list[float], worth: float
) -> None:
    """More time never costs more; the hours at the asked confidence are within the deadline."""
    soon, late = (plan_of(spot(0.8, share, up), deadline=hours, worth=worth) for hours in sorted(deadlines))
    assert soon.objective is not None and late.objective is not None
    assert late.objective <= soon.objective * (1 + 5e-4)  # two horizons of the cost curve meet: grids err by this
    for plan, hours in zip((soon, late), sorted(deadlines), strict=True):
        (job,) = plan.jobs
        assert job.hours.at_confidence <= hours * (1 + 1e-9)
        if job.spot is not None:
            assert job.spot.guaranteed_hours <= job.hours.at_confidence
            assert job.hours.expected <= job.spot.guaranteed_hours


@pytest.mark.long
@FEW
@given(AVAILABILITIES, UP_HOURS, DEADLINES)
def test_spot_is_never_dearer_than_to_do_without(share: float, up: float, deadline: float) -> None:
    """What is allowed and not needed costs nothing; the saving is the difference."""
    free = planned(spot(0.8, share, up), deadline=deadline)
    without = planned(spot(0.8, share, up), deadline=deadline, limits={"spot_share": {"max": 0}})
    assert without.spot is None
    assert free.cost_usd <= without.cost_usd + 1e-6
    if free.spot is not None:
        assert free.spot.saving_usd == pytest.approx(without.cost_usd - free.cost_usd, abs=0.006)


@pytest.mark.long
@FEW
@given(AVAILABILITIES, UP_HOURS, st.sampled_from([(0.0, 0.3), (0.0, 0.6), (0.3, 0.5), (0.6, 1.0), (0.9, 1.0)]))
def test_limits_on_the_share_hold(share: float, up: float, bounds: tuple[float, float]) -> None:
    """Within the bounds that are asked for, at a cost that is no lower than without them."""
    low, high = bounds
    plan = plan_of(spot(0.8, share, up), limits={"spot_share": {"min": low, "max": high}})
    if plan.status == "infeasible":  # no policy is as even as that
        assert low > 0
        return
    (job,) = plan.jobs
    assert low - 1e-9 <= job.spot_share <= high + 1e-9
    assert job.cost_usd >= planned(spot(0.8, share, up)).cost_usd - 1e-6


@pytest.mark.long
def test_who_values_time_waits_less() -> None:
    """Dollars for an hour buy hours: the dearer the hour, the sooner the end, and the higher the bill."""
    plans = [planned(deadline=60, worth=worth) for worth in (0.0, 0.3, 2.0, 20.0)]
    for patient, hasty in itertools.pairwise(plans):
        assert hasty.hours.expected < patient.hours.expected
        assert hasty.cost_usd > patient.cost_usd
        assert policy_of(hasty).waiting_hours <= policy_of(patient).waiting_hours + 1e-9
    assert policy_of(plans[1]).waiting_hours < policy_of(plans[0]).waiting_hours
    assert policy_of(plans[-1]).waiting_hours == pytest.approx(0, abs=1e-9)  # on demand whenever spot is down


@pytest.mark.slow
def test_storage_that_is_paid_for_while_waiting_shortens_it() -> None:
    """Disks cost as long as the run lasts, whoever holds the machines."""
    dear = planned(spot(fees={"storage_usd_per_gb_month": 15}), deadline=60)
    assert policy_of(dear).waiting_hours < policy_of(planned(deadline=60)).waiting_hours


@pytest.mark.slow
def test_a_notice_that_is_long_enough_helps() -> None:
    """A last checkpoint of 15 GB takes half a minute: two minutes of notice save work, five seconds save none."""
    none, short, long = (planned(spot(notice=notice)) for notice in (None, 5.0, 120.0))
    assert [policy_of(one).last_checkpoint for one in (none, short, long)] == [False, False, True]
    assert short.cost_usd == pytest.approx(none.cost_usd)
    assert long.cost_usd < short.cost_usd


def test_on_demand_arithmetic_where_there_is_no_time_to_spare() -> None:
    """A deadline that only on-demand machines without a pause can promise is kept by them."""
    plain = planned(RENTED)
    tight = planned(deadline=math.ceil(plain.hours.at_confidence * 100) / 100)
    assert tight.spot is None
    assert tight.cost_usd == pytest.approx(plain.cost_usd)


STAGES = {
    "ingest": {"raw_gb": 20},
    "evaluation": {"share": 0.05},
    "checkpoints": {"count": 4, "keep": 2},
    "export": {},
    "retention": "100h",
}


def staged() -> Assignment:
    fees = {"storage_usd_per_gb_month": 0.2, "network_storage_usd_per_gb_month": 0.07, "egress_usd_per_gb": 0.1}
    return planned(spot(fees=fees), stages=STAGES)


@pytest.mark.slow
def test_the_bill_of_a_policy_by_hand() -> None:
    """Work at its share, every start and loss on lines of their own, data and export on demand."""
    told = staged()
    policy, x = policy_of(told), told.spot_share
    assert 0 < x < 1
    run = math.fsum(line(told, f"gpu {market}")[0] for market in ("on demand", "spot"))
    assert line(told, "gpu spot") == pytest.approx((x * run, x * run * 0.8))
    for item in ("evaluation", "checkpoints"):
        hours = told.stage_hours[item]
        assert line(told, item) == pytest.approx((hours, hours * (x * 0.8 + (1 - x) * 2)))
        run += hours
    for item in ("prepare data", "export"):
        assert line(told, item) == pytest.approx((told.stage_hours[item], told.stage_hours[item] * 2))
    wasted = line(told, "starts on demand")[0] + line(told, "starts and losses")[0]
    assert wasted == pytest.approx(policy.wasted_hours)
    assert line(told, "starts on demand")[0] >= 0
    beside = told.stage_hours["prepare data"] + told.stage_hours["export"]
    assert told.hours.expected == pytest.approx(beside + run + policy.wasted_hours + policy.waiting_hours)
    needed = run + policy.restart_hours
    before = told.stage_hours["prepare data"]
    assert told.switch_to_on_demand_at_hours == pytest.approx(before + policy.guaranteed_hours - needed)


@cache
def tampered_with() -> tuple[Plan, Scenario]:
    asked = scenario_of(spot(notice=30), stages=STAGES)
    return solved(asked), asked


@pytest.mark.long
def test_every_changed_figure_of_a_policy_is_found() -> None:
    """No field of the policy can be changed unseen, nor can the policy itself be left out."""
    plan, asked = tampered_with()
    assert plan.jobs[0].spot is not None
    assert audit(plan, asked, library()) == []
    for field in (*SpotPlan.model_fields, ""):
        if field == "zones":  # the plan has one zone: others are made up
            spot = plan.jobs[0].spot.model_copy(update={"zones": {"here/a": 1.0, "here/b": 1.2}})
            wrong = plan.model_copy(update={"jobs": (plan.jobs[0].model_copy(update={"spot": spot}),)})
        elif field:
            wrong = tampered(plan, ("jobs", 0, "spot", field))
        else:
            wrong = plan.model_copy(update={"jobs": (plan.jobs[0].model_copy(update={"spot": None}),)})
        assert wrong is not None, field
        assert audit(wrong, asked, library()) != [], field


@pytest.mark.parametrize(
    ("offer", "job"),
    [
        pytest.param({}, {"trials": {"count": 2}}, id="several trials"),
        pytest.param({"billing": {"step_seconds": 3600}}, {}, id="coarse billing"),
        pytest.param({"usd_per_hour": None}, {}, id="spot only"),
    ],
)
def test_where_no_policy_is_made_for_the_plan_keeps_a_share(offer: dict[str, Any], job: dict[str, Any]) -> None:
    """Without on-demand machines, with several runs or whole hours billed: shares of two markets, and no guarantee."""
    told = planned(spot(availability=0.9, up=20.0, **offer), deadline=100, **job)
    assert told.spot_share > 0
    assert told.spot is None


def test_a_policy_that_a_plan_must_not_follow_is_found() -> None:
    """Told to minimise time, the same plan follows a policy that nobody asked for."""
    plan, asked = tampered_with()
    by_time = asked.model_copy(update={"objective": "time"})
    assert "a policy on spot" in [one.what for one in audit(plan, by_time, library())]


@pytest.mark.long
def test_the_frontier_is_what_solve_finds_at_its_breakpoints_and_just_below() -> None:
    """Two ways to one figure: every point of the curves in an envelope, or the best point for one deadline."""
    offers = (spot(), spot(2.5, 0.9, 5.0, provider="q", gpus=4, usd_per_hour=8.4))
    found = frontier_of_jobs(scenario_of(*offers, deadline=60), SolveOptions(as_of=AS_OF), library())
    assert found.exact
    assert sum(point.jobs[0].spot is not None for point in found.points) > 5
    last = len(found.points) - 1
    for index in sorted({round(i * last / 4) for i in range(5)}):
        point = found.points[index]
        here = planned(*offers, deadline=point.hours * (1 + 1e-9))
        assert here.cost_usd == pytest.approx(point.cost_usd, abs=0.006)
        if index:
            before = planned(*offers, deadline=point.hours * (1 - 1e-6))
            assert point.cost_usd - 0.006 <= before.cost_usd <= found.points[index - 1].cost_usd + 0.006


def shipped_choice(name: str) -> SpotChoice:
    """The run, market and point of the one job of a shipped scenario, without GCP's sizes that are spot alone."""
    prepared = prepare(read_scenario(name, ["limits.providers.forbid=[gcp]"]))
    solved_rows = optimise(prepared, SolveOptions(as_of=AS_OF))
    return prepared.screened[0].spot[int(solved_rows.owner[solved_rows.rows[0]])]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tick"), [("spot-heavy", 1 / 30), ("llama-2-70b-lora", 1 / 60)])
def test_the_exported_policy_replayed_gives_the_figures_of_the_plan(name: str, tick: float) -> None:
    """3,000 random markets, no backward pass: dollars within 3 % (and four standard errors), and no deadline missed.

    The pass grows old by chance, the replay by the clock: whoever waits for free waits up to a fifth longer there.
    """
    chosen, runs = shipped_choice(name), 3000
    run, point = chosen.run, chosen.point
    policy = from_table(to_table(best_policy(run, chosen.states, point.hours, tick)))
    paths = sample_states(chosen.states, runs, math.ceil(point.hours / tick) + 1, tick, np.random.default_rng(11))
    found = replay(policy, run, paths.up, tick, point.hours, age_hours=paths.age_hours)
    assert found.met.all()
    error = 4 * float(found.usd.std()) / math.sqrt(runs)
    assert found.usd.mean() == pytest.approx(point.usd, abs=0.03 * point.usd + error)
    assert found.spot_share.mean() == pytest.approx(point.spot_share, abs=0.03)
    assert found.hours.mean() == pytest.approx(point.finish_hours, rel=0.2)
    assert found.wasted_hours.mean() == pytest.approx(point.wasted_hours, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "budget"),
    [
        ("spot-heavy", None),
        pytest.param("spot-heavy", 60.0, marks=pytest.mark.long),  # minutes: draws the markets of every policy
        ("quickstart", None),
        ("quickstart", 60.0),
    ],
)
def test_a_narrow_search_finds_the_same_best(name: str, budget: float | None) -> None:
    """What is asked for the best alone, of all or of each method, need not price the alternatives that a plan names."""
    prepared = prepare(read_scenario(name, [] if budget is None else [f"limits.budget_usd={budget}"]), None)
    objective, (candidates,) = CandidateObjective.of(prepared.scenario), prepared.candidates
    limits, waiting = prepared.scenario.limits, objective.waiting_usd

    def best(scope: SearchScope) -> dict[str, float]:
        table = screen(candidates, prepared.market, limits, prepared.library, True, waiting, scope).table
        methods = np.asarray([one.method_label for one in candidates.recipes], dtype=str)[table.recipe]
        values = objective.best(table)[0]
        return {method: float(np.min(values[methods == method])) for method in np.unique(methods)}

    whole, methods = best(SearchScope()), best(BEST_OF_METHODS)
    assert methods == pytest.approx(whole, abs=1e-9)
    assert min(best(BEST).values()) == pytest.approx(min(whole.values()), abs=1e-9)
    assert min(best(LEAST_DOLLARS).values()) == pytest.approx(min(whole.values()), abs=1e-3)


def test_a_slow_run_on_a_policy_does_not_stop_early_and_keeps_its_disks() -> None:
    """Half of the work is left out where a run stops early: a slow one costs twice as much, disks included."""
    asked = scenario_of(spot(fees={"storage_usd_per_gb_month": 100.0}), early_stopping=0.5)
    (candidates,), (screened,) = (prepared := prepare(asked, library())).candidates, prepared.screened
    ((row, choice),) = screened.spot.items()
    slower = candidates.hours.budget[screened.rows[row]]
    assert screened.table.run_usd[row] == pytest.approx(choice.point.usd)
    assert screened.table.late_usd[row] == pytest.approx(2 * choice.point.usd * slower)


def test_spot_that_costs_more_than_on_demand_is_no_way_to_run() -> None:
    """$2.50 on spot against $2.00: it is no candidate, and a question about it says why."""
    asked = scenario_of(spot(usd=2.5, availability=0.95))
    found = explain(asked, "market=spot", library=library()).why_not
    assert found is not None and found.status == "impossible"
    assert found.reasons == ("none of these offers has a spot price below its on-demand price",)


def test_runs_are_drawn_of_policies_alone_that_may_rule_out_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two machines at nearly one price, the second one's slow runs cost more than all that the first one risks."""
    drawn: list[int] = []
    of_runs = SpotCandidates.late_value

    def late_value(work: SpotCandidates, row: int, value: float) -> float:
        drawn.append(int(work.table.offer[row]))
        return of_runs(work, row, value)

    monkeypatch.setattr(SpotCandidates, "late_value", late_value)
    offers = (spot(), spot(0.9, provider="q"))
    prepared = prepare(scenario_of(*offers, limits={"budget_usd": 11}), None)
    assert {prepared.market.offers[offer].provider for offer in drawn} == {"p"}
