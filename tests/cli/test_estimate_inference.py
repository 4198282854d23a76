"""`estimate --inference` on the command line."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from planner.cli import main

ASK = ["estimate", "llama-3.1-8b", "L40S", "--inference", "--input", "900", "--output", "150"]


def test_text_and_json_agree() -> None:
    """Both print the requests in flight and the rate, and the text names memory and price."""
    text = CliRunner().invoke(main, [*ASK, "--weight-bits", "8", "--kv-bits", "8"])
    data = json.loads(CliRunner().invoke(main, [*ASK, "--weight-bits", "8", "--kv-bits", "8", "--json"]).stdout)
    assert text.exit_code == 0
    assert data["weight_format"] == "fp8" and data["memory_gib"]["kv_bytes_per_token"] == 65_536
    assert f"{data['in_flight']:,} requests in flight" in text.stdout
    assert "kv cache" in text.stdout and "per million output tokens" in text.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "0"], "--output: "),
        (["--kv-bits", "3"], "--kv-bits: vLLM has no cache of 3 bits"),
        (["--engine", "trt"], "--engine: unknown engine"),
        (["--weight-format", "gguf-q8_0"], "--weight-format: vLLM does not load gguf-q8_0"),
        (["--lora-rank", "8"], "--lora-rank is about training"),
        (["--longest-sequence"], "--longest-sequence is about training"),
    ],
)
def test_bad_options_are_one_line(options: list[str], message: str) -> None:
    """The option, what is wrong, exit code 2."""
    result = CliRunner().invoke(main, [*ASK, *options])
    assert result.exit_code == 2
    assert message in result.stderr


def test_options_of_generation_need_its_flag() -> None:
    """Without --inference they are refused, not ignored."""
    result = CliRunner().invoke(main, ["estimate", "llama-3.1-8b", "L40S", "--input", "900"])
    assert result.exit_code == 2 and "--input needs --inference" in result.stderr
