"""A worker that dies costs no more than the variant that killed it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from typing import Any

from planner.analysis.run_sweep import SweepQuestion, chained_places, chunks_of, solve_on
from planner.documents.overrides import parse_ranges
from planner.results.what_if import Variant
from tests.helpers.scenarios_what_if import OPTIONS, library, small

RANGES = parse_ranges(("limits.budget_usd=1:9:1",))


class FragileExecutor(Executor):
    """Breaks for good at a chunk with the deadly value, as a pool of processes does when one of them is killed."""

    def __init__(self, deadly: str | None, seen: list[int]) -> None:
        self.deadly, self.seen, self.broken = deadly, seen, False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.broken:
            raise BrokenExecutor("the pool is broken")
        future: Future[Any] = Future()
        question, chunk = args
        self.seen.append(len(chunk))
        values = [question.values(places) for places in chunk]
        if (self.deadly,) in values:
            self.broken = True
            future.set_exception(BrokenExecutor("a worker ended"))
        else:
            future.set_result([Variant(values=one, status="optimal") for one in values])
        return future


def solved(deadly: str | None) -> tuple[list[Variant], list[int]]:
    """Return the variants and the sizes of the chunks that were handed over."""
    seen: list[int] = []

    @contextmanager
    def opened() -> Iterator[Executor]:
        yield FragileExecutor(deadly, seen)

    question = SweepQuestion(small(), RANGES, OPTIONS, library())
    chunks = chunks_of(chained_places(RANGES), 1)
    return [one for found in solve_on(opened, question, chunks, 1) for one in found], seen


def test_all_variants_come_back_once() -> None:
    """Whatever the chunks are."""
    variants, sizes = solved(None)
    assert sorted(one.values for one in variants) == sorted((value,) for value in RANGES[0].values)
    assert sum(sizes) == len(variants)


def test_a_variant_that_ends_its_worker_is_the_only_error() -> None:
    """Those that shared its chunk or its pool are solved again, each alone."""
    variants, _ = solved("4")
    assert sorted(one.values for one in variants) == sorted((value,) for value in RANGES[0].values)
    (error,) = [one for one in variants if one.status == "error"]
    assert error.values == ("4",) and "worker" in error.error
