"""Shares of a step's time by what takes it: prompts, products, weights, cache, and what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.estimates.inference.decode import decode_step_seconds, weight_bytes_read

if TYPE_CHECKING:
    from planner.estimates.inference.inputs import ServedModel, ServingHardware, ServingStack


def time_shares(
    model: ServedModel,
    hardware: ServingHardware,
    stack: ServingStack,
    sequences: float,
    context: float,
    prompt_seconds: float,
    output: float,
) -> dict[str, float]:
    """Return the shares of a replica's time, which sum to 1; all inputs are of one configuration.

    Of reading weights and computing products, which go on at the same time, the longer counts with both.
    """
    group = max(1.0, sequences / float(np.ravel(hardware.pipeline)[0]))
    whole, empty = (
        float(np.ravel(decode_step_seconds(model, hardware, stack, sequences, one))[0]) for one in (context, 0.0)
    )
    tensor = float(np.ravel(hardware.tensor)[0])
    reading, products = (
        float(np.ravel(one)[0])
        for one in (
            weight_bytes_read(model, stack, group) / tensor / hardware.bandwidth,
            2.0 * np.asarray(model.met_weights) * group / tensor / hardware.flops,
        )
    )
    joint = float(np.hypot(reading, products))
    parts = {
        "prompts": group * prompt_seconds,
        "weights" if reading > products else "products": output * joint,
        "cache": output * (whole - empty),
        "launches": output * (empty - joint),
    }
    total = sum(parts.values())
    return {name: seconds / total for name, seconds in parts.items()}
