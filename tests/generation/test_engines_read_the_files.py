"""Words of the engines' commands compared with the sources of their releases, which uv fetches without PyTorch.

Run with `-m ecosystem`; checked in November 2026 with vllm 0.33.0, sglang 0.5.23 and guidellm 0.8.1.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from planner.exports.field_map import engine_maps
from tests.helpers.environments import tool_python

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.ecosystem


@cache
def sources(package: str) -> Path:
    """Return the folder of a package's sources, which is read and never imported."""
    name = package.partition("==")[0]
    python = tool_python(package, "--no-deps")
    (found,) = python.parent.parent.glob(f"lib/python*/site-packages/{name}")
    return found


def words(command: tuple[str, ...]) -> set[str]:
    """Return the options of a command as names of arguments: --max-num-seqs=256 is max_num_seqs."""
    return {one[2:].partition("=")[0].replace("-", "_") for one in command if one.startswith("--")}


def engine_words(name: str) -> set[str]:
    """Return every option with which an engine is started."""
    tool = engine_maps()[name]
    groups = (*tool.formats.values(), *tool.made.values(), *tool.cache.values(), *tool.prefix.values(), tool.adapters)
    groups += (tool.service, tool.several)
    return words((*tool.serve, *(one for group in groups for one in group))) - {"port"}


def test_vllm_has_every_option() -> None:
    """Fields of its arguments; `no-` turns a switch off, modules of adapters are an option of the server."""
    folder = sources("vllm==0.33.0")
    text = (folder / "engine" / "arg_utils.py").read_text()
    fields = set(re.findall(r"^    (\w+): .*=", text, re.MULTILINE))
    asked = {one.removeprefix("no_") for one in engine_words("vllm")} - {"lora_modules", "host"}
    assert asked <= fields
    server = "".join(one.read_text() for one in (folder / "entrypoints").rglob("cli_args.py"))
    assert "lora_modules" in server and "host: " in server
    ranks = re.search(r"MaxLoRARanks = Literal\[(.*)\]", (folder / "config" / "lora.py").read_text())
    assert ranks and tuple(map(int, ranks[1].split(","))) == engine_maps()["vllm"].ranks


def test_vllm_measures_with_every_option_and_writes_what_is_read() -> None:
    """`vllm bench serve`."""
    folder = sources("vllm==0.33.0") / "benchmarks"
    text = (folder / "serve.py").read_text() + (folder / "datasets" / "datasets.py").read_text()
    asked = words(engine_maps()["vllm"].measure)
    assert {one for one in asked if f'"--{one.replace("_", "-")}"' not in text} == set()


def test_sglang_has_every_option() -> None:
    """Fields of its arguments, and their other names."""
    text = "".join(one.read_text() for one in (sources("sglang==0.5.23") / "srt/arg_groups/fields").glob("*.py"))
    known = set(re.findall(r"^    (\w+): A\[", text, re.MULTILINE)) | {
        one.replace("-", "_") for one in re.findall(r'"--([\w-]+)"', text)
    }
    assert engine_words("sglang") - known == set()


def test_guidellm_knows_what_measures_sglang() -> None:
    """Its command `run`, and the kinds of backend, profile, constraint, data and output."""
    folder = sources("guidellm==0.8.1")
    text = "".join(one.read_text() for one in folder.rglob("*.py"))
    (described,) = folder.parent.glob("guidellm-*.dist-info/METADATA")
    for one in words(engine_maps()["sglang"].measure):
        assert f"--{one} kind=" in described.read_text() or f"`--{one}`" in described.read_text(), one
    for kind in ("openai_http", "concurrent", "max_duration", "synthetic_text", "json"):
        assert f'Literal["{kind}"]' in text or f'"{kind}"' in text, kind
    for name in ("prefix_tokens", "prompt_tokens", "output_tokens", "streams", "seconds", "path"):
        assert re.search(rf"\b{name}:", text), name
