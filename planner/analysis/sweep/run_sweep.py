"""Solve every variant of a scenario along several ranges, on many workers, into a file."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from contextlib import closing
from itertools import product
from time import perf_counter
from typing import TYPE_CHECKING

from planner.analysis.sweep.chain import SweepQuestion
from planner.analysis.sweep.executors import (
    count_cluster_threads,
    count_cores,
    dask_executor,
    loky_executor,
    solve_here,
    solve_on,
)
from planner.analysis.sweep.journal import Journal, check_results_file, fingerprint, write_results
from planner.analysis.sweep.order import chained_places, chunks_of
from planner.analysis.what_if.effects import library_of
from planner.analysis.what_if.sweep import scenario_at
from planner.documents.sweep_ranges import parse_ranges
from planner.errors import Fault, ScenarioError
from planner.records import record
from planner.results.sweep import ManyVariants, most_cut
from planner.scenario.scenario import SolveOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from planner.analysis.sweep.order import Places
    from planner.results.sweep import Variant
    from planner.scenario.scenario import Scenario

MAX_VARIANTS = 100_000
MAX_AXES = 8
ERRORS_SHOWN = 5


def run_sweep(
    scenario: Scenario,
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
    """
    started, options = perf_counter(), options or SolveOptions()
    check_results_file(path)
    question = _question(scenario.on_day(options.as_of), vary, options)
    from planner import __version__

    journal = Journal(path, fingerprint(question, (options.as_of or datetime.date.today()).isoformat(), __version__))
    known = {} if restart else journal.rows()
    places = chained_places(question.ranges)
    missing = [one for one in places if question.values(one) not in known]
    rows, crew = dict(known), _crew(question, missing, workers)
    journal.begin(known.values())
    with closing(crew.solved) as solved:
        for found in solved:
            journal.add(found)
            rows.update((one.values, one) for one in found)
            if on_variant:
                on_variant(len(rows), len(places))
    every = [rows[values] for values in product(*(one.values for one in question.ranges))]
    write_results(path, [one.path for one in question.ranges], every)
    journal.end()
    summary = _summary(question, every, len(known))
    return summary.model_copy(update={"seconds": perf_counter() - started, "workers": crew.workers, "file": path})


def _question(scenario: Scenario, vary: Sequence[str], options: SolveOptions) -> SweepQuestion:
    """Return the question; every value of each range is tried alone, so that a wrong one is found at once."""
    ranges = parse_ranges(tuple(vary), MAX_AXES, MAX_VARIANTS)
    if not ranges:
        fix = "such as jobs.NAME.deadline=6h:48h:6h"
        raise ScenarioError([Fault("--vary", 0, "", "nothing to vary", fix)])
    changed = [scenario_at(scenario, one, setting) for one in ranges for setting in one.settings]
    return SweepQuestion(scenario, ranges, options, library_of([scenario, *changed]))


@record(frozen=True)
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


def _summary(question: SweepQuestion, rows: Sequence[Variant], resumed: int) -> ManyVariants:
    planned = [one for one in rows if one.cost_usd is not None]
    counts = Counter(one.status for one in rows)
    cut, cutting = most_cut(rows)
    return ManyVariants(
        scenario=question.scenario.name,
        paths=tuple(one.path for one in question.ranges),
        variants=len(rows),
        resumed=resumed,
        counts=dict(counts),
        cheapest=min(planned, key=lambda one: one.cost_usd or 0.0, default=None),
        fastest=min(planned, key=lambda one: math.inf if one.hours is None else one.hours, default=None),
        cut=cut,
        cutting=cutting,
        errors=tuple(one for one in rows if one.status == "error")[:ERRORS_SHOWN],
        seconds=0.0,
        workers=1,
    )
