"""Tokens of cache that an engine prints at its start, against the estimate: tables with a column `cache_tokens`.

A row has engine, release, model, weights, GPU and their number, and the cache in tokens or in GiB of one GPU. A release
that is blank is the one of that day, where the table of releases below knows it. What does not start has a negative
cache, or says so in `outcome`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.accuracy import scores
from benchmarks.accuracy.measurements import Row, read_table
from planner import generation
from planner.errors import ScenarioError
from planner.library.engines import read_engines
from planner.library.schema import Library
from planner.results.fleet import InferenceEstimate
from planner.units import GIB

CACHE_COLUMNS = ("engine", "model", "gpu", "gpus", "cache_tokens", "cache_gib_per_gpu")
RELEASED = {"vllm": (("2025-04", "0.8"), ("2026-04", "0.17"), ("2026-06", "0.21"))}
"""Month after that in which the first release of each row of `engines.yaml` came out (its release notes)."""
WITHIN = 0.12
PROMPT, ANSWER = 128, 128
"""Lengths that ask for next to no room: what is judged is the cache, not what is put into it."""


class Start(NamedTuple):
    """One row: tokens of cache that were printed and those that are estimated; 0 where it does not start."""

    row: Row
    printed: float
    estimated: float
    inside: bool  # of the range that the estimate states


def is_cache_table(path: str) -> bool:
    """Return whether a table has the columns of caches; False where it cannot be read."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            return set(CACHE_COLUMNS) <= set(next(csv.reader(file), []))
    except (OSError, UnicodeDecodeError, csv.Error):
        return False


def read_starts(paths: Sequence[str], library: Library) -> tuple[list[Start], dict[str, int]]:
    """Return all rows that can be estimated, and how many cannot by reason."""
    found, reasons = [], dict[str, int]()
    for path in paths:
        for row in read_table(path, CACHE_COLUMNS, "name the columns as in benchmarks/README.md, section inference"):
            start = _start(row, library)
            if isinstance(start, str):
                reasons[start] = reasons.get(start, 0) + 1
            else:
                found.append(start)
    return found, reasons


def _start(row: Row, library: Library) -> Start | str:
    table, weights = read_engines(), row.text("weights")
    form = table.format_behind(weights)
    if form is None:
        return "weight format not in the table of formats"
    if row.text("engine") not in table.engines:
        return "engine not in the table of engines"
    try:
        architecture, gpu = library.architecture(row.cells["model"]), library.gpu(row.cells["gpu"])
    except KeyError:
        return "model or GPU not in the library"
    settings = {"gpus": row.count("gpus") or 1, "engine": row.text("engine"), "weight_format": form}
    settings |= {"input": PROMPT, "output": ANSWER, "engine_release": _known_release(row)}
    gib, tokens = row.number("cache_gib_per_gpu"), row.number("cache_tokens")
    fails = row.text("outcome").startswith("does not start")
    if tokens is None and gib is None and not fails:
        return "neither cache nor outcome stated"
    starts = not fails and (tokens if tokens is not None else gib or 0.0) > 0
    try:
        made = generation.estimate_inference(architecture, gpu.name, library, **settings)
    except ScenarioError:
        return Start(row, (tokens or 1.0) if starts else 0.0, 0.0, not starts)
    return _compared(row, made, (tokens or (gib or 0.0) * GIB / made.memory_gib.kv_bytes_per_token) if starts else 0.0)


def _compared(row: Row, made: InferenceEstimate, printed: float) -> Start:
    between = made.memory_gib.kv_tokens_range
    inside = between is not None and between.low <= printed <= between.high
    return Start(row, printed, float(made.memory_gib.kv_tokens), inside)


def _release(row: Row) -> str | None:
    """Return the release of a row: as stated, else that of its day; None where neither is known."""
    stated = row.text("release")
    if stated:
        return stated
    date, known = row.text("date"), RELEASED.get(row.text("engine"), ())
    return next((release for since, release in reversed(known) if since <= date), None)


def _known_release(row: Row) -> str | None:
    """Return the release of a row where the table of engines has it: an estimate takes no other."""
    table, release = read_engines(), _release(row)
    name = table.engine_behind(row.text("engine"))
    return release if name is not None and release and table.engines[name].releases_of(release) else None


def cache_figures(paths: Sequence[str], library: Library) -> dict[str, Any]:
    """Return the errors of tokens of cache, and how many starts are foretold wrongly."""
    starts, reasons = read_starts(paths, library)
    ran = [one for one in starts if one.printed > 0]
    both = [one.estimated / one.printed - 1.0 for one in ran if one.estimated > 0]
    return {
        **scores.errors(both),
        "within_12_percent": scores.share(sum(abs(error) <= WITHIN for error in both), len(both)),
        "inside_range": scores.share(sum(one.inside for one in ran if one.estimated > 0), len(both)),
        "false_starts": scores.share(
            sum(one.estimated > 0 for one in starts if one.printed == 0), len(starts) - len(ran)
        ),
        "false_refusals": scores.share(sum(one.estimated == 0 for one in ran), len(ran)),
        "skipped": reasons,
    }


def cache_lines(found: Mapping[str, Any]) -> list[str]:
    """Return the figures as text."""
    errors = "".join(f"{found[key]:9.1%}" for key in ("median_ape", "mape", "p90_ape", "bias")) if found["n"] else ""
    shares = {
        "within 12 %": "within_12_percent", "inside the stated range": "inside_range",
        "said to start, did not": "false_starts", "said not to start, did": "false_refusals",
    }  # fmt: skip
    lines = [f"{'cache at start, tokens':28}{'n':>6}{'median':>9}{'MAPE':>9}{'p90':>9}{'bias':>9}"]
    lines.append(f"{'all':28}{found['n']:6d}{errors}")
    lines += [
        f"  {label}: {found[key]['share']:.0%} of {found[key]['n']}" for label, key in shares.items() if found[key]["n"]
    ]
    return [*lines, *(f"  {n:5d}  {reason}" for reason, n in found["skipped"].items())]
