"""Processes that solve: the newest request counts, and a process that ends is replaced."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from planner.web import workers
from planner.web.workers import Broken, Busy, Queue, Sessions, Superseded
from tests.helpers.pages import opened
from tests.helpers.reports import OPTIONS

pytestmark = [pytest.mark.slow, pytest.mark.long]


def request(*settings: str) -> dict[str, Any]:
    return {"task": "plan", "settings": settings, "reference": (), "width": 700}


def test_a_superseded_solve_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without grace the process of the first request is ended, and the second gets its own answer."""
    monkeypatch.setattr(workers, "GRACE_SECONDS", 0.0)
    queue = Queue(opened(tmp_path).scenario, OPTIONS, 60.0)

    async def two() -> list[Any]:
        first = asyncio.create_task(queue.ask(request("limits.budget_usd=3")))
        await asyncio.sleep(0.05)
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
    queue = Queue(opened(tmp_path).scenario, OPTIONS, 60.0)

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


def test_a_process_that_ends_in_the_middle_is_reported(tmp_path: Path) -> None:
    """The answer is an error and not a wait for ever."""
    queue = Queue(opened(tmp_path).scenario, OPTIONS, 60.0)

    async def killed() -> Any:
        await queue.ask(request())
        task = asyncio.create_task(queue.ask(request("limits.budget_usd=3")))
        await asyncio.sleep(0.01)
        assert queue._worker is not None
        queue._worker._process.kill()
        return await asyncio.gather(task, return_exceptions=True)

    try:
        (found,) = asyncio.run(killed())
    finally:
        queue.stop()
    assert isinstance(found, Broken)


def test_the_page_unused_for_longest_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One page more than allowed takes the place of an idle one; where none is idle it has to wait."""
    monkeypatch.setattr(workers, "MOST_SESSIONS", 1)
    sessions = Sessions(opened(tmp_path).scenario, OPTIONS, 60.0)

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


def test_what_nobody_waits_for_is_stopped(tmp_path: Path) -> None:
    """A curve that is not wanted any more ends with its process, and the next request has an answer."""
    sessions = Sessions(opened(tmp_path).scenario, OPTIONS, 60.0)
    curve = {**request(), "task": "frontier"}

    async def dropped() -> list[Any]:
        sessions.drop("a", "frontier")  # a page that asked for nothing yet
        await sessions.ask("a", curve)
        running = asyncio.create_task(sessions.ask("a", {**curve, "settings": ("limits.budget_usd=3",)}))
        await asyncio.sleep(0.01)
        sessions.drop("a", "frontier")
        return [*await asyncio.gather(running, return_exceptions=True), await sessions.ask("a", curve)]

    try:
        first, second = asyncio.run(dropped())
    finally:
        sessions.stop()
    assert isinstance(first, Superseded) and second["data"]
