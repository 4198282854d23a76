"""Parts of a decoder: what mixes the tokens of a layer, and its feed-forward, with their weights, cache and work.

A decoder is a sum of parts: so many layers of attention, so many of a state-space mixer, so many feed-forwards. A part
lists its matrices by name as (inputs, outputs), and its vectors: norms inside it, biases, decays, convolutions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

from planner.estimates.inputs import Attended

Matrices = dict[str, tuple[int, int]]
"""Name of a matrix -> width of its input and of its output."""

DELTA_CHUNK_TOKENS = 64
"""Tokens that kernels of linear attention take together (flash-linear-attention's gated delta rule)."""
STRICT = {"extra": "forbid"}
"""For pydantic, where a part stands on an architecture card: a misspelt key is refused."""


@dataclass(frozen=True)
class Attention:
    """Softmax attention over all tokens, or over the last `window` of them.

    `qk_norm`: of queries and keys, one per head dimension (`head`), per position of the whole width (`width`), or of
    every head with weights of its own (`heads`). `gate`: of the output, computed with the queries (`query`), by a
    matrix of its own (`width`), or one per head (`head`). `keys`: `shared` keys and values are those of an earlier
    layer, `as_values` one projection gives both.
    """

    __pydantic_config__: ClassVar = STRICT
    kind: Literal["attention"]
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int = 0  # 0: head_dim
    window: int = 0  # tokens; 0: all
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: Literal["", "head", "width", "heads"] = ""
    norm_bias: bool = False  # of those norms
    gate: Literal["", "query", "width", "head"] = ""
    keys: Literal["own", "as_values", "shared"] = "own"
    sinks: bool = False  # one learned weight per head
    inner_norm: bool = False  # before the output projection
    vectors: int = 0  # other weights of one layer
    norms: int = 1  # of the hidden width, around the part

    @property
    def values(self) -> int:
        """Width of one value head."""
        return self.value_dim or self.head_dim

    def matrices(self, hidden: int) -> Matrices:
        """Return the matrices of one layer."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shapes = {"q": (hidden, queries * (2 if self.gate == "query" else 1))}
        if self.keys != "shared":
            shapes["k"] = (hidden, keys)
        if self.keys == "own":
            shapes["v"] = (hidden, self.kv_heads * self.values)
        if self.gate in ("width", "head"):
            shapes["attention_gate"] = (hidden, self.heads * self.values if self.gate == "width" else self.heads)
        return shapes | {"o": (self.heads * self.values, hidden)}

    def other(self, hidden: int) -> int:
        """Return the weights of one layer that are in no matrix."""
        matrices, (queries, keys) = self.matrices(hidden), (self.heads * self.head_dim, self.kv_heads * self.head_dim)
        bias = sum(matrices[name][1] for name in ("q", "k", "v") if name in matrices) if self.qkv_bias else 0
        has_keys = self.keys != "shared"
        norm = {
            "": 0,
            "head": self.head_dim * (1 + has_keys),
            "width": queries + keys * has_keys,
            "heads": queries + keys * has_keys,
        }[self.qk_norm]
        inner = self.heads * self.values if self.inner_norm else 0
        sinks = self.heads if self.sinks else 0
        return bias + (hidden if self.output_bias else 0) + norm * (1 + self.norm_bias) + inner + sinks + self.vectors

    @property
    def cached(self) -> int:
        """Elements that one layer keeps of every token."""
        return 0 if self.keys == "shared" else self.kv_heads * (self.head_dim + self.values)

    state: ClassVar[int] = 0

    @property
    def score_width(self) -> float:
        """Width of queries, in the mean of scores and of values: 4 FLOP per unit and token attended to."""
        return self.heads * (self.head_dim + self.values) / 2

    @property
    def token_flop(self) -> float:
        """FLOP of one token and layer whatever the length of the sequence, without matrices."""
        return 0.0


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention: low-rank queries, keys and values, one rotated key (DeepSeek-V3, arXiv:2412.19437).

    `index_heads` and `index_dim`: of the indexer that chooses `index_tokens` tokens to attend to (DeepSeek-V3.2).
    """

    __pydantic_config__: ClassVar = STRICT
    kind: Literal["latent"]
    layers: int
    heads: int
    kv_rank: int
    plain_dim: int  # of a query and key head, not rotated
    rope_dim: int
    value_dim: int
    q_rank: int = 0  # 0: queries are not compressed
    bias: bool = False  # of the matrices into the ranks, and of the output
    gate: Literal["", "width", "head"] = ""
    index_heads: int = 0
    index_dim: int = 0
    index_tokens: int = 0
    rope_norm: bool = False  # of the rotated key
    vectors: int = 0
    norms: int = 1

    window: ClassVar[int] = 0

    def matrices(self, hidden: int) -> Matrices:
        """Return the matrices of one layer."""
        queries = self.heads * (self.plain_dim + self.rope_dim)
        shapes = {"q": (hidden, queries)}
        if self.q_rank:
            shapes = {"q_a": (hidden, self.q_rank), "q_b": (self.q_rank, queries)}
        shapes["kv_a"] = (hidden, self.kv_rank + self.rope_dim)
        shapes["kv_b"] = (self.kv_rank, self.heads * (self.plain_dim + self.value_dim))
        shapes["o"] = (self.heads * self.value_dim, hidden)
        if self.gate:
            shapes["attention_gate"] = (hidden, self.heads * self.value_dim if self.gate == "width" else self.heads)
        if self.index_heads:
            shapes["index_q"] = (self.q_rank or hidden, self.index_heads * self.index_dim)
            shapes["index_k"] = (hidden, self.index_dim)
            shapes["index_weights"] = (hidden, self.index_heads)
        return shapes

    def other(self, hidden: int) -> int:
        """Return the weights of one layer that are in no matrix."""
        inner = self.q_rank + self.kv_rank + (self.rope_dim if self.rope_norm else 0)
        biases = self.q_rank + self.kv_rank + self.rope_dim + hidden if self.bias else 0
        return inner + biases + (2 * self.index_dim if self.index_heads else 0) + self.vectors

    @property
    def cached(self) -> int:
        """Elements that one layer keeps of every token: the latent, the rotated key and the indexer's key."""
        return self.kv_rank + self.rope_dim + (self.index_dim if self.index_heads else 0)

    state: ClassVar[int] = 0

    @property
    def score_width(self) -> float:
        """Width of queries, in the mean of scores and of values."""
        return self.heads * (self.plain_dim + self.rope_dim + self.value_dim) / 2

    @property
    def token_flop(self) -> float:
        """FLOP of one token and layer whatever the length of the sequence."""
        return 0.0


@dataclass(frozen=True)
class DeltaNet:
    """Gated delta rule (arXiv:2412.06464): a state of key x value per head, a short convolution of its inputs.

    `gate_rank`: of Kimi Delta Attention (arXiv:2510.26692), whose decay is per key dimension: rank of the matrices of
    decay and output gate, or `full_gates`.
    """

    __pydantic_config__: ClassVar = STRICT
    kind: Literal["delta"]
    layers: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    gate_rank: int = 0
    full_gates: bool = False
    norms: int = 1

    window: ClassVar[int] = 0
    cached: ClassVar[int] = 0
    score_width: ClassVar[float] = 0.0

    @property
    def keys(self) -> int:
        """Width of all keys."""
        return self.key_heads * self.key_dim

    @property
    def values(self) -> int:
        """Width of all values."""
        return self.value_heads * self.value_dim

    def matrices(self, hidden: int) -> Matrices:
        """Return the matrices of one layer: those of Kimi Linear one by one, as the release has them."""
        shapes = {"linear_qkv": (hidden, 2 * self.keys + self.values), "linear_b": (hidden, self.value_heads)}
        if self.full_gates:
            shapes |= {"linear_f": (hidden, self.values), "linear_z": (hidden, self.values)}
        elif self.gate_rank:
            for name in ("linear_f", "linear_g"):
                shapes |= {f"{name}_a": (hidden, self.gate_rank), f"{name}_b": (self.gate_rank, self.values)}
        else:
            shapes |= {"linear_a": (hidden, self.value_heads), "linear_z": (hidden, self.values)}
        return shapes | {"linear_o": (self.values, hidden)}

    def fused(self, hidden: int) -> Matrices:
        """Return the same matrices as releases fuse or split them: `qkvz` and `ba` of Qwen3-Next, q, k and v alone."""
        whole = {"qkvz": 2 * self.keys + 2 * self.values, "ba": 2 * self.value_heads}
        parts = {"q": self.keys, "k": self.keys, "v": self.values}
        return {f"linear_{name}": (hidden, width) for name, width in (whole | parts).items()}

    def other(self, hidden: int) -> int:
        """Return the convolution, decay, step and norm of one layer."""
        del hidden
        steps = self.values if self.gate_rank or self.full_gates else self.value_heads
        return (2 * self.keys + self.values) * self.kernel + self.value_heads + steps + self.value_dim

    @property
    def state(self) -> int:
        """Elements that one layer keeps of a sequence, whatever its length."""
        return self.value_heads * self.key_dim * self.value_dim + (2 * self.keys + self.values) * (self.kernel - 1)

    @property
    def token_flop(self) -> float:
        """6 d_k d_v FLOP per head to read, correct and write the state, and 4 C (d_k + d_v) within a chunk of C."""
        key, value = self.key_dim, self.value_dim
        return self.value_heads * (6.0 * key * value + 4.0 * DELTA_CHUNK_TOKENS * (key + value))


@dataclass(frozen=True)
class Lightning:
    """Lightning attention (arXiv:2401.04658): linear attention with a fixed decay, a norm and an output gate."""

    __pydantic_config__: ClassVar = STRICT
    kind: Literal["lightning"]
    layers: int
    heads: int
    head_dim: int
    norms: int = 1

    window: ClassVar[int] = 0
    cached: ClassVar[int] = 0
    score_width: ClassVar[float] = 0.0

    def matrices(self, hidden: int) -> Matrices:
        """Return the matrices of one layer."""
        width = self.heads * self.head_dim
        return {"linear_qkv": (hidden, 3 * width), "linear_z": (hidden, width), "linear_o": (width, hidden)}

    def other(self, hidden: int) -> int:
        """Return the norm of one layer; the decays are a rule, not weights."""
        del hidden
        return self.heads * self.head_dim

    @property
    def state(self) -> int:
        """Elements that one layer keeps of a sequence."""
        return self.heads * self.head_dim**2

    @property
    def token_flop(self) -> float:
        """4 d^2 FLOP per head to read and write the state, and 8 C d within a chunk of C tokens."""
        return self.heads * (4.0 * self.head_dim**2 + 8.0 * DELTA_CHUNK_TOKENS * self.head_dim)


@dataclass(frozen=True)
class Mamba2:
    """State-space duality (Mamba-2, arXiv:2405.21060): a decay per head, groups that share input and output maps."""

    __pydantic_config__: ClassVar = STRICT
    kind: Literal["mamba2"]
    layers: int
    heads: int
    head_dim: int
    groups: int
    state_size: int
    kernel: int
    bias: bool = False  # of the input matrix
    out_bias: bool = False
    conv_bias: bool = True
    inner_norm: bool = True
    norms: int = 1

    window: ClassVar[int] = 0
    cached: ClassVar[int] = 0
    score_width: ClassVar[float] = 0.0

    @property
    def inner(self) -> int:
        """Width of all heads."""
        return self.heads * self.head_dim

    @property
    def convolved(self) -> int:
        """Width of what the short convolution passes over: heads, input maps and output maps."""
        return self.inner + 2 * self.groups * self.state_size

    def matrices(self, hidden: int) -> Matrices:
        """Return the matrices of one layer."""
        return {"mamba_in": (hidden, self.inner + self.convolved + self.heads), "mamba_out": (self.inner, hidden)}

    def other(self, hidden: int) -> int:
        """Return the convolution, decay, step and skip per head, norm and biases of one layer."""
        convolution = self.convolved * (self.kernel + self.conv_bias)
        biases = self.inner + self.convolved + self.heads if self.bias else 0
        return (
            convolution
            + 3 * self.heads
            + (self.inner if self.inner_norm else 0)
            + biases
            + (hidden if self.out_bias else 0)
        )

    @property
    def state(self) -> int:
        """Elements that one layer keeps of a sequence."""
        return self.inner * self.state_size + self.convolved * (self.kernel - 1)

    @property
    def token_flop(self) -> float:
        """4 N P FLOP per head to read and write the state, and 4 C (N + P) within a chunk of C tokens."""
        size, width = self.state_size, self.head_dim
        return self.heads * (4.0 * size * width + 4.0 * DELTA_CHUNK_TOKENS * (size + width))


@dataclass(frozen=True)
class Mamba:
    """Selective state space (Mamba, arXiv:2312.00752): a decay per channel and state; Jamba adds three norms."""

    __pydantic_config__: ClassVar = STRICT
    kind: Literal["mamba"]
    layers: int
    inner: int
    state_size: int
    rank: int
    kernel: int
    bias: bool = False
    conv_bias: bool = True
    inner_norm: bool = False  # of step, input and output maps
    norms: int = 1

    window: ClassVar[int] = 0
    cached: ClassVar[int] = 0
    score_width: ClassVar[float] = 0.0

    def matrices(self, hidden: int) -> Matrices:
        """Return the matrices of one layer."""
        maps = {"mamba_x": (self.inner, self.rank + 2 * self.state_size), "mamba_dt": (self.rank, self.inner)}
        return {"mamba_in": (hidden, 2 * self.inner), **maps, "mamba_out": (self.inner, hidden)}

    def other(self, hidden: int) -> int:
        """Return the convolution, the decays, the skip, the bias of the step, norms and biases of one layer."""
        convolution = self.inner * (self.kernel + self.conv_bias)
        inner = self.rank + 2 * self.state_size if self.inner_norm else 0
        biases = 2 * self.inner + hidden if self.bias else 0
        return convolution + self.inner * self.state_size + 2 * self.inner + inner + biases

    @property
    def state(self) -> int:
        """Elements that one layer keeps of a sequence."""
        return self.inner * (self.state_size + self.kernel - 1)

    @property
    def token_flop(self) -> float:
        """About 9 FLOP per channel and state: decay, input, sum and output (arXiv:2312.00752, section 3.3)."""
        return 9.0 * self.inner * self.state_size


@dataclass(frozen=True)
class ShortConvolution:
    """Gated short convolution over the last `kernel` tokens (LFM2, arXiv:2511.23404)."""

    __pydantic_config__: ClassVar = STRICT
    kind: Literal["convolution"]
    layers: int
    kernel: int
    bias: bool = False
    norms: int = 1

    window: ClassVar[int] = 0
    cached: ClassVar[int] = 0
    score_width: ClassVar[float] = 0.0
    state: ClassVar[int] = 0  # two tokens of the hidden width
    token_flop: ClassVar[float] = 0.0

    def matrices(self, hidden: int) -> Matrices:
        """Return the matrices of one layer."""
        return {"conv_in": (hidden, 3 * hidden), "conv_out": (hidden, hidden)}

    def other(self, hidden: int) -> int:
        """Return the convolution, and the biases of all three."""
        return hidden * self.kernel + (5 * hidden if self.bias else 0)


@dataclass(frozen=True)
class FeedForward:
    """Feed-forward of all tokens. `bias`: of its matrices; `inner_norm`: before the last."""

    __pydantic_config__: ClassVar = STRICT
    kind: Literal["feed_forward"]
    layers: int
    width: int
    gated: bool = True
    bias: bool = False
    inner_norm: bool = False
    vectors: int = 0
    norms: int = 1

    def matrices(self, hidden: int) -> Matrices:
        """Return the matrices of one layer."""
        gate = {"gate": (hidden, self.width)} if self.gated else {}
        return {**gate, "up": (hidden, self.width), "down": (self.width, hidden)}

    def other(self, hidden: int) -> int:
        """Return the biases and norms of one layer."""
        biases = (1 + self.gated) * self.width + hidden if self.bias else 0
        return biases + (self.width if self.inner_norm else 0) + self.vectors


@dataclass(frozen=True)
class Experts:
    """Experts of which each token meets `per_token`, and one shared feed-forward that all tokens meet.

    `router_bias`: one weight per expert, a bias or the correction that balances them (a buffer of the checkpoint).
    `latent`: width that routed experts work in, projected from and to the hidden width; 0: the hidden width.
    """

    __pydantic_config__: ClassVar = STRICT
    kind: Literal["experts"]
    layers: int
    experts: int
    per_token: int
    width: int
    shared_width: int = 0
    shared_gate: bool = False  # one output that scales the shared feed-forward
    gated: bool = True
    bias: bool = False
    shared_bias: bool = False
    router_bias: bool = False
    latent: int = 0
    vectors: int = 0
    norms: int = 1

    def matrices(self, hidden: int) -> Matrices:
        """Return the matrices of one layer that every token meets."""
        shapes: Matrices = {"router": (hidden, self.experts)}
        if self.shared_gate:
            shapes["router_shared"] = (hidden, 1)
        if self.shared_width:
            gate = {"shared.gate": (hidden, self.shared_width)} if self.gated else {}
            shapes |= {**gate, "shared.up": (hidden, self.shared_width), "shared.down": (self.shared_width, hidden)}
        if self.latent:
            shapes |= {"latent_in": (hidden, self.latent), "latent_out": (self.latent, hidden)}
        return shapes

    def each(self, hidden: int) -> Matrices:
        """Return the matrices of one expert."""
        inside = self.latent or hidden
        gate = {"experts.gate": (inside, self.width)} if self.gated else {}
        return {**gate, "experts.up": (inside, self.width), "experts.down": (self.width, inside)}

    def other(self, hidden: int) -> int:
        """Return the weights of one layer that are in no matrix and that every token meets."""
        shared = (1 + self.gated) * self.shared_width + hidden if self.shared_bias and self.shared_width else 0
        projected = self.latent + hidden if self.shared_bias and self.latent else 0
        return shared + projected + (self.experts if self.router_bias else 0) + self.vectors

    def expert_weights(self, hidden: int) -> int:
        """Return the weights of one expert."""
        biases = (1 + self.gated) * self.width + (self.latent or hidden) if self.bias else 0
        return _entries(self.each(hidden)) + biases


Mixer = Attention | LatentAttention | DeltaNet | Lightning | Mamba2 | Mamba | ShortConvolution
Part = Mixer | FeedForward | Experts
MIXERS = get_args(Mixer)


def is_mixer(part: Part) -> bool:
    """Return whether a part mixes tokens; the others treat each token alone."""
    return isinstance(part, MIXERS)


def _entries(matrices: Matrices) -> int:
    return sum(inputs * outputs for inputs, outputs in matrices.values())


def part_weights(part: Part, hidden: int, norm: int, active: bool = False) -> int:
    """Return the weights of all layers of a part: with every expert, or with those that one token meets.

    `norm`: weights of one norm of the hidden width.
    """
    layer_weights = _entries(part.matrices(hidden)) + part.other(hidden) + part.norms * norm
    if isinstance(part, Experts):
        layer_weights += (part.per_token if active else part.experts) * part.expert_weights(hidden)
    return part.layers * layer_weights


class Cache(NamedTuple):
    """What a decoder keeps of a sequence, summed over its layers."""

    elements: int  # of every token
    window_share: float  # of them, in layers that keep the last `window` tokens only
    window: float  # tokens, in the mean of those layers
    state: int  # elements whatever the length of the sequence
    score_width: float  # sum over layers: FLOP of attention are 4 per unit and pair of tokens


def cache_of(parts: tuple[Part, ...]) -> Cache:
    """Return what a decoder keeps of a sequence: keys and values, latents, and the states of its other mixers."""
    mixers = [part for part in parts if not isinstance(part, (FeedForward, Experts))]
    elements = sum(part.layers * part.cached for part in mixers)
    slides = [(part.layers * part.cached, part.window) for part in mixers if part.window and part.cached]
    sliding = sum(width for width, _ in slides)
    return Cache(
        elements,
        sliding / elements if elements else 0.0,
        sum(width * window for width, window in slides) / sliding if sliding else 0.0,
        sum(part.layers * part.state for part in mixers),
        sum(part.layers * part.score_width for part in mixers),
    )


def attended_of(parts: tuple[Part, ...], layers: int, query_width: int) -> tuple[Attended, ...]:
    """Return the mixers of a decoder at their cost over that of attention of `query_width` in each of `layers` layers.

    A mixer without scores costs the same for every token: as much as attention to a window of `token_flop` / (4 width).
    An indexer scores every token before it: its width counts with those scores, in the mean of scores and values.
    """
    whole, mixers = layers * query_width, []
    for part in parts:
        if isinstance(part, (FeedForward, Experts)):
            continue
        if part.score_width:
            width = part.score_width
            if isinstance(part, LatentAttention):
                width += part.index_heads * part.index_dim / 2
            mixers.append(Attended(part.layers * width / whole, float(part.window)))
        elif part.token_flop:
            mixers.append(Attended(part.layers / layers, part.token_flop / (4.0 * query_width), masked=False))
    return tuple(mixers)


_ACTIVATION_NAMES = {
    "delta": "a gated delta rule",
    "lightning": "lightning attention",
    "mamba2": "Mamba-2",
    "mamba": "Mamba",
    "convolution": "short convolutions",
}


def attention_stand_ins(parts: tuple[Part, ...]) -> list[str]:
    """Return in words which attention is estimated as another; nothing where none is."""
    indexed = any(isinstance(part, LatentAttention) and part.index_heads for part in parts)
    return ["sparse attention with an indexer is estimated as attention to all tokens"] if indexed else []


def activation_stand_ins(parts: tuple[Part, ...]) -> list[str]:
    """Return in words which layers' activations are estimated as those of attention; nothing where none are."""
    layers: dict[str, int] = {}
    for part in parts:
        if part.kind in _ACTIVATION_NAMES:
            layers[part.kind] = layers.get(part.kind, 0) + part.layers
    return [
        f"memory of activations: {count} layers of {_ACTIVATION_NAMES[kind]} count as attention"
        for kind, count in layers.items()
    ]
