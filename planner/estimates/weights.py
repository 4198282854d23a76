"""Weights of a network and of LoRA adapters, by its linear layers under the names of its release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from planner.estimates.inputs import Linear, Network
from planner.records import record

# Counts of weights: of a network, and of those that a token meets.
#
# Counts follow the released implementations weight by weight: the result equals the sum over a checkpoint.
# Buffers (rotary tables, masks) are not weights.


@record(frozen=True)
class Dimensions:
    """The dimensions that determine the number of weights of a decoder, named as on an architecture card."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int  # of one expert where there are experts
    vocab: int
    tied_embeddings: bool = False
    gated: bool = True
    norm_bias: bool = False
    norms_per_layer: int = 2
    embedding_norm: bool = False
    qk_norm: bool = False
    qk_norm_all_heads: bool = False
    query_gate: bool = False
    attention_sinks: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    ffn_bias: bool = False
    learned_positions: int = 0
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: int = 0
    shared_expert_gate: bool = False
    dense_layers: int = 0
    dense_ffn: int = 0
    router_bias: bool = False
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    rope_head_dim: int = 0
    value_head_dim: int = 0
    linear_layers: int = 0
    linear_key_heads: int = 0
    linear_value_heads: int = 0
    linear_key_dim: int = 0
    linear_value_dim: int = 0
    linear_kernel: int = 0

    def __post_init__(self) -> None:
        if self.experts and not 0 < self.experts_per_token <= self.experts:
            raise ValueError(f"experts_per_token {self.experts_per_token} lies outside 1..{self.experts}")
        if self.dense_layers > self.layers:
            raise ValueError(f"{self.dense_layers} dense layers in a model of {self.layers}")
        if self.linear_layers > self.layers:
            raise ValueError(f"{self.linear_layers} layers of linear attention in a model of {self.layers}")


def count_parameters(dimensions: Dimensions) -> int:
    """Return the number of distinct weights: a tied embedding counts once."""
    return _count(dimensions, dimensions.experts)


def active_parameters(dimensions: Dimensions) -> int:
    """Return the number of weights that one token meets: all but those of experts that are not chosen."""
    return _count(dimensions, dimensions.experts_per_token)


def _count(d: Dimensions, experts: int) -> int:
    norm = d.hidden * (2 if d.norm_bias else 1)
    embedding = d.vocab * d.hidden * (1 if d.tied_embeddings else 2) + d.learned_positions * d.hidden
    outer_norms = norm * (2 if d.embedding_norm else 1)
    norms = d.layers * d.norms_per_layer * norm
    mixing = (d.layers - d.linear_layers) * _attention(d) + d.linear_layers * _parameters_linear_attention(d)
    plain = d.dense_layers if d.experts else d.layers
    plain_layer = _feed_forward(d, d.dense_ffn if d.experts else d.ffn)
    router = d.hidden * (d.experts + d.shared_expert_gate) + (d.experts if d.router_bias else 0)
    expert_layer = router + (experts + d.shared_experts) * _feed_forward(d, d.ffn)
    return embedding + outer_norms + norms + mixing + plain * plain_layer + (d.layers - plain) * expert_layer


def _attention(d: Dimensions) -> int:
    if d.kv_lora_rank:
        return _latent_attention(d)
    queries, keys = d.heads * d.head_dim, d.kv_heads * d.head_dim
    asked = queries * (2 if d.query_gate else 1)  # the gate of each query is computed with it
    weights = d.hidden * (asked + queries + 2 * keys)
    biases = (asked + 2 * keys if d.qkv_bias else 0) + (d.hidden if d.output_bias else 0)
    norms = (queries + keys if d.qk_norm_all_heads else 2 * d.head_dim) if d.qk_norm else 0
    return weights + biases + norms + (d.heads if d.attention_sinks else 0)


def _parameters_linear_attention(d: Dimensions) -> int:
    """Return the weights of a gated delta rule: queries, keys, values and gate, decay and step, a short convolution.

    Shapes as in the released Qwen3-Next; the method is Gated DeltaNet (arXiv:2412.06464).
    """
    keys, values = d.linear_key_heads * d.linear_key_dim, d.linear_value_heads * d.linear_value_dim
    inputs = d.hidden * (2 * keys + 2 * values + 2 * d.linear_value_heads)
    convolution = (2 * keys + values) * d.linear_kernel
    return inputs + convolution + 2 * d.linear_value_heads + d.linear_value_dim + values * d.hidden


def _latent_attention(d: Dimensions) -> int:
    """Return the weights of multi-head latent attention: low-rank queries, keys and values, one rotated key.

    Shapes as in the DeepSeek-V3 report (arXiv:2412.19437, section 2.1.1);
    each low-rank vector has an RMSNorm.
    """
    queries = d.heads * d.head_dim
    if d.q_lora_rank:
        query_weights = d.hidden * d.q_lora_rank + d.q_lora_rank + d.q_lora_rank * queries
    else:
        query_weights = d.hidden * queries
    down = d.hidden * (d.kv_lora_rank + d.rope_head_dim) + d.kv_lora_rank
    up = d.kv_lora_rank * d.heads * (d.head_dim - d.rope_head_dim + d.value_head_dim)
    return query_weights + down + up + d.heads * d.value_head_dim * d.hidden


def _feed_forward(d: Dimensions, width: int) -> int:
    inner = 2 if d.gated else 1
    biases = inner * width + d.hidden if d.ffn_bias else 0
    return (inner + 1) * d.hidden * width + biases


def training_flops(active: float, tokens: float, *, frozen: bool = False, recomputed: float = 0.0) -> float:
    """Return the FLOP of matmuls with weights: 2 forward, 2 to activations, 2 to weights, per weight and token.

    `frozen` base weights (LoRA) need no weight gradient: 4 in place of 6.
    `recomputed` is the share of layers whose forward pass runs again (full checkpointing: 1).
    Attention scores are left out; the throughput estimate counts them.
    The rule of 6 is from Kaplan et al. 2020 (arXiv:2001.08361, section 2.1).
    """
    return (4.0 if frozen else 6.0) * active * tokens + 2.0 * recomputed * active * tokens


Modules = Mapping[str, tuple[str, ...]]
"""Path of a module in one layer -> the matrices that it holds; several where they are fused into one."""

ATTENTION_LINEARS = ("q", "k", "v", "o")
FFN_LINEARS = ("gate", "up", "down")
TARGET_SETS: dict[str, tuple[str, ...]] = {
    "all-linear": ATTENTION_LINEARS + FFN_LINEARS,
    "attention": (*ATTENTION_LINEARS, "linear"),
    "qv": ("q", "v"),
}
"""Shorthands for what is adapted, and the letters that they stand for."""
SEPARATE: Modules = {
    name: (name,) for name in (*ATTENTION_LINEARS, *FFN_LINEARS, *(f"experts.{linear}" for linear in FFN_LINEARS))
}
"""Modules of a network whose release is not known: one matrix for each letter."""

_LETTERS = {"q_a": ("q",), "q_b": ("q",), "kv_a": ("k", "v"), "kv_b": ("k", "v")}
"""Matrices of compressed attention, and the letters that choose them; those of linear attention have `linear`."""


class LoraCount(NamedTuple):
    """The weights that adapters of one rank add."""

    trainable: int  # adapter weights in the whole network
    inputs_per_layer: float  # sum of d_in over the adapted linears that one token meets in one layer, on average
    linears_per_layer: float  # number of adapted linears that one token meets in one layer, on average
    outputs: int = 0  # sum of d_out over all adapted linears of the network


def linears_of(dimensions: Dimensions, modules: Modules) -> tuple[Linear, ...]:
    """Return the modules that exist in a network of these dimensions; a fused one has all parts' outputs."""
    shapes = _shapes(dimensions)
    found = []
    for path, parts in modules.items():
        held = [shapes[part] for part in parts if part in shapes]
        if held and held[0][2]:
            inputs, _, copies, met = held[0]
            found.append(Linear(path, letters_of(parts), inputs, sum(shape[1] for shape in held), copies, met))
    return tuple(found)


def letters_of(parts: tuple[str, ...]) -> frozenset[str]:
    """Return the letters that choose a module which holds these matrices."""
    return frozenset(letter for part in parts for letter in _letters(part))


def _letters(part: str) -> tuple[str, ...]:
    return ("linear",) if part.startswith("linear_") else _LETTERS.get(part, (part.rpartition(".")[2],))


def _shapes(d: Dimensions) -> dict[str, tuple[int, int, int, int]]:
    """Return (d_in, d_out, copies, copies that a token meets) of every matrix; of a plain feed-forward no gate."""
    queries, keys = d.heads * d.head_dim, d.kv_heads * d.head_dim
    attending, plain = d.layers - d.linear_layers, d.dense_layers if d.experts else d.layers
    value_inputs = d.heads * d.value_head_dim if d.kv_lora_rank else queries
    routed = d.layers - plain
    found = {"o": (value_inputs, d.hidden, attending, attending)}
    if d.kv_lora_rank:
        plain_keys = d.head_dim - d.rope_head_dim
        found |= {
            "kv_a": (d.hidden, d.kv_lora_rank + d.rope_head_dim, attending, attending),
            "kv_b": (d.kv_lora_rank, d.heads * (plain_keys + d.value_head_dim), attending, attending),
        }
    else:
        found |= {name: (d.hidden, keys, attending, attending) for name in ("k", "v")}
    if d.q_lora_rank:
        found |= {"q_a": (d.hidden, d.q_lora_rank, attending, attending)}
        found |= {"q_b": (d.q_lora_rank, queries, attending, attending)}
    else:
        found["q"] = (d.hidden, queries * (2 if d.query_gate else 1), attending, attending)
    places = (
        ("", d.dense_ffn if d.experts else d.ffn, plain, plain),
        ("experts.", d.ffn, routed * d.experts, routed * d.experts_per_token),
        ("shared.", d.ffn * d.shared_experts, routed * bool(d.shared_experts), routed * bool(d.shared_experts)),
    )
    for place, width, copies, met in places:
        found[f"{place}up"] = (d.hidden, width, copies, met)
        found[f"{place}down"] = (width, d.hidden, copies, met)
        if d.gated:
            found[f"{place}gate"] = (d.hidden, width, copies, met)
    return found | _linear_attention(d)


def _linear_attention(d: Dimensions) -> dict[str, tuple[int, int, int, int]]:
    """Return the matrices of a gated delta rule, as Qwen3-Next fuses them and as Qwen3.5 separates them."""
    keys, values = d.linear_key_heads * d.linear_key_dim, d.linear_value_heads * d.linear_value_dim
    widths = {"qkvz": 2 * keys + 2 * values, "ba": 2 * d.linear_value_heads, "qkv": 2 * keys + values, "z": values}
    widths |= {"b": d.linear_value_heads, "a": d.linear_value_heads}
    found = {f"linear_{name}": (d.hidden, width, d.linear_layers, d.linear_layers) for name, width in widths.items()}
    return found | {"linear_o": (values, d.hidden, d.linear_layers, d.linear_layers)}


def lora_parameters(network: Network, rank: int, targets: str | tuple[str, ...] = "all-linear") -> LoraCount:
    """Count the adapters A (rank x d_in) and B (d_out x rank) on the chosen linears of every layer.

    `targets`: a shorthand of `TARGET_SETS`, or letters (q, k, v, o, gate, up, down) and names of modules, which
    choose every path that ends with them, as in PEFT. A letter of a fused matrix chooses all of it.
    In a network with experts every expert has its own adapters (`trainable`), but a token meets only those of
    `experts_per_token` experts (`inputs_per_layer`, `linears_per_layer`).
    Raises ValueError on a rank under 1 and where nothing is adapted.
    """
    if rank < 1:
        raise ValueError(f"LoRA rank {rank} is not a positive whole number")
    linears = network.linears or linears_of(_plain(network), SEPARATE)
    chosen = [linear for linear in linears if is_chosen(linear.path, linear.letters, targets)]
    if not chosen:
        known = ", ".join(dict.fromkeys(linear.path.rpartition(".")[2] for linear in linears))
        words = targets if isinstance(targets, str) else ", ".join(targets)
        raise ValueError(f"LoRA targets {words or 'none'} match no linear layer of this architecture; it has {known}")
    return LoraCount(
        trainable=rank * sum(linear.copies * (linear.inputs + linear.outputs) for linear in chosen),
        inputs_per_layer=sum(linear.met * linear.inputs for linear in chosen) / network.layers,
        linears_per_layer=sum(linear.met for linear in chosen) / network.layers,
        outputs=sum(linear.copies * linear.outputs for linear in chosen),
    )


def is_chosen(path: str, letters: frozenset[str], targets: str | tuple[str, ...]) -> bool:
    """Return whether adapters on `targets` extend the module of this path."""
    if targets == "all-linear":
        return True
    names = TARGET_SETS.get(targets, (targets,)) if isinstance(targets, str) else targets
    return any(name in letters or f".{path}".endswith(f".{name}") for name in names)


def with_modules(network: Network, modules: Modules) -> Network:
    """Return a network of plain layers whose linear layers have these names."""
    return replace(network, linears=linears_of(_plain(network), modules))


def _plain(network: Network) -> Dimensions:
    """Return the dimensions of a network of which no release is known."""
    return Dimensions(
        layers=network.layers,
        hidden=network.hidden,
        heads=network.heads,
        kv_heads=network.kv_heads,
        head_dim=network.head_dim,
        ffn=network.ffn,
        vocab=network.vocab,
        gated=network.gated,
        experts=network.experts,
        experts_per_token=network.experts_per_token if network.experts else 0,
    )
