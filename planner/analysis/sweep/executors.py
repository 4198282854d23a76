"""Chunks of variants in this process, on processes of this machine (loky), or on a Dask cluster."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from planner.analysis.sweep.chain import PARENT, Chain, failed, solve_chunk
from planner.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from contextlib import AbstractContextManager

    from planner.analysis.sweep.chain import SweepQuestion
    from planner.analysis.sweep.order import Places
    from planner.results.sweep import Variant

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
    for one in places:
        yield [chain.solve(one)]


@contextmanager
def loky_executor(workers: int) -> Iterator[Executor]:
    """Open processes on this machine; leaving ends them at once."""
    from loky import ProcessPoolExecutor

    executor: Any = ProcessPoolExecutor(max_workers=workers, env={**ONE_THREAD, PARENT: str(os.getpid())})
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
        what = f"no Dask scheduler answers: {' '.join(str(error).split()) or type(error).__name__}"
        fix = "give its address, such as tcp://10.0.0.1:8786"
        raise InputError([Fault(f"--cluster {address}", 0, "", what, fix)]) from None
    client: Any = Client(address, set_as_default=False)
    with client:
        yield client.get_executor(pure=False)


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
            done = wait(running, return_when=FIRST_COMPLETED).done
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
