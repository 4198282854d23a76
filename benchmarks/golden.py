"""Record the JSON of many commands, and compare a later state of the code with the record.

    python -m benchmarks.golden record RECORD.json
    python -m benchmarks.golden compare RECORD.json [--subset] [--match TEXT]

A refactoring must change no number, key, identifier or exit code. Prose (notes, warnings and the like) is
compared by the number of its entries, so that sentences can be rewritten freely.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

AS_OF = ("--as-of", "2026-11-21")
SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios"

ASKED = (
    "quickstart",
    "budget-bound",
    "infeasible",
    "seven-b-billion-tokens",
    "spot-heavy",
    "thirteen-b-tight-deadline",
    "three-jobs-one-budget",
    "whole-job/bill-aws-adapter",
)
"""Scenarios that the slower commands run on: one per kind of answer."""

SUBSET = ("quickstart", "infeasible", "spot-heavy", "three-jobs-one-budget", "whole-job/bill-aws-adapter")
"""Scenarios whose `solve` is enough to check a pure move."""

CHANGES = (
    ("limits.budget_usd=100",),
    ("limits.gpus={forbid: [RTX4090, A100-80GB]}",),
    ("limits.max_gpus=4", "limits.spot_share.max=0.5"),
)

ESTIMATES = (
    ("--architecture", "mistral-7b", "--gpu", "A10G", "--weight-bits", "4"),
    ("--architecture", "llama-2-7b", "--gpu", "A100-80GB", "--method", "full", "--gpus", "4"),
    ("--architecture", "llama-2-70b", "--gpu", "H100-80GB", "--gpus", "16", "--network-gbps", "400"),
    ("--architecture", "gpt2-xl", "--gpu", "V100-16GB", "--method", "full", "--precision", "fp16_mixed"),
    ("--architecture", "mixtral-8x7b", "--gpu", "A100-80GB", "--gpus", "8", "--largest-batch", "--longest-sequence"),
    ("--architecture", "stable-diffusion-1.5", "--gpu", "RTX3090", "--method", "lora", "--resolution", "512"),
    ("--architecture", "qwen2.5-7b", "--gpu", "RTX4090", "--packing", "padded", "--tokens-per-sample", "300"),
    ("--architecture", "llama-3-8b", "--gpu", "T4", "--weight-bits", "8", "--lora-targets", "qv"),
)

PROSE = frozenset(
    {
        "notes",
        "warnings",
        "fix",
        "reason",
        "verdict",
        "change",
        "note",
        "knee",
        "it_would_take",
        "then",
        "binding",
        "to",
    }
)
"""Keys whose strings are sentences: only how many there are counts, their numbers stand under other keys."""

VOLATILE = frozenset({"seconds", "runs_per_second"})
"""Keys that differ from run to run."""

RELATIVE = 1e-9
"""Numbers may differ by this share: sums in another order round differently."""


def calls(subset: bool = False) -> Iterator[tuple[str, ...]]:
    """Yield the command lines of a record."""
    names = sorted(
        str(path.relative_to(SCENARIOS).with_suffix(""))
        for path in SCENARIOS.rglob("*.yaml")
        if "inventory" not in path.parts
    )
    for name in SUBSET if subset else names:
        yield ("solve", _file(name), *AS_OF)
    if subset:
        return
    for name in ASKED:
        yield ("frontier", _file(name), *AS_OF)
        yield ("explain", _file(name), *AS_OF)
        yield ("simulate", _file(name), "--runs", "2000", *AS_OF)
        for change in CHANGES:
            settings = [part for setting in change for part in ("--set", setting)]
            yield ("what-if", _file(name), *settings, *AS_OF)
    for arguments in ESTIMATES:
        yield ("estimate", *arguments, *AS_OF)


def _file(name: str) -> str:
    return str((SCENARIOS / f"{name}.yaml").relative_to(SCENARIOS.parent))


def answer(arguments: Sequence[str]) -> dict[str, Any]:
    """Return exit code and JSON document of one command line, run in this process."""
    from planner.cli import main

    printed, messages = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(messages):
        try:
            main([*arguments, "--json"])
            code: object = 0
        except SystemExit as end:
            code = end.code
    text = printed.getvalue()
    return {"exit": code, "json": json.loads(text) if text else None}


def answers(wanted: Sequence[tuple[str, ...]], processes: int) -> dict[str, Any]:
    """Return the answers of command lines, by command line."""
    with ProcessPoolExecutor(processes) as pool:
        found = pool.map(answer, wanted)
        return {" ".join(arguments): one for arguments, one in zip(wanted, found, strict=True)}


def differences(recorded: Any, now: Any, path: str = "", prose: bool = False) -> Iterator[str]:
    """Yield one line for each place where two documents differ in more than wording."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in sorted(recorded.keys() | now.keys()):
            if key in VOLATILE:
                continue
            place = f"{path}.{key}"
            if key not in now:
                yield f"{place}: gone, was {_short(recorded[key])}"
            elif key not in recorded:
                yield f"{place}: new, {_short(now[key])}"
            else:
                yield from differences(recorded[key], now[key], place, key in PROSE)
    elif isinstance(recorded, list) and isinstance(now, list):
        if len(recorded) != len(now):
            yield f"{path}: {len(recorded)} entries, now {len(now)}"
        else:
            for index, (old, new) in enumerate(zip(recorded, now, strict=True)):
                yield from differences(old, new, f"{path}[{index}]", prose)
    elif not _same(recorded, now, prose):
        yield f"{path}: {_short(recorded)}, now {_short(now)}"


def _same(recorded: Any, now: Any, prose: bool) -> bool:
    if prose and isinstance(recorded, str) and isinstance(now, str):
        return True
    if isinstance(recorded, bool) or isinstance(now, bool):
        return recorded is now
    if isinstance(recorded, (int, float)) and isinstance(now, (int, float)):
        return math.isclose(recorded, now, rel_tol=RELATIVE, abs_tol=RELATIVE)
    return bool(recorded == now)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def main(arguments: Sequence[str] | None = None) -> int:
    """Record or compare; return 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.golden", description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=("record", "compare"))
    parser.add_argument("record", type=Path, help="the JSON file of the record")
    parser.add_argument("--subset", action="store_true", help="compare `solve` of five scenarios only")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--match", default="", help="compare only command lines that hold this text")
    given = parser.parse_args(arguments)
    now = answers([line for line in calls(given.subset) if given.match in " ".join(line)], given.processes)
    if given.task == "record":
        given.record.write_text(json.dumps(now, indent=1, ensure_ascii=False), encoding="utf-8")
        print(f"{len(now)} answers recorded in {given.record}")
        return 0
    recorded = json.loads(given.record.read_text(encoding="utf-8"))
    if given.subset or given.match:
        recorded = {key: recorded[key] for key in now}
    found = [f"{key}{line}" for key in now for line in differences(recorded.get(key), now[key])]
    found += [f"{key}: not answered any more" for key in recorded.keys() - now.keys()]
    print("\n".join([*found, f"{len(now)} answers compared, {len(found)} differences"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
