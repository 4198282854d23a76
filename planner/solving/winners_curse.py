"""How far the cheapest of many uncertain estimates is too low: a pick is cheap partly by its own error.

The estimates are taken for the truth, estimates with errors are drawn around them, each draw plans by those, and what
it promises is compared with what its choice truly costs. What the candidates of one job share, such as the habits of
who runs it, chooses nothing and is not drawn. The parts that a framework, a card and a configuration have of their
own follow from the keys `difference.*` of models/calibration/uncertainty.yaml; a card whose speed is a prior has
more.
Source: the optimizer's curse (Smith and Winkler, Management Science 2006), by a parametric bootstrap.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.arrays import Floats, Integers, distinct, distinct_names
from planner.configurations.coefficients import efficiency_of
from planner.estimates.uncertainty import efficiency_sigma
from planner.results.plan import Assignment
from planner.solving.prepare import CandidateObjective, PreparedScenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CURSE_DRAWS, CURSE_SEED = 200, 1
DRAWN_REACH = 3.0
"""Candidates further above the best than so many of their own spreads are not drawn."""
NOTICED_FLATTERY = 0.02
"""Share of the estimate from which a plan says how far such a pick is too low."""


class Priced(NamedTuple):
    """The candidates (n,) of a job that keep its limits."""

    usd: Floats  # objective by estimate
    moving: Floats  # share of it that grows with the hours of training
    unmeasured: Floats  # spread of ln(time) that a card adds whose training was not measured
    framework: Integers
    card: Integers
    configuration: Integers


class Curse(NamedTuple):
    """What draws of one scenario show."""

    flattery: float  # mean of ln(true dollars / promised dollars) of the picked
    regret: float  # mean of true dollars of the picked over the least true dollars, less one


def priced(prepared: PreparedScenario, job: int = 0) -> Priced:
    """Return the candidates of a job that keep its limits, with what their errors have in common."""
    found, screened = prepared.candidates[job], prepared.screened[job]
    usd, share = CandidateObjective.of(prepared.scenario).best(screened.table)
    machines = np.isfinite(usd) & ~found.is_managed_service[screened.rows]
    rows, ways = screened.rows[machines], found.physics.ways
    configuration = found.configuration[rows]
    hours = screened.table.hours(share)[machines]
    moving = np.clip(found.run_hours.training_hours[configuration] / hours, 0.0, 1.0)
    library = prepared.library
    values, speeds = library.calibrations["uncertainty"].values, library.calibrations["gpu_efficiency"]
    recipes = [ways.recipes[index].framework for index in ways.recipe[configuration].tolist()]
    cards = [ways.machines[index].gpu for index in ways.machine[configuration].tolist()]
    return Priced(
        usd[machines],
        moving,
        np.asarray([efficiency_sigma(values, efficiency_of(library.gpu(card), speeds)[1]) for card in cards]),
        distinct_names(recipes)[1],
        distinct_names(cards)[1],
        distinct(configuration)[1],
    )


def own_parts(values: Mapping[str, float]) -> tuple[float, float, float]:
    """Return the spreads of the parts of an error that a framework, a card and a configuration have each of their own.

    Differences of two errors have twice the variance of what they do not share: 0.205 of two sources, 0.115 on two
    cards and 0.11 on one leave sqrt(0.205^2 - 0.115^2) / sqrt 2 = 0.12, 0.024 and 0.078.
    """
    source, other, same = (values[f"difference.{name}"] for name in ("other_source", "other_card", "same_card"))
    squares = (source**2 - other**2, other**2 - same**2, same**2)
    return tuple(math.sqrt(max(square, 0.0) / 2.0) for square in squares)  # type: ignore[return-value]


def simulate(found: Priced, parts: Sequence[float], draws: int = CURSE_DRAWS, seed: int = CURSE_SEED) -> Curse:
    """Return what plans by estimates with errors promise and cost; deterministic in the seed.

    `parts`: spreads that a framework, a card and a configuration have of their own.
    """
    if not found.usd.size or found.usd.min() <= 0.0:  # machines that cost nothing leave no share to compare
        return Curse(0.0, 0.0)
    of_framework, of_card, own = parts
    whole = np.sqrt(of_framework**2 + of_card**2 + own**2 + np.square(found.unmeasured))
    near = found.usd * np.exp(-DRAWN_REACH * whole) <= found.usd.min()
    found = Priced(*(column[near] for column in found))
    card = np.hypot(of_card, found.unmeasured)
    random = np.random.default_rng(seed)

    def drawn(group: Integers) -> Floats:
        return np.asarray(random.standard_normal(int(group.max()) + 1)[group])

    flattery, regret = [], []
    for _ in range(draws):
        error = of_framework * drawn(found.framework) + card * drawn(found.card) + own * drawn(found.configuration)
        promised = found.usd * (1.0 + found.moving * (np.exp(error) - 1.0))
        picked = int(np.argmin(promised))
        flattery.append(math.log(found.usd[picked] / promised[picked]))
        regret.append(found.usd[picked] / found.usd.min() - 1.0)
    return Curse(float(np.mean(flattery)), float(np.mean(regret)))


def with_flattery(jobs: tuple[Assignment, ...], prepared: PreparedScenario) -> tuple[Assignment, ...]:
    """Return the job of a plan with how far the least of many estimates is too low, in its evidence; none if hardly.

    Of one training job that minimises dollars: what several jobs share is not drawn.
    """
    scenario = prepared.scenario
    if len(scenario.jobs) != 1 or scenario.objective_kind != "cost" or prepared.is_slim or not scenario.jobs[0].trains:
        return jobs
    (job,) = jobs
    found = priced(prepared)
    flattery = math.expm1(simulate(found, own_parts(prepared.library.calibrations["uncertainty"].values)).flattery)
    if flattery < NOTICED_FLATTERY or job.evidence is None:
        return jobs
    evidence = job.evidence.model_copy(update={"estimates": int(found.usd.size), "optimizer_curse": flattery})
    return (job.model_copy(update={"evidence": evidence}),)
