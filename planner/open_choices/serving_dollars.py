"""What serving a trained model over its life costs: smaller models cost less to run, so they are trained for longer.

The least dollars of training and serving together give a loss with fewer parameters and more tokens than the least
dollars of training alone (Sardana et al. 2024, arXiv:2401.00448, equation 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import Fault, ScenarioError
from planner.library.schema import Architecture, Library
from planner.results.chosen_model import ServingCost
from planner.scenario.inference_job import InferenceJob, InferenceRequest
from planner.scenario.open_job import OpenJob
from planner.scenario.scenario import Scenario
from planner.solving.prepare import prepare
from planner.solving.resolve import try_solve
from planner.units import MEGA

if TYPE_CHECKING:
    from planner.solving.prepare import PreparedScenario

REQUESTS = 1_000_000
"""Prompts that are planned for the dollars of a token: enough hours for the start of a machine to count for little."""
GIVEN_PARAMETERS = 1e9
"""Parameters of the model that given dollars of a million tokens are for; others cost in proportion to theirs."""


def serving_cost(
    scenario: Scenario, job: OpenJob, architecture: Architecture, library: Library, market: PreparedScenario | None
) -> ServingCost | None:
    """Return what the tokens that a model serves over its life cost; None where the job names none.

    Dollars of a token are those that are given, or of a million requests of `estimate --inference`'s default lengths
    that the scenario's cheapest machine answers at full use.

    Raises
    ------
    ScenarioError
        No machine of the scenario serves the model.
    """
    tokens = job.serve_tokens
    if tokens is None:
        return None
    if job.serve_usd_per_million_tokens is not None:
        price = given_price(job.serve_usd_per_million_tokens, architecture.parameters)
        source = f"given: ${job.serve_usd_per_million_tokens:g} for 1B parameters, others in proportion"
    else:
        price, source = _estimated(scenario, job, architecture, library, market)
    return ServingCost(tokens=tokens, usd_per_million_tokens=price, usd=tokens * price / MEGA, source=source)


def given_price(usd: float, parameters: int) -> float:
    """Return dollars of a million tokens of a model, given those of one of `GIVEN_PARAMETERS`.

    Reading and writing a token take 2 FLOP per weight (arXiv:2401.00448).
    """
    return usd * parameters / GIVEN_PARAMETERS


def _estimated(
    scenario: Scenario, job: OpenJob, architecture: Architecture, library: Library, market: PreparedScenario | None
) -> tuple[float, str]:
    """Return dollars of a million tokens, and what the estimate assumes."""
    lengths = InferenceRequest()
    work = {"requests": REQUESTS, "input_tokens": lengths.input, "output_tokens": lengths.output}
    served = InferenceJob(name=job.name, kind="inference", architecture=architecture.name, work=work)  # type: ignore[arg-type]
    limits = scenario.limits.model_copy(update={"budget_usd": None, "max_hours": None, "tools": (), "fallbacks": 0})
    asked = scenario.model_copy(update={"jobs": (served,), "objective": "cost", "limits": limits})
    plan = try_solve(prepare(asked, library, market))
    if plan is None:
        what = f"no machine of the scenario serves {architecture.name}, so the dollars of its tokens are unknown"
        fix = "give serve_usd_per_million_tokens, for a model of 1 billion parameters"
        raise ScenarioError([Fault(scenario.name, 0, f"jobs.{job.name}.serve_tokens", what, fix)])
    of_each = f"{lengths.input:,} tokens read and {lengths.output:,} written a request"
    source = f"estimated: {plan.description}, always full, {of_each}, at today's prices"
    return plan.cost_usd / (REQUESTS * (lengths.input + lengths.output) / MEGA), source
