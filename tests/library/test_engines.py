"""Engines and weight formats: the shipped table."""

from __future__ import annotations

import pytest

from planner.library.engines import read_engines


def test_each_engine_loads_formats_that_exist() -> None:
    """The profiles of the six engines are there, and every format they name is in the table."""
    table = read_engines()
    assert {"vllm", "sglang", "trt-llm", "llama.cpp", "exllamav2", "hf"} <= table.engines.keys()
    for engine in table.engines.values():
        assert engine.formats and set(engine.formats) <= table.formats.keys()
        assert 16 in engine.kv_bits


def test_formats_take_at_least_their_bits() -> None:
    """Scales come on top of the bits that give a format its name; of pairs one weight and its place are kept."""
    formats = dict(read_engines().formats)
    sparse = formats.pop("int4-sparse")
    for form in formats.values():
        assert form.bits / 8 <= form.bytes <= 1.25 * form.bits / 8
    assert sparse.bytes == (4 + 2) / 8 / 2 + 16 / 8 / 64


def test_formats_by_groups_have_a_scale_and_a_zero_for_each() -> None:
    """Two 16-bit numbers for 32 or 64 weights of 4 bits: 5 and 4.5 bits."""
    formats = read_engines().formats
    assert [formats[name].bytes for name in ("int4-g32", "int4-g64")] == [5 / 8, 4.5 / 8]
    assert read_engines().format_behind("int4wo-64") == "int4-g64"


@pytest.mark.parametrize(
    ("written", "name"), [("VLLM", "vllm"), ("nim (trt-llm)", "trt-llm"), ("hf-accelerate", "hf"), ("tgi", None)]
)
def test_engines_by_other_names(written: str, name: str | None) -> None:
    """Spellings of tables lead to an engine; a stranger has none."""
    assert read_engines().engine_behind(written) == name


@pytest.mark.parametrize(
    ("written", "name"), [("fp16", "bf16"), ("gptq-int4 (compute fp16)", "gptq"), ("w4a8-g128", "w4a8"), ("int3", None)]
)
def test_formats_by_other_names(written: str, name: str | None) -> None:
    """What stands in brackets does not matter."""
    assert read_engines().format_behind(written) == name
