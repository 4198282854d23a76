"""The market of a group of zones fitted to what was observed of them: stays, outages of all zones, chance to move on.

Few outages of all zones are seen: in half of the recorded V100 traces eight zones were all down two to twenty times.
What is seen of them is therefore weighed against the outages of the single zones, which are longer: a group that was
lucky while it was observed is not expected to be lucky for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.errors import Fault, InputError
from planner.records import record
from planner.spot.market.hazard_fit import MIN_ENDS, PRIOR_ENDS, count_ends, fit_ages
from planner.spot.market.market_fit import IntervalEstimate, MarketFit, availability_of, fit_durations, summarise_trace
from planner.spot.market.states import Ages, SpotStates
from planner.spot.market.stay_fit import fit_stays
from planner.spot.market.trace import MarketDurations
from planner.spot.market.zones import ZoneGroup, follow, hops, worth_of

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats, Integers

POOL_WEIGHT = MIN_ENDS
"""Ends that the outages of the single zones count as in each band: as many as a band needs for a rate of its own."""


@record(frozen=True)
class ZoneFit:
    """A group of zones as one market."""

    group: ZoneGroup
    runs: MarketDurations  # of a run that stays in a zone until it is lost
    stays: tuple[Ages, ...]  # up-times of each zone: where to go
    states: SpotStates  # of a run that stays in a zone until it is lost
    losses: int  # ends of a stay that were observed
    hops: int  # those after which another zone was up at once
    mean_usd_per_hour: float  # of the zones by the time spent in them

    def as_market(self) -> MarketFit:
        """Return the fit with its intervals, as one of a single market.

        The intervals of outages rest on those of all zones together where there were any, else of single zones.
        """
        step, runs = self.group.gap_hours, self.runs
        up = fit_durations(runs.up_hours, runs.up_censored, step)
        downs = (runs.down_hours, runs.down_censored)
        if not runs.down_hours.sum() > 0:
            downs = _single_outages(self.group)
        down = fit_durations(*downs, step, self.states.down)
        share, mean = 1 - self.states.instant, down.mean_hours
        lost = IntervalEstimate(share * mean.value, share * mean.low, share * mean.high)
        return MarketFit(
            instances=1,
            availability=availability_of(up.mean_hours, lost),
            up=up,
            down=down,
            held_out=None,
            traces=tuple(summarise_trace(self.group.trace(zone), 1) for zone in range(len(self.group.names))),
            instant=self.states.instant,
        )


def fit_zones(group: ZoneGroup) -> ZoneFit:
    """Fit the market that a run meets which stays in a zone until it is lost, and takes the best one that is up.

    `InputError` for fewer than two zones, or where no stay or no loss was observed.
    """
    if len(group.names) < 2:
        raise InputError([Fault(", ".join(group.names), 0, "", "is one zone", "name two or more to use them together")])
    stays = fit_stays(group)
    zone = follow(worth_of(group, stays), [0], group.up.shape[1])[0]
    runs = stay_runs(zone, group.gap_hours)
    moves = int(hops(zone).sum())
    losses = moves + int(((zone[:-1] > 0) & (zone[1:] == 0)).sum())
    if not runs.up_hours.sum() > 0 or not losses:
        what = f"{losses} losses of machines were observed in {group.up.shape[1] * group.gap_hours:.0f} h: too few"
        raise InputError([Fault(" + ".join(group.names), 0, "", what, "give longer traces")])
    up = fit_ages(runs.up_hours, runs.up_censored, step_hours=group.gap_hours)
    instant = min(moves, losses - PRIOR_ENDS) / losses  # an outage of all zones is possible, seen or not
    spent = np.bincount(zone, minlength=len(group.names) + 1)[1:]
    usd = float(np.average(group.usd_per_hour, weights=spent))
    return ZoneFit(group, runs, stays, SpotStates(up, _fit_outages(group, runs), instant), losses, moves, usd)


def stay_runs(zone: Integers, gap_hours: float) -> MarketDurations:
    """Return the stays in a zone and the outages of all zones of one path (steps,); the first of either is left out."""
    begins = np.flatnonzero(np.diff(zone, prepend=-1))
    lengths = np.diff(begins, append=zone.size) * gap_hours
    kinds: Flags = zone[begins] > 0
    cut = np.zeros(begins.size, dtype=bool)
    cut[-1:] = True
    lengths, kinds, cut = lengths[1:], kinds[1:], cut[1:]
    return MarketDurations(lengths[kinds], cut[kinds], lengths[~kinds], cut[~kinds])


def _fit_outages(group: ZoneGroup, runs: MarketDurations) -> Ages:
    """Return the outages of all zones, those of single zones added to them with the weight of `POOL_WEIGHT` ends.

    Per band (ends + w) / (hours + w / rate of the single zones), the mean of a Gamma posterior.
    """
    hours, censored = _single_outages(group)
    step = group.gap_hours
    if not hours.sum() > 0:  # no zone was ever seen to go down and stay down
        return Ages((0.0,), (1 / step,))
    begins = fit_ages(hours, censored, most_bands=2, step_hours=step).begins
    if runs.down_hours.sum() > 0:
        own = fit_ages(runs.down_hours, runs.down_censored, step_hours=step).begins
        begins = own if len(own) > 1 else begins
    bands = Ages(begins, (1.0,) * len(begins))
    pooled, spent = (one.sum(axis=0) for one in count_ends(bands, hours, censored))
    rates = np.maximum(pooled, PRIOR_ENDS) / np.maximum(spent, step)
    ended, known = (one.sum(axis=0) for one in count_ends(bands, runs.down_hours, runs.down_censored))
    return Ages(begins, tuple(((ended + POOL_WEIGHT) / (known + POOL_WEIGHT / rates)).tolist()))


def _single_outages(group: ZoneGroup) -> tuple[Floats, Flags]:
    """Return the hours of the outages of every zone, and which of them are censored."""
    each = [group.trace(zone).runs(1, with_first=False) for zone in range(len(group.names))]
    return np.concatenate([one.down_hours for one in each]), np.concatenate([one.down_censored for one in each])
