"""Differences between two ways to run a job, in the order that a person cares about."""

from __future__ import annotations

from typing import Any

import pytest

from planner.results.explanation import (
    FEATURES,
    Difference,
    compare,
    describe_differences,
    describe_job_differences,
    spot_percent,
)
from tests.helpers.plans import make_assignment

PLAIN = make_assignment()


def told(**other: Any) -> str:
    return describe_differences(compare(PLAIN, make_assignment(**other)))


def test_the_same_way_has_no_changes() -> None:
    """Figures alone (hours, dollars) are no difference in how a job is run."""
    assert compare(PLAIN, make_assignment(cost_usd=9.0, start_hours=0.1)) == ()
    assert describe_differences(()) == ""


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"techniques": {"weight_bits": 16}}, "16-bit"),
        ({"techniques": {"weight_bits": 8}}, "8-bit"),
        ({"techniques": {"method": "full", "weight_bits": 16}}, "full training"),
        ({"gpu": "A6000"}, "other GPU"),
        ({"gpus": 4}, "4 GPUs instead of 1"),
        ({"provider": "runpod"}, "other provider"),
        ({"spot_share": 0.4}, "spot begins"),
        ({"region": "Texas"}, "other region"),
        ({"techniques": {"activation_checkpointing": "none"}}, "no checkpointing"),
        ({"techniques": {"sharding": "zero3"}}, "zero3"),
        ({"techniques": {"optimizer": "adamw_8bit"}}, "adamw_8bit"),
        ({"techniques": {"tensor_parallel": 2}}, "tensor parallel 2"),
        ({"techniques": {"micro_batch": 4}}, "other batch"),
    ],
)
def test_each_difference_has_its_words(other: dict[str, Any], words: str) -> None:
    """One changed field is told in a few words that need no table."""
    assert told(**other) == words


def test_of_several_jobs_each_is_named_with_its_most_telling_difference() -> None:
    """Jobs that differ alike are told together; those that stay the same are not."""
    before = [make_assignment(name=name) for name in "abcd"]
    other = [{"gpu": "A6000", "gpus": 4}, {"gpu": "H200"}, {}, {"spot_share": 0.4}]
    after = [make_assignment(name=one.name, **way) for one, way in zip(before, other, strict=True)]
    assert describe_job_differences(before, after) == "a, b: other GPU; d: spot begins"
    assert describe_job_differences(before[:1], after[:1]) == "other GPU, 4 GPUs instead of 1"
    assert describe_job_differences((), after[:1]) == describe_job_differences(before, before) == ""


def test_methods_away_from_full_training_are_named() -> None:
    """Coming from full training, the bits alone would not say what is new."""
    full = make_assignment(techniques={"method": "full", "weight_bits": 16})
    assert describe_differences(compare(full, PLAIN)) == "QLoRA"


def test_spot_shares_tell_both_ends_and_the_way_back() -> None:
    """From part to all, and from part to none."""
    part, whole = make_assignment(spot_share=0.4), make_assignment(spot_share=1.0)
    assert describe_differences(compare(part, whole)) == "spot 40 % to 100 %"
    assert describe_differences(compare(part, PLAIN)) == "all on demand"


@pytest.mark.parametrize(
    ("share", "words"), [(0.0, "0 %"), (0.001, "under 1 %"), (0.4, "40 %"), (0.999, "over 99 %"), (1.0, "100 %")]
)
def test_a_part_never_reads_as_all_or_nothing(share: float, words: str) -> None:
    """Rounding does not turn a sliver into none."""
    assert spot_percent(share) == words


def test_the_two_most_telling_come_first() -> None:
    """Method before card before the rest, whatever else is different."""
    other = make_assignment(gpu="A6000", gpus=2, region="Texas", techniques={"weight_bits": 16, "micro_batch": 8})
    found = compare(PLAIN, other)
    order = [name for name, _ in FEATURES]
    assert [one.what for one in found] == sorted((one.what for one in found), key=order.index)
    assert found[0] == Difference(what="method", before="QLoRA", after="LoRA")
    assert describe_differences(found) == "16-bit, other GPU"
