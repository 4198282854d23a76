"""Small fleets, drawn or written down, and the least dollars of each by trying everything."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from planner.services.fleet_problem import FleetProblem, most_machines


def fleet(
    load: list[float], capacity: list[float], usd: list[float], start: list[float], **more: object
) -> FleetProblem:
    """Return a problem of kinds on demand, one GPU and one replica each, unless `more` says otherwise."""
    kinds = len(capacity)
    problem = FleetProblem(
        load=np.asarray(load),
        capacity=np.asarray(capacity),
        usd=np.asarray(usd),
        start_usd=np.asarray(start),
        gpus=np.ones(kinds, dtype=np.int64),
        replicas=np.ones(kinds, dtype=np.int64),
        committed=np.zeros(kinds, dtype=bool),
        group=np.full(kinds, -1),
        availability=np.zeros(0),
        offer=np.arange(kinds),
        provider=np.arange(kinds),
    )
    return replace(problem, **more)  # type: ignore[arg-type]


def brute_force(problem: FleetProblem) -> float:
    """Return the least dollars of all fleets of all hours, with one number of committed machines; infinite without."""
    most = most_machines(problem).tolist()
    every = np.asarray(list(itertools.product(*(range(count + 1) for count in most))), dtype=float)
    fits = np.stack([problem.carries(every, load) for load in problem.load.tolist()])
    committed = every[:, problem.committed]
    groups = np.unique(committed, axis=0) if committed.shape[1] else [np.zeros(0)]
    return min(
        _least(problem, every[same], fits[:, same]) for one in groups if (same := (committed == one).all(1)).any()
    )


def _least(problem: FleetProblem, fleets: np.ndarray, fits: np.ndarray) -> float:
    """Return the least dollars of a circle of hours, each with one of some fleets (f, kinds): from each back to it."""
    start = np.where(problem.committed, 0.0, problem.start_usd)
    moves = np.maximum(fleets[None] - fleets[:, None], 0.0) @ start  # from a row to a column
    hour_usd = np.where(fits, fleets @ problem.usd, np.inf)
    paid = np.where(np.eye(len(fleets), dtype=bool), hour_usd[0], np.inf)  # first fleet, present fleet
    for usd in hour_usd[1:]:
        paid = np.min(paid[:, :, None] + moves[None], axis=1) + usd
    return float(np.min(paid + moves.T))


@st.composite
def small_fleets(draw: st.DrawFn) -> FleetProblem:
    """Return three kinds and four hours, in markets and with a stock as they come."""
    tenths = st.integers(1, 30).map(lambda one: one / 10)
    kinds, hours = 3, 4
    group = np.array(draw(st.lists(st.sampled_from([-1, -1, 0, 1]), min_size=kinds, max_size=kinds)))
    committed = np.array(draw(st.lists(st.booleans(), min_size=kinds, max_size=kinds))) & (group < 0)
    numbers = {
        name: np.array(draw(st.lists(tenths, min_size=size, max_size=size)))
        for name, size in (("load", hours), ("capacity", kinds), ("usd", kinds), ("start", kinds))
    }
    stock = draw(st.dictionaries(st.integers(0, kinds - 1), st.integers(0, 3), max_size=2))
    return fleet(
        numbers["load"].tolist(),
        np.maximum(numbers["capacity"], 0.8).tolist(),
        numbers["usd"].tolist(),
        np.where(committed, 0.0, numbers["start"] / 3).tolist(),
        group=group,
        committed=committed,
        stock=stock,
        min_replicas=draw(st.integers(0, 2)),
        availability=np.array(draw(st.lists(st.sampled_from([0.6, 0.85, 0.96, 1.0]), min_size=2, max_size=2))),
        served_share=draw(st.sampled_from([0.0, 0.8, 0.95])),
        most_on_spot=draw(st.sampled_from([1.0, 0.6])),
    )
