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
    "techniques.method": "method",
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
    assert held(read_tool_file(path)) == {name: ordered(value) for name, value in case["is"].items()}


def test_the_judge_has_many_configurations_of_every_tool() -> None:
    """Both those that are read and those that are refused."""
    refused = sum("refused" in case.values[0] for case in CASES)
    assert len(CASES) >= 100 and 40 <= refused <= len(CASES) - 40
