"""Record what many commands answer and write, and compare a later state of the code with the record.

    python -m benchmarks.golden record RECORD.json
    python -m benchmarks.golden compare RECORD.json [--subset] [--match TEXT]

A refactoring must change no number, key, identifier or exit code, and no byte of an exported file. Prose (notes,
warnings and the like) is compared by the number of its entries, so that sentences can be rewritten freely.

A record has sessions: command lines that run one after the other in an empty folder, each on what those before it
wrote. There is one for every shipped scenario, with each command that takes one (solve, check of the plan, export of
all its files, track and calibrate with a log of ten steps, explain, simulate, what-if, frontier), and one for the file
of each tool, which is exported, read and planned again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

AS_OF = ("--as-of", "2026-11-21")
SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios"

SUBSET = ("quickstart", "infeasible", "spot-heavy", "three-jobs-one-budget", "bill-aws-adapter")
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

TOOLS = {
    "trl": "sft.yaml",
    "axolotl": "axolotl.yml",
    "llamafactory": "llamafactory.yaml",
    "deepspeed": "ds_config.json",
    "accelerate": "accelerate.yaml",
    "unsloth": "",
    "litgpt": "",
}
"""Tools that files are exported for, and the file of each that `solve --from` reads again, if it does."""

LOG_FILE = "log.csv"
LOG = "step,seconds\n" + "".join(f"{step},{25 + step % 3}\n" for step in range(1, 11))
"""A log of ten steps; what it says of a plan is no sense, but the same nonsense after a refactoring."""

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

FINGERPRINT = re.compile(r'("plan": |"plan.json": {\s*"sha256": )"[0-9a-f]{64}"')
"""Of the plan file, in `export.json`: the file has the seconds of the solve, so it differs from run to run."""

RELATIVE = 1e-9
"""Numbers may differ by this share: sums in another order round differently."""


Line = tuple[str, ...]
Session = tuple[str, tuple[Line, ...]]


def sessions(subset: bool = False) -> Iterator[Session]:
    """Yield the name and the command lines of each session."""
    paths = [path for path in SCENARIOS.rglob("*.yaml") if "inventory" not in path.parts]
    if subset:
        yield from ((name, (("solve", name, *AS_OF, "--json"),)) for name in SUBSET)
        return
    for path in sorted(paths):
        yield path.stem, tuple(_of_scenario(path.stem))
    for tool, file in TOOLS.items():
        chosen = ("--set", f"jobs.quickstart.framework=[{tool}]") if not file else ()
        alone = ("--set", "jobs.quickstart.techniques.sharding=[none]") if not file else ()
        yield f"files of {tool}", tuple(_of_tool(tool, file, (*chosen, *alone)))
    yield "estimates", tuple(("estimate", *arguments, *AS_OF, "--json") for arguments in ESTIMATES)


def _of_tool(tool: str, file: str, settings: Line) -> Iterator[Line]:
    """Yield a solve whose plan the tool can run, its export, and a plan for the exported file."""
    yield ("solve", "quickstart", *settings, *AS_OF, "-o", "plan.json", "--json")
    yield ("export", "plan.json", "--to", tool, "--dataset", "my/data", "-o", tool)
    if file:
        work = ("--model", "llama-3.1-8b", "--tokens", "20M") if tool in {"deepspeed", "accelerate"} else ()
        yield ("solve", "--from", f"{tool}/{file}", *work, "--deadline", "2d", *AS_OF, "--json")


def _of_scenario(name: str) -> Iterator[Line]:
    """Yield every command that takes a scenario or its plan."""
    yield ("solve", name, *AS_OF, "-o", "plan.json", "--json")
    yield ("check", "plan.json", name, "--json")
    yield ("export", "plan.json", "--all", "--dataset", "my/data", "-o", "files")
    yield ("track", "plan.json", LOG_FILE, *AS_OF, "--json")
    yield ("calibrate", LOG_FILE, "--gpu", "A100-80GB", "--scenario", name, *AS_OF, "--json")
    yield ("explain", name, *AS_OF, "--json")
    yield ("simulate", name, "--runs", "500", *AS_OF, "--json")
    for change in CHANGES:
        settings = [part for setting in change for part in ("--set", setting)]
        yield ("what-if", name, *settings, *AS_OF, "--json")
    yield ("frontier", name, *AS_OF, "--json")


def answer(session: Session) -> dict[str, Any]:
    """Return what each command line of a session answers, by name and command line."""
    name, lines = session
    found = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(LOG_FILE).write_text(LOG)
        written: dict[str, str] = _files()
        for line in lines:
            found[f"{name}: {' '.join(line)}"] = one = _run(line)
            files = _files()
            one["files"] = {name: text for name, text in files.items() if written.get(name) != text}
            written = files
    return found


def _run(line: Line) -> dict[str, Any]:
    """Return exit code and JSON document of one command line, or how many lines it printed."""
    from planner.cli import main

    printed, messages = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(messages):
        try:
            main([*line])
            code: object = 0
        except SystemExit as end:
            code = end.code
    text = printed.getvalue()
    found: dict[str, Any] = {"exit": code}
    if "--json" in line:
        return found | {"json": json.loads(text) if text else None}
    return found | {"lines": len(text.splitlines())}


def _files() -> dict[str, str]:
    """Return the texts of the files in the present folder, but for plans, which are compared as they are printed."""
    paths = [path for path in Path().rglob("*") if path.is_file() and path.name != "plan.json"]
    return {str(path): FINGERPRINT.sub(r'\1""', path.read_text(encoding="utf-8")) for path in sorted(paths)}


def answers(wanted: Sequence[Session], processes: int) -> dict[str, Any]:
    """Return the answers of sessions, by command line."""
    with ProcessPoolExecutor(processes) as pool:
        found: dict[str, Any] = {}
        for one in pool.map(answer, wanted):
            found.update(one)
        return found


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
    parser.add_argument("--match", default="", help="only sessions whose name holds this text")
    given = parser.parse_args(arguments)
    wanted = [session for session in sessions(given.subset) if given.match in session[0]]
    now = answers(wanted, given.processes)
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
