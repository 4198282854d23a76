"""What a row of a table on spot follows: a policy for one deadline, or a piece of a market curve."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from planner.records import record
from planner.spot.policy.waiting import least_wait

if TYPE_CHECKING:
    from planner.arrays import Floats
    from planner.candidate_table import CandidateTable
    from planner.spot.market.states import SpotStates
    from planner.spot.policy.cost_curve import CurvePoint
    from planner.spot.policy.curve_pieces import CurvePiece
    from planner.spot.policy.policy_cache import Key, PolicyCache
    from planner.spot.policy.run import SpotRun
    from planner.spot.policy.switching_policy import WaitingRule


@record(frozen=True)
class SpotChoice:
    """A run, its market, and the point of its market curve that is chosen."""

    run: SpotRun
    states: SpotStates
    point: CurvePoint

    @property
    def ends(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return guaranteed hours, expected hours, dollars and spot share of the columns of both markets: equal."""
        one = self.point
        hours, finish, usd, share = (np.full(2, x) for x in (one.hours, one.finish_hours, one.usd, one.spot_share))
        return hours, finish, usd, share

    def with_less_waiting(
        self, policies: PolicyCache, most_usd: float, low_share: float
    ) -> tuple[SpotChoice, float] | None:
        """Return the policy of nearly the same dollars that waits least, and the price of waiting that it weighs."""
        found = least_wait(policies, self.run, self.states, self.point, most_usd, low_share)
        return None if found is None else (SpotChoice(found[0], self.states, found[1]), found[2])

    def in_full(self, policies: PolicyCache) -> SpotChoice:
        """Return the choice with all figures of its point, those that no candidate is compared by included."""
        if not math.isnan(self.point.usd_sd):
            return self
        (point,) = policies.best_points([(self.run, self.states, self.point.hours)])
        return replace(self, point=point)

    def at_waiting_price(self, policies: PolicyCache, usd_per_hour: float) -> SpotChoice:
        """Return the best policy within the same time where an hour of waiting costs more by this price."""
        run = replace(self.run, standing_usd_per_hour=self.run.standing_usd_per_hour + usd_per_hour)
        (point,) = policies.best_points([(run, self.states, self.point.hours)])
        return SpotChoice(run, self.states, point)

    def rule(self, policies: PolicyCache) -> WaitingRule:
        """Return when a run that waits takes a spot machine."""
        return policies.rules([(self.run, self.states, self.point.hours)])[0]


@record(frozen=True)
class SpotPiece:
    """A run, its market, and a straight piece of its market curve, along which a row's share goes from 0 to 1.

    Only dollars are known along it: the expected hours stand for themselves at most, as the guaranteed ones.
    """

    run: SpotRun
    states: SpotStates
    piece: CurvePiece
    valued_usd_per_hour: float  # what an hour is worth, among the dollars of the piece, but on no bill

    @property
    def ends(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return what the columns of the two markets hold: the figures of either end, and the shares 0 and 1."""
        hours = np.asarray(self.piece.hours)
        return hours, hours, np.asarray(self.piece.usd), np.arange(2.0)

    def key(self, share: float) -> Key:
        """Return the run, its market and the guaranteed hours at a share of the piece."""
        begin, end = self.piece.hours
        return self.run, self.states, begin + share * (end - begin)

    def settle(
        self, figures: CandidateTable, share: float, policies: PolicyCache
    ) -> tuple[SpotChoice, CandidateTable, float]:
        """Return the best policy at a share of the piece, the table row with its figures, and its spot share."""
        run, states, hours = self.key(share)
        (point,) = policies.best_points([(run, states, hours)])
        begin, end = self.piece.usd
        later = point.finish_hours - hours
        more_usd = point.usd - (begin + share * (end - begin)) - self.valued_usd_per_hour * later
        exact = replace(
            figures,
            run_h=_in_both(figures.hours(share) - figures.start_h + later),
            late_h=_in_both(figures.late_hours(share) - figures.late_start_h),
            run_usd=_in_both(figures.cost_usd(share) - figures.fixed_usd + more_usd),
        )
        return SpotChoice(run, states, point), exact, point.spot_share


def _in_both(values: Floats) -> Floats:
    """Return a column (n,) for both markets (n, 2)."""
    return np.repeat(values[:, None], 2, axis=1)
