"""The table of subjects: what answers for a kind of job, and what is refused."""

from __future__ import annotations

import inspect
from typing import ClassVar

import pytest

from planner import subjects
from planner.errors import ScenarioError
from planner.loading.scenario_file import read_scenario
from planner.results.plan import Plan
from planner.results.plan_parts import CandidateCounts
from planner.scenario.job import Job
from planner.subjects import SUBJECTS, Subject, jobs_of_plan, shown_by, subject_of


class ToyJob(Job):
    """A job of a kind that the core does not plan."""

    subject: ClassVar[str | None] = "toy"


class Toy(Subject):
    """Plans nothing, and says so."""

    name = "toy"

    def solve(self, scenario, options, library, started, explains):
        return Plan(
            scenario=scenario.name, status="no_plan", solver="toy", seconds=0.0, as_of="2026-06-01",
            candidates=CandidateCounts(made=0, rejected=0, dominated=0, offers=0),
            objective=None, bound=None, gap=None, cost=None, hours=None,
        )  # fmt: skip


@pytest.fixture
def toys(monkeypatch):
    """A scenario with a job of a new kind, which one line of the table names."""
    monkeypatch.setitem(SUBJECTS, "toy", Toy)
    scenario = read_scenario("quickstart")
    fields = {name: getattr(scenario.jobs[0], name) for name in Job.model_fields}
    return scenario.model_copy(update={"jobs": (ToyJob.model_construct(**fields),)})


def test_a_line_of_the_table_is_enough_to_plan_a_new_kind(toys):
    from planner.solving.solve import solve

    plan = solve(toys)
    assert plan.solver == "toy"
    assert str(plan)


def test_what_a_kind_does_not_answer_is_refused_by_name(toys):
    from planner.analysis.frontier_question import frontier
    from planner.analysis.limit_sensitivity import explain
    from planner.analysis.overview import overview
    from planner.analysis.simulate_question import simulate
    from planner.analysis.what_if_question import what_if

    asked = {
        "explain": lambda: explain(toys),
        "frontier": lambda: frontier(toys),
        "report": lambda: overview(toys),
        "simulate": lambda: simulate(toys, runs=10),
        "what-if": lambda: what_if(toys, {"limits.budget_usd": 4}),
    }
    for command, ask in asked.items():
        with pytest.raises(ScenarioError, match=f"{command}.*not supported for kind: finetune"):
            ask()


def test_a_question_about_a_plan_without_an_answer_is_refused_too(toys):
    plan = Toy().solve(toys, None, None, 0.0, explains=False)
    for ask in (Toy().text, Toy().details, Toy().risks, Toy().tiles, Toy().chips):
        with pytest.raises(ScenarioError, match="not supported for toy"):
            ask(plan)


def test_the_core_answers_where_no_subject_does():
    scenario = read_scenario("quickstart")
    plan = Toy().solve(scenario, None, None, 0.0, explains=False)
    assert subject_of(scenario) is None
    assert shown_by(plan) is None
    assert jobs_of_plan(plan, scenario) == (plan, scenario)


@pytest.mark.parametrize("name", sorted(SUBJECTS))
def test_each_subject_answers_for_the_key_under_which_it_stands(name):
    assert SUBJECTS[name]().name == name


@pytest.mark.parametrize(
    ("scenario", "name"),
    [("serve-office-hours", "serve"), ("tune-then-serve", "serve"), ("best-for-200", "open"), ("rl-8b-grpo", "rl")],
)
def test_a_scenario_is_answered_for_by_what_it_holds(scenario, name):
    found = subject_of(read_scenario(scenario))
    assert found is not None
    assert found.name == name


def test_every_question_says_what_it_is_and_is_answered_by_somebody():
    """A question of the face that no package answers is none."""
    questions = [name for name, _ in inspect.getmembers(Subject, inspect.isfunction)]
    answered = {name for find in SUBJECTS.values() for name in questions if name in type(find()).__dict__}
    assert set(questions) == answered
    assert all(inspect.getdoc(getattr(subjects.Subject, name)) for name in questions)
