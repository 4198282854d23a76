"""The cost of interruptions of spot machines: repeated work, restarts, waiting.

All times are in one unit of the caller's choice.

Symbols: M mean up-time of the node group, D mean outage, a availability, R restart cost (boot, load, warm-up),
C stall per checkpoint, tau work between checkpoints.
Numbers: models/calibration/stages.yaml (node groups, checkpoints) and uncertainty.yaml (wall_spread).
Sources of form: Young 1974, Daly 2006 (exponential up-times).
The factor for heavier tails, the node-group exponents and the share of Young's interval come from published traces.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from planner.estimates.inputs import Coefficients, Numbers

_INFINITE_UPTIME = 1e15
"""Up-time of a machine that is never taken."""
_MAX_EXPONENT = 50.0
"""Exponent beyond which a run never ends; keeps the exponential finite."""


@dataclass(frozen=True)
class NodeGroupCoefficients(Coefficients):
    """The market of a node group of k instances relative to one, and the spacing of checkpoints."""

    gang_rate_exponent: float  # lambda_k = lambda * k^this
    gang_availability_exponent: float  # a_k = a * k^this
    interval_share_of_young: float
    heavy_tail_factor: float  # overhead of real up-times over that of exponential ones


class SpotAvailability(NamedTuple):
    """Spot statistics of one node group: mean up-time and outage, and the share of time that it is available."""

    mean_up: Any
    mean_outage: Any
    availability: Any


class InterruptedRun(NamedTuple):
    """A run of given length on a spot market."""

    interval: Any  # work between checkpoints
    inflation: Any  # paid time over run time, Phi_ht
    paid: Any  # machine time paid
    interruptions: Any  # expected number
    wall: Any  # expected, with waiting


def node_group_market(
    mean_up: Numbers, availability: Numbers, instances: Numbers, coefficients: NodeGroupCoefficients
) -> SpotAvailability:
    """Return the statistics of a node group that needs all `instances`, from those of a single one.

    Interruptions come in batches, so their rate grows more slowly than the group: k^0.8.
    """
    k = np.asarray(instances, dtype=float)
    up = np.asarray(mean_up) * np.exp(-coefficients.gang_rate_exponent * np.log(k))
    share = np.asarray(availability) * np.exp(coefficients.gang_availability_exponent * np.log(k))
    return SpotAvailability(up, up * (1.0 - share) / share, share)


def young_interval(stall: Numbers, mean_up: Numbers) -> Any:
    """Return the work between checkpoints that loses least, to first order (Young 1974): sqrt(2 C M)."""
    return np.sqrt(2.0 * np.asarray(stall) * np.minimum(mean_up, _INFINITE_UPTIME))


def paid_inflation(mean_up: Numbers, restart: Numbers, stall: Numbers, interval: Numbers) -> Any:
    """Return Phi, paid machine time over work done, for exponential up-times (Daly 2006).

    Phi = M e^(R/M) (e^((tau+C)/M) - 1) / tau, about 1 + C/tau + (tau/2 + R)/M while M is long. `interval` > 0.
    """
    up = np.minimum(mean_up, _INFINITE_UPTIME)
    tau = np.asarray(interval, dtype=float)
    restarted = np.exp(np.minimum(np.asarray(restart) / up, _MAX_EXPONENT))
    return restarted * np.expm1(np.minimum((tau + stall) / up, _MAX_EXPONENT)) * up / tau


def add_heavy_tail(inflation: Numbers, coefficients: NodeGroupCoefficients) -> Any:
    """Return Phi_ht, the same for real up-times, of which many are short (1.4 times the overhead)."""
    return 1.0 + coefficients.heavy_tail_factor * (np.asarray(inflation) - 1.0)


def interrupted_run(
    run: Numbers,
    restart: Numbers,
    stall: Numbers,
    market: SpotAvailability,
    coefficients: NodeGroupCoefficients,
    outage_cv: Numbers = 1.0,
    write: Numbers = 0.0,
) -> InterruptedRun:
    """Return the paid and expected wall time of `run` units of work on a spot node group; all shapes broadcast.

    wall = (1 - a) D (1 + CV^2)/2 + Phi_ht run + interruptions * D.
    The first term is the wait of a job that arrives at any moment: it meets an outage with chance 1 - a
    and then waits out the rest of it.
    Waiting is not proportional to the work: a short job on a bad market mostly waits once or not at all.
    A checkpoint is safe `write` after it was taken: the interval is at least that long, and an interruption loses the
    write in flight, which counts like a longer restart.
    """
    length = np.asarray(run, dtype=float)
    spaced = coefficients.interval_share_of_young * young_interval(stall, market.mean_up)
    # A free checkpoint would be taken all the time; a job shorter than the interval takes one, at its end.
    shortest = np.maximum(1e-9 * np.minimum(market.mean_up, _INFINITE_UPTIME), np.finfo(float).tiny)
    spaced = np.maximum(spaced, write)
    interval = np.maximum(np.minimum(spaced, length), shortest)
    lost = restart + np.where(spaced < length, write, 0.0)
    inflation = add_heavy_tail(paid_inflation(market.mean_up, lost, stall, interval), coefficients)
    paid = inflation * length
    interruptions = paid / np.minimum(market.mean_up, _INFINITE_UPTIME)
    wait = (1.0 - market.availability) * market.mean_outage * (1.0 + np.square(outage_cv)) / 2.0
    wall = wait + paid + interruptions * market.mean_outage
    return InterruptedRun(interval, inflation, paid, interruptions, wall)


def wall_quantile_factor(confidence: float, spread: float) -> float:
    """Return the factor on the expected wall time that is met with probability `confidence`: exp(spread * z(p)).

    The published replays reach 1.3 at 0.9 (spread 0.205). ValueError outside (0, 1).
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a probability must lie between 0 and 1, not {confidence}")
    return math.exp(spread * NormalDist().inv_cdf(confidence))
