"""Count the kinds of files that were tried, right, refused with a reason, or wrong: `python -m benchmarks.kinds`.

Each kind is a case of the tests, whose answer was worked out by hand or by the tool itself; the cases are run anew. A
case is counted as refused where the file must be refused, and with the reason that it expects. `--files` prints each.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
TRIED: dict[str, tuple[str, ...]] = {
    "training configurations": ("tests/exports/test_what_configs_mean.py",),
    "models": (
        "tests/library/test_families.py::test_weights_are_those_of_transformers",
        "tests/library/test_huggingface.py",
    ),
    "price lists": (
        "tests/catalogs/test_provider_answers.py",
        "tests/catalogs/test_catalog.py",
        "tests/catalogs/test_litellm.py",
    ),
    "logs": (
        "tests/analysis/calibration/test_tool_logs.py",
        "tests/analysis/calibration/test_log_formats.py",
        "tests/analysis/calibration/test_line_logs.py",
    ),
}
"""Kind of file -> the tests whose cases are files of that kind."""
RIGHT, REFUSED, WRONG = "right", "refused", "wrong"


@dataclass(eq=False)  # pytest keeps its plugins in sets, and a class that is compared by value has no hash
class Cases:
    """Outcome of every case of a run, as a plugin of pytest."""

    refusals: set[str] = field(default_factory=set)
    outcomes: dict[str, str] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, items: Sequence[Any]) -> None:
        """Note the cases that must be refused: by their own data, or by the name of the test."""
        for item in items:
            case = getattr(item, "callspec", None) and item.callspec.params.get("case")
            if "refused" in item.name.partition("[")[0] or (isinstance(case, dict) and "refused" in case):
                self.refusals.add(item.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        """Count a file of tests that cannot be loaded as wrong, whose cases would be missing in silence."""
        if report.failed:
            self.outcomes[report.nodeid] = WRONG

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep what came of a case; one that is skipped is not counted."""
        if report.failed:
            self.outcomes[report.nodeid] = WRONG
        elif report.when == "call" and report.passed:
            self.outcomes.setdefault(report.nodeid, REFUSED if report.nodeid in self.refusals else RIGHT)


def run(tests: Sequence[str]) -> Cases:
    """Run the cases in this process, without the output of pytest.

    RuntimeError, with that output, where pytest itself breaks: its outcomes would be missing in silence.
    """
    import pytest  # late: only contributors have it

    cases = Cases()
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", "-m", "not ecosystem", f"--rootdir={ROOT}"]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = pytest.main([*options, *(str(ROOT / test) for test in tests)], plugins=[cases])
    if status == pytest.ExitCode.INTERNAL_ERROR or (status == pytest.ExitCode.USAGE_ERROR and not cases.outcomes):
        raise RuntimeError(f"pytest ended with status {int(status)}:\n{output.getvalue()}")
    return cases


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where a case is wrong, or none was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kinds", description=__doc__)
    parser.add_argument("--files", action="store_true", help="also print what came of each case")
    asked = parser.parse_args(arguments)
    print(f"{'kind':<25} {'tried':>6} {RIGHT:>6} {'refused with reason':>20} {WRONG:>6}")
    fails = False
    for kind, tests in TRIED.items():
        outcomes = run(tests).outcomes
        counts = Counter(outcomes.values())
        fails |= not outcomes or counts[WRONG] > 0
        print(f"{kind:<25} {len(outcomes):>6} {counts[RIGHT]:>6} {counts[REFUSED]:>20} {counts[WRONG]:>6}")
        if asked.files:
            print(*(f"  {outcome:<8} {name}" for name, outcome in sorted(outcomes.items())), sep="\n")
    return int(fails)


if __name__ == "__main__":
    sys.exit(main())
