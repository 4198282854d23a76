"""The best model for the money: the closed form, more money, what the audit finds, what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.library.reading import members, read_library
from planner.loading.scenario_file import parse_scenario
from planner.open_choices.choice_alternatives import Alternative, best_of, index_from, index_to, tokens_at
from planner.open_choices.loss_laws import LAWS
from planner.report.plan_text import render
from planner.results.plan import Plan
from planner.scenario.scenario import architectures_of, open_job
from planner.solving.solve import solve
from tests.helpers.open_scenarios import BATCH, OPEN


@dataclass
class ConstantCost(Alternative):
    """A model whose every FLOP costs the same."""

    def least_usd(self, tokens: int) -> float:
        self.costs[tokens] = 6 * self.size * tokens / 1e19
        return self.costs[tokens]


@cache
def plan_of(*changes: tuple[str, str]) -> Plan:
    """Return the plan of the small open scenario with some texts replaced."""
    text = OPEN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return solve(parse_scenario(text))


def constant_cost(budget_usd: float) -> tuple[float, float, float]:
    """Return size, tokens and loss of the best shape where a dollar buys 1e19 FLOP."""
    scenario = parse_scenario(OPEN)
    job = open_job(scenario)
    assert job is not None
    names = [name for name in members("llama", 0.05e9, 30e9) if "x" in name]
    library = read_library(names)
    models = [library.architecture(name) for name in names]
    best = best_of([ConstantCost(scenario, job, one, 256, library) for one in models], budget_usd)[0]
    return best.alternative.size, best.tokens, best.loss


def test_constant_flop_per_dollar_recovers_the_closed_form() -> None:
    """At 1e21 FLOP about 20 tokens per parameter, and a loss within a hundredth of the closed form's."""
    size, tokens, loss = constant_cost(100.0)
    law = LAWS["besiroglu"]
    assert 6 * size * tokens == pytest.approx(1e21, rel=0.01)
    assert 13 < tokens / size < 30  # the ladder's sizes are a factor of 1.3 apart
    assert loss == pytest.approx(law.loss(*law.optimum(1e21)), abs=0.002)


@given(st.integers(12_000, 14_000))
def test_tokens_on_the_grid_are_found_again(index: int) -> None:
    """Four figures tell neighbours apart."""
    tokens = tokens_at(index)
    assert tokens < tokens_at(index + 1)
    assert index_from(tokens) == index_to(tokens) == index


@pytest.mark.slow
def test_a_plan_says_model_tokens_and_loss_and_keeps_the_budget() -> None:
    """The loss is that of the law at the tokens of the plan; one step more of tokens is not paid for."""
    plan = plan_of()
    (job,) = plan.jobs
    assert job.model is not None and job.model.loss is not None and plan.cost_at_confidence is not None
    assert plan.cost_at_confidence <= 100
    assert plan.cost_at_confidence > 99, "the budget is used up to one step of the grid"
    assert job.model.loss.value == pytest.approx(LAWS["besiroglu"].loss(job.model.law_parameters, job.model.tokens))
    assert job.architecture == job.model.architecture
    assert job.model.compared == 3


@pytest.mark.slow
def test_each_size_alone_is_no_better() -> None:
    """Brute force: the best of the list is the best of the three scenarios with one model each."""
    listed = "[smollm2-360m, llama-14x1792, llama-3.2-1b]"
    losses = []
    for name in ("smollm2-360m", "llama-14x1792", "llama-3.2-1b"):
        model = plan_of((listed, f"[{name}]")).jobs[0].model
        assert model is not None and model.loss is not None
        losses.append(model.loss.value)
    chosen = plan_of().jobs[0].model
    assert chosen is not None and chosen.loss is not None
    assert chosen.loss.value == pytest.approx(min(losses))


@pytest.mark.slow
@settings(max_examples=4)
@given(st.floats(15, 200), st.floats(1.0, 2.0))
def test_more_money_never_means_a_higher_loss(budget: float, factor: float) -> None:
    """Whatever the budget is."""
    plans = [plan_of(("budget_usd: 100", f"budget_usd: {usd:.2f}")) for usd in (budget, budget * factor)]
    less, more = (plan.jobs[0].model for plan in plans)
    assert less is not None and less.loss is not None and more is not None and more.loss is not None
    assert more.loss.value <= less.loss.value + 1e-12


@pytest.mark.slow
def test_fewer_unique_tokens_never_help() -> None:
    """Repeated data are worth less."""
    few = plan_of(("global_batch: 256", "global_batch: 256\n    unique_tokens: 2e9")).jobs[0].model
    many = plan_of().jobs[0].model
    assert few is not None and few.loss is not None and many is not None and many.loss is not None
    assert few.loss.value > many.loss.value
    assert few.tokens_at_reference > 2e9


@pytest.mark.slow
def test_the_cheapest_way_to_a_loss_reaches_it() -> None:
    """And costs about the budget whose best loss it is."""
    best = plan_of().jobs[0].model
    assert best is not None and best.loss is not None
    plan = plan_of(("{tokens: best}", f"{{loss: {best.loss.value + 1e-9}}}"), ("objective: loss", "objective: cost"))
    model = plan.jobs[0].model
    assert model is not None and model.loss is not None and plan.cost_at_confidence is not None
    assert model.loss.value <= best.loss.value + 2e-9
    assert plan.cost_at_confidence <= 100 * 1.005


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tokens", 10**9),
        ("tokens_at_reference", 10**9),
        ("architecture", "smollm2-135m"),
        ("parameters", 5),
        ("loss", None),
    ],
)
def test_the_audit_finds_a_choice_that_is_not_that_of_the_plan(field: str, value: object) -> None:
    """Each figure of the choice is computed again from scenario and library."""
    plan, scenario = plan_of(), parse_scenario(OPEN)
    (job,) = plan.jobs
    library = read_library(architectures_of(scenario.jobs[0]))
    assert job.model is not None
    assert audit(plan, scenario, library) == []
    wrong = job.model_copy(update={"model": job.model.model_copy(update={field: value})})
    assert audit(plan.model_copy(update={"jobs": (wrong,)}), scenario, library)


@pytest.mark.slow
def test_a_budget_that_pays_for_no_run_is_infeasible_with_what_would_be_enough() -> None:
    """The shortest run that the law has seen is looked at."""
    plan = plan_of(("budget_usd: 100", "budget_usd: 0.5"))
    assert plan.status == "infeasible" and plan.infeasible is not None
    assert any(one.limit == "limits.budget_usd" for one in plan.infeasible.relax)
    assert any("the shortest run that the law has seen" in note for note in plan.warnings)


REFUSED = [
    (("{tokens: best}", "{loss: 1.5}"), ("objective: loss", "objective: cost"), "is not above 1.8172"),
    (("{tokens: best}", "{loss: 2.1}"), ("objective: loss", "objective: cost"), "is below"),
    (("{tokens: best}", "{loss: 9}"), ("objective: loss", "objective: cost"), "is above"),
    (("smollm2-360m", "mixtral-8x7b"), ("budget_usd: 100", "budget_usd: 200"), "mixtral-8x7b has experts"),
    (
        ("[smollm2-360m, llama-14x1792, llama-3.2-1b]", "[llama-3-70b]"),
        ("schema: 2", "schema: 2"),
        "that the law has seen",
    ),
    (("budget_usd: 100", "budget_usd: 1e6"), ("schema: 2", "schema: 2"), "could be trained for longer than any run"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other", "message"), REFUSED, ids=[row[-1] for row in REFUSED])
def test_what_no_law_has_seen_is_refused(one: tuple[str, str], other: tuple[str, str], message: str) -> None:
    """One line with what would be right."""
    with pytest.raises(ScenarioError) as caught:
        plan_of(one, other)
    assert len(caught.value.faults) == 1
    assert message in str(caught.value)


@pytest.mark.slow
def test_a_larger_batch_is_taken_where_the_deadline_needs_more_gpus() -> None:
    """Without haste the smallest batch is the cheapest; in haste a larger one, with more tokens and the hint."""
    calm, hasty = (
        solve(parse_scenario(BATCH.replace("kind: pretrain", f"kind: pretrain\n    deadline: {deadline}"))).jobs[0]
        for deadline in ("20d", "4h")
    )
    assert calm.model is not None and calm.model.batch is not None
    assert (calm.global_batch, calm.model.tokens) == (128, 20 * 10**9)
    assert calm.model.batch.sigma == 0
    assert hasty.model is not None and hasty.model.batch is not None
    assert hasty.global_batch > 128 and hasty.gpus > calm.gpus
    assert hasty.model.tokens > calm.model.tokens
    assert hasty.sigma > hasty.model.batch.sigma > 0
    assert hasty.model.batch.learning_rate_factor == pytest.approx((hasty.global_batch / 128) ** 0.5)


@pytest.mark.slow
def test_the_smallest_batch_of_a_range_gives_the_plan_of_that_batch() -> None:
    """Dollars, hours and machines are those of the fixed number."""
    ranged = solve(parse_scenario(BATCH))
    fixed = solve(parse_scenario(BATCH.replace("{from: 128, to: 1024}", "128")))
    assert ranged.jobs[0].global_batch == 128
    assert ranged.cost_usd == fixed.cost_usd and ranged.hours == fixed.hours
    assert fixed.jobs[0].model is None and "model" not in fixed.jobs[0].model_dump()


def test_other_commands_say_what_to_do_first() -> None:
    """They work on one model."""
    from planner.solving.prepare import prepare

    with pytest.raises(ScenarioError, match="which planner solve decides"):
        prepare(parse_scenario(OPEN))


SERVED = (
    OPEN.replace("{tokens: best}", "{loss: 2.75}")
    .replace("objective: loss", "objective: cost")
    .replace("kind: pretrain", "kind: pretrain\n    serve_tokens: 1e13")
    .replace("limits: {budget_usd: 100}\n", "")
)


@pytest.mark.slow
def test_tokens_that_are_served_make_the_model_smaller_and_its_training_longer() -> None:
    """By the planner's own estimate; the answer says the dollars, their source, and the choice without them."""
    plan, alone = solve(parse_scenario(SERVED)), solve(parse_scenario(SERVED.replace("serve_tokens: 1e13", "")))
    (job,), other = plan.jobs, alone.jobs[0].model
    model = job.model
    assert model is not None and model.serving is not None and other is not None and other.serving is None
    assert model.parameters < other.parameters and model.tokens > other.tokens
    assert model.loss is not None and model.loss.value <= 2.75
    assert job.cost_usd > alone.jobs[0].cost_usd, "the plan is that of the training"
    assert model.serving.usd == pytest.approx(1e7 * model.serving.usd_per_million_tokens)
    assert "estimated: " in model.serving.source and "always full" in model.serving.source
    text = render(plan)
    assert "serving 10T tokens over its life costs" in " ".join(text.splitlines()[1:5])
    assert any(note.startswith(f"without serving {other.architecture} on ") for note in plan.warnings)
    assert any("this loss with its serving costs" in note for note in plan.warnings)


@pytest.mark.slow
def test_an_audit_checks_the_dollars_of_serving() -> None:
    """Their tokens, their sum, and the dollars of a token that are given."""
    scenario = parse_scenario(SERVED.replace("1e13", "1e13\n    serve_usd_per_million_tokens: 0.02"))
    plan = solve(scenario)
    (job,) = plan.jobs
    assert job.model is not None and job.model.serving is not None
    library = read_library([name for one in scenario.jobs for name in architectures_of(one)])
    for changes in ({"tokens": 5}, {"usd": 1.0}, {"usd_per_million_tokens": 0.5}):
        wrong = job.model.model_copy(update={"serving": job.model.serving.model_copy(update=changes)})
        changed = plan.model_copy(update={"jobs": (job.model_copy(update={"model": wrong}),)})
        assert any(one.what.startswith("model.serving") for one in audit(changed, scenario, library))
    without = job.model.model_copy(update={"serving": None})
    none = plan.model_copy(update={"jobs": (job.model_copy(update={"model": without}),)})
    assert any(one.what == "model.serving" for one in audit(none, scenario, library))


def test_serving_counts_dollars_alone() -> None:
    """The least time has none."""
    with pytest.raises(ScenarioError, match="by its dollars alone; minimise cost"):
        solve(parse_scenario(SERVED.replace("objective: cost", "objective: time")))
