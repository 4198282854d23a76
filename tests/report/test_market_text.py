"""A fitted market as text: figures in units that say something, in 80 columns."""

from __future__ import annotations

import pytest

from planner.report.catalog_text import render_market, span
from planner.results.market_results import (
    EndsByAge,
    FittedDuration,
    HoldoutComparison,
    MarketFit,
    SpotBlock,
    TraceReport,
)
from planner.results.plan_parts import Spread


def fit(**changes: object) -> MarketFit:
    """Eight machines, mostly there."""
    bands = EndsByAge(ages_hours=(0, 0.217, 1.71), ends_per_hour=(4.077, 0.862, 0.1802))
    outage = EndsByAge(ages_hours=(0,), ends_per_hour=(3.846,))

    def durations(mean: float, low: float, high: float, cv: float | None) -> FittedDuration:
        rate = Spread(expected=1, low=0.5, high=2)
        spread = Spread(expected=mean, low=low, high=high)
        return FittedDuration(mean_hours=spread, known_to_factor=1.46, cv=cv, ends=62, hours=70, ends_per_hour=(rate,))

    seen = TraceReport(
        name="a-collection-of-many-zones/us-east-1-2020-11-20",
        hours=88.7,
        gap_seconds=60,
        most_machines=8,
        availability=0.83,
        interruptions=62,
        mean_up_hours=1.18,
        mean_outage_hours=None,
        machine_hours=600,
        machine_losses=99,
    )
    told: dict[str, object] = {
        "instances": 8,
        "hours": 88.7,
        "interruptions": 62,
        "availability": Spread(expected=0.812, low=0.72, high=0.87),
        "share_of_hours": 0.83,
        "up": durations(1.12, 0.75, 1.54, 2.3),
        "outage": durations(0.26, 0.19, 0.35, None),
        "spot": SpotBlock(
            availability=0.812, mean_up_hours=1.12, mean_outage_hours=0.26, up=bands, outage=outage, instances=8
        ),
        "held_out": HoldoutComparison(likelier_by=1.34, ends=123),
        "traces": (seen,),
        "notes": ("mind the gap",),
    }
    return MarketFit(**{**told, **changes})  # type: ignore[arg-type]


EXPECTED = """\
a-collection-of-many-zones/us-east-1-2...: 8 machines available 81 % of the time

spot:
  availability: 0.812
  mean_up_hours: 1.12
  mean_outage_hours: 0.26
  up: {ages_hours: [0, 0.217, 1.71], ends_per_hour: [4.077, 0.862, 0.1802]}
  outage: {ages_hours: [0], ends_per_hour: [3.846]}
  instances: 8

  Share    72 to 87 % of the time (83 % of the observed hours); 62 interruptions
           in 88.7 h: the mean up-time is known to a factor of 1.5
  Up       1.1 h on average (45 min to 1.5 h), 62 observed to the end, CV 2.3
           ends 4.08 times an hour up to an age of 13 min, then 0.862 up to an
           age of 1.7 h, then 0.18
  Outage   16 min on average (11 to 21 min), 62 observed to the end
           ends 3.85 times an hour at any age
  Ages     rates by age predict an end 1.34 times as well as one constant rate,
           on the held-out half (123 ends)
  Traces                                      hours avail.      up  outage  lost
           ...ny-zones/us-east-1-2020-11-20    88.7   83 %   1.2 h       -    62
  Notes    mind the gap"""


def test_the_whole_text_reads_as_it_should() -> None:
    """The verdict, the block, and what they rest on."""
    text = render_market(fit())
    assert max(map(len, text.splitlines())) <= 80
    assert text == EXPECTED


@pytest.mark.parametrize(
    ("held_out", "said"),
    [
        (None, "too few ends to compare"),
        (HoldoutComparison(likelier_by=1.0, ends=20), "predict an end no better than one constant rate"),
        (HoldoutComparison(likelier_by=0.8, ends=20), "predict an end worse (x 0.80) than one constant rate"),
    ],
)
def test_ages_that_do_not_help_are_not_praised(held_out: HoldoutComparison | None, said: str) -> None:
    """A gain below what chance gives is none."""
    assert said in " ".join(render_market(fit(held_out=held_out)).split())


def test_many_traces_are_cut_and_counted() -> None:
    """A list that nobody reads ends in a number."""
    traces = fit().traces * 25
    text = render_market(fit(traces=traces))
    assert text.startswith("25 traces: 8 machines available 81 % of the time, for 1.1 h on average")
    assert "and 5 more (--json lists them)" in text


@pytest.mark.parametrize(("hours", "said"), [(0.001, "1 min"), (0.5, "30 min"), (1.0, "1.0 h"), (1234.5, "1,234 h")])
def test_short_times_are_minutes(hours: float, said: str) -> None:
    """A tenth of an hour is no unit of an outage."""
    assert span(hours) == said
