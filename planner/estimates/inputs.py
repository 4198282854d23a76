"""Inputs of the estimates as plain numbers: one configuration per array element.

Every field is a float, an integer or a numpy array; arrays of one estimate broadcast against each
other, so a grid of recipes (R, 1) times hardware (H,) needs no copies.
Where the numbers come from (cards, profiles, recipes) is none of this module's business.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping

Numbers = float | int | NDArray[np.float64] | NDArray[np.int64] | NDArray[np.bool_] | Any
"""A scalar or an array of shape (n,) or broadcastable to it."""


@dataclass(frozen=True)
class Coefficients:
    """Plain floats under keys of a file of `models/calibration`."""

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Self:
        """Return the coefficients from the values of the file, which may have further keys."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})


# Codes of `Activations.key_exchange`: keys and values go round while attention works, are gathered before it, or each
# GPU takes some heads of all tokens.
KEYS_IN_A_RING, KEYS_GATHERED, KEYS_BY_HEADS = range(3)
# Codes of `Activations.checkpointing`.
CHECKPOINT_NONE, CHECKPOINT_EVERY_2ND, CHECKPOINT_SELECTIVE, CHECKPOINT_FULL, CHECKPOINT_OFFLOAD = range(5)
CHECKPOINT_MEGATRON_SELECTIVE = 5
CHECKPOINT_KEEP_ATTENTION = 6  # whole layers, but for the outputs of fused attention
CHECKPOINT_ALL_OFFLOADED = 7  # none: all that the backward pass needs goes to host memory and comes back
CHECKPOINT_SEGMENTS = 8  # groups of two layers that run again together
SEGMENT_LAYERS = 2
# Recomputed shares by CHECKPOINT_ code: none, every second layer, selective per operator, full, offload,
# Megatron selective, all but attention, none with all in host memory, groups of layers.
_RECOMPUTED_MATMUL = np.array([0.0, 0.5, 0.4, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0])
_RECOMPUTED_ATTENTION = np.array([0.0, 0.5, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0])
# Codes of `Tower.state`: its weights are frozen, have adapters, or are trained.
TOWER_FROZEN, TOWER_ADAPTED, TOWER_TRAINED = range(3)
# Codes of `Activations.attention`.
ATTENTION_FLASH, ATTENTION_MEM_EFFICIENT, ATTENTION_EAGER, ATTENTION_SPARSE = range(4)


class Recompute(NamedTuple):
    """Shares of layers whose forward pass runs twice, in matrix products and in attention."""

    matmul: Any
    attention: Any


def recompute_shares(checkpointing: Numbers) -> Recompute:
    """Return the recomputed shares of CHECKPOINT_ codes, of the codes' shape."""
    code = np.asarray(checkpointing, dtype=np.intp)
    return Recompute(_RECOMPUTED_MATMUL[code], _RECOMPUTED_ATTENTION[code])


class Linear(NamedTuple):
    """One module that adapters can extend, all of its copies."""

    path: str
    letters: frozenset[str]
    inputs: int
    outputs: int
    copies: int  # in the whole network
    met: int  # of those, by one token


class Attended(NamedTuple):
    """Layers whose mixing of tokens costs `share` of what full attention in every layer would."""

    share: float
    window: float  # tokens; 0: all that precede
    masked: bool = True  # a window that kernels other than flash attention compute in full


@dataclass(frozen=True)
class Network:
    """The shape of one architecture; scalars."""

    parameters: float  # P: all of them
    active_parameters: float  # per token (MoE), else P
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int  # width of one feed-forward (of one expert in a MoE)
    vocab: int
    tied: bool  # embedding and head share one matrix
    gated: bool  # three matrices per feed-forward, else two
    rope: bool
    parallel_residual: bool = False
    experts: int = 0  # 0 = dense
    experts_per_token: int = 0
    sliding_window: int = 0  # tokens; 0 = full attention
    sliding_layers: float = 0.0  # share of layers that use the window
    attended: tuple[Attended, ...] = ()  # mixers of several kinds, in place of the window
    uneven_layers: bool = False  # layers differ in their weights: the stack is counted from `active_parameters`
    linears: tuple[Linear, ...] = ()  # that adapters can extend; none: one for each letter, from the widths
    adapters: tuple[tuple[str, int, int], ...] = ()  # letter, sums of d_in and d_out of all its linears (diffusion)
    frozen_parameters: float = 0.0  # loaded with the network, never trained (text encoders, autoencoder)
    tower_parameters: float = 0.0  # of images: loaded with a language model, not trained
    linear_inputs: float = 0.0  # elements of one token that enter linear layers, of all layers, where counted (U-Nets)
    linear_layers: float = 0.0  # of all layers, where counted (diffusion)
    launched_layers: int = 0  # that Python launches one by one, where `layers` are a stand-in (U-Nets)
    blocks: int = 0  # that run again as one, where `layers` are a stand-in (diffusion transformers)
    masked: bool = False  # attention is given a mask that the fastest kernels do not take (diffusion)
    kept_bytes: float = 0.0  # kept per token, layer and unit of width over frozen weights, where counted (diffusion)
    # Of the same, where the activations of attention go to host memory: copied there, of kept_bytes then not on the
    # GPU, and masks of dropout that stay on it.
    moved_bytes: float = 0.0
    freed_bytes: float = 0.0
    masks_bytes: float = 0.0
    shape_known: bool = True  # False: shape guessed from the parameter count (+0.10 sigma)
    tower: Tower | None = None  # what the tower does for the samples of a job; None: no image is known

    @property
    def recomputed_blocks(self) -> int:
        """Number of blocks that checkpointing keeps the input of, and runs again one by one."""
        return self.blocks or self.layers

    @property
    def query_width(self) -> int:
        """Width of all queries of one layer."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of all keys, or values, of one layer."""
        return self.kv_heads * self.head_dim

    @property
    def expert_parameters(self) -> float:
        """Parameters of all experts of a mixture; 0 of a dense network."""
        stack = self.parameters - self.embedding_parameters
        return min(float(self.layers * self.experts * (3 if self.gated else 2) * self.hidden * self.ffn), stack)

    @property
    def embedding_parameters(self) -> float:
        """P_emb: embedding and head (one matrix when tied)."""
        return self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def trained_tower_parameters(self) -> float:
        """Weights of a tower that is trained with the language model; 0 of one that is frozen or has adapters."""
        return self.tower_parameters if self.tower is not None and self.tower.state == TOWER_TRAINED else 0.0


@dataclass(frozen=True)
class Tower:
    """What an image tower does for one sequence of the language model; scalars.

    `network` has no vocabulary; its active parameters are the weights that a patch meets, the projector's among them.
    """

    network: Network
    tiles: float  # of all images of a sequence
    patches: int  # of a tile; no patch attends to those of another
    state: int  # a TOWER_ code
    input_hook: bool = False  # a framework's hook of all input embeddings finds its patches
    adapter_widths: float = 0.0  # inputs and outputs of its linear layers: weights of adapters of rank 1


@dataclass(frozen=True)
class Layout:
    """The distribution of the batch and the network over GPUs."""

    micro_batch: Numbers  # samples per GPU and micro-step: sequences, or pairs of them
    accumulation: Numbers  # micro-steps per optimizer step
    sequence: Numbers  # tokens per sequence as processed (time)
    longest_sequence: Numbers  # tokens of the longest sequence met (memory)
    gpus: Numbers = 1
    gpus_per_node: Numbers = 1
    tensor: Numbers = 1
    pipeline: Numbers = 1
    interleave: Numbers = 1
    context: Numbers = 1
    expert: Numbers = 1
    zero_stage: Numbers = 0  # 0 none or ddp, 1, 2, 3 (= FSDP)
    hybrid: Numbers = 0  # 1: sharded inside each node, replicas across nodes (HSDP; ZeRO groups of one node)
    answers: Numbers = 1  # sequences of one sample, which `micro_batch` counts: 2 of a pair (chosen and rejected)
    variable_length: Numbers = 0  # mean over longest length where batches differ in length (padded); 0: all alike

    @property
    def data_parallel(self) -> Numbers:
        """Number of data-parallel ranks."""
        return self.gpus / (self.tensor * self.pipeline * self.context)

    @property
    def replicas(self) -> Numbers:
        """Number of GPUs that hold the same weights, or a shard of them each: ranks and parts of sequences."""
        return self.gpus / (self.tensor * self.pipeline)

    @property
    def expert_tensor(self) -> Numbers:
        """Number of GPUs that share the matrices of each expert (ETP): those of tensor parallelism, or one.

        Tensor parallelism also divides the experts where EP times it divides the GPUs of a pipeline stage. Else each
        expert is whole on its GPU, and the tensor-parallel ranks hold different experts ("parallel folding").
        Sources: Megatron Core, MoE user guide, `--expert-tensor-parallel-size`; arXiv 2504.14960.
        """
        if np.all(np.equal(self.expert, 1)):
            return self.tensor
        return np.where(self._stage % (self.tensor * self.expert) == 0, self.tensor, 1)

    @property
    def divides_experts(self) -> Numbers:
        """Whether the experts can be spread: EP * ETP divides the GPUs of a pipeline stage."""
        return self._stage % (self.expert * self.expert_tensor) == 0

    @property
    def expert_shards(self) -> Numbers:
        """By how many the experts on a GPU are fewer than what tensor parallelism leaves there: EP * ETP / TP."""
        return self.expert * self.expert_tensor / self.tensor

    @property
    def _stage(self) -> Numbers:
        """GPUs of a pipeline stage."""
        return np.asarray(self.gpus) / self.pipeline


@dataclass(frozen=True)
class States:
    """Bytes per parameter of weights, gradients and optimizer, and what is trained."""

    frozen: Numbers  # 1: base weights frozen (LoRA), 0: all trained
    quantised: Numbers  # 1: linear layers in 8 or 4 bit
    weight_bytes: Numbers  # per linear weight (qb when quantised)
    embedding_bytes: Numbers  # per embedding and head weight
    gradient_bytes: Numbers  # g, per trained parameter
    optimizer_bytes: Numbers  # o, per trained parameter
    step_bytes: Numbers  # t, temporary of a non-fused optimizer step
    cast_bytes: Numbers  # 2 where autocast runs over fp32 weights (counts at z=0 only), else 0
    trainable: Numbers  # trained parameters in all (P when not frozen)
    adapter_bytes: Numbers = 0  # per adapter weight; 0 when not frozen
    adapter_inputs: Numbers = 0  # sum of d_in over the adapted linears of one layer
    adapter_copies: Numbers = 0  # 4: fp32 cast + dropout copy, 2: 16-bit adapters, 0: fused LoRA kernels
    adapted_linears: Numbers = 0  # n_t, per layer
    idle_adapted_linears: Numbers = 0  # of the experts of a layer that a token does not meet: launched where they loop
    adapter_pass_bytes: Numbers = 26  # per adapted linear and unit of width, moved by a forward pass; 26: fp32 adapters
    gathered_bytes: Numbers = 2  # per weight gathered under z=3 (w16, B_w)
    reduced_bytes: Numbers = 4  # per gradient reduced (B_g)
    optimizer_traffic_bytes: Numbers = 30  # b of t_opt, per trained parameter
    # Moved per trained parameter and micro-step, to add its gradient to the sum of those before (0 where its product
    # does that), and to hand it to the reduction of its gathered unit.
    added_bytes: Numbers = 0
    handed_bytes: Numbers = 0
    no_sync_full_gradients: Numbers = 0  # 1: accumulation under FSDP keeps full gradients and weights
    gradients_in_forward: Numbers = 0  # 1: G is alive in forward as well (ga > 1 counts by itself)
    load_whole: Numbers = 0  # 1: the loader materialises all weights on each rank first
    # 1: lies in host memory and is copied over PCIe; weights in host memory imply the optimizer (FSDP, ZeRO-Infinity).
    host_weights: Numbers = 0  # under stage 3 only: sharded weights, gradients and optimizer
    host_optimizer: Numbers = 0
    host_frozen: Numbers = 0  # frozen weights alone, which come to the GPU for every pass: largest matrices there then
    # Block swap: share of the blocks of a frozen network in host memory, mean blocks on the GPU for those that come,
    # and crossings of the slot for each of them in a micro-batch.
    swapped_share: Numbers = 0
    swap_ring: Numbers = 0
    swap_crossings: Numbers = 0
    reference_bytes: Numbers = 0  # per weight of a frozen copy of the network, sharded as the weights are
    host_reference: Numbers = 0  # 1: that copy lies in host memory
    paged_optimizer: Numbers = 0  # 1: managed pages, which the driver moves to host memory when the card is full
    paged_away_bytes: Numbers = 0  # of those pages, what the card has no room for; of one GPU
    steps_in_backward: Numbers = 0  # 1: each gradient is used up in the backward pass, as soon as it is whole
    # Linear layers that round in the forward pass (QAT, dynamic fp8): bytes kept per weight, the mean of all layers,
    # and per token of each layer; bytes per weight of the matrix that is being rounded.
    rounded_weight_bytes: Numbers = 0
    rounded_input_bytes: Numbers = 0
    rounded_passing_bytes: Numbers = 0
    # To round the inputs of linears (dynamic fp8), bytes per token of each layer: alive while one product is
    # differentiated, and moved in each pass.
    rounding_passing_bytes: Numbers = 0
    rounding_forward_bytes: Numbers = 0
    rounding_backward_bytes: Numbers = 0
    # Adapters with magnitudes (DoRA): bytes kept per token of each layer, bytes per weight of the matrix whose norm is
    # taken; 0 of plain LoRA.
    magnitude_output_bytes: Numbers = 0
    magnitude_passing_bytes: Numbers = 0
    # Of an average of the trained weights (EMA), per trained parameter: on the GPU, and in host memory.
    average_bytes: Numbers = 0
    hosted_average_bytes: Numbers = 0
    # Extra bytes per parameter of some frameworks; usually 0.
    extra_gradient_bytes: Numbers = 0  # Megatron-DeepSpeed
    # DeepSpeed, InternEvo: while stepping, copies of the gradient shard and of what is updated
    extra_sharded_bytes: Numbers = 0
    reducer_copies: Numbers = 1  # 0: plain data parallelism reduces gradients where they are
    bucket_bytes: Numbers = 0  # of the bucket in which gradients wait until DeepSpeed reduces them
    # Under stage 3: weights that DeepSpeed leaves gathered (0: FSDP, which frees a layer's); the fewest layers that
    # FSDP has gathered at once, and bytes per gradient of a layer of the copy that it reduces from.
    live_parameters: Numbers = 0
    gathered_layers: Numbers = 0
    reduction_copy_bytes: Numbers = 0


@dataclass(frozen=True)
class Activations:
    """What a layer stores, recomputes and casts, and the cost of the loss."""

    checkpointing: Numbers  # a CHECKPOINT_ code
    attention: Numbers  # an ATTENTION_ code
    logit_bytes: Numbers  # l(kernel), per token and vocabulary entry
    logits_materialised: Numbers = 1  # 0: chunked or fused linear + loss (Liger)
    head_gradient_bytes: Numbers = 0  # per weight of the head, whose gradient Liger's loss makes in the forward pass
    element_bytes: Numbers = 2  # c
    residual_bytes: Numbers = 2  # res, per element of a checkpointed layer input
    norm_units: Numbers = 8  # hu
    rope_factor: Numbers = 2  # 2: unfused rope, 1: fused or none
    ffn_units: Numbers = 4  # 4 gated, 3 fused SwiGLU, 2 plain
    sequence_parallel: Numbers = 0
    quantised_no_checkpoint_factor: Numbers = 0  # 1: quantised linears keep their inputs (bitsandbytes): k_frzq
    compiled: Numbers = 0
    megatron_kernels: Numbers = 0  # 1: k_mws in place of k_ws
    working_factor: Numbers = 0.0  # >0 overrides k_ws (Unsloth 1.1)
    key_exchange: Numbers = 1  # a KEYS_ code: how GPUs that share a sequence see its other keys and values
    keeps_gradients: Numbers = 0  # 1: the gradient of every layer's input stays until the backward pass ends
    keeps_cache: Numbers = 0  # 1: the outputs hold keys and values of every layer (an own loop leaves use_cache on)
    fp32_paths: Numbers = 0  # 1: no autocast over a k-bit prepared base, whose fp32 spreads to all but its linears
    scale: Numbers = 1.0  # factor on all bytes that grow with the batch, learned from an observed peak
    token_share: Numbers = 1.0  # of a sequence's time what is computed: less where latents of images are read
    further_forwards: Numbers = 0.0  # passes of a step without gradients: of a reference, or of other answers
    input_hooks: Numbers = 0  # 1: input embeddings ask for gradients, those of a frozen tower of images too
    copied_bytes: Numbers = 0.0  # per token of all layers, which go to host memory in the forward pass and come back
    attention_hosted: Numbers = 0  # 1: what attention keeps lies in host memory
    fetched_bytes: Numbers = 0.0  # of it, per token of all layers, which work waits for in the backward pass


@dataclass(frozen=True)
class Stack:
    """Memory of the software around the network, and the safety margin of its profile."""

    encoders_gib: Numbers = 0.0  # of `context_gib`, frozen text encoders and autoencoder of an image network
    context_gib: Numbers = 0.5  # CUDA context and libraries; m_ctx for Megatron
    nccl_gib: Numbers = 2.3  # communicators, for display of device-used memory only
    fit_nccl_gib: Numbers = 0.5  # communicators in the fit rule (N > 1)
    megatron_context: Numbers = 0  # 1: its context holds the communicators, too
    margin: Numbers = 0.05  # m of the fit rule, on activations, gathered and cached bytes
    known_margin: Numbers = 0.02  # the same on weights, gradients and optimizer, which follow from the accounting
    phi: Numbers = 0.2  # share of (reserved - allocated) that counts in the fit rule

    @property
    def encoders(self) -> dict[str, float]:
        """Return the GiB of frozen encoders or an image tower, of one configuration, as a part; empty without them."""
        gib = float(np.asarray(self.encoders_gib, dtype=float).reshape(-1)[0])
        return {"encoders": gib} if gib else {}

    def with_margin(self, margin: Numbers) -> Stack:
        """Return the same software with one margin on all bytes."""
        return replace(self, margin=margin, known_margin=margin)


@dataclass(frozen=True)
class Kernels:
    """Speed coefficients of one framework profile (models/calibration/kernels.yaml)."""

    element_traffic: Numbers  # k
    launch_seconds: Numbers  # t_l per layer, forward and backward
    logit_traffic_bytes: Numbers  # c_log
    matmul_factor: Numbers  # prof_f
    eager_traffic: Numbers  # c_eag, half-bytes per score
    overlap: Numbers  # o, share of sharding traffic and of copies over PCIe hidden
    fsdp_launch_seconds: Numbers  # t_fsdp per layer
    quantised_bytes: Numbers = 0.0  # c_q, bytes per weight and pass
    moe_factor: Numbers = 0.96  # moe_f
    naive_experts: Numbers = 1  # 1: experts looped in Python, 0: grouped kernels
    fused: Numbers = 0  # 1: tensor-parallel traffic x 0.38
    attention_factor: Numbers = 1.0  # cuDNN x1.47, FlashAttention-1 x0.64
    hook_seconds: Numbers = 0.0  # c_hook, per module and pass
    gradient_launch_seconds: Numbers = 0.0  # per gradient that ZeRO-1 or 2 reduces, where DeepSpeed runs them
    recomputed_launch: Numbers = 1.0 / 3.0  # share of a layer's launches that a recomputed forward pass repeats
    quantised_launch_seconds: Numbers = 0.0  # per quantised linear, where the profile has a figure of its own
    fp8_forward: Numbers = 0  # 1: the forward products of linear layers are in fp8
    overlaps_reduction: Numbers = 1  # 0: gradients are reduced when the last backward pass is over
    dispatches_by_node: Numbers = 0  # 1: a token goes over the network once to each node with experts of it


@dataclass(frozen=True)
class Hardware:
    """Speeds of one GPU and its links in the precision in use: FLOP/s, bytes/s, bytes."""

    peak: Numbers  # FLOP/s, dense, fp32 accumulate, of the recipe's matmul precision
    linear_peak: Numbers  # FLOP/s of linear layers (= peak; fp8 0.68 or 0.89 x P8)
    bandwidth: Numbers  # HBM, bytes/s
    nvlink: Numbers  # one direction, bytes/s; 0 = none
    pcie: Numbers  # bytes/s (12, 24, 48e9 for gen 3, 4, 5)
    network: Numbers  # per node, bytes/s
    efficiency: Numbers  # E of the card
    attention_efficiency: Numbers  # e_att
    host_factor: Numbers = 1.0  # 2.1 on T4 machines
    dequant_factor: Numbers = 1.0  # 2.2 on T4
    fp32_peak: Numbers = np.inf  # FLOP/s of plain fp32; counts where work falls back to it
    usable_bytes: Numbers = 0.0
    fp8_gain: Numbers = 1.0  # speed of a linear's product in fp8 over that in 16 bit


@dataclass(frozen=True)
class Setup:
    """A configuration as the memory estimate takes it."""

    network: Network
    layout: Layout
    states: States
    activations: Activations
    stack: Stack


@dataclass(frozen=True)
class TimedSetup(Setup):
    """The same with speeds, as the time estimate takes it."""

    kernels: Kernels
    hardware: Hardware


def tower_backward(setup: Setup) -> Numbers:
    """Return 1 where the backward pass runs through a tower of images: it is trained, or its inputs need gradients."""
    tower = setup.network.tower
    if tower is None or tower.state != TOWER_FROZEN:
        return 1
    return setup.activations.input_hooks if tower.input_hook else 0


def tower_states(states: States, tower: Tower) -> States:
    """Return what the layers of a tower keep and train: 16-bit weights, with adapters of their own or none.

    Its gradients and optimizer are counted with the language model's.
    """
    linears = 0.0 if tower.state != TOWER_ADAPTED else (7.0 if tower.network.gated else 6.0)
    widths = 0.0 if not linears else 4.0 * tower.network.hidden + (linears - 4.0) * tower.network.hidden
    return replace(
        states,
        frozen=int(tower.state != TOWER_TRAINED),
        quantised=0,
        adapted_linears=linears,
        adapter_inputs=widths,
        idle_adapted_linears=0,
        added_bytes=0,
        handed_bytes=0,
        rounded_weight_bytes=0,
        rounded_input_bytes=0,
        rounding_passing_bytes=0,
        rounding_forward_bytes=0,
        rounding_backward_bytes=0,
        magnitude_output_bytes=0,
        magnitude_passing_bytes=0,
    )
