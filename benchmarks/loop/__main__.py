"""Plan, export, train, kill, resume, load and track tiny runs on the CPU with the real trainers, and print a table.

    python -m benchmarks.loop [--env TRAINER=PYTHON] [--keep FOLDER] [WORD ...]

Needs torch and the trainers, some 6 GB each: `--env trl=PATH/bin/python` names an environment that has one, else uv
makes it in `.ecosystem/` (tests/helpers/export_table.py lists the packages). Neither weights nor a network are needed.
WORD: run only the cases whose name has every word. Ends with 1 where a run differs from its plan.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.loop.cases import CASES, OF_SCRIPTS
from benchmarks.loop.missing_gpu import BY_TRAINER, COMMON, IN_PROCESS
from benchmarks.loop.run_case import Result, run_case
from tests.helpers.export_table import python_of

HERE = Path(__file__).parent
FIRST_PORT = 29600


def main() -> int:
    """Run the cases one after another; print a row for each, and every line that differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--env", action="append", default=[], metavar="TRAINER=PYTHON")
    parser.add_argument("--keep", metavar="FOLDER", help="Keep the runs there.")
    given = parser.parse_args()
    pythons = dict(each.split("=", 1) for each in given.env)
    cases = [case for case in CASES if all(word in case.name for word in given.words)]
    wrong = 0
    print("| case | ran | resumed from | step, tracked of own | lines that agree |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(given.keep or made).absolute()
        for number, case in enumerate(cases):
            packages = "trl" if case.trainer in OF_SCRIPTS else case.trainer
            python, model = Path(python_of(packages, pythons)), folder / f"model-{packages}"
            if not model.exists():
                model.mkdir(parents=True)
                subprocess.run([str(python), str(HERE / "tiny_model.py"), str(model)], check=True, capture_output=True)
            place = folder / f"case-{number}"
            result = run_case(case, python, model, place, FIRST_PORT + number)
            wrong += report(case.name, result, place)
    print_changes()
    return 1 if wrong else 0


def report(name: str, result: Result, place: Path) -> int:
    """Print the row of a case and its lines that differ; return how many do."""
    apart = [line for line in result.lines if not line.agrees]
    ran = "yes" if not any(line.what == "exit code" for line in apart) else "no"
    agree = f"{len(result.lines) - len(apart)} of {len(result.lines)}"
    print(f"| {name} | {ran} | {result.resumed_from} | {result.tracked} | {agree} |", flush=True)
    for line in apart:
        print(f"  {line.what}: planned {line.planned}, found {line.found}", flush=True)
    if ran == "no":
        print("\n".join(f"    {row[:160]}" for row in result.consoles.strip().splitlines()[-12:]), flush=True)
    (place / "consoles.log").write_text(result.consoles)
    return len(apart)


def print_changes() -> None:
    """Print what was changed because there is no GPU, and why."""
    print("\nChanged because there is no GPU:")
    for trainer, changes in {"all": COMMON, **BY_TRAINER}.items():
        for change in changes:
            print(f"- {trainer}: {change.name} ({change.file}): {change.reason}")
    for name, reason in IN_PROCESS.items():
        print(f"- {name}: {reason}")


if __name__ == "__main__":
    sys.exit(main())
