"""Whether jobs compete for something finite, so that it matters when each of them runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from planner.solving.optimise import optimise
from planner.solving.prepare import build_shared_limits
from planner.solving.slimming import starts_at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.candidate_table import CandidateTable
    from planner.scenario.scenario import SolveOptions
    from planner.solving.optimise import OptimisedChoice
    from planner.solving.prepare import PreparedScenario


def may_take_turns(prepared: PreparedScenario) -> bool:
    """Return whether a job may run later than another: several jobs and something finite, or times that are given."""
    scenario = prepared.scenario
    if scenario.needs_timetable:
        return True
    if len(scenario.jobs) < 2:
        return False
    return not starts_at_once(scenario, prepared.market, build_shared_limits(scenario, prepared.market))


def takes_turns(prepared: PreparedScenario, options: SolveOptions) -> bool:
    """Return whether `solve` makes a timetable of a scenario: jobs compete, and not all can start at once."""
    if not all(len(one.table) for one in prepared.screened) or not may_take_turns(prepared):
        return False
    if prepared.scenario.needs_timetable:
        return True
    return best_side_by_side(prepared, options) is None


def best_side_by_side(prepared: PreparedScenario, options: SolveOptions) -> OptimisedChoice | None:
    """Return the best choice of jobs that compete, if all can start at once; None where taking turns may be better.

    A near tie may prefer one machine for several jobs. Where the strict optimum keeps what they share, that is no
    reason to take turns: the order of ties decides within the shared limits then.
    """
    solved = optimise(prepared, options, side_by_side=False)
    if not solved.rows:
        return None
    if fits_side_by_side(prepared, solved.chosen, solved.shares):
        return solved
    strict, shares = solved.table.rows(solved.choice.strict_rows), solved.choice.strict_share.tolist()
    return optimise(prepared, options) if fits_side_by_side(prepared, strict, shares) else None


def fits_side_by_side(prepared: PreparedScenario, chosen: CandidateTable, shares: Sequence[float]) -> bool:
    """Return whether the chosen candidates, one per job, keep every limit at one time if all jobs start at once.

    A plan that is best without these limits and keeps them is best with them: no timetable is better. A reservation
    that several jobs could share saves nothing where it costs more than all jobs without it.
    """
    limits = build_shared_limits(prepared.scenario, prepared.market)
    gpus, machines = Counter[str](), Counter[str]()
    for row in range(len(chosen)):
        gpus[chosen.providers[chosen.provider[row]]] += int(chosen.gpus[row])
        machines[chosen.offers[chosen.offer[row]]] += max(1, int(chosen.instances[row]))
    if limits.max_gpus is not None and gpus.total() > limits.max_gpus:
        return False
    if any(count > limits.quota.get(name, count) for name, count in gpus.items()):
        return False
    if any(count > limits.stock.get(name, count) for name, count in machines.items()):
        return False
    reservations = [one.committed_usd for one in prepared.market.offers if one.is_reservation]
    return float(np.sum(chosen.cost_usd(np.asarray(shares)))) <= min(reservations, default=np.inf)
