"""The lowest declared versions are read from `pyproject.toml` as pins."""

from __future__ import annotations

from tests.helpers.floors import DEFAULT_TESTS, FAST_TESTS, lowest_versions


def test_each_dependency_is_pinned_to_its_lowest_version() -> None:
    """Upper bounds and optional dependencies included; what declares no version is any."""
    project = {
        "dependencies": ["numpy>=2.0", "pulp>=2.8,<4"],
        "optional-dependencies": {"dev": ["types-PyYAML", "numpy>=2.0"], "plot": ["matplotlib>=3.9"]},
    }
    assert lowest_versions(project) == ["matplotlib==3.9", "numpy==2.0", "pulp==2.8", "types-PyYAML"]


def test_the_lowest_versions_run_the_default_tests() -> None:
    """`-m` chooses among the tests: without it the choice of `pyproject.toml` holds."""
    assert "-m" not in DEFAULT_TESTS[1:]
    assert FAST_TESTS[: len(DEFAULT_TESTS)] == DEFAULT_TESTS
