"""Cards back to the `config.json` of their family."""

from __future__ import annotations

import pytest

from planner.errors import LibraryError
from planner.library.config_writer import config_of
from planner.library.decoder_parts import families
from planner.library.huggingface import architecture_from_config
from planner.library.reading import read_library
from planner.library.schema import Architecture

CARDS = [card for card in read_library().architectures.values() if card.family in families() and not card.image]
WITHOUT = {
    *("deepseek-v2-lite", "dots.llm1", "kimi-linear-48b-a3b", "lfm2-1.2b", "lfm2-350m", "lfm2-700m", "lfm2-8b-a1b"),
    *("llama-4-maverick", "mimo-v2-flash", "nemotron-3-nano-30b-a3b"),
}
"""Cards of known families whose file says more than the card."""


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_a_card_comes_back_from_the_file_that_is_written_of_it(card: Architecture) -> None:
    """Weights, widths and windows; where the card says too little, no file is made up."""
    if card.name in WITHOUT:
        with pytest.raises(LibraryError, match=r"cannot be written .* give its own file as the architecture"):
            config_of(card)
        return
    found = Architecture.model_validate(architecture_from_config(config_of(card), card.name))
    for name in (
        "parameters",
        "active_parameters",
        "layers",
        "hidden",
        "heads",
        "kv_heads",
        "head_dim",
        "ffn",
        "vocab",
    ):
        assert getattr(found, name) == getattr(card, name), name
    assert (found.sliding_window, found.tied_embeddings) == (card.sliding_window, card.tied_embeddings)


def test_a_family_without_a_row_has_no_file() -> None:
    """Its keys are read by code of its own, which cannot be turned round."""
    with pytest.raises(LibraryError, match=r"the config.json of gpt2 cannot be written"):
        config_of(read_library().architecture("gpt2"))
