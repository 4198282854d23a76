"""The points of a log: what it says at one logged step, in the order of its lines, whatever its format."""

from __future__ import annotations

import math
from dataclasses import field

from planner.records import record


@record(frozen=True)
class LogPoint:
    """What a log says at one step; None for what it does not state."""

    line: int
    step: int
    """Optimizer steps done."""
    clock: float | None = None
    """Seconds since the epoch."""
    elapsed: float | None = None
    """Seconds since the process began to train."""
    seconds: float | None = None
    """Seconds of one step, as the log computes them."""
    loss: float | None = None

    @property
    def is_diverged(self) -> bool:
        """Whether the loss is no finite number."""
        return self.loss is not None and not math.isfinite(self.loss)


@record(frozen=True)
class LogHistory:
    """All that one log says of the progress of a run; nothing is checked yet."""

    file: str
    kind: str
    """The format, as users call it."""
    points: tuple[LogPoint, ...] = ()
    total_steps: int | None = None
    whole: tuple[int, float] | None = None
    """Steps and seconds of the run, where only its end is timed."""
    tokens_per_step: float | None = None
    micro_batch: int | None = None
    peak_gib: float | None = None
    peak_kind: str | None = None
    utilisation: float | None = None
    """Mean share of time in which the GPUs computed."""
    remarks: tuple[str, ...] = field(default=())
    """What is wrong with the log, and what was done about it."""
