"""Latency: the time to the first token, and the time per token after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from planner.estimates.inference.inputs import ServingStack
    from planner.estimates.inputs import Numbers


def first_token_seconds(stack: ServingStack, alone: Numbers, step: Numbers, prompt: Numbers, others: Numbers) -> Any:
    """Return the mean time to the first token (TTFT).

    `alone`: seconds of the prefill with nothing else; `step`: seconds of the decode step that is under way, half of
    which is waited for where there are others; `prompt`: seconds that each of `others` prompts adds. All prompts at
    once wait for half of the others in the mean, evenly spread ones for few: `wait_share` says which.
    """
    others = np.asarray(others, dtype=float)
    return alone + np.where(others > 0, step / 2.0, 0.0) + stack.wait_share * others * prompt


def seconds_per_token(cycle: Numbers, first_token: Numbers, output: Numbers) -> Any:
    """Return the mean time per token after the first (TPOT): (end - first token) / (output - 1).

    nan for a single token, which has no next one.
    """
    output = np.asarray(output, dtype=float)
    return np.where(output > 1, (cycle - first_token) / np.where(output > 1, output - 1.0, 1.0), np.nan)
