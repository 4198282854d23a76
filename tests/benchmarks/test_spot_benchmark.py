"""The spot benchmark: its markets are what they claim to be, its sums are right, and its targets can be missed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.spot import benchmark as spot
from benchmarks.spot.fleets import gang_paths, judge_recorded
from benchmarks.spot.judge import POLICIES, SLACKS, Costs, ages_before, deadline_of, job, judge, summary
from benchmarks.spot.units import check_markets, unit_rows
from benchmarks.spot.waiting import replayed, waiting_row, waiting_targets, waiting_text
from benchmarks.spot.zones import SETS, draw_of, published, zone
from planner.spot.states import Trace
from planner.units import HOUR


def test_the_table_of_durations_is_pairs_with_quantiles_that_rise() -> None:
    """Both sets hold an up row and a down row per zone, and every row can be drawn from with its own mean."""
    assert [len(published(kind)) for kind in SETS] == [13, 8]
    for up, down in (pair for kind in SETS for pair in published(kind)):
        assert (up["zone"], up["machine"], up["trace"]) == (down["zone"], down["machine"], down["trace"])
        for row in (up, down):
            hours = draw_of(row, 1.0)(np.random.default_rng(1), 100_000)
            assert hours.mean() == pytest.approx(float(row["mean_s"]) / HOUR, rel=0.03)


def test_a_zone_is_the_same_every_time_and_known_from_before_its_windows() -> None:
    """By its number alone; windows lie in the second half, five of them, as long as the longest deadline."""
    one, again, other = zone("one V100", 3), zone("one V100", 3), zone("one V100", 4)
    assert (one.up == again.up).all()
    assert one.states == again.states
    assert one.states != other.states
    assert one.up.shape == (5, 1106)


def test_ages_at_the_start_of_windows_reach_back_before_them() -> None:
    """Hours since the state began, counted from the beginning of the path at most."""
    up = np.array([True, True, False, False, False, True])
    assert ages_before(up, [0, 1, 2, 4, 5], 0.5).tolist() == [0.0, 0.5, 0.0, 1.0, 0.0]


@pytest.mark.long
def test_costs_are_compared_window_by_window() -> None:
    """Two zones at all deadlines: nobody beats the optimum, on demand is what it costs, and nobody is late."""
    rows = judge([zone("one V100", number) for number in (0, 1)], job(48.0))
    for costs in (row[slack] for row in rows for slack in SLACKS):
        assert costs.on_demand == pytest.approx(3 * (48 + 1 / 6))
        for name in POLICIES:
            assert (costs.by_policy[name] >= costs.optimum - 1e-6).all()
            assert costs.late[name] == 0


def test_the_summary_weighs_windows_alike() -> None:
    """Ratios of sums, worked out by hand; two markets that agree leave no error."""
    cost = Costs(np.array([10.0, 10]), np.array([4.0, 6]), {name: np.array([5.0, 6]) for name in POLICIES}, {})
    cost = replace(cost, late=dict.fromkeys(POLICIES, 1))
    row = summary([dict.fromkeys(SLACKS, cost)] * 2)[0]
    assert row["windows"] == 4
    assert row["optimum_percent_of_on_demand"] == pytest.approx(50)
    assert row["planned"]["percent_of_on_demand"] == pytest.approx(55)
    assert row["planned"]["percent_above_optimum"] == pytest.approx(10)
    assert row["planned"]["standard_error"] == pytest.approx(0)
    assert row["planned"]["late"] == 2


def test_a_gang_loses_machines_with_its_fleet_and_gets_them_back_first() -> None:
    """A gang of all machines goes down with the first loss and comes back with the machine; a gang of one, at times."""
    fleet = Trace("fleet", 60.0, np.array([4, 4, 3, 3, 4, 2, 3, 4]))
    whole = gang_paths(fleet, 4, 5, np.random.default_rng(1))
    assert (whole == np.array([1, 1, 0, 0, 1, 0, 0, 1], bool)).all()
    one = gang_paths(fleet, 1, 4000, np.random.default_rng(1))
    assert one[:, 2].mean() == pytest.approx(3 / 4, abs=0.03)
    assert one[:, 4].all()
    assert one[:, 5].mean() == pytest.approx(2 / 4, abs=0.03)


@pytest.mark.long
def test_recorded_markets_are_judged_and_what_cannot_be_is_told(tmp_path: Path) -> None:
    """A zone of one machine gives a table, a trace that is too short a reason."""
    turns = np.random.default_rng(2).random(2400) < 0.15
    long = np.logical_xor.accumulate(turns).astype(int).tolist()
    for name, data in (("long", long), ("short", long[:200])):
        (tmp_path / f"{name}.json").write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": data}))
    found = judge_recorded([tmp_path])
    assert [len(rows) for rows in found.tables.values()] == [len(SLACKS)]
    assert len(found.left_out) == 1
    assert "shorter than a deadline" in found.left_out[0]


@pytest.mark.long
def test_curves_are_checked_against_replays_of_every_form() -> None:
    """One market drawn from age bands and one of each other form: all within their limits, all deadlines met."""
    rows = unit_rows(check_markets(1, outside=1))
    assert [row["markets"] for row in rows] == [1, 1, 1, 1]
    assert all(row["within_limit"] == 1 and row["least_met_percent"] == 100 for row in rows)


def test_targets_fail_where_figures_do() -> None:
    """Too far above the optimum, dearer than a rule, late, off the curve, slow: each is told."""
    good = {"percent_of_on_demand": 50.0, "percent_above_optimum": 3.0, "standard_error": 0.1, "late": 0}
    row = {"deadline_over_work": 1.08, "windows": 5, **{name: dict(good) for name in POLICIES}}
    unit = {"form": "x", "limit_percent": 5.0, "within_limit": 2, "markets": 2, "worst_error_percent": 1.0}
    unit["least_met_percent"] = 100.0

    def found() -> dict[str, object]:
        rows = [{**row, **{name: dict(good) for name in POLICIES}}]
        return {"tables": {"zones: one V100, 48 h of work": rows}, "units": [dict(unit)], "runs_per_second": {"a": 2e4}}

    assert all(met for _, met in spot.targets_met(found()))
    changes = (
        ("tables", "percent_above_optimum", 7.1, 0),
        ("tables", "percent_of_on_demand", 50.1, 1),
        ("tables", "late", 1, 2),
        ("units", "within_limit", 1, 3),
        ("runs_per_second", "a", 9_999.0, 4),
    )
    for where, what, value, line in changes:
        spoilt = found()
        part = spoilt[where]
        if where == "tables":
            part = next(iter(part.values()))[0]["planned"]  # type: ignore[attr-defined]
        elif where == "units":
            part = part[0]  # type: ignore[index]
        part[what] = value  # type: ignore[index]
        assert [number for number, (_, met) in enumerate(spot.targets_met(spoilt)) if not met] == [line]


@pytest.mark.slow
def test_less_waiting_is_measured_against_least_dollars() -> None:
    """Both policies on the same windows: less waiting ends no later, and a target can be missed."""
    run, one = job(48.0), zone("one V100", 0)
    strict, less = replayed(run, one.states, deadline_of(run, 1.92, one.tick_hours), one)
    assert less[1] < strict[1]  # hours waited
    assert less[2] <= strict[2]  # of these while the market is up
    row = waiting_row("a zone", [(strict, less)])
    assert row["more_usd_percent"] == pytest.approx(100 * (less[0] / strict[0] - 1))
    bad = waiting_row("bad", [(np.array([100.0, 5.0, 2.0]), np.array([102.0, 4.0, 1.9]))])
    assert [met for _, met in waiting_targets([bad])] == [False, False]
    assert any("102.00" in line for line in waiting_text([bad]))
