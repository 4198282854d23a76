"""Simulated replicas: against one that computes every step for itself, by hand, and where the cache is full."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from planner.estimates.generation import CHUNK_TOKENS
from planner.services.simulated_engine import Replicas, Requests, serve

Figures = tuple[np.ndarray, np.ndarray]


def replicas(lanes: int, *, cache: float = 1e9, places: int = 64) -> Replicas:
    """Return replicas whose step takes 10 ms, 0.2 ms for each sequence, and 1 us for each token of context."""
    table = np.broadcast_to(0.01 + 0.0002 * np.arange(places + 1), (lanes, places + 1))
    return Replicas(table, np.full(lanes, 1e-6), np.full(lanes, cache), np.full(lanes, places))


def requests(arrival: np.ndarray, prompt: np.ndarray, output: np.ndarray, seconds: float = 1e-5) -> Requests:
    """Return requests whose prompts take `seconds` for each token."""
    prompt = prompt.astype(float)
    return Requests(
        arrival, prompt, prompt * seconds, prompt.copy(), np.ones(prompt.shape), output, np.full(prompt.shape, np.nan)
    )


def drawn(lanes: int, count: int, longest: int = 3000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return arrivals, prompts and answers of random requests."""
    random = np.random.default_rng(7)
    arrival = np.cumsum(random.exponential(0.08, (lanes, count)), axis=1)
    return arrival, random.integers(10, longest, (lanes, count)), random.integers(1, 120, (lanes, count))


def step_by_step(arrival: np.ndarray, prompt: np.ndarray, output: np.ndarray, places: int, seconds: float) -> Figures:
    """Return first and last tokens of one replica that is computed step by step, without a limit of memory."""
    waiting, going, now, taken = deque[int](), dict[int, int](), 0.0, 0
    left = prompt.astype(float).copy()
    first, last = np.full(len(arrival), np.nan), np.full(len(arrival), np.nan)
    while taken < len(arrival) or waiting or going:
        if not waiting and not going:
            now = max(now, float(arrival[taken]))
        while taken < len(arrival) and arrival[taken] <= now:
            waiting.append(taken)
            taken += 1
        budget, prompts, new = float(CHUNK_TOKENS - len(going)), 0.0, []
        while waiting and budget > 0 and len(going) + len(new) < places:
            one = waiting[0]
            some = min(left[one], budget)
            left[one] -= some
            budget -= some
            prompts += some * seconds
            if left[one] > 0:
                break
            new.append(waiting.popleft())
        context = sum(prompt[one] + done for one, done in going.items()) + sum(prompt[one] for one in new)
        now += 0.01 + 0.0002 * (len(going) + len(new)) + 1e-6 * context + prompts
        for one in new:
            first[one], going[one] = now, 0
        for one in list(going):
            going[one] += 1
            if going[one] == output[one]:
                last[one] = now
                del going[one]
    return first, last


@pytest.mark.slow
@pytest.mark.parametrize(("longest", "seconds", "places"), [(3000, 1e-5, 64), (30_000, 4e-6, 64), (3000, 1e-5, 5)])
def test_every_request_is_answered_as_step_by_step(longest: int, seconds: float, places: int) -> None:
    """Steps taken together, prompts in parts and a lack of places give the same times as each step by itself."""
    arrival, prompt, output = drawn(3, 120, longest)
    found = serve(replicas(3, places=places), requests(arrival, prompt, output, seconds), np.full(3, 120))
    for lane in range(3):
        first, last = step_by_step(arrival[lane], prompt[lane], output[lane], places, seconds)
        assert found.first[lane] == pytest.approx(first, rel=1e-9)
        assert found.last[lane] == pytest.approx(last, rel=1e-9)


def test_one_request_alone_takes_its_prompt_and_its_steps() -> None:
    """1,000 tokens in 10 ms, a step of 10.2 ms and 1 ms of context; then two steps, each 1 us longer."""
    asked = requests(np.array([[5.0]]), np.array([[1000]]), np.array([[3]]))
    found = serve(replicas(1), asked, np.array([1]))
    assert found.first[0, 0] == pytest.approx(5.0 + 0.01 + 0.0102 + 0.001)
    assert found.last[0, 0] - found.first[0, 0] == pytest.approx(2 * 0.0112 + 1e-6 * (1 + 2))


def test_a_full_cache_evicts_and_still_answers_all() -> None:
    """A cache of 4,000 tokens holds few of the requests: all are answered, later than with a large one."""
    arrival, prompt, output = drawn(2, 80, longest=1200)
    asked = requests(arrival, prompt, output)
    small = serve(replicas(2, cache=4000.0), asked, np.full(2, 80))
    large = serve(replicas(2), asked, np.full(2, 80))
    assert not np.isnan(small.last).any()
    assert np.mean(small.last) > np.mean(large.last)
    assert np.all(small.last >= small.first)
    assert np.array_equal(asked.prompt, prompt)  # the caller's requests are as they were


def test_requests_in_flight_at_the_start_have_a_part_of_their_answer() -> None:
    """Half an answer of 100 tokens is there: 50 steps are left."""
    asked = requests(np.zeros((1, 1)), np.array([[10]]), np.array([[100]]))
    found = serve(replicas(1), Requests(*(*vars(asked).values(),)[:-1], np.array([[0.5]])), np.array([1]))
    assert found.last[0, 0] == pytest.approx(50 * (0.0102 + 60e-6) + 1e-6 * 49 * 50 / 2, rel=1e-6)
