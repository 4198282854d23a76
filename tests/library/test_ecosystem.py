"""Counts against Transformers and PEFT themselves, built without memory on the meta device.

Run with `-m ecosystem` where both are installed (CONTRIBUTING.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.library.huggingface import architecture_from_config
from planner.library.schema import Architecture

pytestmark = pytest.mark.ecosystem

FACTS: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "huggingface_configs.yaml").read_text(encoding="utf-8")
)


EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
LAYERS, MOST_EXPERTS = 8, 16


def smaller(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration of the same widths with few layers and experts: building each of them takes its time."""
    experts = {key: min(config[key], MOST_EXPERTS) for key in EXPERTS if key in config}
    return {**config, **experts, "num_hidden_layers": min(config["num_hidden_layers"], LAYERS)}


def network(facts: dict[str, Any]) -> Any:
    """Return the network that Transformers builds of a configuration, without memory; skip where it is too old."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    if int(transformers.__version__.split(".")[0]) < facts.get("transformers", 0):
        pytest.skip(f"Transformers {transformers.__version__} does not know the family")
    config = smaller(facts["config"])
    kind = transformers.CONFIG_MAPPING[config.pop("model_type")]
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(kind(**config))


def weights(built: Any) -> int:
    """Return the distinct weights of a checkpoint: parameters, and the router's corrections, which are buffers."""
    persistent = [one for name, one in built.named_buffers() if name.endswith("e_score_correction_bias")]
    return sum(one.numel() for one in (*built.parameters(), *persistent))


@pytest.mark.parametrize("name", sorted(FACTS))
def test_the_count_is_that_of_transformers(name: str) -> None:
    """What is read of a config.json has as many weights as the network that Transformers builds of it."""
    card = architecture_from_config(smaller(FACTS[name]["config"]), name)
    assert card["parameters"] == weights(network(FACTS[name]))


@pytest.mark.parametrize("name", sorted(FACTS))
def test_a_config_that_transformers_wrote_again_gives_the_same_card(name: str) -> None:
    """Keys as the installed version writes them (num_local_experts, rope_parameters, layer_types) read the same."""
    configs = (smaller(FACTS[name]["config"]), network(FACTS[name]).config.to_dict())
    read = [Architecture.model_validate(architecture_from_config(one, name)) for one in configs]
    assert read[0].model_dump() == read[1].model_dump()
