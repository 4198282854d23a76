"""Simulations: what replays of a plan must say, whatever is drawn."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.analysis.job_runs import JobRun, build_job_runs, policy_tables, spot_advice
from planner.analysis.market_paths import SampledPaths, build_recorded_windows
from planner.analysis.simulate_question import HISTOGRAM_BINS, histogram, replay_job, run_deadlines, simulate
from planner.documents.files import data_folder
from planner.errors import InputError, ScenarioError
from planner.loading.scenario_file import read_scenario
from planner.results.simulation import GREEDY, ON_DEMAND_ONLY, OPTIMUM, PLANNED, UNIFORM, Simulation
from planner.solving.solve import solve
from planner.spot.policy_cache import from_table
from planner.spot.replayed_runs import replay
from planner.spot.states import Trace
from tests.helpers.spot_scenarios import (
    ON_DEMAND,
    OPTIONS,
    SEVERAL,
    SPOT,
    SPOT_ALONE,
    planned,
    prepared,
    scenario,
    trace,
)


def simulated(text: str = SPOT, *changes: str, **asked: object) -> Simulation:
    return simulate(
        scenario(text, *changes),
        planned(text, *changes),
        **{"runs": 1000, "options": OPTIONS, **asked},  # type: ignore[arg-type]
    )


def job_run(text: str = SPOT, job: int = 0) -> JobRun:
    return build_job_runs(prepared(text), planned(text))[job]


@pytest.mark.slow
@pytest.mark.parametrize("text", [SPOT, SEVERAL, ON_DEMAND])
def test_the_hours_of_the_plan_cost_what_its_bill_says(text: str) -> None:
    """Stages, storage, fees and machines: the dollars of a simulation are those of the plan at the plan's hours."""
    for one in build_job_runs(prepared(text), planned(text)):
        demand, spot, finish = (1 - one.job.spot_share) * one.run.work_hours, 0.0, one.run.work_hours
        if one.choice is not None:
            point = one.choice.point
            demand, spot, finish = point.on_demand_hours, point.spot_hours, point.finish_hours
        elif one.kind == "mix":
            continue  # what a mix loses on spot is a formula of its own, compared below
        usd = one.usd(np.ones(1), np.array([demand]), np.array([spot]), np.array([finish]))
        assert usd[0] == pytest.approx(one.job.cost_usd, rel=1e-9)
        assert one.outside_run_hours + finish == pytest.approx(one.job.hours.expected, rel=1e-9)


@pytest.mark.slow
def test_replays_come_true_to_the_plan() -> None:
    """Mean cost within 5 %, spot share within 3 points, and the deadline no less often than promised."""
    found = simulated(runs=4000)
    assert found.cost_usd is not None and found.predicted is not None and found.spot_share is not None
    assert found.cost_usd.mean == pytest.approx(found.predicted.cost_usd, rel=0.05)
    assert found.spot_share == pytest.approx(found.predicted.spot_share, abs=0.03)
    assert found.predicted.deadline_probability is not None and found.predicted.at_least
    assert (found.deadline_hit_rate or 0) > found.predicted.deadline_probability - 0.03


@pytest.mark.long
def test_trials_and_stages_come_true_too() -> None:
    """Runs side by side, data preparation and export: the sum within 5 %, the jobs add up."""
    found = simulated(SEVERAL, runs=2000)
    assert found.cost_usd is not None and found.predicted is not None
    assert found.cost_usd.mean == pytest.approx(found.predicted.cost_usd, rel=0.05)
    assert sum(job.cost_usd.mean for job in found.jobs if job.cost_usd) == pytest.approx(found.cost_usd.mean)
    assert [job.kind for job in found.jobs] == ["mix", "policy"]
    assert found.jobs[1].deadline_hit_rate is None and found.deadline_hit_rate == found.jobs[0].deadline_hit_rate


@pytest.mark.slow
def test_at_the_exact_speed_no_deadline_is_missed() -> None:
    """The guarantee holds on every path of the market."""
    found = simulated(exact_speed=True)
    assert found.deadline_hit_rate == 1.0
    assert all(one.deadline_hit_rate == 1.0 for name, one in found.policies.items() if name != OPTIMUM)


def test_on_demand_is_as_sure_as_the_plan_says() -> None:
    """Only the speed is drawn there: the chance to be in time is that of the plan, and exact speed is exact."""
    sure = simulated(ON_DEMAND, "jobs.bot.deadline=4.1h")
    assert sure.predicted is not None and sure.predicted.deadline_probability is not None
    assert not sure.predicted.at_least and 0.85 < sure.predicted.deadline_probability < 0.97
    assert sure.deadline_hit_rate == pytest.approx(sure.predicted.deadline_probability, abs=0.01)
    exact = simulated(ON_DEMAND, exact_speed=True)
    assert exact.cost_usd is not None and exact.predicted is not None
    assert exact.cost_usd.p05 == exact.cost_usd.p95 == pytest.approx(exact.predicted.cost_usd)
    assert exact.runs_per_second is None and list(exact.policies) == [PLANNED]


@pytest.mark.long
def test_a_seed_gives_the_same_figures_again() -> None:
    """And another seed others."""
    first, again, other = (simulated(seed=seed, runs=300) for seed in (5, 5, 6))
    assert first.cost_usd == again.cost_usd and first.policies == again.policies and first.jobs == again.jobs
    assert first.cost_usd != other.cost_usd


def test_nobody_beats_who_knows_the_market() -> None:
    """The optimum costs least, on demand most, and the plan no more than the baselines."""
    found = simulated(runs=2000)
    over = {name: one.usd_over_optimum for name, one in found.policies.items()}
    assert list(over) == [PLANNED, ON_DEMAND_ONLY, GREEDY, UNIFORM, OPTIMUM]
    assert over[OPTIMUM] == 0 and all(usd >= 0 for usd in over.values() if usd is not None)
    means = {name: one.cost_usd.mean for name, one in found.policies.items() if one.cost_usd}
    assert means[OPTIMUM] < means[PLANNED] <= means[UNIFORM] < means[ON_DEMAND_ONLY]
    assert means[PLANNED] <= means[GREEDY] * 1.01
    assert means[PLANNED] - means[OPTIMUM] == pytest.approx(over[PLANNED])


def test_the_exported_table_gives_the_same_figures() -> None:
    """The policy that is written is the one that was replayed."""
    one, tick = job_run(), 1 / 12
    assert one.states is not None
    table = json.loads(json.dumps(policy_tables(scenario(), planned())["bot"]))
    source = SampledPaths(one.states, 220, tick, np.random.default_rng(3))
    paths = SampledPaths(one.states, 220, tick, np.random.default_rng(3)).paths(np.arange(200))
    played = replay_job(one, source, np.ones(200), lambda _: None).outcomes[PLANNED]
    again = replay(from_table(table), one.run, paths.up, tick, one.target_hours, 1.0, paths.age_hours)
    usd = one.usd(np.ones(200), again.on_demand_hours, again.spot_hours, again.hours)
    assert np.array_equal(usd, played.usd) and np.array_equal(again.hours + one.outside_run_hours, played.hours)


def test_advice_says_what_to_do_now() -> None:
    """With time in hand it waits out an outage and takes a market that is up; at the guard it goes on demand."""
    table = policy_tables(scenario(), planned())["bot"]
    assert spot_advice(table, 5, 0.6, False, 10) == "wait"
    assert spot_advice(table, 5, 0.6, True, 240) == "spot"
    assert spot_advice(table, 16, 0.5, False, 10) == "on_demand"
    assert spot_advice(table, 15, 0.3, False, 10) == "on_demand"
    assert spot_advice(table, 15, 0.3, False, 10, slowness=1.2) == "wait"  # a slower run has more hours
    wrong = [
        {"done": 1.2}, {"running": "spot"}, {"running": "idle"}, {"hour": -1}, {"slowness": 0},
    ]  # fmt: skip
    for changed in wrong:
        with pytest.raises(ValueError, match=r"not|while"):
            spot_advice(table, **{"hour": 1, "done": 0.1, "market_up": False, "minutes": 5, **changed})  # type: ignore[arg-type]


def test_advice_for_several_zones_names_the_one_to_take() -> None:
    """The one that has been up for longest of two at one price; a run stays where it is until it is lost."""
    read = read_scenario(data_folder("scenarios") / "decisions" / "spot-zones.yaml")
    table = json.loads(json.dumps(policy_tables(read, solve(read))["spot-zones"]))
    ask = functools.partial(spot_advice, table, 1, 0.2)
    assert ask(zones={"east/east-a": 5, "east/east-b": 300, "east/east-c": None}) == "spot in east/east-b"
    assert ask(zones={"east/east-a": 60, "east/east-c": 60}) == "spot in east/east-a"  # the cheaper one
    both = {"east/east-a": 5, "east/east-b": 300}
    assert ask(zones=both, running="spot in east/east-a") == "spot in east/east-a"
    assert ask(zones={"east/east-a": None, "east/east-b": None}, minutes=5) in ("wait", "on_demand")
    with pytest.raises(ValueError, match="west is not a zone of this policy"):
        ask(zones={"west": 5})
    with pytest.raises(ValueError, match="east/east-a is not up"):
        ask(zones={"east/east-a": None}, running="spot in east/east-a")


def test_a_market_that_is_always_up_costs_the_spot_price(tmp_path: Path) -> None:
    """Recorded without a gap: one start, no interruption, every hour at the price of spot."""
    found = simulated(traces=[trace(tmp_path, [1] * 400)], exact_speed=True)
    one, job = job_run(), found.jobs[0]
    paid = one.run.restart_hours + one.run.work_hours
    assert found.runs == 400 - round(one.target_hours * 6 + 0.5) + 1
    assert found.interruptions == 0 and found.spot_share == 1 and found.waiting_hours == 0
    assert job.hours is not None and paid < job.hours.mean < paid * 1.02 + one.outside_run_hours  # checkpoints stall
    run_usd = one.run.spot_usd_per_hour * (job.hours.mean - one.outside_run_hours)
    assert found.cost_usd is not None
    assert found.cost_usd.mean == pytest.approx(one.fixed_usd + run_usd + one.storage_usd * job.hours.mean)
    assert job.market is not None and job.market.source == "traces" and job.market.availability == 1


def test_a_market_that_never_comes_back_is_left_for_on_demand(tmp_path: Path) -> None:
    """The guard starts on-demand machines in time, at their price."""
    found = simulated(traces=[trace(tmp_path, [1, *[0] * 140])], exact_speed=True)
    assert found.deadline_hit_rate == 1 and found.spot_share == pytest.approx(0, abs=0.05)
    assert found.policies[ON_DEMAND_ONLY].cost_usd is not None and found.cost_usd is not None
    assert found.cost_usd.mean == pytest.approx(found.policies[ON_DEMAND_ONLY].cost_usd.mean, rel=0.05)
    timeline = found.jobs[0].told
    assert timeline is not None and timeline.stretches[-1].running == "on demand" and timeline.guard is not None
    assert timeline.stretches[-1].to_hours <= timeline.ends_by_hours


def test_spot_alone_promises_nothing(tmp_path: Path) -> None:
    """No on-demand machines, no policies to compare with; what a short market leaves undone is reported."""
    found = simulated(SPOT_ALONE)
    assert found.jobs[0].kind == "spot only" and list(found.policies) == [PLANNED]
    assert any("a deadline holds with a probability" in note for note in found.notes)
    short = simulated(SPOT_ALONE, traces=[trace(tmp_path, [*[1] * 12, *[0] * 84])], exact_speed=True)
    assert short.jobs[0].unfinished == 1 and short.deadline_hit_rate == 0


def test_a_timeline_shows_a_replay_from_its_first_hour_to_its_last() -> None:
    """Stretches join without a gap, spot runs only while the market is up, and the work ends done."""
    timeline = simulated().jobs[0].told
    assert timeline is not None
    ends = [one.to_hours for one in timeline.stretches]
    assert [one.from_hours for one in timeline.stretches] == pytest.approx([0.0, *ends[:-1]])
    assert all(one.market_up for one in timeline.stretches if one.running == "spot")
    hours, shares = zip(*timeline.progress, strict=True)
    assert list(hours) == sorted(hours) and shares[0] == 0 and shares[-1] == 1
    assert timeline.interruptions == sum(
        one.running == "spot" and not after.market_up
        for one, after in zip(timeline.stretches, timeline.stretches[1:], strict=False)
    )


@pytest.mark.slow
def test_an_infeasible_scenario_is_explained() -> None:
    """There is nothing to replay, and what would have to give is said."""
    found = simulate(scenario(SPOT, "jobs.bot.deadline=1h"), options=OPTIONS)
    assert found.status == "infeasible" and not found.jobs and found.infeasible is not None


@pytest.mark.long
def test_a_plan_is_read_again_and_a_strangers_is_refused() -> None:
    """The audit decides whether a plan belongs to a scenario."""
    solved = simulate(scenario(), runs=200, options=OPTIONS)
    assert solved.cost_usd == simulated(runs=200).cost_usd
    with pytest.raises(ScenarioError, match="expected several, found nightly"):
        simulate(scenario(SEVERAL), planned())
    costlier = scenario(SPOT, "adjust=[{match: {gpu: RTX3090}, spot_usd_per_hour_factor: 1.5}]")
    with pytest.raises(ScenarioError, match="planner check PLAN SCENARIO"):
        simulate(costlier, planned())


@pytest.mark.parametrize("wrong", [{"runs": 0}, {"runs": 10**7}, {"seed": -1}])
def test_impossible_numbers_are_refused(wrong: dict[str, int]) -> None:
    """Runs and seeds in range."""
    with pytest.raises(ScenarioError, match=r"cannot be simulated|is not a seed"):
        simulate(scenario(), planned(), **wrong)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts", "minutes", "said"),
    [
        ([1] * 30, 10, "this trace is 5.0 h long, but bot may take 20.0 h"),
        ([1] * 400, 600, "a count every 10 h is too coarse for bot"),
        ([0] * 400, 10, "a machine was never available, but bot needs it"),
    ],
)
def test_traces_that_say_nothing_of_the_job_are_refused(
    counts: list[int], minutes: float, said: str, tmp_path: Path
) -> None:
    """Too short, in the wrong unit, or without any machine: one message."""
    with pytest.raises(InputError, match=said) as caught:
        simulated(traces=[trace(tmp_path, counts, minutes=minutes)])
    assert len(caught.value.faults) == 1


@pytest.mark.slow
def test_traces_of_two_steps_are_not_mixed_and_short_ones_left_out(tmp_path: Path) -> None:
    """Paths of one simulation have one step; a note says which traces were too short."""
    long, short = trace(tmp_path, [1] * 300), trace(tmp_path, [1] * 20, "short")
    with pytest.raises(InputError, match=r"traces of different steps \(10, 20 minutes\)"):
        simulated(traces=[long, trace(tmp_path, [1] * 300, "slow", 20)])
    assert "1 trace of 2 left out: shorter than the 20.0 h that bot may take" in simulated(traces=[long, short]).notes


@pytest.mark.long
def test_a_plan_counts_on_another_zone_and_replays_come_true() -> None:
    """The block of a group makes the plan cheaper; it passes its audit, and drawn markets cost what it says."""
    ages = "up: {ages_hours: [0], ends_per_hour: [0.5]}, outage: {ages_hours: [0], ends_per_hour: [0.7]}"
    alone = SPOT.replace("{availability: 0.7, mean_up_hours: 3}", f"{{{ages}}}").replace(
        "deadline: 20h", "deadline: 6h"
    )
    alone = alone.replace("budget_usd: 1.2", "budget_usd: 2")  # which holds in one zone, too, at its luck of the market
    group = alone.replace(
        "{ages_hours: [0], ends_per_hour: [0.7]}}", "{ages_hours: [0], ends_per_hour: [0.7]}, another_zone: 0.8}"
    )
    one, several = (planned(text).jobs[0] for text in (alone, group))
    assert several.cost_usd < one.cost_usd
    found = simulated(group, exact_speed=True, runs=2000)
    assert found.cost_usd is not None
    assert found.cost_usd.mean == pytest.approx(several.cost_usd, rel=0.03)
    assert found.policies[PLANNED].usd_over_optimum is not None
    assert found.deadline_hit_rate == 1.0


@pytest.mark.slow
def test_a_run_that_moves_among_zones_beats_each_alone(tmp_path: Path) -> None:
    """Three zones, one of them up at a time: alone each is worth little, together they are a market that is always up.

    Every move is paid with a restart, and the optimum over all zones is the yardstick.
    """
    zones = [
        trace(tmp_path, ([0] * 120 * number + [1] * 120 + [0] * 120 * (2 - number)) * 4, f"zone-{number}")
        for number in range(3)
    ]
    together = simulated(traces=zones, together=True, exact_speed=True)
    alone = [simulated(traces=[zone], exact_speed=True) for zone in zones]
    assert together.cost_usd.mean < 0.8 * min(one.cost_usd.mean for one in alone)
    market = together.jobs[0].market
    assert market is not None
    assert market.availability == 1.0
    assert (together.jobs[0].interruptions or 0) > 0
    usd = {name: one.usd_over_optimum for name, one in together.policies.items()}
    assert 0 <= (usd[PLANNED] or 0.0) < 0.05
    told = together.jobs[0].told
    assert told is not None
    assert [one.zone for one in told.zones] == ["zone-0", "zone-1", "zone-2"]
    spans = {one.zone: one.up for one in told.zones}
    for part in told.stretches:
        if part.running == "spot":
            assert any(a - 1e-9 <= part.from_hours and part.to_hours <= b + 1e-9 for a, b in spans[part.zone])
        else:
            assert part.zone == ""
    with pytest.raises(ScenarioError, match="1 zones cannot be used together"):
        simulated(traces=zones[:1], together=True)


def test_machines_that_stand_in_for_one_another_are_reported(tmp_path: Path) -> None:
    """A count of five says nothing of the one machine that a job has."""
    notes = simulated(traces=[trace(tmp_path, [5] * 300)]).notes
    assert any("up to 5 machines were recorded" in note for note in notes)
    assert any("traces are not used" in n for n in simulated(ON_DEMAND, traces=[trace(tmp_path, [5] * 300)]).notes)


FLAGS = st.lists(st.integers(0, 3), min_size=13, max_size=40)


@settings(derandomize=True, max_examples=15, deadline=None)
@given(several=st.lists(FLAGS, min_size=1, max_size=3), runs=st.integers(1, 9))
def test_windows_are_parts_of_the_traces(several: list[list[int]], runs: int) -> None:
    """Each window stands in its trace, no two are the same while there are enough, ages count from the last change."""
    several[0][0] = 2
    traces = [Trace(str(i), 3600.0, np.asarray(one)) for i, one in enumerate(several)]
    windows = build_recorded_windows(traces, "bot", 2, 12.0)
    assert not any("left out" in note for note in windows.notes)
    expected = [
        (at, number, one.up(2)[at : at + 12].tolist())
        for number, one in enumerate(traces)
        for at in range(one.available.size - 11)
    ]
    paths = windows.paths(np.arange(windows.windows))
    assert paths.up.tolist() == [flags for _, _, flags in expected]
    for (at, number, _), age in zip(expected, paths.age_hours, strict=True):
        flags = traces[number].up(2)
        begun = max((i for i in range(1, at + 1) if flags[i] != flags[i - 1]), default=0)
        assert age == at - begun
    windows.spread_evenly(runs)
    if runs <= windows.windows:
        assert len(set(windows.chosen.tolist())) == runs


@settings(derandomize=True, max_examples=15, deadline=None)
@given(slow=st.floats(0.5, 2.0), more=st.floats(1.0, 2.0))
def test_slower_runs_have_more_hours_but_never_beyond_the_deadline(slow: float, more: float) -> None:
    """In proportion to their length, as guaranteed, and no longer than what is left of the deadline."""
    one = job_run()
    first, second = run_deadlines(one, np.asarray([slow, slow * more]))
    assert first <= slow * one.target_hours + 1e-9 and first + slow * one.outside_run_hours <= one.latest_hours + 1e-9
    assert second >= min(first, one.latest_hours - slow * more * one.outside_run_hours) - 1e-9
    usd = one.usd(np.asarray([slow, slow * more]), np.ones(2), np.ones(2), np.asarray([3.0, 3.0 * more]))
    assert usd[1] >= usd[0] > one.fixed_usd


@settings(derandomize=True, max_examples=15, deadline=None)
@given(values=st.lists(st.floats(0.1, 1e4), min_size=1, max_size=200))
def test_a_histogram_counts_every_run_once(values: list[float]) -> None:
    """The tails are in its ends, and equal values make one bin."""
    told = histogram(np.asarray(values))
    assert sum(told.counts) == len(values) and len(told.edges) == len(told.counts) + 1
    assert len(told.counts) in (1, HISTOGRAM_BINS) and list(told.edges) == sorted(told.edges)
