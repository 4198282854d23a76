"""What configurations of other tools mean: a judge whose answers were worked out by hand from each tool's semantics.

`configs/*.yaml` has the configurations. `is`: everything that a plan must hold, and nothing else; `refused`: the field
that a refusal names. Keys of `is` are the short names below; a list of values is one of them, in any order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.errors import InputError
from planner.exports.read_configs import ToolFile, read_tool_file
from planner.library.reading import read_library
from planner.library.technique_tables import read_techniques

FOLDER = Path(__file__).parent / "configs"
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    for case in yaml.safe_load(path.read_text())
]
SHORT = {
    "architecture": "model",
    "sequence_length": "length",
    "global_batch": "batch",
    "packing": "packing",
    "framework": "framework",
    "work.epochs": "epochs",
    "work.steps": "steps",
    "lora.rank": "rank",
    "lora.targets": "targets",
    "lora.train_embeddings": "embeddings",
    "lora.dora": "dora",
    "lora.adapt_head": "head",
    "lora.experts_16_bit": "whole_experts",
    "method": "tuning",
    "techniques.method": "method",
    "techniques.reference": "reference",
    "techniques.weight_bits": "bits",
    "techniques.quant": "quant",
    "techniques.precision": "precision",
    "techniques.activation_checkpointing": "checkpointing",
    "techniques.attention": "attention",
    "techniques.optimizer": "optimizer",
    "techniques.sharding": "sharding",
    "techniques.offload": "offload",
}


def held(found: ToolFile) -> dict[str, Any]:
    """Return what is held by short names, the only value of a list as itself, values of a list in order."""
    said = {SHORT[".".join(map(str, place))]: one.value for place, one in found.held.items()}
    return {name: ordered(value) for name, value in said.items()}


def ordered(value: Any) -> Any:
    """Return a list in order, and its only value as itself."""
    if not isinstance(value, list):
        return value
    return value[0] if len(value) == 1 else sorted(value, key=str)


def modules(said: dict[str, Any]) -> Any:
    """Return the modules of the model that adapters extend; names that no module of it has are those of others."""
    targets = said.get("targets")
    if not isinstance(targets, list) or not all("." in name for name in targets):
        return targets
    (card,) = read_library([said["model"]]).architectures.values()
    return read_techniques().linears.chosen(card.family, tuple(targets))


@pytest.mark.parametrize("case", CASES)
def test_a_configuration_is_read_as_what_its_tool_makes_of_it(case: dict[str, Any], tmp_path: Path) -> None:
    """It is read right, or refused by the field that no plan has; never read wrong."""
    path = tmp_path / case.get("file", "config.yaml")
    path.write_text(case["text"])
    if "refused" in case:
        with pytest.raises(InputError) as error:
            read_tool_file(path)
        assert case["refused"] in [fault.where for fault in error.value.faults]
        return
    found, meant = held(read_tool_file(path)), {name: ordered(value) for name, value in case["is"].items()}
    assert {**found, "targets": modules(found)} == {**meant, "targets": modules(meant)}


def test_the_judge_has_many_configurations_of_every_tool() -> None:
    """Both those that are read and those that are refused."""
    refused = sum("refused" in case.values[0] for case in CASES)
    assert len(CASES) >= 100 and 40 <= refused <= len(CASES) - 40


def read_by_tool(tool: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return what a tool's own parser makes of a file: length, epochs or steps, batch of one GPU, rank of adapters."""
    if tool == "axolotl":
        schemas = pytest.importorskip("axolotl.utils.schemas.config")
        data = {"learning_rate": 1e-4, "datasets": [{"path": "a", "type": "alpaca"}], **data}
        one = schemas.AxolotlInputConfig(**data)
        batch, rank = (one.micro_batch_size, one.gradient_accumulation_steps), one.lora_r
        return parsed(one.sequence_len, one.num_epochs, one.max_steps, batch, rank)
    if tool == "llamafactory":
        arguments = pytest.importorskip("llamafactory.hparams.parser")._TRAIN_ARGS
        chosen = {name: data[name] for name in data.keys() - {"deepspeed", "bf16", "fp16"}}  # which ask for a GPU
        data_args, trainer, tuning = (
            pytest.importorskip("transformers")
            .HfArgumentParser(arguments)
            .parse_dict({"output_dir": "out", **chosen})[1:4]
        )
        batch = (trainer.per_device_train_batch_size, trainer.gradient_accumulation_steps)
        length = data_args.cutoff_len + bool(data_args.packing)  # it takes one token off for packing
        return parsed(length, trainer.num_train_epochs, trainer.max_steps, batch, tuning.lora_rank)
    setup = pytest.importorskip(f"litgpt.finetune.{'lora' if 'lora_r' in data else 'full'}").setup
    parser = pytest.importorskip("jsonargparse").ArgumentParser(exit_on_error=False)
    parser.add_function_arguments(setup)
    one = parser.parse_object(data)
    train = one.train
    return parsed(train.max_seq_length, train.epochs, train.max_steps, (train.global_batch_size, 1), one.get("lora_r"))


def parsed(length: Any, epochs: Any, steps: Any, batch: tuple[int, int], rank: Any) -> dict[str, Any]:
    """Return what a tool understood by short names: steps go before epochs, and -1 are none."""
    work = {"steps": steps} if steps and steps > 0 else {"epochs": epochs}
    return {"length": length, **work, "batch": batch[0] * batch[1], "rank": rank}


@pytest.mark.ecosystem
@pytest.mark.parametrize("tool", ["axolotl", "llamafactory", "litgpt"])
def test_the_tools_themselves_accept_what_is_read_and_mean_the_same(tool: str) -> None:
    """Length, epochs or steps, batch and rank of the judge, also those that no file names."""
    cases = [case for case in yaml.safe_load((FOLDER / f"{tool}.yaml").read_text()) if "is" in case]
    for case in cases:
        if not case["name"].startswith("v1"):
            found = read_by_tool(tool, yaml.safe_load(case["text"]))
            for name in case["is"].keys() & found.keys():
                assert found[name] == case["is"][name], (case["name"], name)
