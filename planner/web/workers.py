"""What the page shows, computed in processes of its own, stopped when superseded."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from multiprocessing.util import get_temp_dir
from typing import TYPE_CHECKING, Any

from planner.analysis.what_if_question import compare_solved, difference, library_of
from planner.errors import InputError, NoPlanError, PlannerError
from planner.library.schema import Library
from planner.loading.scenario_file import change_scenario
from planner.results.plan import Plan
from planner.results.what_if import WhatIf
from planner.scenario.scenario import Scenario, SolveOptions
from planner.solving.alternatives import best_by_place
from planner.solving.prepare import PreparedScenario, prepare
from planner.solving.solve import solve, solve_prepared
from planner.subjects import SubjectCurve, shown_by, subject_of
from planner.web.app_page import (
    change_parts,
    export_archive,
    figure_data,
    option_rows,
    plan_file,
    plan_parts,
    report_file,
    scene_data,
)
from planner.web.ended_folders import remove_when_ended

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection


# What the page shows, computed: plans, comparisons, frontiers and files; runs in a process of its own.


KEPT = 6
"""Plans that are kept with their candidates: the scenario as opened, the last moves, and pinned ones."""


@dataclass(frozen=True)
class Solved:
    """A scenario with its candidates and its plan.

    There are no candidates where `solve` first has to find a job's model, and none of a service.
    """

    scenario: Scenario
    prepared: PreparedScenario | None
    plan: Plan


class Engine:
    """Answers about one scenario and changes of it; each solve starts from the candidates of the last one."""

    def __init__(self, scenario: Scenario, options: SolveOptions):
        self.base, self.options = scenario.on_day(options.as_of), options
        self.kept: OrderedDict[tuple[str, ...], Solved] = OrderedDict()
        self.curves: OrderedDict[tuple[str, ...], SubjectCurve] = OrderedDict()
        self.last: PreparedScenario | None = None
        self.library: Library | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request of the page; faults of the input are part of the answer."""
        try:
            tasks = {
                **{"plan": self.plan, "frontier": self.frontier, "file": self.file},
                **{"others": self.others, "why": self.why},
            }
            return tasks[request["task"]](request)
        except InputError as error:
            return {"faults": error.faults}
        except PlannerError as error:
            return {"error": str(error)}

    def solved(self, settings: tuple[str, ...]) -> Solved:
        """Return the plan of the scenario with settings applied, from those kept or solved now."""
        if settings not in self.kept:
            scenario = change_scenario(self.base, settings) if settings else self.base
            if (subject := subject_of(scenario)) is not None:
                library = self._library(scenario) if serves(scenario) else None
                self.kept[settings] = Solved(scenario, None, subject.page_plan(scenario, self.options, library))
            else:
                prepared = prepare(scenario, self._library(scenario), before=self.last)
                self.last = prepared
                self.kept[settings] = Solved(scenario, prepared, solve_prepared(prepared, self.options))
            while len(self.kept) > KEPT:
                self.kept.popitem(last=False)
        self.kept.move_to_end(settings)
        return self.kept[settings]

    def _library(self, scenario: Scenario) -> Library:
        """Return the library of the last scenario where it has the models of this one: candidates are shared by it."""
        known = self.library
        if known is None or any(job.architecture not in known.architectures for job in scenario.jobs):
            self.library = library_of([self.base, scenario])
            self.last = None
        assert self.library is not None
        return self.library

    def plan(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the plan of `settings`, and how it differs from that of `reference`.

        A `brief` answer has no alternatives and no reasons, which take longer than the plan itself; a service has
        one answer, which is `whole`.
        """
        reference, settings = tuple(request["reference"]), tuple(request["settings"])
        serving = serves(self.base)
        if request.get("brief") and not serving and settings not in self.kept and reference in self.kept:
            return self._brief(settings, self.kept[reference].plan, float(request["width"]))
        before, after = self.solved(reference), self.solved(settings)
        width = float(request["width"])
        subject = shown_by(after.plan)
        bases = () if subject is None else subject.bases(after.scenario, after.plan, self.library)
        parts = plan_parts(after.plan, width, bases)
        change = change_parts(before.plan, after.plan, self._compared(before, after, settings if not reference else ()))
        delta = difference(before.plan, after.plan).model_dump()
        return {**parts, "whole": serving, "change": {**change, "delta": delta}}

    def _compared(self, before: Solved, after: Solved, settings: tuple[str, ...]) -> WhatIf | None:
        """Return the comparison of `what-if`; None where that command compares no such scenarios."""
        if serves(self.base):
            subject = subject_of(self.base)
            return subject.compare(before.plan, after.plan, settings) if subject and len(self.base.jobs) == 1 else None
        if before.prepared is None or after.prepared is None:
            return None
        return compare_solved(before.prepared, after.prepared, before.plan, after.plan, settings)

    def _brief(self, settings: tuple[str, ...], before: Plan, width: float) -> dict[str, Any]:
        """Return the plan alone; a scenario that has none, or needs more than one solve, is left to the full answer."""
        scenario = change_scenario(self.base, settings)
        if subject_of(scenario) is not None:
            return {"later": True}
        self.last = prepare(scenario, self._library(scenario), before=self.last)
        # Marked as slim a scenario gets its plan without the search for alternatives.
        plan = solve_prepared(replace(self.last, is_slim=True), self.options, explains=False)
        if not plan.jobs:
            return {"later": True}
        change = change_parts(before, plan, None)
        return {**plan_parts(plan, width), "change": {**change, "delta": difference(before, plan).model_dump()}}

    def frontier(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the frontier of `settings`, from which deadlines were taken; `deadline` is marked in the picture."""
        from planner.analysis.frontier_question import frontier_of_jobs as trace
        from planner.report.frontier_figure import frontier_data, frontier_figure

        scenario = change_scenario(self.base, request["settings"]) if request["settings"] else self.base
        if serves(scenario):
            return self._curve(scenario, request)
        try:
            traced = trace(scenario, self.options, library=None)
        except NoPlanError as error:
            return {"error": str(error)}
        if not traced.points:
            return {"empty": "no plan at any deadline within the other limits"}
        figure = frontier_figure(traced, None)
        assert figure.draw is not None
        scene = scene_data(figure.draw(float(request["width"])))
        return {"figure": figure_data(figure), "scene": scene, "data": frontier_data(traced), "exact": traced.exact}

    def _curve(self, scenario: Scenario, request: dict[str, Any]) -> dict[str, Any]:
        """Return the curve of what has no end, whose jobs are no part of it.

        The page asks for a few points first, and then for more of the same curve, which go on from there.
        """
        subject, settings = subject_of(scenario), tuple(request["settings"])
        assert subject is not None, "the core plans jobs that end"
        curve = self.curves.pop(settings, None) or subject.new_curve()
        self.curves[settings] = curve
        while len(self.curves) > KEPT:
            self.curves.popitem(last=False)
        return curve.answer(scenario, self.options, request.get("points"), float(request["width"]))

    def others(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the best of each GPU at each provider as rows of a table; none where there is not one job alone."""
        solved = self.solved(tuple(request["settings"]))
        if solved.prepared is None or solved.plan.only_job is None:
            return {"rows": []}
        return {"rows": option_rows(solved.plan, best_by_place(solved.prepared, 0))}

    def why(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return why a GPU, or one at a provider, is not the plan, as the text of `explain --why-not`."""
        from planner.analysis.limit_sensitivity import explain
        from planner.report.explanation_text import render

        explanation = explain(self.solved(tuple(request["settings"])).scenario, request["query"], self.options)
        return {"text": render(explanation)}

    def file(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return a file to download: the plan as JSON, the report, or the files that run the plan."""
        solved = self.solved(tuple(request["settings"]))
        scenario, plan = solved.scenario, solved.plan
        if plan.subject is not None:  # a file has what the page leaves out
            plan = solve(scenario, self.options, self._library(scenario))
        if request["file"] == "plan":
            return {"text": plan_file(plan)}
        if request["file"] == "exports":
            return {"base64": export_archive(scenario, plan)}
        return {"text": report_file(scenario, plan, self.options)}


def serves(scenario: Scenario) -> bool:
    """Return whether something has no end, such as a service: its curve is of its own."""
    return not all(job.ends for job in scenario.jobs)


# Processes that solve: one for the plan and one for the curve of each open page, stopped when superseded.


QUEUES = ("plan", "frontier", "file")
"""Requests that do not wait for, or stop, those of another kind."""
IN_QUEUE = {"others": "plan", "why": "plan"}
"""Requests that wait in the queue of another kind: they start from its candidates, and a new plan stops them."""
GRACE_SECONDS = 1.5
"""A solve that is superseded may run so long in all before its process is stopped: a new process costs more."""
MOST_SESSIONS = 4
"""Most pages that are open at one time; each has up to two processes with the candidates of its last solve."""
MOST_MEBIBYTES = 700
"""Memory of all processes above which idle ones end, those of the page unused for longest first."""
MOST_ANSWERS = 100
"""Answers after which a process is replaced: some systems do not say how much memory it has come to."""


class Superseded(Exception):
    """A newer request of the same page has taken the place of this one."""


class TooLong(Exception):
    """A solve was stopped at the time limit."""


class Busy(Exception):
    """All pages are solving, and there is no room for one more."""


class Broken(Exception):
    """A process ended by itself."""


def _serve(connection: Connection, folder: str) -> None:
    """Get scenario and options, and answer requests until the connection is closed; runs in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the server ends them
    threading.Thread(target=_end_with_server, daemon=True).start()
    tempfile.tempdir = folder or None  # what a solver that is stopped leaves goes with the server

    with contextlib.suppress(EOFError, OSError):
        engine = Engine(*connection.recv())
        for _ in range(MOST_ANSWERS):
            request = connection.recv()
            try:
                answer = engine.answer(request)
            except Exception as error:  # a fault of the planner must not end the page
                answer = {"error": f"internal error: {type(error).__name__}: {error}"}
            connection.send((answer, peak_mebibytes()))


def _end_with_server() -> None:
    """End this process with its server, even one that is killed."""
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        os._exit(1)


def peak_mebibytes() -> float:
    """Return the most memory that this process has held, MiB; 0 where the system does not say it."""
    try:
        import resource  # not on Windows
    except ImportError:
        return 0.0
    unit = 2**20 if sys.platform == "darwin" else 2**10  # of ru_maxrss: bytes there, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach before they ignore it themselves: they inherit what is blocked."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # which unblocks the signal, so that it comes first
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _context() -> Any:
    """Return how processes are started: from a process that has loaded the solvers already, where there is one."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["planner.web.workers"])
    return context


class Worker:
    """A process with an `Engine`."""

    def __init__(self, scenario: Scenario, options: SolveOptions, folder: str):
        context = _context()
        remove_when_ended(get_temp_dir())  # where the process that starts others listens
        self.mebibytes = 0.0
        self._made_of: tuple[Scenario, SolveOptions] | None = (scenario, options)
        self._here, there = context.Pipe()
        # What a process starts with is small: a server that ends meanwhile leaves nothing half read.
        self._process = context.Process(target=_serve, args=(there, folder), daemon=True)
        with _without_ctrl_c():
            self._process.start()
        there.close()

    def ask(self, request: dict[str, Any], limit_seconds: float) -> dict[str, Any]:
        """Return the answer; `TooLong` after the limit, `Broken` where the process has ended."""
        try:
            if self._made_of is not None:
                self._here.send(self._made_of)
                self._made_of = None
            self._here.send(request)
            if not self._here.poll(limit_seconds):
                self.stop()
                raise TooLong
            answer: dict[str, Any]
            answer, self.mebibytes = self._here.recv()
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
    """Requests of one kind of one page: the newest counts, one is solved at a time.

    `folder` has the files that the page was given, and those that a process writes for its time.
    """

    def __init__(self, scenario: Scenario, options: SolveOptions, limit_seconds: float, folder: str = ""):
        self._made_of = (scenario, options, folder)
        self._limit = limit_seconds
        self._worker: Worker | None = None
        self._newest, self._began, self._free = 0, 0.0, asyncio.Event()
        self._free.set()
        self._is_closed = False
        self._answered: asyncio.Future[dict[str, Any]] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being solved."""
        return self._free.is_set()

    @property
    def mebibytes(self) -> float:
        """The most memory that its process has held, MiB; 0 where there is none."""
        return self._worker.mebibytes if self._worker is not None and self._worker.is_alive else 0.0

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
            return await self._answer(request, mine)
        finally:
            self._free.set()

    async def _answer(self, request: dict[str, Any], mine: int) -> dict[str, Any]:
        """Return the answer of a process, of a second one where the first ends by itself."""
        for is_last in (False, True):
            self._answered = asyncio.get_running_loop().create_future()
            # A thread of the event loop would keep an interrupted server waiting for it.
            threading.Thread(target=self._ask, args=(request, self._answered), daemon=True).start()
            try:
                return await self._answered
            except Broken:
                if mine != self._newest:
                    raise Superseded from None
                if is_last or self._is_closed:
                    raise
        raise AssertionError("unreachable")

    def _ask(self, request: dict[str, Any], answered: asyncio.Future[dict[str, Any]]) -> None:
        """Ask the process, a new one where there is none, and settle what waits for the answer."""
        try:
            if self._worker is None or not self._worker.is_alive:
                self._worker = Worker(*self._made_of)
            if self._is_closed:  # while it started
                self._worker.stop()
            _settle(answered, self._worker.ask(request, self._limit))
        except BaseException as error:
            _settle(answered, error)

    def drop(self) -> None:
        """Stop what is being solved: nobody waits for its answer any more."""
        if not self._free.is_set():
            self._newest += 1
            self.stop()

    def stop(self) -> None:
        """End the process; the next request starts another one."""
        if self._worker is not None:
            self._worker.stop()

    def close(self) -> None:
        """End the process for good; the request that waits for its answer gets `Broken` at once."""
        self._is_closed = True
        if self._answered is not None:
            _settle(self._answered, Broken())
        self.stop()


def _settle(answered: asyncio.Future[dict[str, Any]], outcome: dict[str, Any] | BaseException) -> None:
    """Give a future its answer or its error from any thread, unless it has one or its loop is closed."""

    def settle() -> None:
        if not answered.done():
            if isinstance(outcome, BaseException):
                answered.set_exception(outcome)
            else:
                answered.set_result(outcome)

    with contextlib.suppress(RuntimeError):  # the loop is closed
        answered.get_loop().call_soon_threadsafe(settle)


class Sessions:
    """The queues of every open page by the number that the page gave itself."""

    def __init__(self, scenario: Scenario, options: SolveOptions, limit_seconds: float, folder: str = ""):
        self._made_of = (scenario, options, limit_seconds, folder)
        self._open: OrderedDict[str, dict[str, Queue]] = OrderedDict()

    async def ask(self, session: str, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request of a page; the page unused for longest makes room. Raises `Busy` too."""
        if session not in self._open:
            if len(self._open) >= MOST_SESSIONS:
                self._make_room()
            self._open[session] = {kind: Queue(*self._made_of) for kind in QUEUES}
        self._open.move_to_end(session)
        answer = await self._open[session][IN_QUEUE.get(request["task"], request["task"])].ask(request)
        self._bound_memory()
        return answer

    def drop(self, session: str, kind: str) -> None:
        """Stop what a page asked for and does not want any more."""
        if session in self._open:
            self._open[session][kind].drop()

    def _queues(self) -> list[Queue]:
        """Return all queues, those of the page unused for longest first."""
        return [queue for queues in self._open.values() for queue in queues.values()]

    def _bound_memory(self) -> None:
        """End idle processes until the others hold at most `MOST_MEBIBYTES`."""
        held = sum(queue.mebibytes for queue in self._queues())
        for queue in self._queues():
            if held <= MOST_MEBIBYTES:
                break
            if queue.is_idle:
                held -= queue.mebibytes
                queue.stop()

    def _make_room(self) -> None:
        for name, queues in self._open.items():
            if all(queue.is_idle for queue in queues.values()):
                for queue in self._open.pop(name).values():
                    queue.close()
                return
        raise Busy

    def stop(self) -> None:
        """End every process."""
        for queue in self._queues():
            queue.close()
        self._open.clear()
