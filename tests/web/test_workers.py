"""Processes that solve: the newest request counts, and a process that ends is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.web import workers
from planner.web.workers import Broken, Busy, Queue, Sessions, Superseded
from tests.helpers.hangs import HANG_SECONDS
from tests.helpers.pages import opened
from tests.helpers.reports import OPTIONS

pytestmark = [pytest.mark.slow, pytest.mark.long]


def request(*settings: str) -> dict[str, Any]:
    return {"task": "plan", "settings": settings, "reference": (), "width": 700}


def never_answer(setting: str, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Halt the process that is asked with a setting; return what says that it was asked."""
    ask, asked = workers.Worker.ask, threading.Event()

    def halted(self: workers.Worker, request: dict[str, Any], limit_seconds: float) -> dict[str, Any]:
        if setting in request["settings"]:
            with contextlib.suppress(ProcessLookupError):  # it has been ended already
                os.kill(self._process.pid, signal.SIGSTOP)
            asked.set()
        return ask(self, request, limit_seconds)

    monkeypatch.setattr(workers.Worker, "ask", halted)
    return asked


def test_a_superseded_solve_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without grace the process of the first request is ended, and the second gets its own answer."""
    monkeypatch.setattr(workers, "GRACE_SECONDS", 0.0)
    asked = never_answer("limits.budget_usd=3", monkeypatch)
    queue = Queue(opened(tmp_path).scenario, OPTIONS, HANG_SECONDS)

    async def two() -> list[Any]:
        first = asyncio.create_task(queue.ask(request("limits.budget_usd=3")))
        while not asked.is_set():
            await asyncio.sleep(0.01)
        second = asyncio.create_task(queue.ask(request("limits.budget_usd=4")))
        return await asyncio.gather(first, second, return_exceptions=True)

    try:
        first, second = asyncio.run(two())
    finally:
        queue.stop()
    assert isinstance(first, Superseded)
    assert second["usd"] > 0


def test_a_process_that_ends_is_replaced(tmp_path: Path) -> None:
    """Whoever waits for it is answered with an error, and the next request starts another process."""
    queue = Queue(opened(tmp_path).scenario, OPTIONS, HANG_SECONDS)

    async def killed() -> tuple[Any, Any]:
        await queue.ask(request())
        assert queue._worker is not None
        queue._worker._process.kill()
        queue._worker._process.join()
        return await queue.ask(request()), queue.is_idle

    try:
        answer, is_idle = asyncio.run(killed())
    finally:
        queue.stop()
    assert answer["usd"] > 0 and is_idle


def ask_and_kill(queue: Queue, times: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the answer to a request whose process is killed as soon as it has it, the first times."""
    ask = workers.Worker.ask
    left = [times]

    def killed(self: workers.Worker, *arguments: Any) -> dict[str, Any]:
        if left[0]:
            left[0] -= 1
            self._process.kill()
        return ask(self, *arguments)

    monkeypatch.setattr(workers.Worker, "ask", killed)

    async def asked() -> Any:
        return await asyncio.gather(queue.ask(request()), return_exceptions=True)

    try:
        (found,) = asyncio.run(asked())
    finally:
        queue.stop()
    assert left == [0]
    return found


def test_a_request_whose_process_ends_gets_its_answer_from_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page sees no error of a process that the system killed once."""
    found = ask_and_kill(Queue(opened(tmp_path).scenario, OPTIONS, HANG_SECONDS), 1, monkeypatch)
    assert found["usd"] > 0


def test_a_request_that_ends_two_processes_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is an error and not a wait for ever."""
    assert isinstance(ask_and_kill(Queue(opened(tmp_path).scenario, OPTIONS, HANG_SECONDS), 2, monkeypatch), Broken)


def test_a_closed_queue_answers_at_once_and_starts_nothing(tmp_path: Path) -> None:
    """Also while its first process starts, which takes a second: Ctrl-C waits for nobody."""
    queue = Queue(opened(tmp_path).scenario, OPTIONS, HANG_SECONDS)

    async def closed() -> list[Any]:
        running = asyncio.create_task(queue.ask(request()))
        await asyncio.sleep(0)
        queue.close()
        return [*await asyncio.gather(running, return_exceptions=True)]

    assert isinstance(asyncio.run(closed())[0], Broken)


def test_processes_that_hold_too_much_memory_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the page unused for longest first; a page whose process ended is answered by another."""
    sessions = Sessions(opened(tmp_path).scenario, OPTIONS, HANG_SECONDS)

    async def two() -> list[bool]:
        await sessions.ask("a", request())
        (first,) = [queue for queue in sessions._queues() if queue.mebibytes > 0]
        monkeypatch.setattr(workers, "MOST_MEBIBYTES", 1.5 * first.mebibytes)
        await sessions.ask("b", request())
        held = [queue.mebibytes > 0 for queue in sessions._queues()]
        assert (await sessions.ask("a", request()))["usd"] > 0
        return [*held, *(queue.mebibytes > 0 for queue in sessions._queues())]

    try:
        held = asyncio.run(two())
    finally:
        sessions.stop()
    assert held.count(True) == 2 and held.index(True) == 3  # the plan of the second page, then of the first again


def test_a_process_is_replaced_after_so_many_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not say how much memory it holds, too."""
    monkeypatch.setattr(workers, "MOST_ANSWERS", 3)
    monkeypatch.setattr(workers.signal, "signal", lambda *_: None)
    monkeypatch.setattr(workers, "_end_with_server", lambda: None)
    given = iter([(opened(tmp_path).scenario, OPTIONS), *[request()] * 9])
    answered: list[Any] = []
    connection: Any = SimpleNamespace(recv=given.__next__, send=answered.append)
    workers._serve(connection, str(tmp_path))
    assert len(answered) == 3 and all(len(pair) == 2 for pair in answered)


def test_the_page_unused_for_longest_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One page more than allowed takes the place of an idle one; where none is idle it has to wait."""
    monkeypatch.setattr(workers, "MOST_SESSIONS", 1)
    sessions = Sessions(opened(tmp_path).scenario, OPTIONS, HANG_SECONDS)

    async def three() -> list[Any]:
        await sessions.ask("a", request())
        await sessions.ask("b", request())
        running = asyncio.create_task(sessions.ask("b", request("limits.budget_usd=3")))
        await asyncio.sleep(0)
        refused = await asyncio.gather(sessions.ask("c", request()), return_exceptions=True)
        return [*refused, await running]

    try:
        refused, answer = asyncio.run(three())
    finally:
        sessions.stop()
    assert isinstance(refused, Busy) and answer["usd"] > 0


def test_what_nobody_waits_for_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A curve that is not wanted any more ends with its process, and the next request has an answer."""
    sessions = Sessions(opened(tmp_path).scenario, OPTIONS, HANG_SECONDS)
    curve = {**request(), "task": "frontier"}
    asked = never_answer("limits.budget_usd=3", monkeypatch)

    async def dropped() -> list[Any]:
        sessions.drop("a", "frontier")  # a page that asked for nothing yet
        await sessions.ask("a", curve)
        running = asyncio.create_task(sessions.ask("a", {**curve, "settings": ("limits.budget_usd=3",)}))
        while not asked.is_set():
            await asyncio.sleep(0.01)
        sessions.drop("a", "frontier")
        return [*await asyncio.gather(running, return_exceptions=True), await sessions.ask("a", curve)]

    try:
        first, second = asyncio.run(dropped())
    finally:
        sessions.stop()
    assert isinstance(first, Superseded) and second["data"]
