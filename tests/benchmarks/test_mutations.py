"""Single bugs put into the search on purpose: each applies, and the tests notice it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.mutations.catalogue import MUTATIONS
from benchmarks.mutations.mutation import AnchorError, Mutation
from benchmarks.mutations.runner import ROOT, Outcome, Verdict, run_mutations

EVERY, FIRST = 57, 10
"""Of the mutations that run here, each in a process of some seconds: one each of candidates, their stages, the program,
policies, memory, services, what a plan says, a trainer and a launcher. `python -m benchmarks.mutations` runs them all.
From `FIRST` on, their tests are short ones."""


def test_a_text_that_is_not_there_once_is_an_error(tmp_path: Path) -> None:
    """A mutation that a change of the code has overtaken is not taken for one that nobody notices."""
    (tmp_path / "code.py").write_text("a = 1\nb = 1\n")
    assert Mutation("one", "code.py", "a = 1", "a = 2", ()).mutated(tmp_path) == "a = 2\nb = 1\n"
    for old in ("= 1", "c = 1"):
        with pytest.raises(AnchorError, match="times"):
            Mutation("none or two", "code.py", old, "", ()).mutated(tmp_path)
    with pytest.raises(AnchorError, match="no Python"):
        Mutation("half a word", "code.py", "= 1\nb", "= 1 not\nb", ()).mutated(tmp_path)
    with pytest.raises(AnchorError, match="no file"):
        Mutation("elsewhere", "other.py", "a", "b", ()).mutated(tmp_path)


@pytest.mark.long
def test_every_mutation_applies_and_has_tests() -> None:
    """Names are unique within a file, texts occur once, tests exist."""
    twice = [name for name, count in Counter((one.file, one.name) for one in MUTATIONS).items() if count > 1]
    assert not twice
    for one in MUTATIONS:
        assert one.mutated(ROOT) != (ROOT / one.file).read_text(encoding="utf-8"), one.name
        assert one.tests, one.name
        assert all((ROOT / test.partition("::")[0]).exists() for test in one.tests), one.name


@pytest.mark.long
def test_the_tests_notice_single_bugs() -> None:
    """Of a sample at least 95 % are noticed, and none fails to run."""
    outcomes: list[Outcome] = []
    run_mutations(MUTATIONS[FIRST::EVERY], 2, outcomes.append, check_first=False)
    assert not [one for one in outcomes if one.verdict is Verdict.ERROR]
    alive = [one for one in outcomes if one.verdict is Verdict.SURVIVED]
    assert len(outcomes) >= 8 and len(alive) <= 0.05 * len(outcomes), alive
