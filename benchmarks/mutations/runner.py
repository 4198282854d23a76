"""Apply mutations one at a time to copies of the repository and run the tests that should notice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.mutations.mutation import AnchorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.mutations.mutation import Mutation

ROOT = Path(__file__).parents[2]
COPIED = ("benchmarks", "docs", "models", "planner", "scenarios", "tests", "README.md", "pyproject.toml")
PYTEST = (
    *("-m", "pytest", "-o", "addopts=", "--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-x", "-q", "--tb=no", "--no-header"),
)
"""Arguments of one quiet process that stops at the first failure, whatever the repository sets by default."""
TIMEOUT_SECONDS = 600
"""Of one process of tests; the unchanged code is given five times as long for all tests."""
PASSED, FAILED, TIMED_OUT = 0, 1, 124
"""Exit codes of pytest; all others mean that no test ran to its end."""


class Verdict(StrEnum):
    """What came of a mutation."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    EQUIVALENT = "equivalent"
    ERROR = "ERROR"


@dataclass(frozen=True)
class Outcome:
    """The verdict on one mutation; `detail` names the failing test, or what went wrong."""

    mutation: Mutation
    verdict: Verdict
    detail: str
    seconds: float


def run_mutations(
    mutations: Sequence[Mutation], processes: int, report: Callable[[Outcome], None], check_first: bool = True
) -> list[Outcome]:
    """Return the outcome of every mutation, and report each as soon as it is known.

    `check_first` runs all tests on an unchanged copy before: RuntimeError where one fails, for then nothing is shown.
    """
    with TemporaryDirectory(prefix="mutations-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(processes):
            copies.put(_copy(Path(folder) / str(number)))
        if check_first:
            _check_unchanged(copies, mutations)

        def judge(mutation: Mutation) -> Outcome:
            """Judge one mutation in a copy of its own."""
            copy = copies.get()
            try:
                outcome = _judge(mutation, copy)
            finally:
                copies.put(copy)
            report(outcome)
            return outcome

        with ThreadPoolExecutor(processes) as pool:
            return list(pool.map(judge, mutations))


def _copy(target: Path) -> Path:
    """Return a copy of what the tests need, and of what is compiled: it is valid there, as time stamps stay."""
    target.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("*.pyc.*"))  # half written
        elif source.is_file():
            shutil.copy2(source, target / name)
    return target


def _check_unchanged(copies: SimpleQueue[Path], mutations: Sequence[Mutation]) -> None:
    """Run the tests of all mutations on the code as it is; RuntimeError where they do not pass."""
    copy = copies.get()
    tests = tuple(dict.fromkeys(test for one in mutations for test in one.tests))
    code, detail = _run_tests(copy, tests, 5 * TIMEOUT_SECONDS)
    copies.put(copy)
    if code != PASSED:
        raise RuntimeError(f"the tests fail without any mutation: {detail}")


def _judge(mutation: Mutation, copy: Path) -> Outcome:
    """Return what the tests of a mutation say of it."""
    started = perf_counter()
    try:
        with _applied(mutation, copy):
            code, detail = _run_tests(copy, mutation.tests)
    except AnchorError as error:
        return Outcome(mutation, Verdict.ERROR, str(error), perf_counter() - started)
    if code not in (PASSED, FAILED):
        verdict = Verdict.ERROR
    elif mutation.equivalent:
        verdict = Verdict.EQUIVALENT if code == PASSED else Verdict.ERROR
        detail = mutation.equivalent if code == PASSED else f"not equivalent, {detail}"
    else:
        verdict = Verdict.SURVIVED if code == PASSED else Verdict.KILLED
    return Outcome(mutation, verdict, detail, perf_counter() - started)


@contextmanager
def _applied(mutation: Mutation, copy: Path) -> Iterator[None]:
    """Keep the bug in the copy for a while.

    The time stamp is one that no version of the file had before: within one second Python would else run the compiled
    code of the previous version.
    """
    path = copy / mutation.file
    text = mutation.mutated(copy)
    before, original = path.stat(), path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    os.utime(path, (before.st_mtime + 7, before.st_mtime + 7))
    try:
        yield
    finally:
        path.write_text(original, encoding="utf-8")
        os.utime(path, (before.st_mtime + 14, before.st_mtime + 14))


def _run_tests(copy: Path, tests: Sequence[str], timeout_seconds: float = TIMEOUT_SECONDS) -> tuple[int, str]:
    """Return the exit code of pytest, and the failing test or its last words."""
    environment = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")}
    environment.pop("PYTHONPATH", None)
    environment["HANG_SECONDS"] = "30"  # some bugs make a test wait for what never comes
    try:
        done = subprocess.run(
            [sys.executable, *PYTEST, *tests],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TIMED_OUT, f"no end within {timeout_seconds:g} s"
    lines = (done.stdout + done.stderr).strip().splitlines() or [""]
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return done.returncode, (failed or lines)[-1][:300]
