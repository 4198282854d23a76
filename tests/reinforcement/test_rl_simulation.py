"""Replays of plans of kind rl: what a plan states is what drawn answers and lost machines give."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import planner
from planner.errors import InputError
from planner.reinforcement.evaluated_rl import EvaluatedRl, NamedPool, NamedRl, evaluate_rl, report_rl
from planner.reinforcement.rl_simulation import EngineMachines, draw_rollouts, predict, replay_run, run_usd, states_of
from planner.scenario.rl_job import RlJob
from planner.units import HOUR
from tests.reinforcement.test_rl_solve import LIBRARY, run_of, scenario, solved

if TYPE_CHECKING:
    from planner.scenario.scenario import Scenario

DAY = datetime.date(2026, 11, 21)


def _made(machines: int, on_spot: bool = True, **job: Any) -> EvaluatedRl:
    """Return the small job with the trainer on one machine of H100 and engines on some of L40S."""
    one = scenario(**job)
    (rl,) = one.jobs
    assert isinstance(rl, RlJob)
    labels = [label for label, _ in one.labelled_offers()]
    named = NamedRl(
        placement="apart", trainer=NamedPool(labels[0], 1), rollout=NamedPool(labels[1], machines, on_spot),
        rollout_gpus=2 * machines, gpus_per_engine=1, offloads=False, overlapped=rl.staleness > 0, method="full",
        weight_bits=16, sharding="zero3", activation_checkpointing="full", optimizer="adamw", micro_batch=1,
        lora_rank=16,
    )  # fmt: skip
    return evaluate_rl(named, rl, one, dict(one.labelled_offers()), LIBRARY)


@pytest.mark.long
@pytest.mark.parametrize("staleness", [0, 1, 3])
@pytest.mark.parametrize("machines", [1, 4])
def test_a_run_with_engines_on_spot_takes_as_long_as_its_replay(staleness: int, machines: int) -> None:
    """Within 10 %: the formula shares with the replay the seconds of a token, and nothing of losses and of waiting."""
    made = _made(machines, staleness=staleness, work={"steps": 150})
    rng = np.random.default_rng(1)
    found = replay_run(made, draw_rollouts(made, rng), np.ones(1500), rng)
    assert found.hours.mean() == pytest.approx(made.start_hours + made.run_hours, rel=0.10)


@pytest.mark.slow
@pytest.mark.parametrize(("machines", "on_spot"), [(1, True), (3, True), (1, False)])
def test_a_stated_probability_is_the_share_of_the_replays(machines: int, on_spot: bool) -> None:
    """Hours at the confidence, and the chance of a deadline: held in at least as many replays, and in few more.

    A single machine has much luck, to which the plan gives the long tails of the speed: it holds more often than said.
    """
    made = _made(machines, on_spot, deadline="12h", work={"steps": 400})
    run = report_rl(made, DAY)
    found = _replayed(made)
    within = np.mean(found.hours <= run.hours.at_confidence)
    assert made.job.confidence - 0.04 <= within <= made.job.confidence + 0.08
    chance = predict(made, run).deadline_probability
    assert chance is not None
    assert np.mean(found.hours <= 12.0) == pytest.approx(chance, abs=0.08)


def _replayed(made: EvaluatedRl) -> Any:
    from planner.estimates.uncertainty import confidence_factor, tail_of_68_percent
    from planner.reinforcement.rl_estimate import step_sigma

    rng = np.random.default_rng(2)
    ranks = np.clip((np.arange(2000) + 0.5) / 2000, 0.025, 0.975)
    slow = confidence_factor(tail_of_68_percent(step_sigma(made.step)), rng.permutation(ranks))
    return replay_run(made, draw_rollouts(made, rng), slow, rng)


def test_machines_are_paid_for_the_share_of_the_time_that_they_are_there() -> None:
    """Over many runs of 20 h the rented hours are those of the market, and each stay ends with a loss."""
    made = _made(2)
    states, rng = states_of(made), np.random.default_rng(3)
    machines = EngineMachines(states, np.full((3000, 1), 600.0), 2, rng)
    rented = machines.rented_seconds(np.full(3000, 20.0 * HOUR)) / HOUR
    assert rented.mean() == pytest.approx(40.0 * states.availability(), rel=0.03)
    assert machines.losses.mean() == pytest.approx(40.0 * states.availability() / states.up.mean(), rel=0.05)


def test_the_dollars_of_a_replay_as_planned_are_those_of_the_bill() -> None:
    """At the planned hours and the mean time on spot; and with all hours longer as the bill has it."""
    for on_spot in (True, False):
        made = _made(2, on_spot)
        pool = made.engines_pool
        for factor in (1.0, 1.3):
            hours = np.asarray([made.run_hours * factor])
            rented = pool.billed_machines * (hours + pool.start_hours * factor) if on_spot else None
            found = run_usd(made, hours, np.asarray([factor]), rented)
            assert float(found[0]) == pytest.approx(made.usd(factor), rel=1e-6)


def _small() -> Scenario:
    return scenario({"max_gpus": 4, "spot": True}, deadline="60h")


@pytest.mark.slow
def test_a_simulation_has_its_text_its_picture_and_the_same_figures_again() -> None:
    """The command on a plan: figures next to those of the plan, no word of other policies."""
    one = _small()
    plan = solved(one)
    found = planner.simulate(one, plan, library=LIBRARY, runs=200, seed=4)
    again = planner.simulate(one, plan, library=LIBRARY, runs=200, seed=4)
    assert found.cost_usd == again.cost_usd
    assert planner.Simulation.from_json(found.to_json()) == found
    assert found.jobs[0].steps is not None
    text = str(found)
    assert "of runs end within the planned hours (plan: 90.0 %)" in text
    assert "policy" not in text
    assert planner.plot(found).svg.startswith("<?xml")


@pytest.mark.slow
def test_the_figures_of_a_plan_are_medians_and_its_average_is_that_of_the_replays() -> None:
    """Of machines on demand, within what a few hundred drawn answers and speeds leave open."""
    one = scenario({"max_gpus": 4, "spot": False})
    plan = solved(one)
    run = run_of(plan)
    found = planner.simulate(one, plan, library=LIBRARY, runs=2000, seed=4)
    assert found.cost_usd is not None and found.hours is not None
    assert found.cost_usd.p50 == pytest.approx(run.cost_usd, rel=0.02)
    (said,) = (note for note in run.notes if note.startswith("likely hours and dollars are medians"))
    usd, hours = (float(figure) for figure in re.findall(r"[\d.]+\d", said.replace(",", "")))
    assert hours > 1.05 * run.hours.expected
    assert found.cost_usd.mean == pytest.approx(usd, rel=0.02)
    assert found.hours.mean == pytest.approx(hours, rel=0.02)


def test_recorded_markets_are_refused_by_name() -> None:
    """A trace has the market of one machine; each machine with engines has one of its own."""
    with pytest.raises(InputError, match="recorded markets are not replayed for kind: rl"):
        planner.simulate(_small(), library=LIBRARY, traces=["nowhere.csv"])


@pytest.mark.slow
def test_a_tornado_moves_limits_prices_and_work() -> None:
    """Steps have the largest effect; no bar rests on a speed that no setting of the job moves."""
    found = planner.tornado(scenario({"max_gpus": 2, "providers": ["one"]}), library=LIBRARY)
    names = [bar.what for bar in found.bars]
    assert {"work (steps)", "output_tokens", "max_gpus"} <= set(names)
    assert "predicted speed" not in names
    steps = next(bar for bar in found.bars if bar.what == "work (steps)")
    assert steps.up.cost_usd is not None
    assert steps.up.cost_usd > run_of(found.base).cost_usd


def test_answers_of_a_log_are_drawn_from_its_table() -> None:
    """Every step of a log of two lengths has a long answer, so that all rollouts are about as long; others are not."""
    rows = [{"tokens": 200, "count": 3}, {"tokens": 900, "count": 1}]
    table = _made(1, False, work={"lengths": rows, "output_tokens": None})
    smooth = _made(1, False, work={"output_tokens": 375, "longest_output": 3000, "output_cv": 0.8})
    spread = [np.std(draw_rollouts(made, np.random.default_rng(5))) for made in (table, smooth)]
    assert spread[0] < 0.5 * spread[1]
