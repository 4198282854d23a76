"""Which cases of the tests `benchmarks.kinds` counts as right, refused or wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import kinds

ROOT = Path(__file__).parents[2]
CASES = """
import pytest

@pytest.mark.parametrize("case", [{"read": 1}, {"refused": "why"}, {"read": 2}])
def test_a_file(case):
    assert case.get("read") != 2

def test_an_encoder_is_refused():
    pass

def test_a_refused_file_that_is_read():
    assert False

@pytest.mark.skip
def test_nobody_has_the_package():
    pass

@pytest.mark.ecosystem
def test_of_the_tool_itself():
    pass

@pytest.fixture
def broken():
    raise OSError

def test_that_never_starts(broken):
    pass
"""


def outcomes(path: Path, text: str = CASES) -> dict[str, str]:
    """Return the outcome of each case of a file of tests, by its name."""
    path.write_text(text, encoding="utf-8")
    return {name.rpartition("::")[2]: outcome for name, outcome in kinds.run([str(path)]).outcomes.items()}


def test_a_case_is_right_refused_or_wrong(tmp_path: Path) -> None:
    """A refusal that fails is wrong, as is a case that breaks before it starts; what is skipped is not counted."""
    assert outcomes(tmp_path / "test_files.py") == {
        "test_a_file[case0]": kinds.RIGHT,
        "test_a_file[case1]": kinds.REFUSED,
        "test_a_file[case2]": kinds.WRONG,
        "test_an_encoder_is_refused": kinds.REFUSED,
        "test_a_refused_file_that_is_read": kinds.WRONG,
        "test_that_never_starts": kinds.WRONG,
    }


def test_cases_of_the_repository_are_counted() -> None:
    """Their folders have a `conftest.py`, for which pytest puts its plugins into a set."""
    found = kinds.run(["tests/catalogs/test_litellm.py"]).outcomes
    assert len(found) > 3
    assert set(found.values()) <= {kinds.RIGHT, kinds.REFUSED}


@pytest.mark.parametrize("status", [pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR])
def test_cases_that_pytest_could_not_run_are_an_error(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """A table of zeros would hide it."""
    monkeypatch.setattr(pytest, "main", lambda *_, **__: status)
    with pytest.raises(RuntimeError, match=f"status {int(status)}"):
        kinds.run(["tests/catalogs/test_litellm.py"])


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        ("def test_a(): pass", 0, ["1", "1", "0", "0"]),
        ("def test_b(): assert False", 1, ["1", "0", "0", "1"]),
        ("import no_such_package", 1, ["1", "0", "0", "1"]),
        ("", 1, ["0", "0", "0", "0"]),
    ],
)
def test_the_table_fails_where_a_case_is_wrong_or_none_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    code: int,
    shown: list[str],
) -> None:
    """So that a renamed file of tests, or one that cannot be loaded, does not pass as a kind without faults."""
    path = tmp_path / f"test_one_{abs(hash(text))}.py"  # Python keeps a module of a name that it has seen
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(kinds, "TRIED", {"logs": (str(path),)})
    assert kinds.main([]) == code
    assert capsys.readouterr().out.splitlines()[-1].split() == ["logs", *shown]


def test_every_kind_names_files_of_tests_that_exist() -> None:
    """And none twice, which would count its cases twice."""
    named = [test for tests in kinds.TRIED.values() for test in tests]
    assert len(named) == len(set(named))
    for test in named:
        path, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8") if function else (ROOT / path).is_file()
