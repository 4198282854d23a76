"""Processes that solve: one for the plan and one for the curve of each open page, stopped when superseded."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
import sys
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from planner.scenario.scenario import Scenario, SolveOptions

QUEUES = ("plan", "frontier", "file")
"""Requests that do not wait for, or stop, those of another kind."""
GRACE_SECONDS = 1.5
"""A solve that is superseded may run so long in all before its process is stopped: a new process costs more."""
MOST_SESSIONS = 4
"""Most pages that are open at one time; each has up to two processes with the candidates of its last solve."""


class Superseded(Exception):
    """A newer request of the same page has taken the place of this one."""


class TooLong(Exception):
    """A solve was stopped at the time limit."""


class Busy(Exception):
    """All pages are solving, and there is no room for one more."""


class Broken(Exception):
    """A process ended by itself."""


def _serve(connection: Connection, scenario: Scenario, options: SolveOptions) -> None:
    """Answer requests until the connection is closed; runs in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the server ends them
    from planner.web.engine import Engine

    engine = Engine(scenario, options)
    with contextlib.suppress(EOFError, OSError):
        while True:
            request = connection.recv()
            try:
                answer = engine.answer(request)
            except Exception as error:  # a fault of the planner must not end the page
                answer = {"error": f"internal error: {type(error).__name__}: {error}"}
            connection.send(answer)


def _context() -> Any:
    """Return how processes are started: from a process that has loaded the solvers already, where there is one."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["planner.web.engine"])
    return context


class Worker:
    """A process with an `Engine`."""

    def __init__(self, scenario: Scenario, options: SolveOptions):
        context = _context()
        self._here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, scenario, options), daemon=True)
        self._process.start()
        there.close()

    def ask(self, request: dict[str, Any], limit_seconds: float) -> dict[str, Any]:
        """Return the answer; `TooLong` after the limit, `Broken` where the process has ended."""
        try:
            self._here.send(request)
            if not self._here.poll(limit_seconds):
                self.stop()
                raise TooLong
            answer: dict[str, Any] = self._here.recv()
        except (EOFError, OSError):
            self.stop()
            raise Broken from None
        return answer

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return bool(self._process.is_alive())

    def stop(self) -> None:
        """End the process at once; the request that waits for its answer gets `Broken`."""
        with contextlib.suppress(OSError, ValueError):
            self._process.kill()
            self._process.join(5)


class Queue:
    """Requests of one kind of one page: the newest counts, one is solved at a time."""

    def __init__(self, scenario: Scenario, options: SolveOptions, limit_seconds: float):
        self._made_of = (scenario, options)
        self._limit = limit_seconds
        self._worker: Worker | None = None
        self._newest, self._began, self._free = 0, 0.0, asyncio.Event()
        self._free.set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being solved."""
        return self._free.is_set()

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer; raises `Superseded`, `TooLong` or `Broken`."""
        self._newest += 1
        mine = self._newest
        while not self._free.is_set():
            left = self._began + GRACE_SECONDS - time.monotonic()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._free.wait(), max(0.01, left))
            if mine != self._newest:
                raise Superseded
            if left <= 0 and not self._free.is_set() and self._worker is not None:
                await asyncio.to_thread(self._worker.stop)
        if mine != self._newest:
            raise Superseded
        self._free.clear()
        self._began = time.monotonic()
        try:
            return await asyncio.to_thread(self._ask, request)
        except Broken:
            raise (Superseded if mine != self._newest else Broken) from None
        finally:
            self._free.set()

    def drop(self) -> None:
        """Stop what is being solved: nobody waits for its answer any more."""
        if not self._free.is_set():
            self._newest += 1
            self.stop()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._worker is None or not self._worker.is_alive:
            self._worker = Worker(*self._made_of)
        return self._worker.ask(request, self._limit)

    def stop(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.stop()


class Sessions:
    """The queues of every open page by the number that the page gave itself."""

    def __init__(self, scenario: Scenario, options: SolveOptions, limit_seconds: float):
        self._made_of = (scenario, options, limit_seconds)
        self._open: OrderedDict[str, dict[str, Queue]] = OrderedDict()

    async def ask(self, session: str, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request of a page; the page unused for longest makes room. Raises `Busy` too."""
        if session not in self._open:
            if len(self._open) >= MOST_SESSIONS:
                self._make_room()
            self._open[session] = {kind: Queue(*self._made_of) for kind in QUEUES}
        self._open.move_to_end(session)
        return await self._open[session][request["task"]].ask(request)

    def drop(self, session: str, kind: str) -> None:
        """Stop what a page asked for and does not want any more."""
        if session in self._open:
            self._open[session][kind].drop()

    def _make_room(self) -> None:
        for name, queues in self._open.items():
            if all(queue.is_idle for queue in queues.values()):
                for queue in self._open.pop(name).values():
                    queue.stop()
                return
        raise Busy

    def stop(self) -> None:
        """End every process."""
        for queues in self._open.values():
            for queue in queues.values():
                queue.stop()
        self._open.clear()
