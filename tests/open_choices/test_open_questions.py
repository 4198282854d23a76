"""Questions about a scenario that leaves something open: of the choice that its plan made, or with a choice each."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from planner import open_choices
from planner.analysis.frontier_question import frontier_of_jobs
from planner.analysis.job_runs import policy_tables
from planner.analysis.limit_sensitivity import explain
from planner.analysis.overview import overview
from planner.analysis.run_sweep import run_sweep
from planner.analysis.simulate_question import simulate
from planner.analysis.what_if_question import sweep, tornado, what_if
from planner.cli.functions import export
from planner.errors import ScenarioError
from planner.loading.scenario_file import change_scenario, parse_scenario
from planner.open_choices.loss_laws import batch_tokens
from planner.open_choices.open_solve import loss_frontier
from planner.report.explanation_text import render as render_explanation
from planner.report.frontier_text import render_frontier
from planner.report.plan_sections import assumed_market_text
from planner.report.plan_text import render as render_plan
from planner.report.report_page import render_page
from planner.report.run_text import render_simulation
from planner.report.what_if_text import render_sweep, render_tornado, render_variants, render_what_if
from planner.results.explanation import Explanation
from planner.scenario.scenario import Scenario
from planner.solving.solve import solve
from tests.helpers.open_scenarios import BATCH, OPEN, TOGETHER

TWO = OPEN.replace("[smollm2-360m, llama-14x1792, llama-3.2-1b]", "[smollm2-360m, llama-14x1792]")
TIGHT = BATCH.replace("framework: torchtitan", "framework: torchtitan\n    deadline: 20h")
POOR = TWO.replace("budget_usd: 100", "budget_usd: 0.5")


def fixed(text: str) -> tuple[Scenario, str]:
    """Return the scenario with what its plan chose, and the model."""
    scenario = parse_scenario(text)
    plan = solve(scenario)
    assert plan.jobs[0].model is not None
    return open_choices.scenario_as_chosen(plan, scenario), plan.jobs[0].model.architecture


def figures(found: Explanation) -> dict[str, object]:
    """Return an explanation apart from its seconds, and from what is fixed."""
    return found.model_dump(exclude={"seconds", "fixed"})


@pytest.mark.slow
@pytest.mark.parametrize("text", [TWO, TIGHT], ids=["least loss", "batch"])
def test_an_explanation_is_that_of_what_the_plan_chose(text: str) -> None:
    """Limits, alternatives and why not X; the second line says what is fixed."""
    definite, model = fixed(text)
    found = explain(parse_scenario(text))
    assert figures(found) == figures(explain(definite)) and found.cost_usd is not None
    assert f"fixed as solve chose it: {model} on " in " ".join(render_explanation(found).splitlines()[1:3])
    asked = explain(parse_scenario(text), "gpus=16")
    assert asked.why_not == explain(definite, "gpus=16").why_not
    assert "what is open is fixed as solve chose it" in render_explanation(asked)


@pytest.mark.slow
def test_replays_and_cost_against_time_are_those_of_what_the_plan_chose() -> None:
    """A plan that was changed by hand is refused, also in what it chose."""
    definite, model = fixed(TIGHT)
    scenario = parse_scenario(TIGHT)
    found, alone = simulate(scenario, runs=50), simulate(definite, runs=50)
    assert found.cost_usd == alone.cost_usd and found.hours == alone.hours
    assert f"fixed as solve chose it: {model}" in render_simulation(found)
    plan = solve(scenario)
    assert simulate(scenario, plan, runs=50).hours == found.hours
    (job,) = plan.jobs
    assert job.model is not None
    fewer = job.model.model_copy(update={"tokens": job.model.tokens // 2})
    with pytest.raises(ScenarioError, match=r"model\.tokens"):
        simulate(scenario, plan.model_copy(update={"jobs": (job.model_copy(update={"model": fewer}),)}), runs=50)


@pytest.mark.slow
def test_a_frontier_chooses_the_batch_again_at_each_point() -> None:
    """Of every batch its own frontier, as a definite scenario: no point of any is earlier and cheaper than these."""
    scenario = parse_scenario(BATCH)
    curve = frontier_of_jobs(scenario)
    found = [(point.expected_hours, point.cost_usd) for point in curve.points]
    sequence = curve.points[0].jobs[0].sequence_length
    for batch in (128, 256, 512, 1024):
        tokens = batch_tokens(20e9, batch * sequence, 128 * sequence)
        one = BATCH.replace("{from: 128, to: 1024}", str(batch)).replace("20e9", f"{tokens:.0f}")
        for point in frontier_of_jobs(parse_scenario(one)).points:
            hours, usd = point.expected_hours + 1e-6, point.cost_usd + 0.01
            assert any(mine <= hours and cost <= usd for mine, cost in found), (batch, point.hours)
    batches = [point.jobs[0].global_batch for point in curve.points]
    assert batches == sorted(batches, reverse=True) and len(set(batches)) > 1
    shown = " ".join(render_frontier(curve).split())
    assert f"chosen again at each point, of 4: first llama-3.2-1b, {batches[0]} sequences per step" in shown
    assert "sequences per step instead of" in shown


@pytest.mark.slow
@pytest.mark.parametrize("text", [TWO, TOGETHER], ids=["one job", "several jobs"])
def test_a_report_holds_every_analysis_of_what_the_plan_chose(text: str) -> None:
    """The page says what is fixed below its headline."""
    found = overview(parse_scenario(text), runs=20)
    assert not {name for name in found.skipped if name != "prices"}
    assert found.explanation and found.simulation and found.tornado and found.frontier and found.tornado.bars
    chosen = [job for job in found.plan.jobs if job.model is not None]
    assert chosen and all(any(job.model.architecture in line for line in found.fixed) for job in chosen if job.model)
    head = render_page(found).partition("<main")[0]
    assert head.count("as solve chose it") == len(chosen)


@pytest.mark.slow
def test_a_tornado_moves_prices_under_the_run_that_was_chosen() -> None:
    """Dollars of its tokens; the first lines say so."""
    definite, _ = fixed(TWO)
    found = tornado(parse_scenario(TWO))
    assert found.bars == tornado(definite).bars and found.base.jobs[0].model is not None
    assert "is fixed as solve chose it" in " ".join(render_tornado(found).splitlines()[1:3])


@pytest.mark.slow
def test_a_what_if_chooses_again_for_the_changed_scenario() -> None:
    """Each side is what solve says of it; of two settings each has its share of the loss."""
    scenario, settings = parse_scenario(TWO), ("limits.budget_usd=40", "jobs.0.unique_tokens=500e6")
    found = what_if(scenario, settings)
    after = solve(change_scenario(scenario, settings))
    before = solve(scenario)
    assert found.after.jobs[0].model == after.jobs[0].model and found.before.jobs[0].model == before.jobs[0].model
    losses = [plan.jobs[0].model.loss for plan in (before, after) if plan.jobs[0].model is not None]
    assert losses[0] is not None and losses[1] is not None
    assert found.delta.loss is not None and found.delta.loss > 0
    assert found.delta.loss == pytest.approx(losses[1].value - losses[0].value)
    shares = [effect.share.loss for effect in found.effects]
    assert len(shares) == 2 and sum(share or 0.0 for share in shares) == pytest.approx(found.delta.loss)
    text = render_what_if(found)
    assert text.splitlines()[1].strip() == "what is open is chosen again for each scenario"
    assert "of loss of the" in text and f"{losses[1].value:.3f}" in text


@pytest.mark.slow
def test_of_several_jobs_the_sum_of_the_losses_is_compared() -> None:
    """As solve makes it the least; no candidate of one job explains the difference."""
    scenario = parse_scenario(TOGETHER)
    found = what_if(scenario, "limits.budget_usd=90")
    sums = [
        sum(job.model.loss.value for job in plan.jobs if job.model is not None and job.model.loss is not None)
        for plan in (solve(scenario), solve(change_scenario(scenario, ["limits.budget_usd=90"])))
    ]
    assert found.delta.loss is not None and found.delta.loss < 0
    assert found.delta.loss == pytest.approx(sums[1] - sums[0])
    text = render_what_if(found)
    assert f"sum of losses {-found.delta.loss:.3f} lower" in text and "what the jobs share" not in text
    swept = sweep(scenario, ["limits.budget_usd=[60, 90]"])
    assert f"sum of losses {sums[1]:.3f} to {sums[0]:.3f} for" in render_sweep(swept)


@pytest.mark.slow
def test_a_change_without_effect_is_one_of_an_open_job_too() -> None:
    """A larger limit that did not bind: the same choice, and no promise of what higher values do."""
    found = what_if(parse_scenario(TIGHT.replace("20h", "899h")), "jobs.0.deadline=900h")
    assert found.unchanged
    assert found.it_would_take and "a higher value has no effect" not in found.it_would_take[0]


@pytest.mark.slow
def test_every_cell_of_a_sweep_is_the_choice_of_its_scenario(tmp_path: Path) -> None:
    """On the screen and in a file; more money has no higher loss."""
    scenario, vary = parse_scenario(TWO), ["limits.budget_usd=[20, 80]"]
    found = sweep(scenario, vary)
    for cell in found.cells:
        plan = solve(change_scenario(scenario, [f"limits.budget_usd={cell.values[0]}"]))
        model, its = plan.jobs[0].model, cell.jobs[0].model
        assert model is not None and its is not None and model.loss is not None
        assert (its.architecture, its.tokens, its.loss) == (model.architecture, model.tokens, model.loss.value)
    text = render_sweep(found)
    losses = [cell.jobs[0].model.loss for cell in found.cells if cell.jobs[0].model is not None]
    assert all(f"{loss:.3f}" in text for loss in losses) and "what is open is chosen again" in text
    assert [row["loss"] for row in found.table()] == losses
    file = tmp_path / "cells.csv"
    summary = run_sweep(scenario, vary, str(file), workers=1)
    assert summary.best is not None and summary.best.values == ("80",)
    assert f"loss {losses[1]:.3f}" in render_variants(summary)
    with file.open(encoding="utf-8") as lines:
        assert [float(row["loss"]) for row in csv.DictReader(lines)] == losses


@pytest.mark.slow
def test_without_a_plan_every_question_says_so() -> None:
    """With the change that gives one, as solve does."""
    scenario = parse_scenario(POOR)
    plan = solve(scenario)
    assert plan.infeasible is not None
    assert explain(scenario).relax == plan.infeasible.relax
    assert simulate(scenario, runs=5).infeasible == plan.infeasible
    assert overview(scenario).plan.infeasible == plan.infeasible
    assert tornado(scenario).bars == ()
    assert "feasible after the change" in render_what_if(what_if(scenario, "limits.budget_usd=80"))


SPOT = TWO.replace("usd_per_hour: 16.0", "usd_per_hour: 32.0, spot_usd_per_hour: 8.0")


@pytest.mark.slow
def test_hours_of_a_frontier_of_losses_are_those_of_the_plan_of_each_budget() -> None:
    """On spot, where another budget would leave another policy."""
    for point in loss_frontier(parse_scenario(SPOT), points=3).points:
        plan = solve(change_scenario(parse_scenario(SPOT), [f"limits.budget_usd={point.budget_usd}"]))
        assert plan.jobs[0].spot is not None
        assert plan.jobs[0].hours.expected == pytest.approx(point.hours, rel=1e-6)


@pytest.mark.slow
def test_a_plan_that_chose_its_model_is_exported_with_its_policy_on_spot(tmp_path: Path) -> None:
    """The files train what was chosen, and the table of the policy is that of its tokens."""
    scenario = parse_scenario(SPOT.replace("framework: torchtitan", "framework: hf"))
    plan = solve(scenario)
    chosen = open_choices.fix_choice(scenario, None, None, plan)
    assert policy_tables(scenario, plan) == policy_tables(chosen.scenario, chosen.definite)
    file = tmp_path / "plan.json"
    file.write_text(plan.model_dump_json(by_alias=True), encoding="utf-8")
    texts = export(file, whole=True)
    assert "policy.json" in texts and plan.jobs[0].model is not None
    assert any(plan.jobs[0].model.architecture in text for text in texts.values())


@pytest.mark.slow
def test_a_budget_that_only_an_assumed_spot_market_keeps_is_said_below_the_first_line() -> None:
    """With the dollars on demand; not where these are within the budget, or where the market is fitted to traces."""
    plan = solve(parse_scenario(SPOT))
    (job,) = plan.jobs
    assert job.spot is not None and job.spot.basis and plan.budget_usd is not None
    usd = job.cost_usd + job.spot.saving_usd
    assert usd > plan.budget_usd
    text = " ".join(line.strip() for line in render_plan(plan).splitlines()[1:4])
    assert f"on demand the same run costs ${usd:,.2f}: only the assumed spot market keeps it within the budget" in text
    assert not assumed_market_text(plan.model_copy(update={"budget_usd": usd + 1}))
    fitted = job.model_copy(update={"spot": job.spot.model_copy(update={"basis": ""})})
    assert not assumed_market_text(plan.model_copy(update={"jobs": (fitted,)}))
