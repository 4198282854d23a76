"""Counts against Transformers and PEFT themselves, built without memory on the meta device.

Run with `-m ecosystem` where both are installed (tests/README.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.configurations.grid import network_of
from planner.estimates.weights import lora_parameters
from planner.exports.facts import image_modules
from planner.library.huggingface import architecture_from_config
from planner.library.image_models import diffusion_card
from planner.library.schema import Architecture
from planner.library.technique_tables import read_techniques
from tests.library.shapes.test_diffusers import COUNTED
from tests.library.test_huggingface import CONFIGS, TOWERS, tower_name

pytestmark = pytest.mark.ecosystem

FACTS: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "huggingface_configs.yaml").read_text(encoding="utf-8")
)


EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers")
LAYERS, MOST_EXPERTS = 8, 16
SAME_CLASS = {"kimi_k2": "deepseek_v3"}
"""Model types of releases that have the class of another family."""


def smaller(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration of the same widths with few layers and experts: building each of them takes its time."""
    experts = {key: min(config[key], MOST_EXPERTS) for key in EXPERTS if key in config}
    layers = {key: min(config[key], LAYERS) for key in LAYER_KEYS if key in config}
    listed = {key: config[key][:LAYERS] for key in ("layer_types", "hybrid_override_pattern") if key in config}
    if "full_attn_idxs" in config:
        listed["full_attn_idxs"] = [index for index in config["full_attn_idxs"] if index < LAYERS]
    if "linear_attn_config" in config:
        own = config["linear_attn_config"]
        kinds = {key: [index for index in own[key] if index <= LAYERS] for key in ("full_attn_layers", "kda_layers")}
        listed["linear_attn_config"] = {**own, **kinds}
    return {**config, **experts, **layers, **listed}


def network(facts: dict[str, Any]) -> Any:
    """Return the network that Transformers builds of a configuration, without memory; skip where it is too old."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    if int(transformers.__version__.split(".")[0]) < facts.get("transformers", 0):
        pytest.skip(f"Transformers {transformers.__version__} does not know the family")
    config = smaller(facts["config"])
    name = config.pop("model_type")
    kind = transformers.CONFIG_MAPPING[SAME_CLASS.get(name, name)]
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(kind(**config))


def weights(built: Any) -> int:
    """Return the distinct weights of a checkpoint: parameters, and the router's corrections, which are buffers."""
    persistent = [
        one for name, one in built.named_buffers() if name.endswith(("e_score_correction_bias", "expert_bias"))
    ]
    return sum(one.numel() for one in (*built.parameters(), *persistent))


@pytest.mark.parametrize("name", sorted(FACTS))
def test_the_count_is_that_of_transformers(name: str) -> None:
    """What is read of a config.json has as many weights as the network that Transformers builds of it."""
    card = architecture_from_config(smaller(FACTS[name]["config"]), name)
    assert card["parameters"] == weights(network(FACTS[name]))


@pytest.mark.parametrize("name", sorted(FACTS))
def test_a_config_that_transformers_wrote_again_gives_the_same_card(name: str) -> None:
    """Keys as the installed version writes them (num_local_experts, rope_parameters, layer_types) read the same.

    The notes may say more: a class writes a layer for multi-token prediction that it does not build.
    """
    configs = (smaller(FACTS[name]["config"]), network(FACTS[name]).config.to_dict())
    read = [Architecture.model_validate(architecture_from_config(one, name)) for one in configs]
    one, other = (card.model_dump(exclude={"notes", "family"}) for card in read)
    assert one == other


SMALL = {
    **{"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 8},
    **{"num_key_value_heads": 2, "vocab_size": 200_000},
}
MIXTURE = {"moe_intermediate_size": 128, "num_experts": 8, "num_experts_per_tok": 2}
ENCODERS = ("visual", "vision", "multi_modal")


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("family", "text"),
    [
        *(("qwen2_vl", SMALL), ("qwen2_5_vl", SMALL), ("qwen3_vl", {**SMALL, "head_dim": 64})),
        *(("qwen3_vl_moe", {**SMALL, **MIXTURE, "head_dim": 64}), ("gemma3", {**SMALL, "head_dim": 64})),
    ],
)
def test_the_language_part_of_a_multimodal_model_has_its_weights(family: str, text: dict[str, Any], tied: bool) -> None:
    """The encoder of images has a count of its own; the head is that of the whole model."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    if family not in transformers.CONFIG_MAPPING:
        pytest.skip(f"Transformers {transformers.__version__} does not know the family")
    config = transformers.CONFIG_MAPPING[family](text_config=text, tie_word_embeddings=tied)
    with torch.device("meta"):
        built = transformers.AutoModelForImageTextToText.from_config(config)
    own = {name: one for name, one in built.named_parameters() if not any(word in name for word in ENCODERS)}
    card = architecture_from_config(config.to_dict(), family)
    assert card["parameters"] == sum(one.numel() for one in own.values())
    assert card["tower_parameters"] == built.num_parameters() - card["parameters"]


ALL = {**{name: {"config": config} for name, config in CONFIGS.items()}, **FACTS}
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


def written(card: Architecture, targets: str | list[str]) -> str | list[str]:
    """Return the modules as an exported file has them: PEFT's `all-linear` stops where it refuses a module."""
    linears = read_techniques().linears
    return list(linears.chosen(card.family, targets)) if card.family in linears.named else targets  # type: ignore[arg-type]


def adapter_weights(facts: dict[str, Any], targets: str | list[str]) -> tuple[int, int]:
    """Return the weights that PEFT trains at rank 4, and those that we count."""
    peft = pytest.importorskip("peft")
    card = Architecture.model_validate(architecture_from_config(smaller(facts["config"]), "x"))
    config = peft.LoraConfig(r=4, target_modules=written(card, targets), task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(network(facts), config)
    trained = sum(one.numel() for one in adapted.parameters() if one.requires_grad)
    ours = targets if isinstance(targets, str) else tuple(targets)
    return trained, lora_parameters(network_of(card), 4, ours).trainable


def is_mixture(config: dict[str, Any]) -> bool:
    """Return whether a configuration has experts."""
    return any(key in config for key in EXPERTS)


@pytest.mark.parametrize("name", sorted(name for name, facts in ALL.items() if not is_mixture(facts["config"])))
def test_adapters_on_all_linears_are_those_of_peft(name: str) -> None:
    """Of a dense network PEFT trains as many weights as we count, fused matrices and linear attention included."""
    trained, counted = adapter_weights(ALL[name], "all-linear")
    assert trained == counted


@pytest.mark.parametrize("name", sorted(name for name, facts in ALL.items() if is_mixture(facts["config"])))
def test_adapters_on_the_attention_of_mixtures_are_those_of_peft(name: str) -> None:
    """Attention of a mixture; that of DeepSeek-V3 has no q_proj, so that only the output is adapted."""
    trained, counted = adapter_weights(ALL[name], ["q_a_proj", "q_b_proj", "kv_b_proj", *ATTENTION])
    letters = "deepseek" in name  # a letter such as k means the compressed matrices as well
    latent = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
    assert trained == counted if not letters else len(set(adapter_weights(ALL[name], latent))) == 1


@pytest.mark.parametrize(
    "name", ["deepseek-v3", "glm-4.5", "qwen3-next-80b-a3b", "sparse-every-second", "mixtral-8x7b"]
)
def test_adapters_on_experts_are_those_of_peft_on_separate_experts(name: str) -> None:
    """Transformers 4 holds each expert as modules of its own; 5 fuses them, and PEFT then counts otherwise."""
    transformers = pytest.importorskip("transformers")
    if int(transformers.__version__.split(".")[0]) >= 5:
        pytest.skip("Transformers 5 holds all experts in one tensor")
    trained, counted = adapter_weights(ALL[name], ["gate_proj", "up_proj", "down_proj", "w1", "w2", "w3"])
    assert trained == counted


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("gpt2", ["c_attn"]),
        ("gpt2", ["c_proj"]),
        ("phi-3-mini", ["qkv_proj", "gate_up_proj"]),
        ("pythia-6.9b", ["query_key_value", "dense"]),
        ("falcon-40b", ["query_key_value", "dense_h_to_4h"]),
        ("bloom-176b", ["dense_4h_to_h"]),
        ("mpt-7b", ["Wqkv", "out_proj"]),
        ("opt-6.7b", ["fc1", "out_proj"]),
        ("qwen3-next-80b-a3b", ["in_proj_qkvz", "out_proj"]),
    ],
)
def test_names_of_modules_choose_what_peft_chooses(name: str, targets: list[str]) -> None:
    """A name stands for every module that ends with it, whatever the family means by it."""
    trained, counted = adapter_weights(ALL[name], targets)
    assert trained == counted


@pytest.mark.parametrize("case", COUNTED, ids=lambda case: f"{case['config']['_class_name']}-{case['parameters']}")
def test_diffusers_counts_the_weights_that_were_recorded(case: dict[str, Any]) -> None:
    """Each class of models/diffusers.yaml, built on the meta device."""
    torch, diffusers = pytest.importorskip("torch"), pytest.importorskip("diffusers")
    config = dict(case["config"])
    kind = getattr(diffusers, config.pop("_class_name"))
    with torch.device("meta"):
        built = kind.from_config(config)
    assert sum(parameter.numel() for parameter in built.parameters()) == case["parameters"]


@pytest.mark.parametrize("case", COUNTED, ids=lambda case: f"{case['config']['_class_name']}-{case['parameters']}")
@pytest.mark.parametrize("targets", ["attention", "all-linear"])
def test_peft_makes_the_adapters_that_were_recorded(case: dict[str, Any], targets: str) -> None:
    """From the names of linear layers that an export writes (models/exports/networks/modules.yaml)."""
    torch, diffusers = pytest.importorskip("torch"), pytest.importorskip("diffusers")
    peft = pytest.importorskip("peft")
    card = Architecture.model_validate(diffusion_card(case["config"], "mine"))
    config = dict(case["config"])
    kind = getattr(diffusers, config.pop("_class_name"))
    wanted = peft.LoraConfig(r=1, target_modules=image_modules(targets, card)["image_modules"])
    with torch.device("meta"):
        built = peft.inject_adapter_in_model(wanted, kind.from_config(config), low_cpu_mem_usage=True)
    made = sum(weights.numel() for name, weights in built.named_parameters() if "lora_" in name)
    assert made == case["adapters"][targets]


@pytest.mark.parametrize("case", TOWERS, ids=tower_name)
def test_transformers_counts_the_towers_that_were_recorded(case: dict[str, Any]) -> None:
    """Each class of models/towers.yaml, built on the meta device."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = dict(case["config"])
    family = config.pop("model_type")
    if family not in transformers.CONFIG_MAPPING:
        pytest.skip(f"Transformers {transformers.__version__} does not know the family")
    with torch.device("meta"):
        built = transformers.AutoModelForImageTextToText.from_config(transformers.CONFIG_MAPPING[family](**config))
    tower = [one for name, one in built.named_parameters() if any(word in name for word in (*ENCODERS, "connector"))]
    assert sum(one.numel() for one in tower) == case["tower_parameters"]


@pytest.mark.parametrize("case", TOWERS, ids=tower_name)
def test_transformers_asks_for_gradients_of_the_inputs_of_a_tower(case: dict[str, Any]) -> None:
    """`input_hooks` of frameworks.yaml, `input_hook` of towers.yaml: what PEFT and TRL call hooks patch embeddings."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = dict(case["config"])
    family = config.pop("model_type")
    if family not in transformers.CONFIG_MAPPING:
        pytest.skip(f"Transformers {transformers.__version__} does not know the family")
    with torch.device("meta"):
        built = transformers.AutoModelForImageTextToText.from_config(transformers.CONFIG_MAPPING[family](**config))
    built.enable_input_require_grads()
    hooked = [name for name, module in built.named_modules() if module._forward_hooks]
    found = any(any(word in name for word in ENCODERS) for name in hooked)
    assert found == architecture_from_config(case["config"], "tower")["tower"].get("input_hook", True)
