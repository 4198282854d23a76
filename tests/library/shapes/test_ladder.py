"""Generated shapes: their weights, their names, and the models of a family by size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.library.huggingface import count_of_card
from planner.library.reading import (
    CardNames,
    describe_misfit,
    families,
    find_generated,
    generate,
    generated_name,
    members,
    read_library,
)


@given(st.integers(1, 80), st.integers(1, 64))
def test_a_generated_shape_has_the_weights_of_its_dimensions(layers: int, heads: int) -> None:
    """The count that checks cards of one's own agrees, and heads fill the width."""
    card = generate(generated_name(layers, 128 * heads))
    assert count_of_card(card.model_dump()) == card.parameters
    assert card.heads * card.head_dim == card.hidden
    assert card.ffn % 256 == 0 and card.ffn >= 8 * card.hidden / 3


def test_a_worked_example_of_the_weights() -> None:
    """16 x 2,048: 2 x 32,768 x 2,048 + 16 x (4 x 2,048^2 + 3 x 2,048 x 5,632 + 2 x 2,048) + 2,048 = 956,368,896."""
    assert generate("llama-16x2048").parameters == 956_368_896


def test_the_rule_is_that_of_llama_7b() -> None:
    """32 layers of 4,096 with a feed-forward of 11,008, as released."""
    made, card = generate("llama-32x4096"), read_library(["llama-2-7b"]).architecture("llama-2-7b")
    assert (made.layers, made.hidden, made.heads, made.ffn) == (card.layers, card.hidden, card.heads, card.ffn)


def test_a_generated_shape_is_known_by_its_name_everywhere() -> None:
    """A scenario and the library understand it in any case."""
    assert CardNames("architectures").canonical("LLaMA-16x2048") == "llama-16x2048"
    assert read_library(["llama-16x2048"]).architecture("llama-16x2048").layers == 16


@pytest.mark.parametrize("name", ["llama-0x2048", "llama-16x2000", "llama-999x2048"])
def test_a_shape_that_no_framework_takes_is_refused_with_what_would_be_right(name: str) -> None:
    """No layer, a width that heads do not fill, too many layers."""
    assert find_generated(name) is None
    assert "a width that 128 divides" in (describe_misfit(name) or "")
    assert "a width that 128 divides" in CardNames("architectures").suggestion(name)


def test_members_are_shipped_and_generated_models_by_size() -> None:
    """Within the range, smallest first; of a family without rules only the shipped ones."""
    found = members("llama", 0.9e9, 1.3e9)
    assert found == ("llama-16x2048", "tinyllama-1.1b", "llama-3.2-1b", "llama-18x2304")
    assert members("qwen2", 0.1e9, 4e9) == ("qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-3b")
    assert members("llama", 1, 2) == ()


def test_a_superseded_release_is_planned_by_its_name_alone() -> None:
    """A job that leaves the size open tries the releases of today; an old configuration still finds its model."""
    assert "codellama-7b" not in members("llama", 6e9, 7e9)
    (card,) = read_library(["codellama/CodeLlama-7b-hf"]).architectures.values()
    assert card.named_only and card.parameters == 6_738_546_688


def test_families_are_those_of_dense_models_of_text() -> None:
    """Mixtures of experts and image models have no law."""
    assert "llama" in families()
    assert not {"mixtral", "unet", "qwen3_moe"} & families().keys()
