"""How long a call may take, whether it is still wanted, and who hears how far it is.

Long work asks `keep_going` every few tenths of a second. What is known of the call is a context variable: it need not
pass through every function, holds for one thread alone, and `asyncio.to_thread` takes it along.
"""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from planner.errors import CancelledError, TimeIsUpError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Found = TypeVar("Found")
Other = TypeVar("Other")

WHY_NONE = "why there is no plan"
"""Name of what explains a plan's lack, where it is left out."""
ASKED_EVERY_SECONDS = 0.1
"""How often a thread asks whether a solver's call is cancelled."""


class CallProgress(NamedTuple):
    """How far a call is: of `of` pieces of a step, `done` are done."""

    step: str
    done: int
    of: int


@dataclass(frozen=True)
class Watch:
    """What holds for a call: until when it may take, and whom it asks and tells."""

    until: float = math.inf  # on the clock
    is_cancelled: tuple[Callable[[], object], ...] = ()
    progress: Callable[[CallProgress], object] | None = None
    clock: Callable[[], float] = perf_counter
    may_end: bool = True  # False while what was found is put down: that is not left half done
    left_out: list[str] = field(default_factory=list)


_NOBODY = Watch()
_WATCH: ContextVar[Watch] = ContextVar("watch", default=_NOBODY)


@contextmanager
def watched(
    *,
    time_limit_seconds: float | None = None,
    progress: Callable[[CallProgress], object] | None = None,
    cancel: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Bound, follow and cancel the calls inside.

    Parameters
    ----------
    time_limit_seconds
        Wall time of all calls inside. A solve returns what it has by then: a plan that is not proven, or none (status
        `no_plan`); what explains it is left out by name, in its warnings. Another call raises `TimeIsUpError`.
    progress
        Is called with `CallProgress(step, done, of)` as work goes on, in the thread that works.
    cancel
        Is called every few tenths of a second; once it returns something true, the call raises `CancelledError`.
        `threading.Event().is_set` is such a function.

    Examples
    --------
    >>> with planner.watched(time_limit_seconds=60, cancel=lambda: False):
    ...     planner.solve("quickstart").status
    'optimal'
    """
    outer = _WATCH.get()
    until = outer.until if time_limit_seconds is None else min(outer.until, outer.clock() + time_limit_seconds)
    asked = outer.is_cancelled if cancel is None else (*outer.is_cancelled, cancel)
    with _watching(replace(outer, until=until, is_cancelled=asked, progress=progress or outer.progress)):
        yield


@contextmanager
def _watching(watch: Watch) -> Iterator[None]:
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def keep_going() -> None:
    """Raise CancelledError where the call is not wanted any more, TimeIsUpError where its time is up."""
    watch = _WATCH.get()
    if _is_cancelled(watch):
        raise CancelledError("cancelled by the caller")
    if watch.may_end and watch.clock() > watch.until:
        raise TimeIsUpError("the time limit is reached")


def tell(step: str, done: int, of: int) -> None:
    """Say how far the call is, and ask whether it goes on."""
    watch = _WATCH.get()
    if watch.progress is not None:
        watch.progress(CallProgress(step, done, of))
    keep_going()


def seconds_left(most: float | None = None) -> float | None:
    """Return the seconds that are left, at most `most`; None where nothing bounds them. At least 0."""
    watch = _WATCH.get()
    if math.isinf(watch.until) or not watch.may_end:
        return most
    left = max(0.0, watch.until - watch.clock())
    return left if most is None else min(left, most)


def canceller() -> Callable[[], bool] | None:
    """Return what says whether the call is cancelled, in any thread; None where no caller may cancel it."""
    watch = _WATCH.get()
    return partial(_is_cancelled, watch) if watch.is_cancelled else None


def _is_cancelled(watch: Watch) -> bool:
    return any(is_cancelled() for is_cancelled in watch.is_cancelled)


@contextmanager
def stopping(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` from another thread once the call is cancelled: for a solver that does not ask while it runs."""
    is_cancelled = canceller()
    if is_cancelled is None:
        yield
        return
    ended = threading.Event()

    def wait() -> None:
        while not ended.wait(ASKED_EVERY_SECONDS):
            if is_cancelled():
                stop()  # again until it has: the solver may not have begun

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    try:
        yield
    finally:
        ended.set()
        waiting.join()
    keep_going()


@contextmanager
def finishing() -> Iterator[None]:
    """Let what is inside come to its end, however late: a plan that is found is put down whole."""
    with _watching(replace(_WATCH.get(), may_end=False)):
        yield


def if_time(name: str, make: Callable[[], Found], otherwise: Other) -> Found | Other:
    """Return what `make` makes; `otherwise`, and the name among what is left out, where time is up before it ends."""
    watch = _WATCH.get()
    try:
        with _watching(replace(watch, may_end=True)):
            keep_going()
            return make()
    except TimeIsUpError:
        if name not in watch.left_out:
            watch.left_out.append(name)
        return otherwise


@contextmanager
def noting_what_is_left_out() -> Iterator[list[str]]:
    """Yield the names of what is left out inside for want of time."""
    with _watching(replace(_WATCH.get(), left_out=[])):
        yield _WATCH.get().left_out
