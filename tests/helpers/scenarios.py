"""A small good scenario for the tests of the front door, and what is told of a bad one."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from planner.errors import ScenarioError
from planner.loading.scenario_file import parse_scenario

GOOD = """\
name: small
jobs:
  - name: a
    architecture: mistral-7b
    work: {samples: 50000, tokens_per_sample: 600, epochs: 3}
    deadline: 36h
offers:
  - {provider: vast, gpu: RTX3090, gpus: 1, usd_per_hour: 0.2, spot_usd_per_hour: 0.1}
  - {provider: lambda, gpu: H100-80GB, gpus: 8, usd_per_hour: 24}
"""


def told(text: str, folder: Path | str = ".", set_: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(textwrap.dedent(text), folder, "s.yaml", set_)
    return [str(fault) for fault in caught.value.faults]


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def json_text(data: Any) -> str:
    """The data as JSON, which is YAML too; what YAML refuses unescaped is escaped."""
    text = json.dumps(data, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text)
