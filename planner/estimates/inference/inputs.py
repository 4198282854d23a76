"""Inputs of the formulas of generation as plain numbers: one served configuration per array element."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from planner.records import record

if TYPE_CHECKING:
    from planner.estimates.inputs import Numbers


@record(frozen=True)
class ServedModel:
    """What generation needs of one architecture; arrays broadcast."""

    layers: Numbers
    hidden: Numbers
    attention_width: Numbers  # query heads times head size: FLOP of attention
    cache_layers: Numbers  # layers that keep keys and values (linear attention keeps a state instead)
    kv_heads: Numbers
    head_dim: Numbers
    latent: Numbers  # values that multi-head latent attention keeps per token and layer; 0: keys and values of heads
    window: Numbers  # tokens that sliding layers see; 0: no such layers
    window_share: Numbers  # of the layers
    dense_weights: Numbers  # read in every step: all but the experts and the table of input embeddings
    expert_weights: Numbers  # all experts together
    experts: Numbers
    experts_per_token: Numbers
    stored_weights: Numbers  # all of them, as they lie in memory
    met_weights: Numbers  # of them, those that one token is multiplied with


@record(frozen=True)
class ServingHardware:
    """One replica: GPUs that hold the model together, as the sheet and measured shares describe them."""

    bandwidth: Numbers  # bytes/s of one GPU's memory that reading weights reaches
    cache_bandwidth: Numbers  # the same for keys and values
    flops: Numbers  # FLOP/s of one GPU in matrix products of the format that computes
    attention_flops: Numbers  # FLOP/s of one GPU in the attention of a prompt
    tensor: Numbers  # GPUs that share each layer
    pipeline: Numbers  # groups among which the layers are divided
    link_bytes_per_second: Numbers  # that an all-reduce reaches between the GPUs of one layer
    link_seconds: Numbers  # latency of one all-reduce


@record(frozen=True)
class ServingStack:
    """What engine and formats add."""

    weight_bytes: Numbers  # per weight in matrix products, scales included
    kv_bytes: Numbers  # per value in the cache
    layer_seconds: Numbers  # launches of one layer and step
    step_seconds: Numbers  # scheduling of one step
    sequence_seconds: Numbers  # sampling and bookkeeping of one sequence and step
    request_seconds: Numbers  # of the engine per request, in which it does nothing else
    arrival_seconds: Numbers  # from sending a request to its turn, in which others go on
    held_share: Numbers = field(default=0.5, kw_only=True)  # of an answer: its cache that a request holds in the mean
    wait_share: Numbers  # of the prompts of the others that a prompt waits for, 0 to 1/2
