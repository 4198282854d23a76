"""Adapters of LoRA that are served next to the weights: their memory, and what each step reads and computes more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.configurations.network import network_of
from planner.estimates.adapters import lora_parameters

if TYPE_CHECKING:
    from planner.configurations.serving import Serving
    from planner.library.schema import Architecture
    from planner.scenario.inference import InferenceJob

ADAPTER_BYTES = 2.0
"""Bytes of an adapter's weight: engines keep them in 16 bits (vLLM documentation, LoRA adapters)."""
SERVED_ADAPTERS = "served adapters"
"""What rests on no measurement where adapters are served."""


def adapter_weights(job: InferenceJob, architecture: Architecture) -> float:
    """Return the weights of one adapter that the job serves; 0 where it serves none or they are merged."""
    adapter = job.adapter
    if adapter is None or adapter.served is None:
        return 0.0
    return float(lora_parameters(network_of(architecture), adapter.rank, adapter.targets).trainable)


def with_adapters(serving: Serving, each: float, served: int) -> Serving:
    """Return a configuration with `served` adapters of `each` weights next to its own; merged ones change nothing.

    All of them lie in memory, a step reads all of them, and each token is multiplied with one. Example: rank 16 on all
    linear layers of Llama 3.1 8B is 41.9 million weights, 84 MB; ten of them are 0.84 GB, 5 % of the 16-bit weights.
    """
    if not each:
        return serving
    as_weights = served * each * ADAPTER_BYTES / serving.weight_bytes
    model = replace(
        serving.model,
        stored_weights=serving.model.stored_weights + as_weights,
        dense_weights=serving.model.dense_weights + as_weights,
        met_weights=serving.model.met_weights + each,
    )
    return replace(serving, model=model)


def served_priors(job: InferenceJob) -> tuple[str, ...]:
    """Return what of the adapters of a job rests on no measurement."""
    return (SERVED_ADAPTERS,) if job.adapter is not None and job.adapter.served is not None else ()
