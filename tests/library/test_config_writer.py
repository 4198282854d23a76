"""Cards back to the `config.json` of their family."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import LibraryError
from planner.library.decoder_parts import families
from planner.library.huggingface import architecture_from_config, config_of, decoder_config
from planner.library.reading import read_library
from planner.library.schema import Architecture

CARDS = [card for card in read_library().architectures.values() if card.family in families() and not card.image]
WITHOUT = {
    *("deepseek-v2-lite", "dots.llm1", "kimi-linear-48b-a3b", "lfm2-1.2b", "lfm2-350m", "lfm2-700m", "lfm2-8b-a1b"),
    *("llama-4-maverick", "mimo-v2-flash", "moonlight-16b-a3b"),
    *("nemotron-3-nano-30b-a3b", "nemotron-nano-12b-v2", "nemotron-nano-9b-v2"),
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


@pytest.mark.parametrize(
    ("whole", "kind"),
    [
        ({"model_type": "gemma3", "vision_config": {}, "text_config": {"model_type": "gemma3_text"}}, "gemma3_text"),
        ({"model_type": "llava", "text_config": {"model_type": "llama"}}, "llama"),
        ({"model_type": "mistral3", "text_config": {"model_type": "mistral"}, "vision_config": {}}, "mistral"),
        # Transformers 5.23 has no class for the language models of these, whose files name the widths in two ways.
        ({"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text", "rope_scaling": {}}}, "qwen3"),
        ({"model_type": "qwen2_5_vl", "vision_config": {}, "architectures": ["Qwen2_5_VL"]}, "qwen2"),
    ],
)
def test_the_decoder_of_a_multimodal_file_is_a_file_that_has_a_class(whole: dict[str, Any], kind: str) -> None:
    """With the head of the whole model, and without what belongs to images."""
    whole.get("text_config", whole)["vocab_size"] = 100
    assert decoder_config({**whole, "tie_word_embeddings": False}) == {
        "model_type": kind, "vocab_size": 100, "tie_word_embeddings": False
    }  # fmt: skip


def test_the_file_of_a_decoder_stays_as_it_is() -> None:
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "rope_scaling": {"factor": 8.0}}
    assert decoder_config(config) == config
