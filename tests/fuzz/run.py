"""One input through the command line, in a process of its own, and what is wrong with the answer."""

from __future__ import annotations

import json
import math
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_CPU_SECONDS, MAX_WALL_SECONDS, MAX_BYTES = 120, 1200, 10**9
"""What only an input that hangs can use up: the slowest answer takes 5 s of CPU on a quiet machine."""
GOOD_CODES = (0, 2, 3, 4)
"""Exit codes that an input may lead to: an answer, bad input, infeasible or rejected, no plan in time."""
TERMINAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a terminal obeys; tabs and ends of lines are harmless."""
NO_NUMBER = re.compile(r"(?i)(?<![\w./'\"=-])[-+$]?(nan|inf)\b(?! ?[a-z])|\$-\d")
FIGURES = re.compile(r"(^|_)(usd|hours|gib|gb|gpus|tokens|seconds|probability|share|instances)($|_per_)")
SIGNED = re.compile(r"saving|change|difference|delta|saved|slack|effect|margin|relative|free|causes")
"""Keys whose figures may be below 0: differences."""


@dataclass(frozen=True)
class Case:
    """Arguments of `planner`, and the files of the folder in which it runs."""

    arguments: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def as_json(self) -> bool:
        """Whether the answer is one JSON document."""
        return "--json" in self.arguments


IMPORTED_BYTES = 150_000_000
"""Memory of a process of its own that has imported what commands need: a whole solve of quickstart has 143 MB."""


@dataclass(frozen=True)
class Outcome:
    """What a case led to; `code` is negative where a signal ended the process."""

    code: int
    out: str
    err: str
    cpu_seconds: float
    peak_bytes: int


def run(case: Case) -> Outcome:
    """Run the command in a fork, so that imports are paid once and no case outlives its limits."""
    folder = Path(tempfile.mkdtemp(prefix="planner-fuzz-"))
    try:
        for name, content in case.files.items():
            (folder / name).write_bytes(content)
        out, err = folder / ".out", folder / ".err"
        sys.stdout.flush()
        inherited = _resident_bytes()
        child = os.fork()
        if child == 0:
            _answer(case, folder, out, err)
        _, status, used = os.wait4(child, 0)
        text = [path.read_bytes().decode("utf-8", "replace") for path in (out, err)]
        cpu = used.ru_utime + used.ru_stime
        peak = used.ru_maxrss * 1024 - inherited + IMPORTED_BYTES
        return Outcome(os.waitstatus_to_exitcode(status), text[0], text[1], cpu, peak)
    finally:
        shutil.rmtree(folder)


def _resident_bytes() -> int:
    """Return the memory of this process, which a fork begins with: hundreds of tests may have filled it."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _answer(case: Case, folder: Path, out: Path, err: Path) -> None:
    """Run the command in this process, and end it with the exit code."""
    code: Any = 1
    try:
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS + 2,) * 2)
        resource.setrlimit(resource.RLIMIT_AS, (8 * MAX_BYTES,) * 2)
        signal.alarm(MAX_WALL_SECONDS)
        for place, number in ((out, 1), (err, 2)):
            os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
        os.environ["PLANNER_DEBUG"] = "1"  # an unexpected error shows where it comes from
        warnings.simplefilter("always")
        from planner.cli import main

        main(list(case.arguments))
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def complaints(case: Case, found: Outcome) -> list[str]:
    """Return what is wrong with an outcome; an exit code of 1 with the place that raised."""
    wrong = []
    if found.code not in GOOD_CODES:
        wrong.append(f"exit {found.code}: {_raised(found.err)}")
    elif "Traceback" in found.out + found.err:
        wrong.append(f"traceback: {_raised(found.err)}")
    if match := re.search(r"\w+Warning: .{0,80}", found.err):
        wrong.append(match[0])
    if match := TERMINAL.search(found.out + found.err):
        wrong.append(f"terminal character {match[0]!r}")
    if found.cpu_seconds > MAX_CPU_SECONDS:
        wrong.append(f"more than {MAX_CPU_SECONDS} s of CPU")
    if found.peak_bytes > MAX_BYTES:
        wrong.append("more than 1 GB")
    if not case.as_json:
        if found.code == 0 and (match := NO_NUMBER.search(found.out)):
            wrong.append(f"figure {match[0]!r}")
        return wrong
    try:
        document = json.loads(found.out) if found.out else None
    except ValueError:
        return [*wrong, "not one JSON document"] if found.code in GOOD_CODES else wrong
    if found.code == 2:
        errors = document.get("errors") if isinstance(document, dict) else None
        return wrong + (_bad_faults(case, errors) if errors else ["exit 2 without a fault"])
    return wrong + list(dict.fromkeys(_bad_figures(document)))


def _raised(text: str) -> str:
    """Return the error at the end of a traceback, with the last place of the planner in it."""
    last = text.strip().splitlines()[-1:] or ["nothing printed"]
    places = re.findall(r"planner/([\w/]+\.py)\", line (\d+)", text)
    return f"{':'.join(places[-1]) if places else ''} {last[0][:160]}"


def _bad_faults(case: Case, errors: list[dict[str, Any]]) -> Iterator[str] | list[str]:
    """Return the faults that lack a line where the file has lines, or that do not say what would be right."""
    wrong = []
    for one in errors:
        text = f"{one['where']}: {one['what']}; {one['fix']}"[:160]
        if not one["fix"]:
            wrong.append(f"no fix: {text}")
        content = case.files.get(os.path.basename(one["file"]))
        if (
            not one["line"]
            and content is not None
            and not re.match(r"cannot be (read|unpacked)|too large|.*gzip|unpacks", one["what"])
        ):
            wrong.append(f"no line: {text}")
        if len(str(one)) > 3000:
            wrong.append(f"long fault: {text}")
    return list(dict.fromkeys(wrong))


def _bad_figures(value: Any, key: str = "") -> Iterator[str]:
    """Yield figures that are not finite, or below 0 where the key is no difference."""
    if isinstance(value, dict):
        for name, inside in value.items():
            if not SIGNED.search(name):
                yield from _bad_figures(inside, name)
    elif isinstance(value, list):
        for inside in value:
            yield from _bad_figures(inside, key)
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{key} is {value}"
    elif isinstance(value, (int, float)) and value < -1e-6 and FIGURES.search(key):
        yield f"{key} is negative"
