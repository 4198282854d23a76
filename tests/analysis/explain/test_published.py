"""What published work found on a technique, and what it would bring the jobs of a scenario."""

from __future__ import annotations

import pytest

from planner.analysis.limit_sensitivity import explain_technique
from planner.errors import ScenarioError
from planner.library.engines import published_techniques
from planner.report.explanation_text import render_technique
from planner.scenario.scenario import SolveOptions
from tests.helpers.stage_scenarios import AS_OF, LORA, asked, library

ASKED = {"sparsity", "shared_layers", "caching", "prefetching", "larger_batch", "from_scratch"}


def test_every_technique_of_the_articles_has_findings_with_sources() -> None:
    """Each with a reason, and numbers from somewhere."""
    known = published_techniques()
    assert set(known) == ASKED
    for one in known.values():
        assert one.why and one.decides
        assert (one.decides == "no") or one.where
        assert one.found and all(fact.finding and fact.setting and fact.source for fact in one.found)


@pytest.mark.parametrize("name", sorted(ASKED))
def test_the_answer_is_text_of_80_columns(name: str) -> None:
    """The verdict first, and no line is cut."""
    text = render_technique(explain_technique(asked(), name, SolveOptions(as_of=AS_OF), library()))
    assert text.startswith(f"{name}: the program ")
    assert all(len(row) <= 80 for row in text.splitlines()) and "..." not in text


def test_caching_is_answered_from_the_plan() -> None:
    """4 bytes per token of the speed of the plan, against the storage of the job."""
    answer = explain_technique(asked(), "caching", SolveOptions(as_of=AS_OF), library())
    path = answer.data_paths["job"]
    assert path.storage_bytes_per_second == 0.5e9
    assert path.read_bytes_per_second < 1e-3 * path.storage_bytes_per_second
    assert path.cores_used == pytest.approx(
        path.read_bytes_per_second / 4 / 200e3, rel=0.05
    )  # a packed batch is 97 % full
    assert "caching or prefetching would save no time" in render_technique(answer)


def test_slow_storage_is_worth_a_cache() -> None:
    """At 5 kB/s the run waits for its tokens: the saved hours are those that it waits."""
    slow, fast = (
        explain_technique(
            asked(work={"tokens": 1e8}, storage_gb_per_second=gb), "prefetching", SolveOptions(as_of=AS_OF), library()
        ).data_paths["job"]
        for gb in (5e-6, 0.5)
    )
    assert slow.saved_hours > 0 == fast.saved_hours
    assert slow.read_bytes_per_second == pytest.approx(slow.storage_bytes_per_second)


def test_a_large_batch_of_lora_is_noted() -> None:
    """64 sequences are more than the 32 of measured runs."""
    answer = explain_technique(asked(techniques=LORA, global_batch=64), "larger_batch")
    assert answer.notes == ("job: 64 sequences or images a step, as given; runs of LoRA that were measured keep to 32",)


def test_an_unknown_technique_is_told_with_the_nearest() -> None:
    """One fault."""
    with pytest.raises(ScenarioError, match=r"nothing is known of 'cachin'; did you mean caching\?"):
        explain_technique(asked(), "cachin")
