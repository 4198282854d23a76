"""Settings of every test process.

Linear algebra keeps to one thread: several test processes that each take every core slow one another down many times.
"""

import importlib
import os
import pkgutil

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers import computed_once

# A busy machine draws examples slowly: that is no fault of the code. Each run draws the same ones, here and in CI.
settings.register_profile("no_clock", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no_clock")

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


FIRST = (
    *("benchmarks/test_mutations.py", "end_to_end/test_documents.py", "end_to_end/test_shipped_scenarios.py"),
    *("end_to_end/test_public_names.py", "benchmarks/test_spot_groups.py"),
    *("laws/", "independent/", "end_to_end/", "analysis/", "services/", "timetable/"),
)
"""What takes longest, the longest first: where a file stays in one process, none of these is the last one alone."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files that take longest first."""

    def place(item: pytest.Item) -> int:
        return next(
            (number for number, path in enumerate(FIRST) if item.nodeid.startswith(f"tests/{path}")), len(FIRST)
        )

    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def shared_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where several processes run the tests, let them leave expensive plans to one another."""
    if hasattr(request.config, "workerinput"):
        folder = tmp_path_factory.getbasetemp().parent / "computed_once"  # of this run alone
        folder.mkdir(exist_ok=True)
        computed_once.SHARED[:] = [folder]


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Report failures as they happen, in the process that prints."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_FailureReporter(config), "failures_at_once")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Import all modules, so that each process draws the same examples, where a test draws any.

    Hypothesis takes constants from every module that happens to be imported: without this, its examples depend on which
    tests ran before in the same process.
    """
    draws = any(getattr(getattr(item, "obj", None), "is_hypothesis_test", False) for item in session.items)
    if draws and not session.config.option.collectonly:
        import benchmarks
        import planner

        for package in (planner, benchmarks):
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                if not module.name.endswith("__main__"):
                    importlib.import_module(module.name)


class _FailureReporter:
    """Names each failing test when it fails, not minutes later in the summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            reason = getattr(getattr(report.longrepr, "reprcrash", None), "message", "").partition("\n")[0]
            terminal.write_line(f"\nFAILED {report.nodeid} ({report.when}): {reason}", red=True)
