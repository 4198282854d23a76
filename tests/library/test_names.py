"""Names as people write them lead to one card, or to none."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from planner.library.names import find_gpu, split_count
from planner.library.reading import CardNames, read_library

ARCHITECTURES, GPUS = CardNames("architectures"), CardNames("gpus")


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2.5-7b"),
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-30b-a3b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("NousResearch/Meta-Llama-3.1-8B", "llama-3.1-8b"),
        ("NousResearch/Hermes-3-Llama-3.1-8B", "llama-3.1-8b"),
        ("unsloth/Llama-3.2-1B-Instruct-bnb-4bit", "llama-3.2-1b-nf4"),
        ("meta-llama/Llama-2-13b-chat-hf", "llama-2-13b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        ("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini"),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "qwen3-8b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama-3.1-8b"),
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"),
        ("zai-org/GLM-4.5-Air-FP8", "glm-4.5-air-fp8"),
        ("openai-community/gpt2", "gpt2"),
        ("unsloth/gpt-oss-20b-BF16", "gpt-oss-20b-bf16"),
        ("ibm-granite/granite-3.3-8b-instruct", "granite-3.3-8b"),
        ("EleutherAI/pythia-6.9b-deduped", "pythia-6.9b"),
        ("Llama2-70B", "llama-2-70b"),
        ("llama2-7b", "llama-2-7b"),
        ("Llama3.1 8B", "llama-3.1-8b"),
        ("gemma2-9b-it", "gemma-2-9b"),
        ("MiniMaxAI/MiniMax-M2.5", "minimax-m2"),
    ],
)
def test_repositories_and_fine_tunes_lead_to_their_base(repository: str, name: str) -> None:
    """The repository of a release, of its tuned forms, and of a fine-tune whose name says its base."""
    assert ARCHITECTURES.canonical(repository) == name


@pytest.mark.parametrize(
    "repository",
    [
        "openai-community/gpt2-medium",
        "microsoft/Phi-4-mini-instruct",
        "Qwen/Qwen2-VL-7B-Instruct",
        "HuggingFaceH4/zephyr-7b-beta",
        "nvidia/Llama-3.1-Minitron-4B-Width-Base",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",  # untied, unlike Qwen2.5-1.5B
        "someone/Llama-3.1-8B-and-Qwen2.5-7B",
        "Qwen/Qwen3-Embedding-8B",
        "someone/Llama-3.1-8B-Vision",
        "llama",
        "",
        "/",
    ],
)
def test_names_of_other_shapes_lead_to_nothing(repository: str) -> None:
    """A near name is no base: another size, another architecture, two bases, or none."""
    assert ARCHITECTURES.canonical(repository) is None


@pytest.mark.parametrize("path", sorted(ARCHITECTURES.folder.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_model_answers_to_a_repository(path: Path) -> None:
    """Every decoder with public weights has its repository among the aliases, and each alias leads to its own card."""
    card = yaml.safe_load(path.read_text(encoding="utf-8"))
    labels = card.get("aliases", [])
    if card.get("parameters_basis") != "computed":  # of a paper without public weights
        assert any("/" in label for label in labels)
    assert {ARCHITECTURES.canonical(label) for label in (card["name"], *labels)} == {card["name"]}
    assert all(ARCHITECTURES.canonical(label.upper()) == card["name"] for label in labels)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("4090", "RTX4090"),
        ("3090 ti", "RTX3090Ti"),
        ("rtx-4070-ti-super", "RTX4070TiSUPER"),
        ("a100-80g", "A100-80GB"),
        ("A100 80GB", "A100-80GB"),
        ("a100_40gb", "A100-40GB"),
        ("H100 SXM", "H100-80GB"),
        ("h100-pcie", "H100-PCIe-80GB"),
        ("a10g", "A10G"),
        ("a10", "A10"),
        ("6000 ada", "RTX6000Ada"),
        ("a6000", "A6000"),
        ("v100-32g", "V100-32GB"),
        ("Nvidia L40S", "L40S"),
        ("mi300x", "MI300X"),
        ("RTX 4060 Ti 16GB", "RTX4060Ti"),
        ("RTX 4060 Ti 8 GB", "RTX4060Ti-8GB"),
        ("NVIDIA GeForce RTX 4090 24GB", "RTX4090"),
        ("rtx5070ti-16gb", "RTX5070Ti"),
    ],
)
def test_gpus_are_found_as_people_write_them(written: str, name: str) -> None:
    """Without maker, separators or unit, by the names of all files and by a library that was read."""
    assert GPUS.canonical(written) == read_library([]).gpu(written).name == name


@pytest.mark.parametrize("written", ["6000", "80g", "gb", "", "rtx", "9090", "RTX 4090 48GB", "16GB"])
def test_unclear_gpus_are_not_guessed(written: str) -> None:
    """A part of a name that several have, or none."""
    assert GPUS.canonical(written) is None
    with pytest.raises(KeyError):
        read_library([]).gpu(written)


def test_spellings_of_two_gpus_never_meet() -> None:
    """Every name and alias leads to its own card without separators, maker and unit too."""
    assert all(find_gpu(label, GPUS.by_alias) == name for label, name in GPUS.by_alias.items())


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2xA100", (2, "A100")),
        ("8 x H100 SXM", (8, "H100 SXM")),
        ("A100-80GB:4", (4, "A100-80GB")),
        ("RTX4090", (None, "RTX4090")),
        ("MI300X", (None, "MI300X")),
        ("x", (None, "x")),
    ],
)
def test_a_count_stands_before_or_behind_the_name(written: str, meant: tuple[int | None, str]) -> None:
    """`2xA100` and SkyPilot's `A100:2`."""
    assert split_count(written) == meant


def test_a_count_where_none_belongs_is_named() -> None:
    """Where only a name makes sense the fix is the name."""
    assert GPUS.suggestion("2xA100") == "a count does not belong here: write A100-40GB"


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("Qwen/Qwen3-7B", ["did you mean qwen3-", "import Qwen/Qwen3-7B -o model.yaml` fetches it (extra: hub)"]),
        ("nobody/none", ["the path of its config.json works", "known: planner architectures list"]),
        ("deepseek-v9", ["did you mean deepseek-v3", "the path of its config.json works"]),
    ],
)
def test_a_model_that_is_not_known_leads_to_its_family_and_to_its_file(wanted: str, told: list[str]) -> None:
    """At most three names, and what works without one."""
    said = ARCHITECTURES.suggestion(wanted)
    assert all(part in said for part in told)
    assert said.count(" or ") <= 2
    assert len(said) < 200
