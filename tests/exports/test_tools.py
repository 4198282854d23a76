"""Exports of many plans read by the tools that need no PyTorch, each in an environment that uv makes in `.ecosystem/`.

    pytest -n0 -m ecosystem tests/exports/test_tools.py

`tests.helpers.export_table` does the same for every shipped scenario and every tool.
"""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from planner.errors import InputError
from tests.helpers.export_table import LIGHT, python_of, read_files
from tests.helpers.exported_plans import (
    GENERATION,
    SETTINGS,
    changed,
    image_files,
    on_hugging_face,
    solved,
    texts,
    unsloth_plan,
)

pytestmark = pytest.mark.ecosystem


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every chosen plan for every tool that can have it, in `PLAN/TOOL/`."""
    made = tmp_path_factory.mktemp("exports")
    two = {"instances": 2, "gpus_per_instance": 4, "gpus": 8}
    plans = {
        **{name: solved(name) for name in SETTINGS},
        "two machines": changed(solved("fsdp"), **two),
        "old card": changed(solved("secure"), {"precision": "fp16_mixed"}, gpu="V100-32GB"),
        "on aws": changed(solved("spot"), provider="aws"),
        "on hugging face": on_hugging_face(solved("quickstart"), "A100-80GB", 4),
        "unsloth": unsloth_plan(),
        **{f"generation {name}": solved(f"generation {name}") for name in GENERATION},
        "generation on machines": changed(solved("generation spot"), instances=4, spot_share=0.0),
    }
    for name, plan in plans.items():
        trainers = set() if name.startswith("generation") else {"unsloth" if name == "unsloth" else "trl"}
        for tool in LIGHT:
            try:
                files = texts(plan, tool, *(trainers - {tool}))
            except InputError:  # tests/exports/test_refusals.py
                continue
            place = made / name / tool
            place.mkdir(parents=True)
            file, text = next(iter(files.items()))
            (place / file).write_text(text)
    for tool in ("simpletuner", "diffusers"):
        for name, files in image_files(tool).items():
            place = made / name / tool
            place.mkdir(parents=True)
            for file, text in files.items():
                (place / file).write_text(text)
    return made


@pytest.mark.parametrize(
    ("tool", "least"),
    [
        ("dstack", 9),
        ("kubernetes", 9),
        ("slurm", 9),
        ("huggingface", 1),
        ("skypilot", 9),
        ("unsloth", 1),
        ("simpletuner", 300),
    ],
)
def test_a_tool_reads_all_that_is_exported_for_it(tool: str, least: int, folder: Path) -> None:
    """Unknown keys, values and flavors are errors; `least` files are the plans that the tool can have."""
    found = read_files(tool, folder, python_of(tool, {}))
    assert {file: what for file, what in found.items() if what} == {}
    assert len(found) >= least


def test_the_parsers_of_diffusers_examples_take_each_exported_command(folder: Path) -> None:
    """The scripts are those that an exported file downloads, next to it; skipped where they cannot be."""
    for file in folder.glob("*/diffusers/train_images.sh"):
        (address,) = re.findall(r"https://\S+[.]py", file.read_text())
        name = address.rpartition("/")[2]
        if not (folder / name).exists():
            try:
                with urllib.request.urlopen(address, timeout=60) as script:
                    (folder / name).write_bytes(script.read())
            except urllib.error.URLError as error:
                pytest.skip(f"{address}: {error}")
        (file.parent / name).write_bytes((folder / name).read_bytes())
    found = read_files("diffusers", folder, sys.executable)
    assert {file: what for file, what in found.items() if what} == {}
    assert len(found) >= 25
