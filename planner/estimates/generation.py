"""Formulas of generation: KV cache, prefill, decode steps, and the throughput of continuous batching."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planner.estimates.inputs import Numbers

# Memory of one pass without weights and cache: the widest layer of a chunk of prompt tokens, and the logits.


CHUNK_TOKENS = 8192
"""Prompt tokens of one pass: vLLM's default `max_num_batched_tokens` on large GPUs (its documentation)."""
ACTIVATION_BYTES = 2.0
LOGIT_BYTES = 8.0
"""Logits are cast to 32 bit, and a sampler keeps a copy."""


def activation_bytes(
    hidden: Numbers, widest: Numbers, tokens: Numbers, vocab: Numbers, sequences: Numbers, tensor: Numbers = 1
) -> Any:
    """Return the bytes of activations on one GPU at the peak of a pass over `tokens` tokens.

    Alive are the residual, its norm and the input and output of the widest product (`widest` values per token, cut
    over `tensor` GPUs), 16 bit each; one row of logits for each sequence that samples a token.
    """
    tokens = np.asarray(tokens, dtype=float)
    layer = tokens * (4.0 * np.asarray(hidden) + np.asarray(widest, dtype=float) / tensor) * ACTIVATION_BYTES
    return layer + np.asarray(sequences, dtype=float) * vocab * LOGIT_BYTES / tensor


def encoder_flop(matrices: float, patches: float, tiles: float, layers: float, hidden: float) -> float:
    """Return the FLOP of a pass of an image tower: 2 for each weight and patch, 4 of a layer for two patches of a tile.

    411 million weights and one image of 3,520 patches: 2.9e12, and 4 * 27 * 1,152 * 3,520^2 = 1.5e12 of attention.
    """
    return tiles * patches * (2.0 * matrices + 4.0 * layers * hidden * patches)


# Inputs of the formulas of generation as plain numbers: one served configuration per array element.


@dataclass(frozen=True)
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
    state_tokens: Numbers = 0.0  # what a sequence keeps whatever its length (linear attention), in tokens of the cache


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


# Memory of the KV cache: bytes per token, tokens that fit, requests that fit.


BLOCK_TOKENS = 16
"""Tokens of one block of a paged cache: vLLM's default `block_size` (its documentation of engine arguments)."""


def kv_bytes_per_token(model: ServedModel, kv_bytes: Numbers, tensor: Numbers = 1, pipeline: Numbers = 1) -> Any:
    """Return the bytes of one token's keys and values on one GPU, without sliding windows.

    2 * (layers / pp) * ceil(kv_heads / tp) * head_dim * bytes; heads that are fewer than the GPUs are copied.
    The latent of multi-head latent attention lies whole on each GPU (arXiv:2405.04434, section 2.1).
    """
    layers = np.asarray(model.cache_layers) / np.asarray(pipeline)
    heads = 2.0 * np.ceil(np.asarray(model.kv_heads) / np.asarray(tensor)) * model.head_dim
    return layers * np.where(np.greater(model.latent, 0), model.latent, heads) * kv_bytes


def seen_tokens(model: ServedModel, context: Numbers) -> Any:
    """Return the tokens of a context that an average layer keeps and reads: sliding layers keep a window.

    The state of layers with linear attention counts as so many tokens more.
    """
    context = np.asarray(context, dtype=float)
    slid = np.where(np.greater(model.window, 0), np.minimum(context, model.window), context)
    return context + model.window_share * (slid - context) + model.state_tokens


def mean_seen_tokens(model: ServedModel, start: Numbers, output: Numbers) -> Any:
    """Return the mean of `seen_tokens` over a request whose context grows from `start` by `output` tokens.

    Simpson's rule: exact without a window, and where the whole request lies on one side of it.
    """
    middle = np.asarray(start) + np.asarray(output) / 2.0
    ends = seen_tokens(model, start) + seen_tokens(model, np.asarray(start) + np.asarray(output))
    return (ends + 4.0 * seen_tokens(model, middle)) / 6.0


def blocks_of(tokens: Numbers) -> Any:
    """Return the tokens of whole blocks that hold `tokens`."""
    return np.ceil(np.asarray(tokens, dtype=float) / BLOCK_TOKENS) * BLOCK_TOKENS


def cache_bytes(usable: Numbers, weights: Numbers, activations: Numbers, overhead: Numbers) -> Any:
    """Return the bytes that one GPU has left for the cache; 0 where the rest does not fit.

    `usable` is what the engine may take (its share of the GPU's memory), all in bytes.
    """
    return np.maximum(0.0, np.asarray(usable, dtype=float) - weights - activations - overhead)


def requests_that_fit(cache: Numbers, per_token: Numbers, model: ServedModel, tokens: Numbers) -> Any:
    """Return the whole requests of so many tokens each whose cache of whole blocks fits in `cache` bytes."""
    return np.floor(cache / (blocks_of(seen_tokens(model, tokens)) * per_token))


# Seconds of one decode step: one more token for each sequence in flight.


ALL_REDUCES = 2.0
"""Of one layer under tensor parallelism: after attention and after the feed-forward (arXiv:1909.08053, section 3)."""


def touched_share(experts: Numbers, per_token: Numbers, tokens: Numbers) -> Any:
    """Return the expected share of the experts that `tokens` tokens touch: 1 - (1 - k/E)^tokens; 1 without experts.

    Each token chooses k of E evenly and on its own.
    """
    experts = np.asarray(experts, dtype=float)
    missed = 1.0 - np.asarray(per_token) / np.maximum(experts, 1.0)
    return np.where(experts > 0, 1.0 - np.clip(missed, 0.0, 1.0) ** tokens, 1.0)


def weight_bytes_read(model: ServedModel, stack: ServingStack, tokens: Numbers) -> Any:
    """Return the bytes of weights that one step over `tokens` tokens reads, over all GPUs of a replica."""
    experts = model.expert_weights * touched_share(model.experts, model.experts_per_token, tokens)
    return (model.dense_weights + experts) * stack.weight_bytes


def all_reduce_seconds(model: ServedModel, hardware: ServingHardware, tokens: Numbers) -> Any:
    """Return the seconds of the all-reduces of one pass over `tokens` tokens; 0 on one GPU.

    A ring moves 2 (tp - 1) / tp of the payload through each link; the latency is paid per collective.
    """
    tensor = np.asarray(hardware.tensor, dtype=float)
    payload = np.asarray(tokens, dtype=float) * model.hidden * ACTIVATION_BYTES
    reduce_seconds = 2.0 * (1.0 - 1.0 / tensor) * payload / hardware.link_bytes_per_second + hardware.link_seconds
    return np.where(tensor > 1, ALL_REDUCES * model.layers * reduce_seconds, 0.0)


def decode_step_seconds(
    model: ServedModel, hardware: ServingHardware, stack: ServingStack, sequences: Numbers, context: Numbers
) -> Any:
    """Return the seconds from one token to the next of each of `sequences` sequences.

    `context` is the mean number of tokens that a layer reads per sequence (`mean_seen_tokens`).
    Under pipeline parallelism the sequences go through the stages in as many groups, so that a step of one group reads
    all weights one stage after another. Weights are read while the products compute: the two join as the root of their
    squares, which is either alone where one is much larger.
    """
    group = np.maximum(1.0, np.asarray(sequences, dtype=float) / hardware.pipeline)
    tensor = np.asarray(hardware.tensor, dtype=float)
    reading = weight_bytes_read(model, stack, group) / tensor / hardware.bandwidth
    products = 2.0 * model.met_weights * group / tensor / hardware.flops
    per_token = kv_bytes_per_token(model, stack.kv_bytes, tensor)
    cache = group * context * per_token / hardware.cache_bandwidth
    overhead = model.layers * stack.layer_seconds + stack.step_seconds + group * stack.sequence_seconds
    return np.hypot(reading, products) + cache + overhead + all_reduce_seconds(model, hardware, group)


# Seconds of prefill: the pass over a prompt before its first token.


def attention_flop(model: ServedModel, tokens: Numbers, prefix: Numbers = 0.0) -> Any:
    """Return the FLOP of attention scores and their products with values, for `tokens` after a cached `prefix`.

    4 * width per pair of tokens and layer, over the causal half; sliding layers see their window.
    """
    return (
        4.0
        * model.attention_width
        * model.cache_layers
        * np.asarray(tokens, dtype=float)
        * (mean_seen_tokens(model, prefix, tokens) - model.state_tokens)
    )


def prompt_seconds(model: ServedModel, hardware: ServingHardware, tokens: Numbers, prefix: Numbers = 0.0) -> Any:
    """Return the seconds of arithmetic and exchange that a prompt adds to steps which read the weights in any case.

    `prefix` tokens are in the cache already and are only attended to.
    """
    gpus = np.asarray(hardware.tensor, dtype=float)
    products = 2.0 * model.met_weights * np.asarray(tokens, dtype=float) / (gpus * hardware.flops)
    attention = attention_flop(model, tokens, prefix) / (gpus * hardware.attention_flops)
    latency = np.where(gpus > 1, 2.0 * model.layers * hardware.link_seconds, 0.0)
    exchange = all_reduce_seconds(model, hardware, tokens) - latency  # the step's own exchange pays the latency
    return products + attention + exchange


def prefill_seconds(
    model: ServedModel, hardware: ServingHardware, stack: ServingStack, tokens: Numbers, prefix: Numbers = 0.0
) -> Any:
    """Return the seconds from taking in one prompt alone to its first token."""
    reading = weight_bytes_read(model, stack, tokens) / np.asarray(hardware.tensor, dtype=float) / hardware.bandwidth
    latency = np.where(np.greater(hardware.tensor, 1), 2.0 * model.layers * hardware.link_seconds, 0.0)
    overhead = model.layers * stack.layer_seconds + stack.step_seconds + stack.sequence_seconds + latency
    return (
        np.hypot(reading, prompt_seconds(model, hardware, tokens, prefix))
        + overhead
        + stack.request_seconds
        + stack.arrival_seconds
    )


ROUNDS = 40
"""Bisections of whole numbers: enough for any number in flight."""
FALSE_POSITIONS = 8
"""Steps of false position: the line is nearly straight."""


def cycle_seconds(
    model: ServedModel,
    hardware: ServingHardware,
    stack: ServingStack,
    sequences: Numbers,
    prompt: Numbers,
    output: Numbers,
    prefix: Numbers = 0.0,
) -> Any:
    """Return the seconds of one request from its turn to its last token with `sequences` in flight.

    Each request takes `output` steps, and in that time the prompts of as many requests as are in flight pass through
    the same steps: `output * step + sequences * (prompt + taking in)`. `prompt` excludes the cached `prefix`.
    Stages of a pipeline take in prompts side by side.
    """
    start = np.asarray(prompt, dtype=float) + prefix
    taken_in = prompt_seconds(model, hardware, prompt, prefix) + stack.request_seconds
    context = mean_seen_tokens(model, start, output)
    return joined_cycle_seconds(model, hardware, stack, sequences, context, taken_in, output)


def joined_cycle_seconds(
    model: ServedModel,
    hardware: ServingHardware,
    stack: ServingStack,
    sequences: Numbers,
    context: Numbers,
    taken_in: Numbers,
    output: Numbers,
) -> Any:
    """Return the seconds of one request of `output` steps, given its mean context and the seconds of taking it in."""
    step = decode_step_seconds(model, hardware, stack, sequences, context)
    group = np.maximum(1.0, np.asarray(sequences, dtype=float) / hardware.pipeline)
    return np.asarray(output, dtype=float) * step + group * taken_in + stack.arrival_seconds


def requests_per_second(sequences: Numbers, cycle: Numbers) -> Any:
    """Return the requests finished per second in the steady state: Little's law."""
    return np.asarray(sequences, dtype=float) / cycle


def makespan_seconds(requests: Numbers, in_flight: Numbers, cycle: Any) -> Any:
    """Return the seconds of a finite batch: full rounds, then a last one with the requests that remain.

    `cycle(n)` are the seconds of one request with n in flight. Start and tail are what a hundred requests pay and a
    million do not notice.
    """
    full, rest = np.divmod(requests, in_flight)
    return full * cycle(in_flight) + np.where(rest > 0, cycle(np.maximum(rest, 1)), 0.0)


def in_flight_at_rate(rate: Numbers, cycle: Any, limit: Numbers) -> Any:
    """Return the sequences in flight at `rate` requests per second: n = rate * cycle(n), at most `limit`, at least 1.

    n - rate * cycle(n) is almost a straight line in n, so that false position (the Illinois rule) finds its root fast.
    """
    rate = np.asarray(rate, dtype=float)
    low, high = np.ones_like(rate), np.broadcast_to(np.asarray(limit, dtype=float), rate.shape).copy()
    missing, beyond = low - rate * cycle(low), high - rate * cycle(high)
    idle, saturated = missing >= 0, beyond <= 0
    for _ in range(FALSE_POSITIONS):
        slope = np.where(beyond > missing, beyond - missing, 1.0)
        middle = np.where(idle | saturated, low, high - beyond * (high - low) / slope)
        left = middle - rate * cycle(middle)
        above = left > 0
        low, high, missing, beyond = (
            np.where(above, low, middle),
            np.where(above, middle, high),
            np.where(above, missing / 2.0, left),
            np.where(above, left, beyond / 2.0),
        )
    return np.where(idle, 1.0, np.where(saturated, limit, middle))


def in_flight_at_latency(seconds: Numbers, time_per_token: Any, limit: Numbers) -> Any:
    """Return the most sequences whose time per token is at most `seconds`, 0 where one alone is slower."""
    seconds = np.asarray(seconds, dtype=float)
    low, high = np.zeros_like(seconds), np.broadcast_to(np.asarray(limit, dtype=float), seconds.shape).copy()
    for _ in range(ROUNDS):
        middle = np.ceil((low + high) / 2.0)
        kept = time_per_token(np.maximum(middle, 1.0)) <= seconds
        low, high = np.where(kept, middle, low), np.where(kept, high, middle - 1.0)
    return np.maximum(low, 0.0)


# Shares of a step's time by what takes it: prompts, products, weights, cache, and what is left.


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
        float(np.ravel(decode_step_seconds(model, hardware, stack, sequences, length))[0]) for length in (context, 0.0)
    )
    tensor = float(np.ravel(hardware.tensor)[0])
    reading, products = (
        float(np.ravel(column)[0])
        for column in (
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
