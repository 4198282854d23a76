"""Counts of weights: of a network, and of those that a token meets.

Counts follow the released implementations weight by weight: the result equals the sum over a checkpoint.
Buffers (rotary tables, masks) are not weights.
"""

from __future__ import annotations

from planner.records import record


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
    mixing = (d.layers - d.linear_layers) * _attention(d) + d.linear_layers * _linear_attention(d)
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


def _linear_attention(d: Dimensions) -> int:
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
