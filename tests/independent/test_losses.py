"""Losses and choices of size computed again from the papers' equations: no law or search of the planner is used.

Dollars are those of plans of one size and number of tokens, which need no law.
"""

from __future__ import annotations

import datetime
import math

import pytest

from planner.loading.scenario_file import change_scenario, parse_scenario, read_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.solve import solve
from tests.helpers.open_scenarios import OPEN

E, A, B, ALPHA, BETA = 1.8172, 482.01, 2085.43, 0.3478, 0.3658
"""Besiroglu et al. 2024 (arXiv:2404.10102)."""
PAPERS = {"repetitions": 15.387756, "excess": 5.309743}
"""Muennighoff et al. 2023 (arXiv:2305.16264), appendix A."""


def loss_by_hand(parameters: float, tokens: float, unique: float | None, step: float) -> float:
    """Return the loss of a run: what a large step wastes first, then what repetition makes of the rest."""
    critical = 5 * 11_730 * (tokens / 1e6) ** 0.47
    learnt = tokens if step <= 2**19 else tokens * (critical + 2**19) / (critical + step)
    if unique is None:
        return float(E + A * parameters**-ALPHA + B * learnt**-BETA)
    exist = unique * learnt / tokens
    fresh = min(exist, learnt)
    scale = (ALPHA * A / BETA / B) ** (1 / (ALPHA + BETA))
    useful = min(scale ** (1 + BETA / ALPHA) * exist ** (BETA / ALPHA), parameters)
    of_tokens = fresh + fresh * PAPERS["repetitions"] * (1 - math.exp((1 - learnt / fresh) / PAPERS["repetitions"]))
    of_network = useful + useful * PAPERS["excess"] * (1 - math.exp((1 - parameters / useful) / PAPERS["excess"]))
    return float(E + A * of_network**-ALPHA + B * of_tokens**-BETA)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["jobs.0.unique_tokens=1e9"],
        ["jobs.0.global_batch=4096"],
        ["jobs.0.unique_tokens=300e6", "jobs.0.global_batch=4096"],
    ],
    ids=["new", "repeated", "large steps", "both"],
)
def test_the_loss_of_a_plan_is_that_of_the_papers(settings: list[str]) -> None:
    """Of data that are new, repeated, learnt in large steps, and both."""
    sizes = "jobs.0.architecture=[smollm2-360m, tinyllama-1.1b]"
    scenario = change_scenario(read_scenario("best-for-200"), [sizes, "limits.spot=false", *settings])
    plan = solve(scenario, SolveOptions(as_of=datetime.date(2026, 11, 21)))
    job, asked = plan.jobs[0], scenario.jobs[0]
    assert job.model is not None and job.model.loss is not None
    step = asked.global_batch * job.sequence_length
    unique = getattr(asked, "unique_tokens", None)
    by_hand = loss_by_hand(job.model.law_parameters, job.model.tokens, unique, step)
    assert job.model.loss.value == pytest.approx(by_hand, rel=1e-9)


AS_OF = SolveOptions(as_of=datetime.date(2026, 11, 21))
STEP = 256 * 2048
"""Tokens of a step of `OPEN`."""
CHEAPER_SIZES = OPEN.replace("llama-14x1792, llama-3.2-1b", "llama-14x1792")
CORPUS = CHEAPER_SIZES.replace("global_batch: 256", "global_batch: 256\n    unique_tokens: 2e9")
REACHED = OPEN.replace("{tokens: best}", "{loss: 2.75}").replace("objective: loss", "objective: cost")
BY_LOSS = REACHED.replace("limits: {budget_usd: 100}\n", "")


def chosen(scenario: Scenario) -> tuple[str, int, float]:
    """Return the model, tokens and loss of a plan."""
    model = solve(scenario, AS_OF).jobs[0].model
    assert model is not None and model.loss is not None
    return model.architecture, model.tokens, model.loss.value


def definite(text: str, model: str, tokens: float) -> Plan:
    """Return the plan of one model on a number of tokens, of which nothing is open."""
    scenario = parse_scenario(text)
    names = ", ".join(scenario.jobs[0].architecture)
    text = text.replace(f"[{names}]", model).replace("objective: loss", "objective: cost")
    for work in ("{tokens: best}", "{loss: 2.75}"):
        text = text.replace(work, f"{{tokens: {tokens:.0f}}}")
    return solve(parse_scenario(text), AS_OF)


def parameters(text: str, model: str) -> float:
    """Return the parameters that the law counts, as a plan with a loss states them."""
    names = ", ".join(parse_scenario(text).jobs[0].architecture)
    found = solve(parse_scenario(text.replace(f"[{names}]", f"[{model}]")), AS_OF).jobs[0].model
    assert found is not None
    return found.law_parameters


@pytest.mark.slow
def test_the_best_size_for_a_budget_is_found_again_by_trying() -> None:
    """The most tokens of each size that the budget pays for, by halving, and of them the least loss."""
    text, budget = OPEN, 100.0
    losses = {}
    for model in ("smollm2-360m", "llama-14x1792", "llama-3.2-1b"):
        low, high = 1e9, 1e11
        while high / low > 1.0005:
            middle = math.sqrt(low * high)
            paid = definite(text.replace("budget_usd: 100", "budget_usd: 99999"), model, middle).cost_at_confidence
            assert paid is not None
            low, high = (middle, high) if paid <= budget else (low, middle)
        losses[model] = loss_by_hand(parameters(text, model), low, None, STEP)
    model, _, loss = chosen(parse_scenario(text))
    assert model == min(losses, key=lambda name: losses[name])
    assert loss == pytest.approx(min(losses.values()), abs=2e-3)


@pytest.mark.slow
def test_more_budget_never_gives_a_higher_loss() -> None:
    """Of new data, and of data that repeat."""
    for text in (CHEAPER_SIZES, CORPUS):
        asked = [text.replace("budget_usd: 100", f"budget_usd: {budget}") for budget in (20, 45, 100, 400)]
        losses = [chosen(parse_scenario(one))[2] for one in asked]
        assert losses == sorted(losses, reverse=True), text


@pytest.mark.slow
def test_more_unique_data_never_give_a_higher_loss() -> None:
    """For the money; as much as is trained is as good as any."""
    texts = [CORPUS.replace("2e9", unique) for unique in ("50e6", "300e6", "2e9", "12e9", "900e9")]
    losses = [chosen(parse_scenario(text))[2] for text in (*texts, CHEAPER_SIZES)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-2] == pytest.approx(losses[-1], abs=6e-4), "no digit is lost where data are as good as unlimited"


@pytest.mark.slow
def test_a_larger_batch_never_gives_a_lower_loss_of_the_same_run() -> None:
    """The same model and tokens; by hand, and as a plan states it for the tokens that it takes."""
    one = CHEAPER_SIZES.replace("[smollm2-360m, llama-14x1792]", "[llama-14x1792]")
    size, runs = parameters(one, "llama-14x1792"), []
    for batch in (64, 256, 1024, 8192):
        _, tokens, loss = chosen(parse_scenario(one.replace("global_batch: 256", f"global_batch: {batch}")))
        assert loss == pytest.approx(loss_by_hand(size, tokens, None, batch * 2048), rel=1e-9)
        runs.append(loss_by_hand(size, 1e10, None, batch * 2048))
    assert runs == sorted(runs) and runs[0] < runs[-1]


@pytest.mark.slow
@pytest.mark.parametrize("served", [0.0, 1e11, 1e13])
def test_the_size_that_is_cheapest_to_train_and_serve_is_found_again_by_trying(served: float) -> None:
    """Each size at the tokens at which the law gives the loss, trained as a plan, served at dollars per parameter."""
    usd, totals, sizes = 0.02, {}, {}
    text = BY_LOSS
    if served:
        more = f"global_batch: 256\n    serve_tokens: {served:.0f}\n    serve_usd_per_million_tokens: {usd}"
        text = text.replace("global_batch: 256", more)
    for model in ("smollm2-360m", "llama-14x1792", "llama-3.2-1b"):
        size = parameters(BY_LOSS, model)
        left = 2.75 - E - A * size**-ALPHA
        plan = definite(BY_LOSS, model, (B / left) ** (1 / BETA))
        alone = solve(
            parse_scenario(BY_LOSS.replace("[smollm2-360m, llama-14x1792, llama-3.2-1b]", f"[{model}]")), AS_OF
        )
        assert plan.cost is not None and alone.jobs[0].model is not None
        sizes[model] = alone.jobs[0].model.parameters
        totals[model] = plan.cost.expected + served / 1e6 * usd * sizes[model] / 1e9
    model, _, loss = chosen(parse_scenario(text))
    assert model == min(totals, key=lambda name: totals[name]) and loss <= 2.75
    serving = solve(parse_scenario(text), AS_OF).jobs[0].model
    assert serving is not None
    if served:
        assert serving.serving is not None
        assert serving.serving.usd == pytest.approx(served / 1e6 * usd * sizes[model] / 1e9, rel=1e-9)
