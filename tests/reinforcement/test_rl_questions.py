"""Questions around a plan of kind rl: the frontier against brute force, least changes, why not another way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import planner
from planner.errors import ScenarioError
from planner.evaluation.comparison import Tolerance
from planner.reinforcement.audited_rl import audit_rl
from planner.reinforcement.evaluated_rl import evaluate_rl, report_rl
from planner.reinforcement.rl_text import render_rl_answer, render_rl_what_if
from planner.report import words
from planner.report.words import text_width
from planner.results.explanation import Alternative
from planner.scenario.rl_job import RlJob
from tests.reinforcement.test_rl_solve import LIBRARY, OFFERS, _day, every_way, run_of, scenario, solved

if TYPE_CHECKING:
    from planner.results.plan_parts import Relaxation
    from planner.scenario.scenario import Scenario


def _least(setting: str, less: float) -> str:
    """Return a setting of a number with a little less."""
    path, _, text = setting.partition("=")
    number = float(text.removesuffix("h"))
    return f"{path}={number - less:.10g}{'h' if text.endswith('h') else ''}"


@pytest.mark.long
def test_the_frontier_is_that_of_all_ways_evaluated_one_by_one() -> None:
    """Brute force: of every way within the limits those that no other one beats in hours and dollars."""
    one = scenario({"max_gpus": 4}, deadline="60h")
    found = planner.frontier(one, library=LIBRARY)
    assert isinstance(found, planner.Frontier)
    plan, offers, (job,) = solved(one), dict(one.labelled_offers()), one.jobs
    assert isinstance(job, RlJob)
    made = []
    ways = list(every_way(one))
    # All four GPUs in turn are two machines of one offer, which the plan's own brute force leaves out.
    in_turn = [way for way in ways if way.placement == "colocated"]
    ways += [replace(way, trainer=replace(way.trainer, instances=2), rollout_gpus=4) for way in in_turn]
    for named in ways:
        try:
            run = report_rl(evaluate_rl(named, job, one, offers, LIBRARY), _day(plan))
        except ScenarioError:
            continue
        stated = plan.model_copy(update={"reinforcement": (run,), "cost": run.cost, "hours": run.hours})
        if not audit_rl(stated, one, LIBRARY, Tolerance()):
            made.append((run.hours.at_confidence, run.cost_usd))
    least, expected = float("inf"), []
    for hours, usd in sorted(made):
        if usd < least - 0.005:
            expected.append((hours, usd))
            least = usd
    points = [(point.hours, point.cost_usd) for point in found.points]
    assert points == [pytest.approx(pair, rel=1e-6) for pair in expected]
    assert points[-1][1] == pytest.approx(run_of(plan).cost_usd)


@pytest.mark.slow
def test_each_point_is_the_plan_of_its_deadline() -> None:
    """The plan of a point passes the check, and solve finds its dollars; the text has the last and the first."""
    one = scenario({"max_gpus": 4})
    found = planner.frontier(one, library=LIBRARY)
    assert isinstance(found, planner.Frontier)
    assert len(found.points) > 2
    for index in (0, len(found.points) // 2):
        point = found.points[index]
        within = planner.change_scenario(one, [f"jobs.0.deadline={point.hours + 1e-6}h"])
        assert run_of(solved(within)).cost_usd == pytest.approx(point.cost_usd)
        assert not planner.check(found.plan(index), one)
    assert f"${found.points[0].cost_usd:,.2f}" in str(found)
    assert planner.Frontier.from_json(found.to_json()) == found
    assert [row["gpus"] for row in found.table()] == [point.reinforcement[0].gpus for point in found.points]


def test_a_curve_for_each_gpu_is_refused_by_name() -> None:
    """A way may have two kinds of GPUs."""
    with pytest.raises(ScenarioError, match="by: curves by gpu are not modelled for kind rl"):
        planner.frontier(scenario(), library=LIBRARY, by="gpu")


def _relaxed(limits: dict[str, Any], **job: Any) -> tuple[Scenario, tuple[Relaxation, ...]]:
    one = scenario(limits, **job)
    plan = solved(one)
    assert plan.status == "infeasible"
    assert plan.infeasible is not None
    return one, plan.infeasible.relax


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "job", "limit", "less"),
    [
        ({"max_gpus": 4}, {"deadline": "90m"}, "jobs.math.deadline", 0.01),
        ({"max_gpus": 4, "budget_usd": 2}, {}, "limits.budget_usd", 0.01),
        ({"max_gpus": 4, "max_usd_per_hour": 1}, {}, "limits.max_usd_per_hour", 0.01),
        ({"max_gpus": 4, "max_kilowatts": 0.2}, {}, "limits.max_kilowatts", 0.01),
        ({"max_gpus": 1}, {}, "limits.max_gpus", 1.0),
        ({"max_gpus": 4, "quota": {"one": 0, "two": 1}}, {}, "limits.quota", 1.0),
    ],
)
def test_each_least_change_gives_a_plan_and_slightly_less_does_not(
    limits: dict[str, Any], job: dict[str, Any], limit: str, less: float
) -> None:
    """The setting gives the plan shown; with one step less there is none."""
    one, relax = _relaxed(limits, **job)
    ways = {number: [change for change in relax if change.way == number] for number in {one.way for one in relax}}
    (change,) = next(changes for changes in ways.values() if changes[0].limit.startswith(limit))
    assert run_of(solved(planner.change_scenario(one, [change.setting]))).cost_usd == pytest.approx(change.cost_usd)
    assert solved(planner.change_scenario(one, [_least(change.setting, less)])).status == "infeasible"


@pytest.mark.parametrize("gpu", ["A4500", "A5000"])
def test_choices_that_need_the_same_change_are_one_remedy(gpu: str) -> None:
    """Fewer bits alone, and with any method, are the same setting where adapters are chosen already."""
    offers = [{**OFFERS[1], "gpu": gpu, "gpus": 1, "max_nodes": 1, "ram_gb": 400}]
    bits = {"method": ["lora"], "weight_bits": [16 if gpu == "A4500" else 8]}
    one = scenario({"max_gpus": 1}, architecture="qwen2.5-7b", offers=offers, techniques=bits)
    found = planner.explain(one, library=LIBRARY)
    settings = [change.setting for change in (found.relax if gpu == "A4500" else found.next_steps) if change.setting]
    assert any("techniques.weight_bits" in setting for setting in settings)
    assert len(settings) == len(set(settings))


@pytest.mark.slow
def test_a_trainer_that_no_pool_holds_names_the_gpus_that_do() -> None:
    """A 7B with all weights on GPUs of 48 GB that are offered two at a time: more of them, or adapters."""
    offers = [{**OFFERS[1], "network_gbps": 100, "max_nodes": 16}]
    one, relax = _relaxed({"max_gpus": 2}, offers=offers, architecture="qwen2.5-7b")
    change = next(change for change in relax if change.limit == "limits.max_gpus")
    assert solved(planner.change_scenario(one, [change.setting])).status == "optimal"
    assert "lora" in next(change.setting for change in relax if change.limit.endswith("techniques.method"))


@pytest.mark.slow
def test_a_forbidden_gpu_is_named_with_the_setting_that_admits_it() -> None:
    """Only a GPU that nobody offers is allowed: the list is extended by one that is."""
    one, relax = _relaxed({"max_gpus": 4, "gpus": ["A100-80GB"]})
    change = next(change for change in relax if change.limit == "limits.gpus")
    assert solved(planner.change_scenario(one, [change.setting])).status == "optimal"


@pytest.mark.slow
def test_what_binds_is_worth_what_solving_without_it_saves() -> None:
    """The deadline binds: lifted it saves what is said, and its next step gives the dollars that are said."""
    one = scenario({"max_gpus": 4}, deadline="4h")
    plan = run_of(solved(one))
    found = planner.explain(one, library=LIBRARY)
    assert found.cost_usd == pytest.approx(plan.cost_usd)
    (binding,) = (limit for limit in found.binding if limit.limit == "jobs.math.deadline")
    free = run_of(solved(planner.change_scenario(one, ["jobs.0.deadline=null"])))
    assert binding.saving_usd == pytest.approx(plan.cost_usd - free.cost_usd)
    for step in found.next_steps:
        if step.setting:
            after = run_of(solved(planner.change_scenario(one, [step.setting])))
            assert after.cost_usd == pytest.approx(step.cost_usd), step.limit
    assert {option.by for option in found.alternatives} == {"provider", "gpu", "method"}
    assert "Binds" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("gpu=H100-80GB,placement=colocated", "possible"),
        ("training_gpus=1,rollout_gpus=1", "possible"),
        ("gpu=H100-80GB,gpus=6", "beyond"),
        ("method=lora", "beyond"),
        ("rollout_weight_bits=8,gpu=H100-80GB", "beyond"),
        ("market=spot,gpu=H100-80GB", "impossible"),
    ],
)
def test_why_not_another_way_has_its_price_or_the_limit_that_excludes_it(query: str, status: str) -> None:
    """Within the limits it costs no less than the plan; beyond them the settings give a plan."""
    one = scenario({"max_gpus": 4})
    found = planner.explain(one, query, library=LIBRARY)
    assert found.why_not is not None
    assert found.why_not.status == status, found.why_not
    if status == "possible":
        assert found.why_not.cost_usd is not None and found.cost_usd is not None
        assert found.why_not.cost_usd >= found.cost_usd - 1e-9
    if status == "beyond":
        settings = [change.setting for change in found.why_not.relax]
        assert planner.explain(planner.change_scenario(one, settings), query, library=LIBRARY).why_not.status in (
            "possible",
            "chosen",
        )
    assert query in str(found)


def test_why_not_needs_the_fewest_changes_and_sets_what_is_asked_for() -> None:
    """A GPU that costs less and is not allowed is no part of the answer; the setting gives the plan that is named."""
    one = scenario(
        {"max_gpus": 4, "gpus": ["H100-80GB"]}, rollout={"placement": "apart", "tensor_parallel": 1}, staleness=0
    )
    found = planner.explain(one, "placement=colocated", library=LIBRARY).why_not
    assert found is not None and found.status == "beyond"
    (change,) = found.relax
    assert change.setting == "jobs.math.rollout.placement=colocated"
    assert found.reasons == ("jobs.math.rollout.placement allows apart, not colocated",)
    assert run_of(solved(planner.change_scenario(one, [change.setting]))).cost_usd == pytest.approx(found.cost_usd)
    other = planner.explain(one, "gpu=L40S", library=LIBRARY).why_not
    assert other is not None and other.reasons == ("limits.gpus allows H100-80GB, not L40S",)


def test_megatron_without_adapters_is_offered_the_trainer_that_has_them() -> None:
    """Megatron trains none here: with FSDP, too, there is a plan, whatever degrees are pinned."""
    one = scenario({"max_gpus": 2}, framework="megatron", techniques={"method": "lora"})
    found = planner.explain(one, library=LIBRARY)
    settings = [change.setting for change in found.relax]
    assert found.status == "infeasible" and "jobs.math.framework=[megatron,fsdp]" in settings
    plan = solved(planner.change_scenario(one, ["jobs.math.framework=[megatron,fsdp]"]))
    by_setting = {change.setting: change.cost_usd for change in found.relax}
    assert run_of(plan).cost_usd == pytest.approx(by_setting["jobs.math.framework=[megatron,fsdp]"])


def test_a_pinned_degree_binds_and_says_which_trainer_it_leaves_out() -> None:
    """The small model is trained for less with whole layers; FSDP divides none, so that it was not compared."""
    pinned = {"tensor_parallel": 2}
    one = scenario({"max_gpus": 4}, framework=["fsdp", "megatron"], techniques=pinned)
    run = run_of(solved(one))
    assert any("framework fsdp was not compared" in note for note in run.notes)
    found = planner.explain(one, library=LIBRARY)
    (binding,) = (limit for limit in found.binding if limit.limit == "jobs.math.techniques.tensor_parallel")
    free = run_of(solved(planner.change_scenario(one, ["jobs.math.techniques.tensor_parallel=null"])))
    assert binding.saving_usd == pytest.approx(run.cost_usd - free.cost_usd)
    assert all(option.usd_per_hour and option.hours_at_confidence for option in found.alternatives)


def test_the_best_value_of_the_frontier_is_among_the_ways_that_are_shown() -> None:
    """In place of kinds that another way beats in dollars and hours; no more than six."""
    one = scenario({"max_gpus": 8})
    found = planner.frontier(one, library=LIBRARY)
    assert isinstance(found, planner.Frontier) and found.knee is not None
    best, ways = found.points[found.knee], run_of(solved(one)).ways
    assert (best.hours, best.cost_usd) in [(way.hours_at_confidence, way.cost_usd) for way in ways]
    assert len(ways) == 6 and {"plan", "faster", "best value"} <= {way.label for way in ways}


@pytest.mark.slow
def test_a_way_of_two_kinds_of_machines_is_not_named_as_one_of_the_first() -> None:
    """`1 x B300 + 14 x A5000` are not fifteen B300: each pool is named, and counts of one kind are a sum."""
    machines = {"plan": "1 x B300 + 14 x A5000 cloud, full", "gpu": "B300", "gpus": 15, "provider": "cloud"}
    figures = {"method": "full", "cost_usd": 9.0, "hours": 1.0, "verdict": "the plan"}
    mixed = Alternative.model_validate({"by": "provider", "job": "math", "name": "cloud", **machines, **figures})
    pair = mixed.model_copy(update={"by": "gpu", "name": "H200", "plan": "5 + 3 x H200 cloud, full", "gpu": "H200"})
    found = planner.explain(scenario({"max_gpus": 2}), library=LIBRARY)
    by_provider, by_gpu = (str(found.model_copy(update={"alternatives": (option,)})) for option in (mixed, pair))
    assert "1 x B300 + 14 x A5000" in by_provider
    assert "5 + 3 at cloud" in by_gpu


@pytest.mark.slow
def test_no_way_and_no_change_loses_its_machines_or_dollars() -> None:
    """Names go on in a second line; nothing is wider than the screen."""
    answer = planner.what_if(scenario({"max_gpus": 4}), ["jobs.0.work.answers=16", "jobs.0.rollout.placement=apart"])
    (run,) = answer.after.reinforcement
    for columns in (60, 80, 160):
        with text_width(columns):
            compared, shown = render_rl_what_if(answer), render_rl_answer(answer.after)
        table = shown.split("  way ")[1].split("Step")[0]
        assert max(map(len, [*compared.splitlines(), *table.splitlines()[1:]])) <= columns
        assert all(pool.gpu in compared and pool.provider in compared for pool in run.pools)
        assert all(f"${way.cost_usd:,.2f}" in table for way in run.ways)
        assert all(words.hours_by(way.hours_at_confidence) in table for way in run.ways)
        assert all(word in table for way in run.ways for word in way.machines.split())
        assert " more, likely " in compared.splitlines()[0]
