"""Solve every variant of a scenario along several ranges into a file: ordered, by many workers."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import math
import os
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, wait
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from threading import Thread
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from planner.analysis.what_if_question import VariantSolver, build_cell, library_of, scenario_at
from planner.documents.files import check_writable, read_text, write_text_atomically
from planner.documents.overrides import SweepRange, parse_ranges
from planner.documents.tables import csv_text, json_text
from planner.errors import CancelledError, Fault, InputError, ScenarioError, TimeIsUpError, printable
from planner.library.schema import Library
from planner.loading.question import Asked, as_scenario
from planner.loading.scenario_file import change_scenario
from planner.results.plan_parts import describe_machines
from planner.results.what_if import ManyVariants, Variant, loss_of, most_cut, trained_figures
from planner.scenario.scenario import Scenario, SolveOptions
from planner.watch import ASKED_EVERY_SECONDS, keep_going, tell

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence


# The order in which variants are solved: neighbours differ in one value, and mostly in one that is cheap to change.


CHUNKS_PER_WORKER = 4
"""More chunks than workers, because some variants take longer; fewer, because each starts without a neighbour."""
MAX_CHUNK = 50
"""Most variants of a chunk: what an interrupted worker loses."""

Places = tuple[int, ...]
"""The place of the value of each range."""


def change_cost(path: str) -> int:
    """Return how much `prepare` computes again where a value changes: 0 nothing, 3 the market and every candidate."""
    steps = path.split(".")
    if path == "limits.budget_usd" or steps[0] in ("objective", "value_of_time_usd_per_hour", "solve"):
        return 0
    if path in ("limits.vram_headroom", "limits.regions"):
        return 2
    if steps[0] == "limits" or (steps[0] == "jobs" and steps[-1] == "deadline"):
        return 1
    return 2 if steps[0] == "jobs" else 3


def chained_places(ranges: Sequence[SweepRange]) -> list[Places]:
    """Return every combination of values so that each differs from the one before in one value, by one step.

    A reflected Gray code: the range that is the most expensive to change is the outermost.
    """
    axes = sorted(range(len(ranges)), key=lambda axis: -change_cost(ranges[axis].path))
    chains = []
    for digits in _reflected([len(ranges[axis].values) for axis in axes]):
        by_axis = dict(zip(axes, digits, strict=True))
        chains.append(tuple(by_axis[axis] for axis in range(len(ranges))))
    return chains


def _reflected(sizes: Sequence[int]) -> Iterator[Places]:
    if not sizes:
        yield ()
        return
    inner = list(_reflected(sizes[1:]))
    for digit in range(sizes[0]):
        yield from ((digit, *rest) for rest in (reversed(inner) if digit % 2 else inner))


def chunks_of(places: Sequence[Places], workers: int) -> list[Sequence[Places]]:
    """Return the combinations in runs of neighbours, some for each worker."""
    size = max(1, min(MAX_CHUNK, -(-len(places) // (CHUNKS_PER_WORKER * workers))))
    return [places[first : first + size] for first in range(0, len(places), size)]


# Variants solved one after the other, each prepared from the one before; what a worker runs.


PARENT = "PLANNER_SWEEP_PARENT"
"""Environment variable of a worker process: the number of the process that started it."""


@dataclass(frozen=True)
class SweepQuestion:
    """All that a worker needs to know: the scenario, what varies, and how to solve."""

    scenario: Scenario
    ranges: tuple[SweepRange, ...]
    options: SolveOptions
    library: Library

    def values(self, places: Places) -> tuple[str, ...]:
        """Return the values of a variant."""
        return tuple(sweep_range.values[place] for sweep_range, place in zip(self.ranges, places, strict=True))


class Chain:
    """Solves variants; what a variant has in common with the one before is not computed again."""

    def __init__(self, question: SweepQuestion) -> None:
        self.question = question
        self._solver = VariantSolver(question.library, question.options)

    def solve(self, places: Places) -> Variant:
        """Return a variant; an error in it is its status, and the next variant starts from the last good one."""
        question, values = self.question, self.question.values(places)
        try:
            settings = [sweep_range.settings[place] for sweep_range, place in zip(question.ranges, places, strict=True)]
            plan = self._solver.solve(change_scenario(question.scenario, settings))
        except (CancelledError, TimeIsUpError):
            raise
        except Exception as error:
            return failed(values, error)
        cell = build_cell(values, plan)
        return Variant(**{name: getattr(cell, name) for name in type(cell).model_fields})


def failed(values: tuple[str, ...], error: BaseException) -> Variant:
    """Return the row of a variant that could not be solved."""
    if isinstance(error, InputError):
        text = "; ".join(str(fault) for fault in error.faults)
    else:
        text = f"{type(error).__name__}: {error}"
    return Variant(values=values, status="error", error=" ".join(text.split()))


def solve_chunk(question: SweepQuestion, chunk: Sequence[Places]) -> list[Variant]:
    """Return the variants of a chunk, which are neighbours."""
    chain = Chain(question)
    return [chain.solve(places) for places in chunk]


def end_with_parent() -> None:
    """End this worker soon after its parent has ended, also while it waits for a chunk: a pool does not notice."""

    def watch() -> None:
        while os.environ[PARENT] == str(os.getppid()):
            sleep(ASKED_EVERY_SECONDS)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


# Solve every variant of a scenario along several ranges, on many workers, into a file.


# Chunks of variants in this process, on processes of this machine (loky), or on a Dask cluster.


OpenExecutor = Callable[[], AbstractContextManager[Executor]]

IN_FLIGHT = 2
"""Chunks per worker that are handed over at once: the others wait here, so that memory does not grow with them."""
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
"""Environment of a worker: as many workers as cores need no further threads."""
CONNECT_SECONDS = 10


def count_cores() -> int:
    """Return the cores that this process may use, also in a container."""
    from loky import cpu_count

    return int(cpu_count())


def solve_here(question: SweepQuestion, places: Sequence[Places]) -> Generator[list[Variant]]:
    """Yield the variants one by one, all in one chain."""
    chain = Chain(question)
    for place in places:
        yield [chain.solve(place)]


@contextmanager
def loky_executor(workers: int) -> Iterator[Executor]:
    """Open processes on this machine; leaving ends them at once."""
    from loky import ProcessPoolExecutor

    environment = {**ONE_THREAD, PARENT: str(os.getpid())}
    executor: Any = ProcessPoolExecutor(max_workers=workers, initializer=end_with_parent, env=environment)
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, kill_workers=True)


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """Open the workers of a Dask cluster; InputError where there is none, or the package is missing."""
    try:
        from distributed import Client
    except ImportError:
        fix = "pip install 'finetune-planner[cluster]'"
        raise InputError([Fault("--cluster", 0, "", "needs the package distributed", fix)]) from None
    try:
        asyncio.run(_connect(address))  # a client that finds no scheduler prints tracebacks when it is collected
    except (OSError, ValueError, TypeError) as error:
        problem = f"no Dask scheduler answers: {' '.join(str(error).split()) or type(error).__name__}"
        fix = "give its address, such as tcp://10.0.0.1:8786"
        raise InputError([Fault(f"--cluster {address}", 0, "", problem, fix)]) from None
    client: Any = Client(address, set_as_default=False)
    with client:
        yield client.get_executor(pure=False)


@contextmanager
def open_workers(workers: int | str | None) -> Iterator[Executor | None]:
    """Open processes on this machine or, by its address, a Dask cluster; None for this process alone."""
    if workers is None or workers == 1:
        yield None
    else:
        with dask_executor(workers) if isinstance(workers, str) else loky_executor(workers) as executor:
            yield executor


async def _connect(address: str) -> None:
    """Connect to a scheduler once; OSError or ValueError where that fails."""
    from distributed.core import connect

    comm: Any = await connect(address, timeout=CONNECT_SECONDS)
    await comm.close()


def count_cluster_threads(executor: Executor) -> int:
    """Return how many variants a Dask cluster solves at one time."""
    client: Any = executor._client  # type: ignore[attr-defined]
    return max(1, int(sum(client.nthreads().values())))


def solve_on(
    open_executor: OpenExecutor, question: SweepQuestion, chunks: Sequence[Sequence[Places]], workers: int
) -> Generator[list[Variant]]:
    """Yield the variants of each chunk when it is done.

    A worker that dies takes its pool with it, and with it all chunks in flight: these are solved again one variant
    after the other in a new pool, and a variant that ends a worker by itself is an error of its own.
    """
    waiting, suspects = deque(chunks), deque(list["Sequence[Places]"]())
    while waiting or suspects:
        queue, at_once = (suspects, 1) if suspects else (waiting, IN_FLIGHT * workers)
        lost: list[Sequence[Places]] = []
        with open_executor() as executor:
            yield from _drain(executor, question, queue, at_once, lost)
        for chunk in lost:
            if len(chunk) == 1 and queue is suspects:
                yield [failed(question.values(chunk[0]), RuntimeError("the worker that solved it ended"))]
            else:
                suspects.extend([places] for places in chunk)


def _drain(
    executor: Executor,
    question: SweepQuestion,
    queue: deque[Sequence[Places]],
    at_once: int,
    lost: list[Sequence[Places]],
) -> Iterator[list[Variant]]:
    """Yield finished chunks until the queue is empty or the pool breaks; `lost` takes the chunks in flight then."""
    running: dict[Any, Sequence[Places]] = {}
    while queue or running:
        try:
            while queue and len(running) < at_once:
                running[executor.submit(solve_chunk, question, queue[0])] = queue[0]
                queue.popleft()
            done = wait(running, timeout=ASKED_EVERY_SECONDS, return_when=FIRST_COMPLETED).done
            keep_going()
            for future in done:
                variants = _result(future, question, running[future])
                del running[future]
                yield variants
        except BrokenExecutor:
            lost += running.values()
            return


def _result(future: Any, question: SweepQuestion, chunk: Sequence[Places]) -> list[Variant]:
    """Return the variants of a finished chunk; what a worker could not return is the error of each of them."""
    try:
        variants: list[Variant] = future.result()
    except BrokenExecutor:
        raise
    except Exception as error:
        return [failed(question.values(places), error) for places in chunk]
    return variants


# The rows of a sweep on disk: a journal while it runs, to resume from, and the file of all rows when it is done.


RESULT_FORMATS = (".csv", ".jsonl")
MAX_JOURNAL_BYTES = 2**30
VARIANT_FIGURES = ("status", "cost_usd", "hours", "hours_at_confidence", "machines", "cut_share", "error")
"""Columns of a CSV file after those of the values; `cut_share` is the greatest share of tokens that a job cuts."""


def check_results_file(path: str) -> None:
    """Raise InputError for a file that cannot be written, or whose ending is none of `RESULT_FORMATS`."""
    if Path(path).suffix not in RESULT_FORMATS:
        fix = "end its name with .csv, or with .jsonl for all figures of each job"
        raise InputError([Fault(path or "the output", 0, "", "is no results file", fix)])
    check_writable(path)
    check_writable(journal_of(path))


def journal_of(path: str) -> str:
    """Return the journal of a results file."""
    return f"{path}.part"


def fingerprint(question: SweepQuestion, as_of: str, version: str) -> str:
    """Return a short text that is the same only for the same question of the same version."""
    asked = [
        question.scenario.model_dump_json(by_alias=True),
        [(sweep_range.path, sweep_range.values) for sweep_range in question.ranges],
        question.options.model_dump_json(),
        as_of,
        version,
    ]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


class Journal:
    """A file of JSON lines beside the results: a header with the fingerprint of the question, then a row each."""

    def __init__(self, path: str, question_id: str) -> None:
        self.path, self._header = journal_of(path), json.dumps({"sweep": question_id})

    def rows(self) -> dict[tuple[str, ...], Variant]:
        """Return the rows of an interrupted run by their values; errors are left out, to be tried again.

        A last line that is cut short is left out too. Raises InputError if the journal is that of another question.
        """
        if not os.path.exists(self.path):
            return {}
        lines = read_text(self.path, MAX_JOURNAL_BYTES).split("\n")
        if len(lines) == 1 and self._header.startswith(lines[0]):
            return {}  # stopped before the first row: empty, or a header that is cut short
        if lines[0] != self._header:
            problem = "was written for another scenario, other ranges, options or prices, or by another version"
            raise InputError([Fault(self.path, 1, "", problem, "repeat that sweep, or give --restart to begin anew")])
        variants: dict[tuple[str, ...], Variant] = {}
        for number, line in enumerate(lines[1:-1], start=2):
            try:
                row = Variant.model_validate_json(line)
            except ValidationError:
                raise InputError([Fault(self.path, number, "", "is no row of a sweep", "give --restart")]) from None
            if row.status != "error":
                variants[row.values] = row
        return variants

    def begin(self, rows: Iterable[Variant]) -> None:
        """Write the journal with the rows that are known."""
        write_text_atomically(self.path, "".join(f"{line}\n" for line in (self._header, *map(_row, rows))))

    def add(self, rows: Sequence[Variant]) -> None:
        """Append rows; they are on the disk when this returns."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("".join(f"{_row(row)}\n" for row in rows))
            file.flush()
            os.fsync(file.fileno())

    def end(self) -> None:
        """Remove the journal."""
        Path(self.path).unlink(missing_ok=True)


def _row(variant: Variant) -> str:
    return variant.model_dump_json()


def write_results(path: str, paths: Sequence[str], rows: Iterable[Variant]) -> None:
    """Write all rows: a table, or a JSON object per line with the jobs of each variant."""
    text = _table(paths, rows) if Path(path).suffix == ".csv" else "".join(_line(paths, row) for row in rows)
    write_text_atomically(path, text)


def _line(paths: Sequence[str], variant: Variant) -> str:
    """Return a row as JSON, its values by path."""
    values = dict(zip(paths, variant.values, strict=True))
    row = {"values": values, **variant.model_dump(mode="json", exclude={"values"})}
    return json_text(row, indent=None) + "\n"


def _table(paths: Sequence[str], rows: Iterable[Variant]) -> str:
    every = list(rows)
    is_open = any(job.model for row in every for job in row.jobs)
    trained = list(trained_figures(())) if is_open else []
    table: list[list[object]] = [[*paths, *VARIANT_FIGURES, *trained]]
    for row in every:
        machines = "; ".join(
            [f"{describe_machines(job.gpus, job.gpu, job.runs_at_once)} at {job.provider}" for job in row.jobs]
            + [machines for service in row.services for machines in service.machines]
        )
        figures = (row.cost_usd, row.hours, row.hours_at_confidence)
        cut = max((sample.share for sample in row.cut), default=0.0)
        trains = trained_figures(row.jobs).values() if is_open else ()
        table.append([*row.values, row.status, *figures, machines, cut, row.error, *trains])
    return csv_text([[printable(cell) if isinstance(cell, str) else cell for cell in row] for row in table])


MAX_VARIANTS = 100_000
MAX_AXES = 8
ERRORS_SHOWN = 5


def run_sweep(
    scenario: Asked,
    vary: Sequence[str],
    path: str,
    *,
    options: SolveOptions | None = None,
    workers: int | str | None = None,
    restart: bool = False,
    on_variant: Callable[[int, int], None] | None = None,
) -> ManyVariants:
    """Solve a scenario at every combination of values and write a row for each into a file.

    The rows come in the order of the ranges, the last one fastest, with any number of workers. While the
    sweep runs its rows are in `PATH.part`; the same call after an interruption solves what is missing.

    Parameters
    ----------
    vary
        Ranges: `PATH=A:B:STEP` or `PATH=[a, b, c]`.
    path
        A .csv or .jsonl file.
    workers
        Processes on this machine; 1 solves in this process, None takes as many as there are cores. Or the address of
        a Dask scheduler, whose workers need the same version of this package.
    restart
        Begin anew where an interrupted run left rows.
    on_variant
        Called with the number of variants done and of all variants.

    Raises
    ------
    InputError
        For ranges, values and files that cannot be used, before anything is solved. What goes wrong in a single
        combination is an error in its row.

    Examples
    --------
    >>> found = planner.run_sweep("quickstart", ["limits.budget_usd=[3, 9]"], "out.csv", workers=1)
    >>> found.counts
    {'infeasible': 1, 'optimal': 1}
    """
    scenario = as_scenario(scenario)
    started, options = perf_counter(), options or SolveOptions()
    check_results_file(path)
    question = _question(scenario.on_day(options.as_of), vary, options)
    from planner import __version__

    journal = Journal(path, fingerprint(question, (options.as_of or datetime.date.today()).isoformat(), __version__))
    known = {} if restart else journal.rows()
    places = chained_places(question.ranges)
    missing = [place for place in places if question.values(place) not in known]
    rows, crew = dict(known), _crew(question, missing, workers)
    journal.begin(known.values())
    with closing(crew.solved) as solved:
        for batch in solved:
            journal.add(batch)
            rows.update((variant.values, variant) for variant in batch)
            tell("variants", len(rows), len(places))
            if on_variant:
                on_variant(len(rows), len(places))
    every = [rows[values] for values in product(*(sweep_range.values for sweep_range in question.ranges))]
    write_results(path, [sweep_range.path for sweep_range in question.ranges], every)
    journal.end()
    summary = _summary(question, every, len(known))
    return summary.model_copy(update={"seconds": perf_counter() - started, "workers": crew.workers, "file": path})


def _question(scenario: Scenario, vary: Sequence[str], options: SolveOptions) -> SweepQuestion:
    """Return the question; every value of each range is tried alone, so that a wrong one is found at once."""
    ranges = parse_ranges(tuple(vary), MAX_AXES, MAX_VARIANTS)
    if not ranges:
        fix = "such as jobs.NAME.deadline=6h:48h:6h"
        raise ScenarioError([Fault("--vary", 0, "", "nothing to vary", fix)])
    changed = [
        scenario_at(scenario, sweep_range, setting) for sweep_range in ranges for setting in sweep_range.settings
    ]
    return SweepQuestion(scenario, ranges, options, library_of([scenario, *changed]))


@dataclass(frozen=True)
class _Crew:
    """Who solves: how many at one time, and the variants as they come."""

    workers: int
    solved: Generator[list[Variant]]


def _crew(question: SweepQuestion, missing: Sequence[Places], workers: int | str | None) -> _Crew:
    """Return the workers that are asked for: those of a cluster, this process, or as many processes as cores."""
    if isinstance(workers, str):
        with dask_executor(workers) as executor:
            count = count_cluster_threads(executor)
        return _Crew(count, solve_on(lambda: dask_executor(workers), question, chunks_of(missing, count), count))
    count = max(1, min(count_cores() if workers is None else workers, len(missing)))
    if count == 1:
        return _Crew(1, solve_here(question, missing))
    return _Crew(count, solve_on(lambda: loky_executor(count), question, chunks_of(missing, count), count))


def _loss(row: Variant) -> float | None:
    return loss_of(job.model for job in row.jobs)


def _summary(question: SweepQuestion, rows: Sequence[Variant], resumed: int) -> ManyVariants:
    planned = [row for row in rows if row.cost_usd is not None]
    counts = Counter(row.status for row in rows)
    cut, cutting = most_cut(rows)
    return ManyVariants(
        scenario=question.scenario.name,
        paths=tuple(sweep_range.path for sweep_range in question.ranges),
        variants=len(rows),
        resumed=resumed,
        counts=dict(counts),
        cheapest=min(planned, key=lambda variant: variant.cost_usd or 0.0, default=None),
        fastest=min(planned, key=lambda variant: math.inf if variant.hours is None else variant.hours, default=None),
        best=min(
            (row for row in planned if _loss(row) is not None), key=lambda row: _loss(row) or math.inf, default=None
        ),
        cut=cut,
        cutting=cutting,
        errors=tuple(row for row in rows if row.status == "error")[:ERRORS_SHOWN],
        seconds=0.0,
        workers=1,
    )
