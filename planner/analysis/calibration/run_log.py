"""The content of a log, whatever its format, and its seconds per step without the warm-up."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from planner.errors import Fault, InputError
from planner.records import record
from planner.results.calibration import StepTimes

if TYPE_CHECKING:
    from collections.abc import Sequence

MIN_TIMED_STEPS = 5
"""Fewest timed steps (or intervals of several steps) for a median."""
MAX_STEP_SECONDS, MIN_STEP_SECONDS = 6 * 3600.0, 1e-4
"""Range of plausible seconds of an optimizer step: outside it, another unit is meant."""
NORMAL_PER_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
WARM_UP_DEVIATIONS, WARM_UP_SHARE = 3.0, 0.05
"""A first step belongs to the warm-up where it is slower than later ones by the larger of the two."""


@record(frozen=True)
class RunLog:
    """One log; None for what it does not state."""

    file: str
    kind: str  # the format, as users call it
    step_seconds: tuple[float, ...] = ()  # of single steps, or means of intervals, in order
    whole: tuple[int, float] | None = None  # steps and seconds of the run, warm-up and pauses in it
    tokens_per_step: float | None = None  # as the log counts: padding usually included
    micro_batch: int | None = None
    global_batch: int | None = None
    peak_gib: float | None = None
    peak_kind: str | None = None  # allocated, reserved or device


def compute_pace(log: RunLog) -> StepTimes | None:
    """Return the pace of a log, None without times; `InputError` where it is too short or of another unit."""
    if log.step_seconds:
        pace = _of_steps(log)
    elif log.whole is not None:
        steps, seconds = log.whole
        if steps < MIN_TIMED_STEPS:
            raise fault(log.file, 1, f"only {steps} steps in all", f"at least {MIN_TIMED_STEPS} are needed")
        pace = StepTimes(seconds=seconds / steps, spread=None, steps=steps, dropped=0)
    else:
        return None
    if not MIN_STEP_SECONDS <= pace.seconds <= MAX_STEP_SECONDS:
        what = f"{pace.seconds:.3g} seconds per optimizer step"
        raise fault(log.file, 1, what, "give seconds; name a column step_time_ms where it counts milliseconds")
    return pace


def _of_steps(log: RunLog) -> StepTimes:
    warm = count_warm_up_steps(log.step_seconds)
    kept = log.step_seconds[warm:]
    if len(kept) < MIN_TIMED_STEPS:
        what = f"only {len(kept)} timed steps" + (f" after {warm} of warm-up" if warm else "")
        raise fault(log.file, 1, what, f"at least {MIN_TIMED_STEPS} are needed: let the run continue for longer")
    middle, deviation = _median_deviation(kept)
    spread = deviation / middle if middle > 0 else 0.0
    return StepTimes(seconds=middle, spread=spread, steps=len(kept), dropped=warm)


def _median_deviation(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median, and the median deviation from it in standard deviations of a normal distribution."""
    middle = median(seconds)
    return middle, NORMAL_PER_MAD * median(abs(one - middle) for one in seconds)


def count_warm_up_steps(seconds: Sequence[float]) -> int:
    """Return how many first steps are slower than the second half of the run; at most half of all.

    Compilation, allocation and full caches take some steps; later pauses are left to the median.
    """
    half = len(seconds) // 2
    usual, deviation = _median_deviation(seconds[half:])
    bound = usual + max(WARM_UP_DEVIATIONS * deviation, WARM_UP_SHARE * usual)
    return next((number for number, one in enumerate(seconds[:half]) if one <= bound), half)


def fault(file: str, line: int, what: str, fix: str, where: str = "") -> InputError:
    """Return an error with one fault of a log."""
    return InputError([Fault(file, line, where, what, fix)])
