"""Estimates of generation against published measurements: `python -m benchmarks.inference TABLE.csv [--json]`.

Rows of quality A and B are judged. With --judge the coefficients are fitted again inside the benchmark, on each half of
the configurations for the other and with one organisation left out at a time; --fit does that too and writes them.
A table of caches that engines printed at their start is judged apart.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.inference.cache import cache_figures, cache_lines, is_cache_table
from benchmarks.inference.files import calibration_text, write
from benchmarks.inference.fitting import fit
from benchmarks.inference.judge import by_configuration, by_organisation, figures, judged, spreads
from benchmarks.inference.memory import memory_figures
from benchmarks.inference.rows import FIGURES, NOT_STATED, collect, figures_of, organisation, read_rows
from planner.documents.files import data_folder
from planner.errors import InputError
from planner.library.reading import read_library

COMPLETE_TARGET = 0.95
"""Share of the rows that state what an estimate needs for which there should be one."""


def report(tables: Sequence[str], judge: bool, out: Path | None) -> dict[str, Any]:
    """Return all figures as the JSON document; write a calibration to `out` where it is given."""
    library = read_library()
    caches = [table for table in tables if is_cache_table(table)]
    read = [row for table in tables if table not in caches for row in read_rows(table)]
    rows, reasons = collect([row for row in read if row.headline], library)
    calibration = library.calibrations.get("inference")
    result: dict[str, Any] = {
        "rows": {
            "read": len(read),
            "quality A or B": sum(row.headline for row in read),
            "complete": len(rows) + sum(n for reason, n in reasons.items() if reason not in NOT_STATED),
            "predicted": len(rows),
        },
        "skipped": reasons,
    }
    if calibration and rows:
        result |= figures(judged(rows, calibration.values))
        for name in FIGURES:
            result[name]["n_complete"] = sum(name in figures_of(row) for row in read if row.headline)
    if caches:
        result["cache"] = cache_figures(caches, library)
    if calibration:
        result["memory"] = memory_figures([row for row in read if row.headline], library)
    if judge and rows:
        left_out = by_organisation(rows)
        result["configuration"] = figures(by_configuration(rows), groups=False)
        result["organisation"] = figures(left_out)
        if out is not None:
            n = sum(len(row.figures) for row in rows)
            said = f"{n} published figures of {len({organisation(row.row) for row in rows})} organisations"
            write(out, calibration_text(fit(rows), spreads(left_out), said))
    return result


def text_of(result: Mapping[str, Any]) -> str:
    """Return the report as text."""
    rows = result["rows"]
    lines = [f"{rows['predicted']} of {rows['quality A or B']} rows of quality A or B predicted ({rows['read']} read)"]
    if rows["complete"]:
        share = rows["predicted"] / rows["complete"]
        lines.append(f"{share:.1%} of {rows['complete']} complete rows (target: {COMPLETE_TARGET:.0%})")
    lines += [f"  {n:5d}  {reason}" for reason, n in result["skipped"].items()]
    titles = {"": "shipped coefficients", "configuration": "by configuration", "organisation": "organisation left out"}
    for part, title in titles.items():
        found = result if not part else result.get(part, {})
        if "throughput" not in found:
            continue
        lines += ["", f"{title:28}{'n':>6}{'median':>9}{'MAPE':>9}{'p90':>9}{'bias':>9}"]
        lines += [_line(name, found[name]) for name in FIGURES]
        pairs = found["throughput"]["pairs"]
        if pairs["n"]:
            lines.append(f"GPU pairs in order: {pairs['share']:.1%} of {pairs['n']}")
        if part != "configuration":
            for group in ("organisation", "engine", "mode"):
                lines.append(f"  throughput by {group}")
                lines += [_line(f"    {name}", one) for name, one in found["throughput"]["by"][group].items()]
    caches = ["", *cache_lines(result["cache"])] if "cache" in result else []
    return "\n".join((*lines, *_memory_lines(result.get("memory", {})), *caches))


def _memory_lines(found: Mapping[str, Any]) -> list[str]:
    """Return the peaks of engines without a pool, where the table states some."""
    if not found.get("n"):
        return []
    lines = [
        "",
        f"{'peak memory, no pool':28}{'n':>6}{'median':>9}{'MAPE':>9}{'p90':>9}{'bias':>9}",
        _line("all", found),
    ]
    for group in ("engine", "kind"):
        lines += [_line(f"    {name}", one) for name, one in found["by"][group].items()]
    return lines + [f"  {n:5d}  {reason}" for reason, n in found["skipped"].items()]


def _line(name: str, one: Mapping[str, Any]) -> str:
    if not one["n"]:
        return f"{name:28}{0:6d}"
    shares = "".join(f"{one[key]:9.1%}" for key in ("median_ape", "mape", "p90_ape", "bias"))
    return f"{name:28}{one['n']:6d}{shares}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 2 where the table cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inference", description=__doc__)
    parser.add_argument("table", metavar="TABLE.csv", nargs="+", help="several are taken together")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--judge", action="store_true", help="also fit again and judge on rows held out (minutes)")
    parser.add_argument("--fit", action="store_true", help="as --judge, and write models/calibration/inference.yaml")
    parser.add_argument("--out", metavar="FILE", help="write there in place of models/")
    chosen = parser.parse_args(arguments)
    shipped = data_folder("models") / "calibration" / "inference.yaml"
    out = (Path(chosen.out) if chosen.out else shipped) if chosen.fit else None
    try:
        result = report(chosen.table, chosen.judge or chosen.fit, out)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(result, indent=1) if chosen.json else text_of(result))
    return 0
