"""Logs of lines: torchtitan, Megatron and the console of Transformers, for `calibrate` and `track` alike."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.analysis.line_logs import read_line_log
from planner.analysis.log_files import read_log
from planner.analysis.logged_steps import LogPoint, compute_pace, split_attempts, stamp_seconds
from planner.errors import InputError
from tests.helpers import run_logs

STEPS = range(10, 201, 10)


@pytest.mark.parametrize(
    ("text", "kind", "peak"),
    [
        (run_logs.torchtitan(STEPS, 12.0), "torchtitan log", (18.5, "reserved")),
        (run_logs.megatron(STEPS, 12.0), "Megatron log", (16.0, "allocated")),
        (run_logs.console(STEPS, 12.0), "console of Transformers", (None, None)),
        (run_logs.json_lines(STEPS, 12.0), "console of Transformers", (None, None)),
    ],
)
def test_calibrate_reads_what_track_reads(
    tmp_path: Path, text: str, kind: str, peak: tuple[float | None, str | None]
) -> None:
    """12 s per step in every format, and the peak where the log has one."""
    path = tmp_path / "log"
    path.write_text(text)
    log = read_log(str(path))
    pace = compute_pace(log)
    assert pace is not None and pace.seconds == pytest.approx(12.0, rel=1e-3)
    assert (log.kind, log.peak_gib, log.peak_kind) == (kind, *peak)


def test_every_rank_may_print_and_colours_are_no_part_of_a_line() -> None:
    """The first line of a step counts; escape codes lie around every figure of torchtitan."""
    line = "[titan] 2026-02-24 19:46:17,508 - root - INFO - \x1b[31mstep:  4  \x1b[32mloss:  7.62585\x1b[39m\n"
    log = read_line_log(line * 8 + line.replace("4  ", "5  ").replace(":17", ":19"), "log")
    assert log is not None and [one.step for one in log.points] == [4, 5]
    assert log.points[1].clock is not None and log.points[0].clock is not None
    assert log.points[1].clock - log.points[0].clock == pytest.approx(2.0)


def test_the_bar_of_an_evaluation_is_not_that_of_the_training() -> None:
    """Nor is one with a description; losses belong to the step of the bar before them."""
    log = read_line_log(run_logs.console([1, 2, 3], 5.0), "log")
    assert log is not None and [one.step for one in log.points] == [1, 2, 3] and log.total_steps == 708
    assert [one.loss for one in log.points] == [1.21, 1.22, 1.23]


def test_losses_before_any_step_are_counted() -> None:
    """Transformers prints no step, so without a bar there is nothing to place them at."""
    log = read_line_log("{'loss': 1.2, 'epoch': 0.1}\n{'loss': 1.1, 'step': 20}\n", "log")
    assert (
        log is not None and len(log.points) == 1 and log.remarks == ("1 lines of losses without a step are left out",)
    )


def test_calibrate_refuses_a_restarted_run(tmp_path: Path) -> None:
    """With the line of the restart; `track` takes it."""
    path = tmp_path / "log"
    path.write_text(run_logs.torchtitan(range(10, 101, 10), 5.0) + run_logs.torchtitan(range(60, 200, 10), 5.0, 900.0))
    with pytest.raises(InputError, match=r":11: steps go back from 100 to 60; give the state of one"):
        read_log(str(path))


POINTS = st.lists(
    st.builds(
        LogPoint,
        line=st.just(1),
        step=st.integers(0, 50),
        clock=st.none() | st.floats(0, 1e5),
        elapsed=st.none() | st.floats(0, 1e5),
        seconds=st.none() | st.floats(allow_nan=True, allow_infinity=True),
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.slow
@given(POINTS)
def test_attempts_hold_every_point_and_only_positive_times(points: list[LogPoint]) -> None:
    """Whatever a log says: no point is lost, steps of an attempt never go back, no interval is without time."""
    attempts = split_attempts(points)
    assert [one for attempt in attempts for one in attempt.points] == points
    for attempt in attempts:
        steps = [one.step for one in attempt.points]
        assert steps == sorted(steps)
        assert all(0 < one.seconds < float("inf") and one.steps > 0 for one in (*attempt.intervals, *attempt.stalls))


@pytest.mark.slow
@given(st.text(max_size=300))
def test_any_text_is_read_or_none(text: str) -> None:
    """No text is an error of ours."""
    log = read_line_log(text, "log")
    assert log is None or log.points


@pytest.mark.parametrize("zone", ["Z", " UTC", " GMT", "+00:00"])
def test_a_stamp_in_universal_time_is_the_same_moment_in_every_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine in Tokyo reads it as one in London does; 2026-11-25 09:00 is 1,795,597,200 s after 1970."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert stamp_seconds(f"2026-11-25 09:00:00{zone}") == 1_795_597_200
        assert stamp_seconds("2026-11-25 09:00:00") == 1_795_597_200 - 9 * 3600
    finally:
        monkeypatch.undo()
        time.tzset()
