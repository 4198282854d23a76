"""Weights of a network and of LoRA adapters, by its linear layers under the names of its release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from planner.estimates.inputs import Linear, Network
from planner.estimates.parts import Attention, DeltaNet, Experts, FeedForward, LatentAttention, Part, part_weights

# Counts of weights: of a network, and of those that a token meets.
#
# Counts follow the released implementations weight by weight: the result equals the sum over a checkpoint.
# Buffers (rotary tables, masks) are not weights.


@dataclass(frozen=True)
class Dimensions:
    """The dimensions that determine the number of weights of a decoder, named as on an architecture card.

    `parts` describes decoders whose layers differ in more than the other dimensions can say, and replaces them.
    """

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
    parts: tuple[Part, ...] = ()
    norm_scale: bool = True
    head_bias: bool = False
    layer_embedding: int = 0
    layer_embedding_vocab: int = 0
    other_weights: int = 0

    def __post_init__(self) -> None:
        if self.experts and not 0 < self.experts_per_token <= self.experts:
            raise ValueError(f"experts_per_token {self.experts_per_token} lies outside 1..{self.experts}")
        if self.dense_layers > self.layers:
            raise ValueError(f"{self.dense_layers} dense layers in a model of {self.layers}")
        if self.linear_layers > self.layers:
            raise ValueError(f"{self.linear_layers} layers of linear attention in a model of {self.layers}")


def count_parameters(dimensions: Dimensions) -> int:
    """Return the number of distinct weights: a tied embedding counts once."""
    d = dimensions
    return _outside_layers(d) + _inside_layers(d, active=False) + d.layer_embedding_vocab * d.layers * d.layer_embedding


def active_parameters(dimensions: Dimensions) -> int:
    """Return the number of weights that one token meets.

    All but those of experts that are not chosen, and of embeddings per layer, of which a token meets one row.
    """
    return _outside_layers(dimensions) + _inside_layers(dimensions, active=True)


def _norm(d: Dimensions) -> int:
    return d.hidden * (2 if d.norm_bias else 1) if d.norm_scale else 0


def _outside_layers(d: Dimensions) -> int:
    embedding = d.vocab * d.hidden * (1 if d.tied_embeddings else 2) + d.learned_positions * d.hidden
    return embedding + _norm(d) * (2 if d.embedding_norm else 1) + (d.vocab if d.head_bias else 0) + d.other_weights


def _inside_layers(d: Dimensions, active: bool) -> int:
    width = d.layers * d.layer_embedding  # embeddings per layer: projections of all layers, then of each
    per_layer = d.hidden * width + d.layer_embedding + 2 * d.hidden * width + d.layers * _norm(d) if width else 0
    return per_layer + sum(part_weights(part, d.hidden, _norm(d), active) for part in parts_of(d))


def parts_of(d: Dimensions) -> tuple[Part, ...]:
    """Return the parts of a decoder: those that it lists, else attention, linear attention and feed-forwards."""
    if d.parts:
        return d.parts
    before, after = d.norms_per_layer - d.norms_per_layer // 2, d.norms_per_layer // 2
    attending, plain = d.layers - d.linear_layers, d.dense_layers if d.experts else d.layers
    width = d.dense_ffn if d.experts else d.ffn
    decoder: list[Part] = [_mixer(d, attending, before)]
    if d.linear_layers:
        heads, dims = (d.linear_key_heads, d.linear_value_heads), (d.linear_key_dim, d.linear_value_dim)
        decoder.append(DeltaNet("delta", d.linear_layers, *heads, *dims, d.linear_kernel, norms=before))
    decoder.append(FeedForward("feed_forward", plain, width, gated=d.gated, bias=d.ffn_bias, norms=after))
    if d.experts:
        experts = Experts(
            "experts",
            d.layers - plain,
            d.experts,
            d.experts_per_token,
            d.ffn,
            shared_width=d.shared_experts * d.ffn,
            shared_gate=d.shared_expert_gate,
            gated=d.gated,
            bias=d.ffn_bias,
            shared_bias=d.ffn_bias and d.shared_experts > 0,
            router_bias=d.router_bias,
            norms=after,
        )
        decoder.append(experts)
    return tuple(part for part in decoder if part.layers)


def _mixer(d: Dimensions, layers: int, norms: int) -> Part:
    """Return the attention of the layers that have softmax attention."""
    if d.kv_lora_rank:
        inner = (d.kv_lora_rank, d.head_dim - d.rope_head_dim, d.rope_head_dim, d.value_head_dim, d.q_lora_rank)
        return LatentAttention("latent", layers, d.heads, *inner, norms=norms)
    return Attention(
        "attention",
        layers,
        d.heads,
        d.kv_heads,
        d.head_dim,
        qkv_bias=d.qkv_bias,
        output_bias=d.output_bias,
        qk_norm="" if not d.qk_norm else "width" if d.qk_norm_all_heads else "head",
        gate="query" if d.query_gate else "",
        sinks=d.attention_sinks,
        norms=norms,
    )


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
"""Matrices of compressed attention, and the letters that choose them; other mixers' have `linear`."""
_OTHER_MIXERS = ("linear_", "mamba_", "conv_")
"""How the names of matrices begin that mix tokens without softmax attention."""


class LoraCount(NamedTuple):
    """The weights that adapters of one rank add."""

    trainable: int  # adapter weights in the whole network
    inputs_per_layer: float  # sum of d_in over the adapted linears that one token meets in one layer, on average
    linears_per_layer: float  # number of adapted linears that one token meets in one layer, on average
    outputs: int = 0  # sum of d_out over all adapted linears of the network
    outputs_per_layer: float = 0.0  # the same over those that one token meets in one layer, on average
    idle_linears_per_layer: float = 0.0  # adapted linears of the experts that one token does not meet, on average


def linears_of(dimensions: Dimensions, modules: Modules) -> tuple[Linear, ...]:
    """Return the modules that exist in a network of these dimensions; a fused one has all parts' outputs."""
    linears = []
    for shapes in _shapes(dimensions):
        for path, parts in modules.items():
            held = [shapes[part] for part in parts if part in shapes]
            if held and held[0][2]:
                inputs, _, copies, met = held[0]
                linears.append(Linear(path, letters_of(parts), inputs, sum(shape[1] for shape in held), copies, met))
    return tuple(linears)


def letters_of(parts: tuple[str, ...]) -> frozenset[str]:
    """Return the letters that choose a module which holds these matrices."""
    return frozenset(letter for part in parts for letter in _letters(part))


def _letters(part: str) -> tuple[str, ...]:
    return ("linear",) if part.startswith(_OTHER_MIXERS) else _LETTERS.get(part, (part.rpartition(".")[2],))


def _shapes(d: Dimensions) -> list[dict[str, tuple[int, int, int, int]]]:
    """Return of each part (d_in, d_out, copies, copies that a token meets) of its matrices, by name."""
    by_part = []
    for part in parts_of(d):
        matrices = part.matrices(d.hidden)
        if isinstance(part, DeltaNet):
            matrices = part.fused(d.hidden) | matrices
        shapes = {name: (*shape, part.layers, part.layers) for name, shape in matrices.items()}
        if isinstance(part, Experts):
            copies = part.layers * part.experts, part.layers * part.per_token
            shapes |= {name: (*shape, *copies) for name, shape in part.each(d.hidden).items()}
        by_part.append(shapes)
    return by_part


def lora_parameters(
    network: Network, rank: int, targets: str | tuple[str, ...] = "all-linear", adapt_head: bool = False
) -> LoraCount:
    """Count the adapters A (rank x d_in) and B (d_out x rank) on the chosen linears of every layer.

    `targets`: a shorthand of `TARGET_SETS`, or letters (q, k, v, o, gate, up, down) and names of modules, which
    choose every path that ends with them, as in PEFT. A letter of a fused matrix chooses all of it. `adapt_head` adds
    the output layer, which no target names.
    Of a diffusion network the counts are those of `Network.adapters`; inputs and linears of a layer are a plain one's.
    In a network with experts every expert has its own adapters (`trainable`), but a token meets only those of
    `experts_per_token` experts (`inputs_per_layer`, `linears_per_layer`).
    Raises ValueError on a rank under 1, and where nothing is adapted.
    """
    if rank < 1:
        raise ValueError(f"LoRA rank {rank} is not a positive whole number")
    linears = network.linears or linears_of(_plain(network), SEPARATE)
    chosen = [linear for linear in linears if is_chosen(linear.path, linear.letters, targets)]
    if not chosen:
        known = ", ".join(dict.fromkeys(linear.path.rpartition(".")[2] for linear in linears))
        words = targets if isinstance(targets, str) else ", ".join(targets)
        raise ValueError(f"LoRA targets {words or 'none'} match no linear layer of this architecture; it has {known}")
    if adapt_head:
        chosen.append(Linear("lm_head", frozenset(), network.hidden, network.vocab, copies=1, met=1))
    widths = [
        *((linear.copies * linear.inputs, linear.copies * linear.outputs) for linear in chosen if not network.adapters),
        *(sums for letter, *sums in network.adapters if is_chosen(letter, frozenset({letter}), targets)),
    ]
    return LoraCount(
        trainable=rank * sum(inputs + outputs for inputs, outputs in widths),
        inputs_per_layer=sum(linear.met * linear.inputs for linear in chosen) / network.layers,
        linears_per_layer=sum(linear.met for linear in chosen) / network.layers,
        outputs=sum(outputs for _, outputs in widths),
        outputs_per_layer=sum(linear.met * linear.outputs for linear in chosen) / network.layers,
        idle_linears_per_layer=sum(linear.copies - linear.met for linear in chosen) / network.layers,
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
