"""A running job against its plan: pace, end, dollars, causes and doubts, by hand from logs of known pace."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.analysis.run_progress import Projection, end_of, planned_step_seconds
from planner.analysis.track_question import Stated, track
from planner.cli.options import scenario_of
from planner.errors import InputError
from planner.estimates.uncertainty import Sigmas, time_factors
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import change_scenario, read_scenario
from planner.results.plan import Plan
from planner.results.run_results import Tracking
from planner.scenario.scenario import SolveOptions
from planner.solving.solve import solve
from tests.helpers import run_logs
from tests.helpers.exported_plans import AS_OF, changed, solved, texts
from tests.helpers.frozen_data import frozen_scenarios


@pytest.fixture(scope="module")
def plan() -> Plan:
    return solved("quickstart")


def follow(plan: Plan, folder: Path, *texts: str, **more: Any) -> Tracking:
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"log{number}"
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    stated = Stated(**{key: more.pop(key) for key in ("started", "spent_usd", "now") if key in more})
    return track(plan, scenario_of(plan, "plan.json"), paths, stated=stated, **more)


def every(steps: int, last: int) -> range:
    return range(steps, last + 1, steps)


def test_a_run_at_the_planned_pace_ends_as_planned(plan: Plan, tmp_path: Path) -> None:
    """Hours and dollars are those of the plan, their ranges are narrower, and no cause is worth a mention."""
    pace = planned_step_seconds(plan.jobs[0])
    found = follow(plan, tmp_path, run_logs.torchtitan(every(10, 300), pace))
    planned = plan.jobs[0]
    assert found.projected.hours.expected == pytest.approx(planned.hours.expected, rel=1e-3)
    assert found.projected.cost.expected == pytest.approx(planned.cost_usd, rel=2e-3)
    assert found.projected.hours.high - found.projected.hours.low < 0.1 * (planned.hours.high - planned.hours.low)
    assert all(abs(one.hours) < 0.02 for one in found.causes)
    assert found.is_on_time and found.observed.steps == 300


def test_the_range_of_what_is_left_is_that_of_the_plan(plan: Plan) -> None:
    """Nothing was observed: plan and tracking have one distribution, whose upper end holds with 90 %."""
    (job,) = plan.jobs
    left = Projection(
        pace_seconds=1.0, sigma=job.sigma_in_tails, left_hours=10.0, least_hours=10.0, market_sd_hours=0.0,
        left_usd=5.0, market_sd_usd=0.0,
    )  # fmt: skip
    quick, slow = map(float, time_factors(Sigmas(job.sigma, job.sigma_in_tails)))
    end = end_of(job, left, 2.0, 0.0, 0.9)
    assert (end.hours.low, end.hours.high) == pytest.approx((2.0 + 10.0 * quick, 2.0 + 10.0 * slow))
    assert (end.cost.low, end.cost.high) == pytest.approx((5.0 * quick, 5.0 * slow))


def test_slower_steps_are_projected_to_the_end_by_hand(plan: Plan, tmp_path: Path) -> None:
    """A fifth slower from the first step on: a fifth more hours of steps, and of their dollars."""
    job = plan.jobs[0]
    pace = 1.2 * planned_step_seconds(job)
    found = follow(plan, tmp_path, run_logs.torchtitan(every(10, 300), pace))
    more = 0.2 * planned_step_seconds(job) * job.steps / 3600
    assert found.projected.hours.expected == pytest.approx(job.hours.expected + more, rel=1e-3)
    per_hour = 0.64  # the price of the offer
    assert found.projected.cost.expected == pytest.approx(job.cost_usd + per_hour * more, rel=5e-3)
    slower = next(one for one in found.causes if one.what == "slower steps")
    assert slower.hours == pytest.approx(more, rel=1e-3)
    difference = found.projected.hours.expected - job.hours.expected
    assert math.fsum(one.hours for one in found.causes) == pytest.approx(difference)


@pytest.mark.parametrize("form", ["torchtitan", "megatron", "console", "json_lines", "trainer_state", "csv"])
def test_every_format_gives_the_same_pace(plan: Plan, tmp_path: Path, form: str) -> None:
    """30 s per step in each of them; those that time steps alone get the planned stages between steps on top."""
    steps = every(10, 300)
    text = {
        "torchtitan": lambda: run_logs.torchtitan(steps, 30.0),
        "megatron": lambda: run_logs.megatron(steps, 30.0),
        "console": lambda: run_logs.console(steps, 30.0),
        "json_lines": lambda: run_logs.json_lines(steps, 30.0),
        "trainer_state": lambda: run_logs.trainer_state(list(steps), 30.0),
        "csv": lambda: run_logs.step_times([30.0] * 300),
    }[form]()
    found = follow(plan, tmp_path, text)
    job = plan.jobs[0]
    added = planned_step_seconds(job) - job.step_seconds if form in ("megatron", "csv") else 0.0
    assert found.observed.step_seconds == pytest.approx(30.0 + added, rel=1e-6)
    assert (found.observed.steps, found.observed.restarts) == (300, 0)


def test_noise_of_the_steps_sets_the_width_of_the_range(plan: Plan, tmp_path: Path) -> None:
    """Steps that vary by a third are projected with a wider range than steady ones, both around their mean."""
    steady = follow(plan, tmp_path, run_logs.step_times([30.0] * 200))
    noisy = follow(plan, tmp_path, run_logs.step_times([40.0 if n // 10 % 2 else 20.0 for n in range(200)]))
    width = [one.projected.hours.high - one.projected.hours.low for one in (steady, noisy)]
    assert width[1] > 5 * width[0]
    planned = plan.jobs[0].hours.expected
    assert planned < noisy.projected.hours.expected < steady.projected.hours.expected, "noise leaves part of the plan"


def test_few_steps_leave_most_of_the_plan(plan: Plan, tmp_path: Path) -> None:
    """Five steps that vary twofold move the projection less than two hundred do."""
    few = follow(plan, tmp_path, run_logs.step_times([30.0, 80.0, 30.0, 80.0, 30.0, 80.0]))
    many = follow(plan, tmp_path, run_logs.step_times([30.0, 80.0] * 100))
    per_step = [(one.projected.left_hours * 3600 / (plan.jobs[0].steps - one.observed.steps)) for one in (few, many)]
    assert planned_step_seconds(plan.jobs[0]) < per_step[0] < per_step[1]
    few_width, many_width = (one.projected.hours.high - one.projected.hours.low for one in (few, many))
    assert few_width > 10 * many_width


def test_restarts_repeated_steps_and_gaps_are_told_apart(plan: Plan, tmp_path: Path) -> None:
    """Lost at step 200, resumed at 150 two hours later: 50 steps again, 2 hours of standing still."""
    before = run_logs.torchtitan(every(10, 200), 20.0)
    after = run_logs.torchtitan(range(160, 301, 10), 20.0, start=200 * 20.0 + 7200, first=150)
    found = follow(plan, tmp_path, before + after)
    seen = found.observed
    assert (seen.restarts, seen.repeated_steps, seen.steps) == (1, 50, 300)
    causes = {one.what: one.hours for one in found.causes}
    assert causes["steps done again after restarts"] == pytest.approx(50 * 20.0 / 3600, rel=1e-3)
    assert causes["standing still"] == pytest.approx(2.0 + 10 * 20.0 / 3600, abs=0.06)
    separate = follow(plan, tmp_path, after, before)
    assert separate.observed == seen, "two files of two attempts, in any order, are one run"


def test_the_time_of_the_order_counts_where_it_is_given(plan: Plan, tmp_path: Path) -> None:
    """Ordered 3 hours before the first step: they count, and are named as before the first step."""
    text = run_logs.torchtitan(every(10, 300), 22.0)
    without = follow(plan, tmp_path, text)
    found = follow(plan, tmp_path, text, started="2026-11-22 05:00 UTC")
    assert found.observed.elapsed_hours == pytest.approx(3.0 + 300 * 22.0 / 3600, rel=1e-6)
    assert any("time of the order" in note for note in without.notes)
    assert not any("time of the order" in note for note in found.notes)
    cause = next(one for one in found.causes if one.what.startswith("before the first step"))
    assert cause.hours == pytest.approx(3.0 - plan.jobs[0].start_hours, rel=1e-3)
    later = follow(plan, tmp_path, text, started="2026-11-22 05:00 UTC", now="2026-11-22 12:00 UTC")
    assert later.observed.elapsed_hours == pytest.approx(7.0)


def test_dollars_that_were_spent_replace_those_of_the_prices(plan: Plan, tmp_path: Path) -> None:
    """What is left is added to them."""
    text = run_logs.torchtitan(every(10, 300), 22.0)
    plain, given = follow(plan, tmp_path, text), follow(plan, tmp_path, text, spent_usd=10.0)
    left = plain.projected.cost.expected - plain.observed.spent_usd
    assert given.projected.cost.expected == pytest.approx(10.0 + left)
    assert given.observed.spent_is_given and not plain.observed.spent_is_given


def test_the_probability_falls_as_the_pace_does(plan: Plan, tmp_path: Path) -> None:
    """36 h of deadline: met at the planned pace, missed with steps ten times as slow, in doubt in between."""
    chances = []
    for pace in (22.0, 182.0, 184.0, 186.0, 188.0, 230.0):
        noise = [pace * (0.9 if n % 20 < 10 else 1.1) for n in range(200)]
        chance = follow(plan, tmp_path, run_logs.step_times(noise)).projected.deadline_probability
        assert chance is not None
        chances.append(chance)
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.97 and chances[-1] < 0.05, chances
    assert any(0.2 < one < 0.8 for one in chances), chances


def test_a_budget_is_at_risk_by_what_the_plan_keeps_it_at(plan: Plan, tmp_path: Path) -> None:
    """The cost at the confidence of the budget counts, as in the plan: a budget above what is likely may be at risk."""
    log = tmp_path / "log"
    log.write_text(run_logs.torchtitan(every(10, 50), 1.3 * planned_step_seconds(plan.jobs[0])), encoding="utf-8")
    likely = follow(plan, tmp_path, log.read_text()).projected.cost

    def notes(budget_usd: float) -> list[str]:
        one = change_scenario(scenario_of(plan, "plan.json"), [f"limits.budget_usd={budget_usd}"])
        return [note for note in track(plan, one, [str(log)]).notes if note.startswith("the budget of")]

    assert notes(likely.expected - 0.01) and notes(likely.expected + 0.01)
    assert not notes(1.5 * likely.high)
    (said,) = notes(likely.expected + 0.01)
    assert "at its confidence of 90 %, likely $" in said


@pytest.mark.slow
def test_a_spot_run_is_judged_by_what_its_guard_needs(tmp_path: Path) -> None:
    """Its waiting is planned; the deadline is in danger only where the work left on demand does not fit any more."""
    plan = solved("spot")
    job = plan.jobs[0]
    half = every(50, job.steps // 2)
    text = run_logs.torchtitan(half, job.step_seconds)
    early = follow(plan, tmp_path, text, started="2026-11-22 08:00 UTC")
    assert early.projected.deadline_probability == pytest.approx(0.975)
    late = follow(plan, tmp_path, text, started="2026-11-18 15:00 UTC")
    assert late.projected.deadline_probability is not None and late.projected.deadline_probability < 0.9
    assert not late.is_on_time and early.is_on_time
    assert early.projected.cost.expected == pytest.approx(job.cost_usd, rel=0.1)


def test_memory_and_idle_gpus_are_told(plan: Plan, tmp_path: Path) -> None:
    """The peak with its kind, what is free, and that slow steps come from idle GPUs."""
    slow = run_logs.step_times([40.0] * 100)
    found = follow(plan, tmp_path, slow, run_logs.nvidia_smi([40, 50, 45] * 20, mib=20_480))
    seen = found.observed
    assert (seen.peak_vram_gib, seen.peak_kind) == (20.0, "device")
    assert seen.free_vram_gib == pytest.approx(plan.jobs[0].vram_gib.usable - 20.0)
    assert seen.gpu_utilisation == pytest.approx(0.45)
    assert any("wait for data" in note for note in found.notes)
    busy = follow(plan, tmp_path, slow, run_logs.nvidia_smi([97, 99]))
    assert not any("wait for data" in note for note in busy.notes)


def test_a_state_without_times_needs_the_time_of_the_order(plan: Plan, tmp_path: Path) -> None:
    """As Transformers writes it without counting tokens: only the time of its file says how long it took."""
    text = run_logs.trainer_state([50, 100], None)
    with pytest.raises(InputError, match="give --started"):
        follow(plan, tmp_path, text)
    found = follow(plan, tmp_path, text, started="2026-11-22 07:00 UTC", now="2026-11-22 09:00 UTC")
    assert found.observed.elapsed_hours == pytest.approx(2.0) and found.observed.step_seconds is None
    assert any("the pace is that of the plan" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (run_logs.trainer_state([50, 100, 150, 200, 250, 300], 22.0)[:-60], "cut short"),
        (run_logs.trainer_state([50, 100, 150, 200, 250, 300], 22.0, total=900), "a run of 900 steps"),
        (run_logs.trainer_state([50, 100, 150, 200, 250, 300], 22.0, train_batch_size=7), "micro-batch 7"),
        (run_logs.torchtitan(every(10, 200), 22.0).replace("3.2440", "nan"), "no number since step 10"),
        (run_logs.torchtitan([10, 20], 22.0) + run_logs.torchtitan(range(30, 200, 10), 22.0, -5e3), "back 1 times"),
        (run_logs.step_times([22.0] * 80) + "81,\n82,nan\n83,22.0\n", "2 rows without"),
        (run_logs.step_times([22.0] * 80) + "81,22,7,8\n", "line 82 does not fit"),
        (run_logs.torchtitan(every(10, 100), 22.0) + run_logs.torchtitan(range(110, 200, 10), 22.0, 9e4), "stood"),
    ],
)  # fmt: skip
def test_faulty_logs_are_told_and_used(plan: Plan, tmp_path: Path, text: str, note: str) -> None:
    """What can be used is used, and the reader is told what is wrong."""
    found = follow(plan, tmp_path, text)
    assert any(note in one for one in found.notes), found.notes
    assert found.observed.step_seconds == pytest.approx(22.0, rel=0.06)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("hello\nworld\n", "unknown log format"),
        (run_logs.step_times([]), "has a header but no rows"),
        (run_logs.nvidia_smi([90]), "says nothing of steps"),
        (run_logs.torchtitan([700, 710, 720], 22.0), "step 720, but the plan has 708"),
        ('{"log_history": []}', "without any step"),
    ],
)
def test_logs_that_say_nothing_are_refused(plan: Plan, tmp_path: Path, text: str, message: str) -> None:
    """With the file and what would be right."""
    with pytest.raises(InputError, match=message):
        follow(plan, tmp_path, text)


def test_times_that_cannot_be_are_refused(plan: Plan, tmp_path: Path) -> None:
    """No day and time, and an order after the last step."""
    text = run_logs.torchtitan(every(10, 100), 22.0)
    with pytest.raises(InputError, match="--started: 'noon' is not a day and time"):
        follow(plan, tmp_path, text, started="noon")
    with pytest.raises(InputError, match="ordered after the last step"):
        follow(plan, tmp_path, text, started="2026-12-01 00:00 UTC")


def test_plans_without_a_run_of_their_own_are_refused(plan: Plan, tmp_path: Path) -> None:
    """Trials are several runs, and a job must exist."""
    text = run_logs.torchtitan(every(10, 100), 22.0)
    with pytest.raises(InputError, match="8 trials"):
        follow(changed(plan, trials=8), tmp_path, text)
    with pytest.raises(InputError, match="no job 'other'"):
        follow(plan, tmp_path, text, job="other")


def test_a_summary_without_a_finite_time_is_not_believed(plan: Plan, tmp_path: Path) -> None:
    """The steps before it are timed."""
    text = run_logs.trainer_state([50, 100, 150, 200, 250, 300], 22.0)
    end = '{"step": 300, "train_runtime": 1e999, "train_steps_per_second": 0.4}\n  ]\n}'
    found = follow(plan, tmp_path, text.rsplit("]", 1)[0].rstrip() + ", " + end)
    assert found.observed.step_seconds == pytest.approx(22.0)


def test_a_finished_run_is_over(plan: Plan, tmp_path: Path) -> None:
    """Nothing but the export is left."""
    found = follow(plan, tmp_path, run_logs.torchtitan([*every(10, 700), 708], 22.0))
    assert found.observed.share_done == 1.0
    assert found.projected.left_hours == pytest.approx(plan.jobs[0].stage_hours["export"], abs=1e-6)
    assert found.projected.deadline_probability == pytest.approx(0.975)


def test_a_trainer_that_goes_on_from_its_last_step_takes_one_more(plan: Plan, tmp_path: Path) -> None:
    """Transformers does so; the run is done, and a remark says it. Two more steps are of another run."""
    steps = plan.jobs[0].steps
    for last in ([steps, steps + 1], [steps + 1]):
        found = follow(plan, tmp_path, run_logs.torchtitan([*every(10, steps), *last], 22.0))
        assert found.observed.share_done == 1.0 and any("took one more" in note for note in found.notes)
    with pytest.raises(InputError, match=f"but the plan has {steps}"):
        follow(plan, tmp_path, run_logs.torchtitan([*every(10, steps), steps + 2], 22.0))


@pytest.mark.slow
def test_what_is_left_is_planned_anew(plan: Plan, tmp_path: Path) -> None:
    """To stay costs what is projected; the plan of it has the steps, hours and dollars that are left, and no start."""
    job = plan.jobs[0]
    text = run_logs.torchtitan(every(10, 300), 26.0)
    found = follow(plan, tmp_path, text, market=scenario_of(plan, "plan.json"), options=SolveOptions(as_of=AS_OF))
    assert {one.what for one in found.choices} == {"stay", "move"}
    best = found.choices[0]
    assert found.replan is not None and best.what == "stay", "a few cents are not worth a move"
    stay = next(one for one in found.choices if one.what == "stay")
    assert stay.cost_usd == pytest.approx(found.projected.cost.expected - found.observed.spent_usd)
    left = found.replan.jobs[0]
    assert left.steps == job.steps - 300
    assert left.deadline_hours == pytest.approx(36.0 - found.observed.elapsed_hours)
    assert (left.offer, left.gpus, left.start_hours) == (job.offer, job.gpus, 0.0)
    assert left.hours.expected == pytest.approx(found.projected.left_hours, rel=1e-6)
    assert left.techniques.method == job.techniques.method
    assert not audit(found.replan, scenario_of(found.replan, "replan.json"), read_library([job.architecture]))
    exported = yaml.safe_load(texts(found.replan, "trl")["sft.yaml"])
    assert exported["max_steps"] == job.steps, "a resumed run counts its steps from the beginning"
    later = follow(found.replan, tmp_path, run_logs.torchtitan(range(310, 401, 10), 26.0, first=300))
    assert (left.steps_before, later.observed.steps) == (300, 100)
    with pytest.raises(InputError, match="the plan begins after step 300"):
        follow(found.replan, tmp_path, text)


@pytest.mark.slow
def test_a_run_that_is_far_too_slow_moves(plan: Plan, tmp_path: Path) -> None:
    """At a tenth of the speed the deadline is lost where it is: other machines come first, in time."""
    seconds = run_logs.step_times([300.0] * 60)
    market = read_scenario(str(frozen_scenarios()["quickstart"]))
    found = follow(plan, tmp_path, seconds, market=market, options=SolveOptions(as_of=AS_OF))
    assert not found.is_on_time
    assert [one.what for one in found.choices] == ["move", "stay"]
    chance = found.choices[0].deadline_probability
    assert chance is not None and chance >= 0.9
    assert found.replan is not None and found.replan.jobs[0].speed_factor < 1, "other machines are estimated slower too"


def test_times_since_the_start_are_not_taken_for_seconds_of_a_step(plan: Plan, tmp_path: Path) -> None:
    """26 s per step, summed up: refused with the name that the column should have."""
    log = run_logs.step_times(26.0 * step for step in range(1, 101))
    with pytest.raises(InputError, match=r"increases in every row.*elapsed_seconds") as caught:
        follow(plan, tmp_path, log)
    assert caught.value.faults[0].where == "seconds"
    found = follow(plan, tmp_path, log.replace("seconds", "elapsed_seconds"))
    assert found.observed.step_seconds == pytest.approx(26.0)


@pytest.mark.slow
def test_a_machine_that_was_bought_is_paid_for_already(tmp_path: Path) -> None:
    """To stay on it asks for no money at once and waits for no delivery, within the limit of the purchase alone."""
    scenario = change_scenario(read_scenario("buy-or-rent"), ["limits.outlay_usd=2500", "offers.1.lead_hours=48"])
    plan = solve(scenario, SolveOptions(as_of=AS_OF))
    (job,) = plan.jobs
    assert (job.tier, plan.outlay_usd) == ("bought", 2500)
    half = job.steps // 2
    text = run_logs.torchtitan(every(10, half), planned_step_seconds(job))
    found = follow(plan, tmp_path, text, market=scenario, options=SolveOptions(as_of=AS_OF))
    assert found.replan is not None and found.choices[0].what == "stay"
    (left,) = found.replan.jobs
    assert (left.tier, found.replan.outlay_usd, left.lead_hours) == ("own", 0, 0)
    assert left.cost_usd == pytest.approx(job.cost_usd * left.hours.expected / job.hours.expected, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("tokens", "after_hours"), [("10e9", 0.0), ("13e9", 50.0)], ids=["in the term", "beyond it"])
def test_a_term_that_runs_is_paid_for_already(tokens: str, after_hours: float, tmp_path: Path) -> None:
    """To stay costs nothing in the term, and by the hour beyond it; spent and left add up to the plan on plan."""
    hours = 600 if not after_hours else 780
    changes = [
        f"jobs.0.work.tokens={tokens}",
        f"jobs.0.measured.0.hours={hours}",
        "jobs.0.deadline=60d",
        "limits.max_hours=1500",
    ]
    scenario = change_scenario(read_scenario("pay-commitment"), changes)
    plan = solve(scenario, SolveOptions(as_of=AS_OF))
    (job,) = plan.jobs
    assert job.commitment is not None and job.commitment.after_hours == pytest.approx(after_hours, abs=0.5)
    half = job.steps // 2
    text = run_logs.torchtitan(every(10, half), planned_step_seconds(job))
    found = follow(plan, tmp_path, text, market=scenario, options=SolveOptions(as_of=AS_OF))
    assert found.projected.cost.expected == pytest.approx(job.cost_usd, rel=2e-3)
    assert found.choices[0].what == "stay" and found.replan is not None
    beyond = after_hours * 2.0
    assert found.choices[0].cost_usd == pytest.approx(beyond, rel=2e-2, abs=1e-6)
    assert found.replan.cost_usd == pytest.approx(beyond, rel=2e-2, abs=1e-6) and found.replan.outlay_usd == 0
    assert found.observed.spent_usd == pytest.approx(job.commitment.usd, rel=1e-6)
