"""Latency of requests that arrive one by one: worked examples, laws, and an engine that is simulated step by step."""

from __future__ import annotations

import numpy as np
import pytest

from planner.estimates import latency as arrivals
from planner.estimates.latency import LATTICE, Places, PromptMix, compound_poisson, first_token_quantile, on_lattice


def prompts(seconds: float, most: float = 10.0, parts: float = 1.0) -> PromptMix:
    """Return prompts of one length."""
    return PromptMix(np.ones(1), np.array([[seconds]]), np.array([parts]), np.array([most]))


def first(rate: float, step: float, mix: PromptMix) -> float:
    """Return the time to the first token of 95 % of the requests."""
    return float(first_token_quantile(0.95, mix, np.array([rate]), np.array([step]))[0])


def hold(fixed: float, slope: float, prompt: float) -> Places:
    """Return a replica of 200 places whose requests take `fixed` seconds, `slope` and a `prompt` for each in flight."""
    return Places.of(np.array([200.0]), fixed + (slope + prompt) * np.arange(1.0, 201.0)[None, :])


def each(rate: float, fixed: float, slope: float, prompt: float, output: int) -> float:
    """Return the time per token of 95 %: answers take `fixed` seconds, `slope` and a `prompt` for each in flight."""
    there = hold(fixed, slope, prompt).present(np.array([rate]))
    cycle = fixed + (slope + prompt) * there.met
    times = arrivals.TokenTimes(
        share=np.ones(1), output=np.array([float(output)]), rate=(there.met - 1.0) / cycle,
        others=there.met - 1.0, variance=there.variance, token=(cycle - prompt) / output,
        alone=np.array([(fixed + slope) / output]),
        slope=np.array([slope / output]), prompt=np.array([prompt]), prompt_square=np.array([prompt**2]),
    )  # fmt: skip
    return float(arrivals.token_seconds_quantile(0.95, times)[0])


def test_worked_examples_of_the_docstrings() -> None:
    """Each formula at the numbers that its docstring names."""
    assert arrivals.normal_quantile(0.95) == pytest.approx(1.645, abs=1e-3)
    assert float(arrivals.normal_share(1.645)) == pytest.approx(0.95, abs=1e-4)
    assert float(arrivals.busy_share(20.0, 4.0, 0.05)) == pytest.approx(0.25)
    assert float(arrivals.window_factor(1.0)) == pytest.approx(0.74, abs=0.005)
    assert float(arrivals.gamma_quantile(0.95, 1.0, 1.0)) == pytest.approx(2.97, abs=0.005)
    assert float(arrivals.gamma_share(arrivals.gamma_quantile(0.9, 3.0, 2.0), 3.0, 2.0)) == pytest.approx(0.9, abs=1e-6)
    ones = np.eye(1, LATTICE, 1)
    assert compound_poisson(np.ones((1, 1)), ones)[0, 0, :3] == pytest.approx([0.368, 0.368, 0.184], abs=1e-3)


def test_prompts_between_two_points_keep_their_mean() -> None:
    """A prompt of 2.25 points is 3/4 one of two and 1/4 one of three."""
    found = on_lattice(prompts(2.25), np.ones(1))[0]
    assert found[2:4] == pytest.approx([0.75, 0.25])
    assert found @ np.arange(LATTICE) == pytest.approx(2.25)


def test_an_idle_replica_answers_after_one_step_and_the_prompt() -> None:
    """Almost no arrivals: at most the step under way, one step and the prompt are waited for; in parts more steps."""
    assert first(1e-6, 0.02, prompts(0.1)) == pytest.approx(0.02 + 0.1 + 0.95 * 0.02, rel=0.03)
    assert first(1e-6, 0.02, prompts(0.1, 0.05, 2.0)) == pytest.approx(0.04 + 0.1 + 0.95 * 0.02, rel=0.03)


def test_more_arrivals_are_never_faster() -> None:
    """Both quantiles rise with the rate."""
    assert np.all(np.diff([first(rate, 0.02, prompts(0.1)) for rate in np.linspace(0.1, 6.0, 12)]) > 0)
    assert np.all(np.diff([each(rate, 4.0, 0.04, 0.06, 200) for rate in np.linspace(0.2, 6.0, 12)]) > 0)


def simulate(rate: float, count: int, output: int, prompt_seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Return TTFT and TPOT of requests that join the steps of an engine: 10 ms and 0.2 ms for each in flight."""
    arrived = np.cumsum(np.random.default_rng(1).exponential(1.0 / rate, count))
    start, end = np.zeros(count), np.zeros(count)
    leaving: dict[int, list[int]] = {}
    now, step, running, taken = 0.0, 0, 0, 0
    while taken < count or running:
        if not running and arrived[taken] > now:
            now = float(arrived[taken])
        joined = range(taken, int(np.searchsorted(arrived, now, side="right")))
        taken += len(joined)
        now += 0.01 + 0.0002 * running + prompt_seconds * len(joined)
        step += 1
        for one in leaving.pop(step, ()):
            end[one], running = now, running - 1
        for one in joined:
            start[one] = now
            leaving.setdefault(step + output - 1, []).append(one)
        running += len(joined)
    return start - arrived, (end - start) / (output - 1)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "prompt_seconds"), [(4.0, 0.02), (12.0, 0.02), (4.0, 0.08), (6.0, 0.08)])
def test_quantiles_are_those_of_a_simulated_engine(rate: float, prompt_seconds: float) -> None:
    """95 % of 4,000 simulated requests: both predictions within 10 %, whatever the share of prompts."""
    output = 100
    simulated = [float(np.quantile(one[400:], 0.95)) for one in simulate(rate, 4000, output, prompt_seconds)]
    fixed, slope = output * 0.01, output * 0.0002
    there = hold(fixed, slope, prompt_seconds).present(np.array([rate]))
    many = float(arrivals.gamma_quantile(0.95, there.flight, there.variance)[0])
    found = [first(rate, 0.01 + 0.0002 * many, prompts(prompt_seconds)), each(rate, fixed, slope, prompt_seconds, 100)]
    assert found == pytest.approx(simulated, rel=0.1)
