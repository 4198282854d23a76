"""Reading the library: cards by name or alias, configurations, and faults of cards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.errors import LibraryError
from planner.library.reading import CardNames, architecture_names, read_library
from planner.loading.scenario_file import parse_scenario
from tests.helpers.scenarios import changed, told


def test_a_config_json_is_an_architecture(tmp_path: Path) -> None:
    """The path starts at the scenario's folder, and the library knows the network under the path found."""
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": 1000,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    name = parse_scenario(changed("mistral-7b", "config.json"), tmp_path).jobs[0].architecture
    assert Path(name) == (tmp_path / "config.json").resolve()
    assert read_library([name]).architecture(name).hidden == 64


@pytest.mark.parametrize(
    "config", ["", "[]", "{", "{}", '{"hidden_size": "x"}', '{"model_type": "none"}', "[" * 10**5, "9" * 400]
)
def test_an_unusable_config_json_is_a_fault(tmp_path: Path, config: str) -> None:
    """A broken or foreign configuration is reported with its own file and line."""
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    faults = told(changed("mistral-7b", "config.json"), tmp_path)
    assert faults and all(fault.startswith(f"{tmp_path}/config.json:1: ") for fault in faults)


def test_the_library_holds_what_is_asked_for() -> None:
    """Of the architectures only those named are read, by name or alias; everything else always."""
    library = read_library(["mistral-7b", "bigscience/bloom"])
    assert set(library.architectures) == {"mistral-7b", "bloom-176b"}
    assert set(library.gpus) == set(CardNames("gpus").names)
    assert library.calibrations and library.techniques.frameworks
    assert set(read_library().architectures) == set(architecture_names())
    with pytest.raises(LibraryError, match="did you mean mistral-7b"):
        read_library(["mistral-7"])


def test_a_broken_card_is_told_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults of all cards come at once, and a card must carry the name of its file."""
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "X1.yaml").write_text("name: X1\nvram: 3\n", encoding="utf-8")
    (tmp_path / "calibration").mkdir()
    (tmp_path / "calibration" / "m.yaml").write_text("name: n\ndescription: d\ncoefficients: {}\n", encoding="utf-8")
    monkeypatch.setattr("planner.library.reading.data_folder", lambda kind: tmp_path)
    with pytest.raises(LibraryError) as caught:
        read_library()
    text = str(caught.value)
    assert "X1.yaml:2: vram: unknown key; did you mean vram_gib" in text
    assert "m.yaml:1: name: 'n' is not the file's name; call it 'm'" in text
