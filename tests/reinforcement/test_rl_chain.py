"""Jobs of kind rl with others before or after them: brute force over all ways of all jobs, the check, the faults."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

import planner
from planner.analysis.overview import overview
from planner.cli import main
from planner.errors import ScenarioError
from planner.estimates.uncertainty import student_2_quantile
from planner.reinforcement.evaluated_rl import evaluate_rl, report_rl
from planner.reinforcement.rl_chain import ChainSearch, undominated
from planner.report.report_page import groups_of, reasons_of
from planner.results.frontier import Frontier
from planner.results.plan import plan_text
from planner.scenario.rl_job import RlJob
from planner.solving.prepare import prepare
from tests.reinforcement.test_rl_logs import verl_lines
from tests.reinforcement.test_rl_solve import LIBRARY, OFFERS, every_way, solved

if TYPE_CHECKING:
    from pathlib import Path

    from planner.results.plan import Plan
    from planner.results.run_results import Tracking
    from planner.results.subject_runs import RlRun
    from planner.scenario.scenario import Scenario

ORDERS = {
    **{"last": ("sft", "dpo", "math"), "between": ("sft", "math", "dpo"), "first": ("math", "sft", "dpo")},
    **{"two": ("sft", "math", "dpo", "again"), "in a row": ("sft", "math", "again"), "alone": ("math", "again")},
}
"""Jobs in the order in which they run, by the place of the runs among them."""
OFFERS_OF_CHAIN = [OFFERS[0], {**OFFERS[1], "usd_per_hour": 0.9}]
"""The cheaper machine is the slower one for every job."""
LIMITS = [{}, {"deadline": "20h"}, {"deadline": "14h"}, {"deadline": "9h"}, {"deadline": "9h", "budget_usd": 34}]
"""Limits of the whole chain: none, those that change one job, two and three, and a budget that just holds."""


def chain(place: str = "last", deadline: str | None = None, **limits: Any) -> Scenario:
    """Return supervised tuning, preference tuning and a run on two offers, whose last job has the deadline."""
    common = {"architecture": "qwen2.5-1.5b", "techniques": {"method": "full", "sharding": ["none", "zero3"]}}
    jobs: dict[str, dict[str, Any]] = {
        "sft": {**common, "work": {"samples": 300000, "tokens_per_sample": 800}, "sequence_length": 2048},
        "dpo": {**common, "work": {"samples": 200000, "tokens_per_sample": 900}, "sequence_length": 1024},
        "math": {
            **{"kind": "rl", "architecture": "qwen2.5-1.5b", "staleness": 1, "rollout": {"tensor_parallel": [1, 2]}},
            "work": {"steps": 300, "prompts": 32, "answers": 8, "input_tokens": 300, "output_tokens": 600},
            "techniques": {"sharding": ["zero3"]},
        },
    }
    jobs["dpo"]["method"] = "dpo"
    jobs["again"] = {**jobs["math"], "algorithm": "ppo", "work": {**jobs["math"]["work"], "steps": 100}}
    order = ORDERS[place]
    for name, before in itertools.pairwise(order):
        jobs[before]["after"] = {"job": name, "lag": "30m"}
    if deadline:
        jobs[order[-1]]["deadline"] = deadline
    written = [{"name": name, **jobs[name]} for name in ("sft", "dpo", "math", "again") if name in order]
    limits = {"max_gpus": 4, "spot": False, **limits}
    return planner.build_scenario(
        {"schema": 2, "name": "chain", "jobs": written, "offers": OFFERS_OF_CHAIN, "limits": limits}, solve={"ties": 0}
    )


Ways = list[tuple[float, float, float]]
"""Dollars, hours at the confidence, dollars at the confidence of ways to run one job."""


@cache
def ways_of_each() -> dict[str, Ways]:
    """Return all ways to run each job by itself, those that another one beats in everything left out."""
    found, one = dict[str, Ways](), chain("two")
    for job in one.jobs:
        alone = one.model_copy(update={"jobs": (job.model_copy(update={"after": ()}),)})
        if isinstance(job, RlJob):
            rows, offers = Ways(), dict(one.labelled_offers())
            for named in every_way(alone):
                try:
                    run = report_rl(evaluate_rl(named, job, alone, offers, LIBRARY), planner_day())
                except ScenarioError:
                    continue
                if all(phase.fits for phase in run.memory) and not (named.rollout and named.rollout.on_spot):
                    rows.append((run.cost_usd, run.hours.at_confidence, run.cost_at_confidence))
        else:
            table = prepare(alone, LIBRARY).screened[0].table
            columns = table.cost_usd(0.0), table.late_hours(0.0), table.late_cost_usd(0.0)
            rows = list(zip(*(column.tolist() for column in columns), strict=True))
        kept = undominated(*np.asarray(rows).T)
        found[job.name] = [rows[row] for row in kept]
    return found


def planner_day() -> Any:
    """Return a day on which prices are counted: they are not dated here."""
    import datetime

    return datetime.date(2026, 11, 21)


def sums_of(place: str) -> Ways:
    """Return dollars, hours with 30 minutes between two jobs, dollars at the confidence of all ways of all jobs."""
    waits = 0.5 * (len(ORDERS[place]) - 1)
    every = itertools.product(*(ways_of_each()[name] for name in ORDERS[place]))
    sums = (tuple(map(math.fsum, zip(*ways, strict=True))) for ways in every)
    return [(usd, late + waits, most) for usd, late, most in sums]


def least(deadline: str | None, budget_usd: float | None, place: str = "last") -> float:
    """Return the least dollars of all ways of all jobs within a deadline and a budget."""
    hours = float(deadline.removesuffix("h")) if deadline else math.inf
    able = (usd for usd, late, most in sums_of(place) if late <= hours and most <= (budget_usd or math.inf))
    return min(able, default=math.inf)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "limits"),
    [
        *(("last", LIMITS[at]) for at in (0, 2, 4)),
        *[("between", LIMITS[2]), ("first", LIMITS[4])],
        *[("two", {}), ("two", {"deadline": "14h"}), ("two", {"deadline": "12h", "budget_usd": 36.5})],
        *[("in a row", {"deadline": "9h"}), ("alone", {"deadline": "6h", "budget_usd": 22.7})],
    ],
    ids=str,
)
def test_a_chain_costs_the_least_of_all_ways_of_all_its_jobs(place: str, limits: dict[str, Any]) -> None:
    """Brute force: every way of each job by itself, all of them together; a timetable counts in whole minutes."""
    one = chain(place, **limits)
    plan = solved(one)
    expected = least(limits.get("deadline"), limits.get("budget_usd"), place)
    assert plan.status == "optimal", plan.infeasible
    assert plan.objective == pytest.approx(expected, abs=0.005)
    assert plan.bound == pytest.approx(plan.objective)
    assert not planner.check(plan, one)
    ends = {part.name: part.finish_hours for part in (*plan.jobs, *plan.reinforcement)}
    starts = {part.name: part.start_at_hours for part in (*plan.jobs, *plan.reinforcement)}
    for before, after in itertools.pairwise(ORDERS[place]):
        assert starts[after] >= ends[before] + 0.5 - 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("budget_usd", "is_tight"), [(90, False), (22.5, True)])
def test_a_chain_on_spot_is_planned_without_its_budget_only_where_that_plan_keeps_it(
    monkeypatch: pytest.MonkeyPatch, budget_usd: float, is_tight: bool
) -> None:
    """A plan without the budget that keeps it is the least; else it is planned with it, and what is proven holds."""
    offers = [{**offer, "spot_usd_per_hour": 0.4 * offer["usd_per_hour"]} for offer in OFFERS_OF_CHAIN]
    data = {"max_gpus": 4, "spot": True, "budget_usd": budget_usd}
    written = planner.scenario_yaml(chain("last", "14h"))
    one = planner.build_scenario({**yaml.safe_load(written), "offers": offers, "limits": data})
    asked = list[float | None]()
    plain = ChainSearch._others

    def counted(self: ChainSearch, others: Scenario, apart_usd: float) -> Plan | None:
        asked.append(others.limits.budget_usd)
        return plain(self, others, apart_usd)

    monkeypatch.setattr(ChainSearch, "_others", counted)
    plan = planner.solve(one, library=LIBRARY, explains=False)
    assert any(budget is not None for budget in asked) == is_tight
    monkeypatch.setattr(ChainSearch, "others", lambda self, others, apart_usd=0.0: plain(self, others, apart_usd))
    whole = planner.solve(one, library=LIBRARY, explains=False)
    assert (plan.planned and whole.planned) or (not plan.planned and not whole.planned)
    if plan.objective is not None and plan.bound is not None:
        assert not planner.check(plan, one) and (plan.cost_at_confidence or math.inf) <= budget_usd
        assert whole.objective is not None and whole.bound is not None
        assert plan.bound <= whole.objective + 0.01 and whole.bound <= plan.objective + 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("place", "budget_usd"), [("between", None), ("last", 36.0), ("in a row", None)], ids=str)
def test_the_frontier_of_a_chain_is_that_of_all_ways_of_all_its_jobs(place: str, budget_usd: float | None) -> None:
    """Brute force: no step is left out, and each point is the plan of its hours as deadline, which its check takes."""
    one = chain(place, **({"budget_usd": budget_usd} if budget_usd else {}))
    found = planner.frontier(one, library=LIBRARY)
    assert isinstance(found, Frontier) and found.exact and found.status == "optimal"
    expected, least = list[tuple[float, float]](), math.inf
    able = ((late, usd) for usd, late, most in sums_of(place) if most <= (budget_usd or math.inf))
    for hours, usd in sorted(able):
        if usd < least - 0.005:
            expected.append((hours, usd))
            least = usd
    points = [(point.hours, point.cost_usd) for point in found.points]
    assert [usd for _, usd in points] == pytest.approx([usd for _, usd in expected], abs=0.005)
    assert [hours for hours, _ in points] == pytest.approx([hours for hours, _ in expected], abs=4 / 60)
    assert all(late >= early for (late, _), (early, _) in zip(points, expected, strict=True))
    middle, last = len(points) // 2, ORDERS[place][-1]
    within = planner.change_scenario(one, [f"jobs.{last}.deadline={points[middle][0] + 1e-6:.7f}h"])
    assert solved(within).objective == pytest.approx(points[middle][1], abs=0.005)
    assert "math" in str(found)


def test_tight_limits_of_the_chain_change_what_is_cheapest() -> None:
    """The cases above are different ones: each deadline costs something, and less than the budget is no plan."""
    usd = [least(each.get("deadline"), each.get("budget_usd")) for each in LIMITS]
    assert all(math.isfinite(each) for each in usd)
    assert usd[0] < usd[1] < usd[2] < usd[3] == usd[4]
    assert math.isinf(least("9h", 33))


@pytest.mark.slow
def test_an_edited_figure_of_a_chain_is_found() -> None:
    """The start of the run, dollars and hours of the whole, the start and the dollars of another job."""
    one = chain("between", "9h")
    plan = solved(one)
    (run,), first = plan.reinforcement, plan.jobs[0]
    assert plan.cost is not None and plan.hours is not None
    later = plan.hours.model_copy(update={"at_confidence": plan.hours.at_confidence + 0.1})
    edits: list[dict[str, Any]] = [
        {"reinforcement": (run.model_copy(update={"start_at_hours": run.start_at_hours - 0.2}),)},
        {"cost": plan.cost.model_copy(update={"expected": plan.cost.expected - 1.0})},
        {"cost_at_confidence": (plan.cost_at_confidence or 0.0) - 1.0},
        {"hours": later},
        {"objective": (plan.objective or 0.0) - 1.0},
        {"jobs": (first.model_copy(update={"start_at_hours": 0.3}), *plan.jobs[1:])},
        {"jobs": (first.model_copy(update={"cost_usd": first.cost_usd - 1.0}), *plan.jobs[1:])},
        {"jobs": plan.jobs[1:]},
        {"at_one_time": ()},
    ]
    for edit in edits:
        assert planner.check(plan.model_copy(update=edit), one), edit


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{"deadline": "7h"}, {"deadline": "3h"}, {"budget_usd": 20}], ids=str)
def test_a_chain_that_does_not_fit_names_the_least_limit_that_suffices(limits: dict[str, Any]) -> None:
    """The setting that is named gives a plan of all jobs, one less does not; also where the run alone breaks it."""
    one = chain("last", **limits)
    plan = solved(one)
    assert plan.status == "infeasible"
    assert plan.infeasible is not None
    change = plan.infeasible.relax[0]
    assert solved(planner.change_scenario(one, [change.setting])).status == "optimal"
    assert isinstance(change.change_to, float)
    less = f"{change.change_to - 1:g}{'' if change.limit == 'limits.budget_usd' else 'h'}"
    shorter = planner.change_scenario(one, [f"{change.setting.partition('=')[0]}={less}"])
    assert planner.solve(shorter, library=LIBRARY, explains=False).status == "infeasible"


@pytest.mark.slow
def test_what_if_of_a_chain_shows_every_job() -> None:
    """More answers make the run more expensive, and the whole by as much."""
    found = planner.what_if(chain(), ["jobs.math.work.answers=16"])
    assert found.delta.cost_usd is not None and found.delta.cost_usd > 0
    text = str(found)
    assert all(name in text for name in ("sft", "dpo", "math", "all jobs"))
    answer = str(found.after)
    assert "3 jobs" in answer and "Step" in answer


@pytest.mark.slow
def test_the_report_of_a_chain_has_every_job_its_curve_and_its_replays() -> None:
    """Reasons are deadlines and budget; what takes new searches is left to its command, in a line.

    No rule of a part is shown as one of all jobs.
    """
    found = overview(one := chain(deadline="14h"), library=LIBRARY, runs=50)
    assert set(found.skipped) == {"tornado"}
    assert found.explanation is not None
    whole = planner.explain(one, library=LIBRARY)
    timed = [each for each in whole.binding if each.limit.endswith(".deadline")]
    assert [each.limit for each in found.explanation.binding] == [each.limit for each in timed] != []
    assert found.explanation.next_steps == whole.next_steps
    assert found.frontier is not None and found.frontier.points and found.simulation is not None
    figures = {figure.key: figure for group in groups_of(found) for figure in group.figures}
    assert {"turns", "step", "frontier", "bill", "cost-runs"} <= set(figures)
    turns = figures["turns"].table
    assert turns is not None and [row[0] for row in turns.rows] == list(ORDERS["last"])
    said = dict(reasons_of(found))
    assert [*said] == ["Proof", "Binds", "Relaxing", "Left out"] and said["Left out"].endswith("planner explain")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"jobs.dpo.after": []}, "dpo may run at the same time as math"),
        ({"objective": "time"}, "another objective than cost with several jobs"),
        ({"limits.fallbacks": 1}, "further ways"),
    ],
)
def test_what_cannot_be_combined_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    """One line that names the job or the key, before anything is searched."""
    one = chain("between")
    with pytest.raises(ScenarioError, match=said):
        solved(planner.change_scenario(one, changed))


def test_two_runs_that_do_not_wait_for_each_other_are_refused_by_name() -> None:
    """What they would share at one time is not modelled; the line names the later one."""
    with pytest.raises(
        ScenarioError, match=r"jobs\.1: not modelled for kind rl: again may run at the same time as math"
    ):
        solved(planner.change_scenario(chain("alone"), ["jobs.again.after=[]"]))


@pytest.mark.slow
@pytest.mark.parametrize(("place", "deadline"), [("last", "14h"), ("between", "9h"), ("two", "16h"), ("alone", "14h")])
def test_replays_of_a_chain_end_as_often_as_its_plan_says(place: str, deadline: str) -> None:
    """Job after job: none begins before the one that it waits for has ended, and a late one moves the others.

    One error of the speed holds for all jobs, so that the hours of the whole hold as often as those of each job. Where
    only the planned start of the run is counted, what comes before it is never late.
    """
    one = chain(place, deadline)
    found = planner.simulate(one, library=LIBRARY, runs=1000, seed=3)
    steps = next(job.steps for job in found.jobs if job.steps is not None)
    assert steps.within_hours == pytest.approx(steps.planned_within, abs=0.03)
    jobs = {job.name: job for job in found.jobs}
    for before, after in itertools.pairwise(ORDERS[place]):
        ends, starts = jobs[before].end_at_hours, jobs[after].start_at_hours
        assert ends is not None and starts is not None
        assert starts.p95 >= ends.p95 + 0.5 - 1e-9
        assert (
            starts.p50 <= next(part for part in found.plan.parts_that_end if part.name == after).start_at_hours + 1e-6
        )
    assert found.hours is not None and found.plan.hours is not None and found.cost_usd is not None
    assert found.hours.p50 == pytest.approx(found.plan.hours.expected, rel=0.02)
    assert found.cost_usd.p50 == pytest.approx(found.plan.objective, rel=0.03)
    assert found.deadline_hit_rate is not None and found.deadline_hit_rate >= 0.9
    assert jobs[ORDERS[place][0]].deadline_hours is None
    assert "math" in str(found) and "rollout" in str(found)


@pytest.mark.slow
def test_what_binds_a_chain_is_what_solving_without_it_saves() -> None:
    """The saving of each limit is that of a plan without it; the least change pays, a step less does not."""
    one = chain("last", "9h", budget_usd=36)
    plan, found = solved(one), planner.explain(one, library=LIBRARY)
    assert [each.limit for each in found.binding] == ["jobs.math.deadline"]
    (binding,), (step,) = found.binding, found.next_steps
    free = solved(planner.change_scenario(one, ["jobs.math.deadline=null"]))
    assert plan.objective is not None and free.objective is not None and step.setting is not None
    assert binding.saving == pytest.approx(plan.objective - free.objective)
    assert isinstance(step.change_to, float)
    better = solved(planner.change_scenario(one, [step.setting]))
    assert better.objective == pytest.approx(step.cost_usd) and better.objective < plan.objective - 0.005
    less = solved(planner.change_scenario(one, [f"jobs.2.deadline={step.change_to - 0.01:.10g}h"]))
    assert less.objective == pytest.approx(plan.objective)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("job=math,gpu=L40S", "chosen"),
        ("job=sft,gpu=L40S", "possible"),
        ("job=math,gpu=A100-80GB", "impossible"),
        ("job=math,method=lora", "beyond"),
    ],
)
def test_why_not_of_one_job_of_a_chain_solves_all_of_them(asked: str, status: str) -> None:
    """Figures are those of all jobs, of which the others may change; what a list excludes names its setting."""
    one = chain("last", "14h")
    found = planner.explain(one, asked, library=LIBRARY)
    assert found.why_not is not None and found.why_not.status == status
    if status == "possible":
        l40s = [way for way in ways_on("sft", "L40S")]
        others = itertools.product(l40s, *(ways_of_each()[name] for name in ("dpo", "math")))
        sums = (tuple(map(math.fsum, zip(*ways, strict=True))) for ways in others)
        least_usd = min(usd for usd, late, _ in sums if late + 1.0 <= 14)
        assert found.why_not.cost_usd == pytest.approx(least_usd, abs=0.005)
    if status == "beyond":
        changed = solved(planner.change_scenario(one, [found.why_not.relax[0].setting]))
        assert found.why_not.cost_usd == pytest.approx(changed.objective, abs=0.005)


def ways_on(name: str, gpu: str) -> Ways:
    """Return the ways to run one of the other jobs by itself on one kind of GPU."""
    one = chain()
    (job,) = (job for job in one.jobs if job.name == name)
    alone = one.model_copy(update={"jobs": (job.model_copy(update={"after": ()}),)})
    prepared = prepare(alone, LIBRARY)
    table = prepared.screened[0].table
    columns = table.cost_usd(0.0), table.late_hours(0.0), table.late_cost_usd(0.0)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    return [row for row, offer in zip(rows, table.offer, strict=True) if prepared.market.gpus[offer] == gpu]


@cache
def saved_chain() -> str:
    """Return the plan of the chain with a job before and one after the run, as a file has it."""
    return plan_text(planner.solve(chain("between")))


@pytest.mark.slow
@pytest.mark.parametrize("words", [["track", "PLAN", "LOG"], ["calibrate", "LOG", "--plan", "PLAN"]])
def test_a_log_of_a_chain_needs_the_name_of_its_job(words: list[str], tmp_path: Path) -> None:
    """Every job that has logs is named, the run too, whose log is read then."""
    plan, log = tmp_path / "plan.json", tmp_path / "run.log"
    plan.write_text(saved_chain())
    log.write_text(verl_lines(range(1, 4)))
    paths = {"PLAN": str(plan), "LOG": str(log)}
    said, of_run = (
        CliRunner().invoke(main, [paths.get(word, word) for word in (*words, *job)]) for job in ((), ("--job", "math"))
    )
    (line,) = said.stderr.strip().splitlines()
    assert said.exit_code == 2 and line == "--job: 3 jobs; name one, such as sft or dpo or math"
    assert of_run.exit_code == 0 and of_run.stdout.startswith("math: "), of_run.output


def log_of(run: RlRun, steps: int, times: float) -> str:
    """Return a log of verl of some steps, each phase so many times as long as planned."""
    half = run.phases["log_probabilities"] / 2.0
    seconds = {
        **{"gen": run.phases["rollout"], "old_log_prob": half, "ref": half, "update_actor": run.phases["training"]},
        **{"update_weights": run.phases["new_weights"], "step": run.step_seconds},
    }
    return verl_lines(range(1, steps + 1), **{name: times * value for name, value in seconds.items()})


@cache
def two_runs() -> Plan:
    """Return the plan of a chain with two runs, of which the first is tracked."""
    return solved(chain("two", "16h", budget_usd=40))


def tracked(folder: Path, times: float, steps: int = 10, **limits: Any) -> Tracking:
    """Return the first run of the chain of two, so many times as slow as planned."""
    one = chain("two", limits.pop("deadline", "16h"), **{"budget_usd": 40, **limits})
    log = folder / "run.log"
    log.write_text(log_of(two_runs().reinforcement[0], steps, times))
    return planner.track(two_runs(), one, [str(log)], job="math")


@pytest.mark.slow
def test_a_run_at_its_planned_pace_leaves_its_chain_as_planned(tmp_path: Path) -> None:
    """Likely hours and dollars are those of the plan, those at the confidence no more: the pace is known better."""
    plan, found = two_runs(), tracked(tmp_path, 1.0)
    chain_end = found.chain
    assert chain_end is not None and plan.hours is not None and plan.cost is not None
    assert chain_end.hours.expected == pytest.approx(plan.hours.expected, rel=0.005)
    assert chain_end.cost.expected == pytest.approx(plan.cost.expected, rel=0.005)
    assert chain_end.hours.at_confidence <= plan.hours.at_confidence * 1.005
    assert chain_end.cost_at_confidence < (plan.cost_at_confidence or 0.0)
    assert found.is_on_time and not any("at risk" in note for note in found.notes)
    run = plan.reinforcement[0]
    assert found.projected.left_hours == pytest.approx(290 * run.step_seconds / 3600, rel=0.01)


@pytest.mark.slow
def test_a_slow_run_of_a_chain_by_hand(tmp_path: Path) -> None:
    """Steps take twice as long, so the run ends later, and the jobs after it wait where they have no time to spare.

    Likely: start 1.702 h, ten steps and 290 steps of 114 s; dpo half an hour later, again half an hour after that or at
    its planned start.
    """
    found, plan = tracked(tmp_path, 2.0), two_runs()
    assert found.chain is not None
    parts = {part.name: part for part in plan.parts_that_end}
    run, dpo, again = plan.reinforcement[0], plan.jobs[1], plan.reinforcement[1]
    assert [part.name for part in (run, dpo, again)] == ["math", "dpo", "again"]
    end = run.start_at_hours + found.observed.elapsed_hours + found.projected.left_hours
    assert found.projected.left_hours == pytest.approx(290 * 2 * run.step_seconds / 3600, rel=0.02)
    for part in (dpo, again):
        end = max(part.start_at_hours, end + 0.5) + part.hours.expected
    assert found.chain.hours.expected == pytest.approx(end, abs=0.02)
    before = parts["sft"].cost_usd + found.observed.spent_usd
    left_usd = found.projected.cost.expected - found.observed.spent_usd
    assert found.chain.cost.expected == pytest.approx(before + left_usd + dpo.cost_usd + again.cost_usd, abs=0.05)
    assert not found.is_on_time and any("the deadline is at risk" in note for note in found.notes)
    (kept,) = found.chain.deadlines
    assert (kept.job, kept.deadline_hours, kept.confidence) == ("again", 16.0, 0.9) and 0.5 < kept.probability < 0.9


@pytest.mark.slow
def test_odds_of_a_tracked_chain_are_those_of_drawn_ends(tmp_path: Path) -> None:
    """Draws of one error of the speed for all jobs, added up job after job, and their dollars."""
    found, plan = tracked(tmp_path, 2.0, budget_usd=32), two_runs()
    assert found.chain is not None
    run, dpo, again = plan.reinforcement[0], plan.jobs[1], plan.reinforcement[1]
    draws = np.random.default_rng(5).standard_t(2, 20_000)

    def drawn(expected: float, late: float) -> Any:
        return expected * np.exp(np.log(late / expected) * draws / float(student_2_quantile(0.9)))

    low, mean = found.projected.hours.low, found.projected.hours.expected
    left, elapsed = found.projected.left_hours, found.observed.elapsed_hours
    sigma = -math.log((low - elapsed) / (mean - elapsed)) / 1.28
    factors = np.exp(sigma * 1.645 / 2.92 * draws)
    end = run.start_at_hours + elapsed + left * factors
    left_usd = found.projected.cost.expected - found.observed.spent_usd
    usd = plan.jobs[0].cost_usd + found.observed.spent_usd + left_usd * factors
    for part in (dpo, again):
        end = np.maximum(part.start_at_hours, end + 0.5) + drawn(part.hours.expected, part.hours.at_confidence)
        usd = usd + drawn(part.cost_usd, part.cost_at_confidence)
    (kept,) = found.chain.deadlines
    assert kept.probability == pytest.approx(float(np.mean(end <= 16.0)), abs=0.015)
    assert found.chain.budget_probability == pytest.approx(float(np.mean(usd <= 32.0)), abs=0.015)
    assert found.chain.cost_at_confidence == pytest.approx(float(np.quantile(usd, 0.9)), rel=0.01)
    at_risk = [note for note in found.notes if note.startswith("the budget of $32.00 is at risk")]
    assert bool(at_risk) == (found.chain.cost_at_confidence > 32.0) and at_risk


@pytest.mark.slow
def test_what_is_left_of_a_chain_is_planned_from_the_run_that_is_tracked(tmp_path: Path) -> None:
    """Where the run stays, the jobs after it may take faster machines: their plan counts from its end."""
    one, log = chain("two", "20h", budget_usd=45), tmp_path / "run.log"
    plan = solved(one)
    log.write_text(log_of(plan.reinforcement[0], 10, 2.2))
    found = planner.track(plan, one, [str(log)], job="math", market=one)
    best, stay = found.choices
    assert (best.what, stay.what) == ("stay, others move", "stay")
    assert best.deadline_probability is not None and stay.deadline_probability is not None
    assert best.deadline_probability >= 0.9 > stay.deadline_probability and best.cost_usd > stay.cost_usd
    assert found.replan is not None and [part.name for part in found.replan.parts_that_end] == ["dpo", "again"]
    assert not planner.check(found.replan)


@pytest.mark.slow
def test_each_job_of_a_chain_starts_from_the_result_of_the_one_before(tmp_path: Path) -> None:
    """No file names the release again; list and README say whose result goes in, also of a job after the run."""
    file, folder = tmp_path / "plan.json", tmp_path / "run"
    file.write_text(saved_chain())
    said = CliRunner().invoke(main, ["export", str(file), "--all", "-o", str(folder)])
    assert said.exit_code == 0, said.output
    model = "Qwen/Qwen2.5-1.5B"
    for name, before in (("math", "sft"), ("dpo", "math")):
        line = f"the result of {before}, which trains the same model, goes in: its folder or repository is --model-id"
        assert f"fill in {name}: {line}" in said.stderr.replace("\n  ", " ")
        assert line in (folder / name / "README.md").read_text()
        settings = (path.read_text() for path in (folder / name).glob("*.yaml") if path.stem in ("verl", "grpo", "dpo"))
        assert all(model not in text and "required: --model-id" in text for text in settings)
    assert f"model_name_or_path: {model}" in (folder / "sft" / "sft.yaml").read_text()
    assert "the result of" not in (folder / "sft" / "README.md").read_text()
    one = CliRunner().invoke(main, ["export", str(file), "--job", "dpo", "--model-id", "me/math", "--to", "trl"])
    assert "model_name_or_path: me/math" in one.stdout and "trains the same model, must be me/math" in one.stderr
