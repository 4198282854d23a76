"""Several jobs that train the best models for one budget: brute force, laws, what the audit finds, what is refused."""

from __future__ import annotations

import itertools
import math
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import ScenarioError
from planner.evaluation.audit import audit
from planner.library.reading import read_library
from planner.loading.scenario_file import parse_scenario
from planner.open_choices.choice_alternatives import Alternative, best_of, known_range, tokens_at
from planner.open_choices.open_jobs_together import SUM_TOLERANCE, Together, together
from planner.results.plan import Plan
from planner.scenario.scenario import SolveOptions, architectures_of, open_jobs
from planner.solving.solve import solve
from tests.helpers.open_scenarios import TOGETHER
from tests.helpers.scenarios import told

TWO = "\n".join(line for line in TOGETHER.splitlines() if "name: tune" not in line)
ONE = TWO.replace("  - name: few\n", "CUT", 1)
ONE = ONE[: ONE.index("CUT")] + ONE[ONE.index("offers:") :]
LIMITED = TOGETHER.replace("limits: {budget_usd: 60}", "limits: {budget_usd: 60, max_gpus: 16}")


@cache
def plan_of(text: str, usd: float) -> Plan:
    """Return the plan for a budget."""
    return solve(parse_scenario(text.replace("budget_usd: 60", f"budget_usd: {usd:.2f}")))


@cache
def jobs_of(text: str) -> Together:
    """Return the jobs of a scenario as the search sees them."""
    scenario = parse_scenario(text)
    library = read_library([name for job in scenario.jobs for name in architectures_of(job)])
    return together(scenario, library, SolveOptions())


def losses(plan: Plan) -> list[float]:
    """Return the losses of the jobs that have one."""
    return [job.model.loss.value for job in plan.jobs if job.model is not None and job.model.loss is not None]


def brute_force(jobs: Together, usd: float, every: int) -> float:
    """Return the least sum of losses over every pair of models and every few places of the grid of tokens."""
    left = usd - sum(float(table.late_cost_usd(0.0).min()) for table in jobs.fixed)
    curves = [[point for one in each for point in curve(one, left, every)] for each in jobs.alternatives]
    pairs = itertools.product(*curves)
    return min(
        (sum(loss for _, loss in pair) for pair in pairs if sum(usd for usd, _ in pair) <= left), default=math.inf
    )


def curve(one: Alternative, usd: float, every: int) -> list[tuple[float, float]]:
    """Return dollars and loss of a model at every few places of the grid that a budget pays for."""
    first, last = known_range(one)
    found = []
    for index in range(first, last + 1, every):
        price = one.least_usd(tokens_at(index))
        if price > usd:
            break
        found.append((price, one.loss(tokens_at(index))))
    return found


@pytest.mark.long
@pytest.mark.parametrize("usd", [20.0, 60.0])
def test_no_pair_of_models_and_tokens_is_better(usd: float) -> None:
    """Brute force over pairs of models, 4 % of tokens apart, next to a job whose work is given."""
    jobs = jobs_of(TOGETHER)
    found = jobs.at_budget(usd).search(SUM_TOLERANCE)
    assert found is not None
    assert found.loss <= brute_force(jobs, usd, 20) + SUM_TOLERANCE
    assert sum(found.usd) <= usd + 1e-6
    assert found.above_least <= SUM_TOLERANCE


@pytest.mark.long
@settings(max_examples=2)
@given(st.floats(8, 40), st.floats(1.0, 3.0))
def test_more_money_never_means_a_higher_sum_of_losses(usd: float, factor: float) -> None:
    """Up to what the search leaves unproven, whatever the budget is."""
    jobs = jobs_of(TOGETHER)
    less, more = (jobs.at_budget(one).search(SUM_TOLERANCE) for one in (usd, usd * factor))
    if less is None:
        return
    assert more is not None and more.loss <= less.loss + SUM_TOLERANCE


@pytest.mark.slow
@settings(max_examples=6)
@given(st.floats(10, 300))
def test_a_job_alone_is_as_good_as_the_exact_search(usd: float) -> None:
    """The ladder ends at most 0.001 above the answer for one job, and never below it."""
    jobs = jobs_of(ONE)
    found = jobs.at_budget(usd).search(SUM_TOLERANCE)
    exact = best_of(jobs.alternatives[0], usd)
    assert found is not None
    assert exact[0].loss - 1e-9 <= found.loss <= exact[0].loss + SUM_TOLERANCE


@pytest.mark.long
def test_the_plan_pays_all_jobs_from_one_budget() -> None:
    """The budget holds for the sum, is nearly used up, and each job says model, tokens and loss."""
    plan = plan_of(TOGETHER, 60)
    assert plan.cost_at_confidence is not None and 0.97 * 60 < plan.cost_at_confidence <= 60
    many, few, tune = plan.jobs
    assert many.model is not None and few.model is not None and tune.model is None
    assert few.model.tokens_at_reference > 1e9, "repeated data are worth something"
    assert many.model.above_least == few.model.above_least is not None
    richer = [job.model.more_money.loss for job in (many, few) if job.model and job.model.more_money]
    assert sum(richer) < sum(losses(plan))


@pytest.mark.long
def test_jobs_that_share_few_machines_take_turns() -> None:
    """Without deadlines one machine after the other trains as much as all at once."""
    limited = plan_of(LIMITED, 60)
    assert len(limited.jobs) == 3 and sum(job.gpus for job in limited.jobs) > 16
    assert sum(losses(limited)) == pytest.approx(sum(losses(plan_of(TOGETHER, 60))))


@pytest.mark.slow
def test_jobs_in_haste_share_machines_at_one_time() -> None:
    """Where the deadline leaves no turns, all run at once; how far the losses may be above the least is said."""
    offer, larger = "gpus: 8, usd", "gpus: 8, max_nodes: 2, interconnect: nvswitch, network_gbps: 3200, usd"
    hasty = LIMITED.replace("max_gpus: 16}", "max_gpus: 24}").replace(offer, larger)
    hasty = hasty.replace("kind: pretrain", "kind: pretrain\n    deadline: 2h")
    free = hasty.replace(", max_gpus: 24", "")
    limited, unlimited = plan_of(hasty, 200), plan_of(free, 200)
    assert sum(job.gpus for job in limited.jobs) <= 24
    assert sum(job.gpus for job in unlimited.jobs) > 24
    assert sum(losses(limited)) > sum(losses(unlimited)) + SUM_TOLERANCE
    model = limited.jobs[0].model
    assert model is not None and model.above_least is not None
    assert sum(losses(limited)) - model.above_least <= sum(losses(unlimited)) + 1e-9


@pytest.mark.long
def test_jobs_that_are_alike_are_treated_alike() -> None:
    """Two equal jobs lose at most the tolerance more than half the budget buys each."""
    equal = TWO.replace("    unique_tokens: 1e9\n", "")
    together_sum = sum(losses(plan_of(equal, 60)))
    alone = losses(plan_of(ONE, 30))[0]
    assert together_sum <= 2 * alone + SUM_TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "value"), [("tokens", 10**9), ("loss", None), ("above_least", -0.2), ("above_least", None)]
)
def test_the_audit_finds_a_wrong_choice_of_one_of_several(field: str, value: object) -> None:
    """Each figure of each choice is computed again."""
    plan, scenario = plan_of(TOGETHER, 60), parse_scenario(TOGETHER.replace("budget_usd: 60", "budget_usd: 60.00"))
    library = read_library([name for job in scenario.jobs for name in architectures_of(job)])
    assert audit(plan, scenario, library) == []
    many, few, tune = plan.jobs
    assert few.model is not None
    wrong = few.model_copy(update={"model": few.model.model_copy(update={field: value})})
    assert audit(plan.model_copy(update={"jobs": (many, wrong, tune)}), scenario, library)


@pytest.mark.slow
def test_too_small_a_budget_is_infeasible() -> None:
    """The shortest run of each job is looked at."""
    plan = plan_of(TOGETHER, 1.5)
    assert plan.status == "infeasible"
    assert any("the shortest run that the law has seen" in note for note in plan.warnings)


def test_what_several_jobs_cannot_share_is_one_line() -> None:
    """A batch or a loss next to other jobs; a frontier of several jobs."""
    loss = TOGETHER.replace("work: {tokens: best}", "work: {loss: 3.0}", 1)
    assert any("leaves its model or its batch open, and there are other jobs" in one for one in told(loss))
    no_limit = TOGETHER.replace("limits: {budget_usd: 60}", "limits: {max_gpus: 8}")
    assert any("without a budget or a deadline" in one for one in told(no_limit))
    from planner.open_choices.open_solve import loss_frontier

    with pytest.raises(ScenarioError, match="that of one job"):
        loss_frontier(parse_scenario(TOGETHER))
    assert len(open_jobs(parse_scenario(TOGETHER))) == 2
