"""Time of a job outside its steps: loading, evaluation, checkpoints, export, and interruptions of spot machines.

Numbers: models/calibration/stages.yaml, most of them assumptions of the right size.
Shapes: every argument is a scalar or an array; results broadcast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from planner.estimates.inputs import Coefficients, Network, Numbers, recompute_shares
from planner.units import MONTH_HOURS


@dataclass(frozen=True)
class StageCoefficients(Coefficients):
    """Plain floats, keys of `models/calibration/stages.yaml`; units end the name."""

    boot_seconds: float
    image_bytes: float
    disk_efficiency: float
    pcie_load_share: float
    load_fixed_seconds: float
    communicator_fixed_seconds: float
    communicator_seconds_per_gpu: float
    quantise_weights_per_second: float
    compile_seconds: float
    graph_compile_seconds: float
    tokenise_tokens_per_core_second: float
    ingest_bytes_per_token: float
    ingest_ram_share: float
    ingest_batch_seconds: float
    cores_per_gpu: float
    image_bytes_per_pixel: float
    checkpoint_bytes_per_trained: float
    weight_bytes_per_parameter: float
    checkpoint_fixed_seconds: float
    checkpoint_pcie_share: float
    evaluation_factor: float
    evaluation_memory_factor: float
    cpu_flop_per_core_second: float
    goodput_one_node: float
    goodput_several_nodes: float
    goodput_long_hours: float


def boot_seconds(pull_bytes_per_second: Numbers, coefficients: StageCoefficients) -> Any:
    """Return the seconds from the order to a running container: machine, driver, pull of the image."""
    return coefficients.boot_seconds + coefficients.image_bytes / np.asarray(pull_bytes_per_second)


def transfer_seconds(stored_bytes: Numbers, bytes_per_second: Numbers) -> Any:
    """Return the seconds of moving weights, data or a result: 14 GB at 0.1 GB/s take 140 s."""
    return np.asarray(stored_bytes) / np.asarray(bytes_per_second)


def load_seconds(
    weight_bytes: Numbers,
    gpus: Numbers,
    disk_bytes_per_second: Numbers,
    pcie_bytes_per_second: Numbers,
    coefficients: StageCoefficients,
    quantised_weights: Numbers = 0,
    compiled: Numbers = 0,
) -> Any:
    """Return the seconds from disk to a network that can train: read, move, quantise, connect, compile.

    `quantised_weights` is the number of weights that are quantised on the way.
    `weight_bytes` is the checkpoint as released (2 bytes per parameter as a rule).
    `compiled` counts compilations by torch.compile (`compilations`).
    """
    size = np.asarray(weight_bytes, dtype=float)
    read = size / (np.asarray(disk_bytes_per_second) * coefficients.disk_efficiency)
    moved = size / (np.asarray(pcie_bytes_per_second) * coefficients.pcie_load_share)
    several = np.greater(gpus, 1)
    per_gpu = coefficients.communicator_seconds_per_gpu * np.asarray(gpus)
    joined = coefficients.communicator_fixed_seconds + per_gpu
    quantised = np.asarray(quantised_weights) / coefficients.quantise_weights_per_second
    once = coefficients.load_fixed_seconds + np.asarray(compiled) * coefficients.compile_seconds
    return read + moved + quantised + once + several * joined


def compilations(kind: str, coefficients: StageCoefficients) -> float:
    """Return the time of a compilation in those of torch.compile: 0 for none ("") and 1 for "torch".

    Of the whole step for a chip ("graphs") 300 s over 120 s: 2.5.
    """
    graphs = coefficients.graph_compile_seconds / coefficients.compile_seconds
    return {"": 0.0, "torch": 1.0, "graphs": graphs}[kind]


def tokenise_seconds(tokens: Numbers, cpu_cores: Numbers, coefficients: StageCoefficients) -> Any:
    """Return the seconds of tokenising text before the run."""
    return np.asarray(tokens) / (np.asarray(cpu_cores) * coefficients.tokenise_tokens_per_core_second)


def step_bytes(
    per_step: Numbers, coefficients: StageCoefficients, resolution: Numbers = 0, image_bytes: Numbers = 0
) -> Any:
    """Return the bytes that a step reads from storage: `per_step` token ids, or images of `resolution` pixels per side.

    An image has `image_bytes`, where these are known. 256 images of 512 pixels, half a byte per pixel: 33.6 MB.
    """
    guess = np.square(np.asarray(resolution, dtype=float)) * coefficients.image_bytes_per_pixel
    image = np.where(np.greater(image_bytes, 0), image_bytes, guess)
    item_bytes = np.where(np.greater(resolution, 0), image, coefficients.ingest_bytes_per_token)
    return np.asarray(per_step) * item_bytes


def fed_step_seconds(
    step_seconds: Numbers,
    per_step: Numbers,
    storage_bytes_per_second: Numbers,
    coefficients: StageCoefficients,
    resolution: Numbers = 0,
    cached_bytes: Numbers = 0,
    image_bytes: Numbers = 0,
) -> Any:
    """Return the step time that storage allows, with tokens or images as in `step_bytes`.

    Where images are read as cached latents, `cached_bytes` is the size of one. Storage is shared by all machines of
    the run.
    """
    plain = step_bytes(per_step, coefficients, resolution, image_bytes)
    read = np.where(np.greater(cached_bytes, 0), np.multiply(per_step, cached_bytes), plain)
    return np.maximum(step_seconds, read / np.asarray(storage_bytes_per_second))


def evaluation_seconds(
    tokens: Numbers,
    training_tokens_per_second: Numbers,
    frozen: Numbers,
    checkpointing: Numbers,
    coefficients: StageCoefficients,
) -> Any:
    """Return the seconds of forward passes over `tokens`: one unit of the 2 + w + rc of a training token."""
    units = 3.0 - np.asarray(frozen) + recompute_shares(checkpointing).matmul
    forward_rate = np.asarray(training_tokens_per_second) * units * coefficients.evaluation_factor
    return np.asarray(tokens) / forward_rate


def checkpoint_bytes(trainable: Numbers, coefficients: StageCoefficients) -> Any:
    """Return the bytes of a checkpoint to resume from: weights, masters and moments of what is trained."""
    return coefficients.checkpoint_bytes_per_trained * np.asarray(trainable)


def kept_checkpoint_bytes(
    trainable: Numbers, weight_bytes: Numbers, resume: Numbers, coefficients: StageCoefficients
) -> Any:
    """Return the bytes of one checkpoint with (`resume` 1) or without (0) what training resumes from.

    Without, the trained weights alone at `weight_bytes` each: 2 of full training, those of the adapters of lora.
    """
    return np.where(resume, checkpoint_bytes(trainable, coefficients), np.asarray(trainable) * weight_bytes)


def checkpoint_seconds(
    stored_bytes: Numbers,
    nodes: Numbers,
    disk_bytes_per_second: Numbers,
    store_bytes_per_second: Numbers,
    coefficients: StageCoefficients,
) -> Any:
    """Return the seconds of a full write by all nodes at once into a store with its own limit (inf: local disks)."""
    rate = np.minimum(np.asarray(nodes) * np.asarray(disk_bytes_per_second), store_bytes_per_second)
    return np.asarray(stored_bytes) / rate + coefficients.checkpoint_fixed_seconds


def asynchronous_stall_seconds(
    stored_bytes: Numbers, gpus: Numbers, pcie_bytes_per_second: Numbers, coefficients: StageCoefficients
) -> Any:
    """Return the stall of a checkpoint that is copied to host memory and written while training continues.

    The interval between checkpoints must exceed the full write (`checkpoint_seconds`).
    """
    rate = np.asarray(gpus) * coefficients.checkpoint_pcie_share * np.asarray(pcie_bytes_per_second)
    return np.asarray(stored_bytes) / rate


def checkpoint_stall_seconds(
    written_seconds: Numbers, copied_seconds: Numbers, interval_seconds: Numbers, asynchronous: Numbers
) -> Any:
    """Return the stall per checkpoint: its full write or, if asynchronous, the copy to host memory.

    Asynchronous writing that takes longer than the training between two checkpoints holds up the next one.
    A copy of 3 s, a write of 100 s: 3 s every 10 minutes, 40 s every minute.
    """
    late = np.maximum(copied_seconds, np.subtract(written_seconds, interval_seconds))
    return np.where(asynchronous, np.minimum(late, written_seconds), written_seconds)


def goodput_factor(step_hours: Numbers, nodes: Numbers, spot: Numbers, coefficients: StageCoefficients) -> Any:
    """Return the hours used over hours of steps: restarts and hiccups.

    Several nodes and long runs lose more; on spot the market adds its own losses, so only the base holds.
    """
    long = np.greater(nodes, 1) | np.greater(step_hours, coefficients.goodput_long_hours)
    harder = long & ~np.equal(spot, 1)
    return np.where(harder, coefficients.goodput_several_nodes, coefficients.goodput_one_node)


# Stages that may run on separate machines: raw text to token ids, evaluation, moving and keeping results.
#
# Numbers: models/calibration/stages.yaml, most of them assumptions of the right size.
# Shapes: every argument is a scalar or an array; results broadcast.


_FORWARD_FLOP = 2.0
"""FLOP per parameter that a token meets: a multiplication and an addition. Attention over the context is left out."""


def machine_cores(gpus: Numbers, coefficients: StageCoefficients) -> Any:
    """Return the CPU cores of a machine whose offer does not state them: a number per GPU, an assumption."""
    return coefficients.cores_per_gpu * np.asarray(gpus)


def ingest_io_seconds(
    raw_bytes: Numbers, tokens: Numbers, disk_bytes_per_second: Numbers, coefficients: StageCoefficients
) -> Any:
    """Return the seconds of reading the raw text and writing its token ids on one disk, at its real speed."""
    moved = np.asarray(raw_bytes) + coefficients.ingest_bytes_per_token * np.asarray(tokens)
    return moved / np.asarray(disk_bytes_per_second)


def ingest_batches(
    raw_bytes: Numbers,
    tokens: Numbers,
    cores: Numbers,
    ram_bytes: Numbers,
    disk_bytes_per_second: Numbers,
    coefficients: StageCoefficients,
) -> Any:
    """Return the number of batches of the raw text: as many as memory requires, more where overlap pays.

    50 GB with 32 GB of memory, half of it for the text of a batch, are 4 batches at the least.
    `b` batches leave (the shorter of reading and tokenising) / b of it uncovered and start b times, least at
    b = sqrt(shorter / seconds per start).
    """
    io = ingest_io_seconds(raw_bytes, tokens, disk_bytes_per_second, coefficients)
    shorter = np.minimum(io, tokenise_seconds(tokens, cores, coefficients))
    fewer = np.maximum(1.0, np.floor(np.sqrt(shorter / coefficients.ingest_batch_seconds)))
    more = shorter / (fewer * (fewer + 1.0)) > coefficients.ingest_batch_seconds
    needed = np.ceil(np.asarray(raw_bytes) / (coefficients.ingest_ram_share * np.asarray(ram_bytes)))
    return np.maximum(needed, fewer + more)


def ingest_seconds(
    raw_bytes: Numbers,
    tokens: Numbers,
    cores: Numbers,
    ram_bytes: Numbers,
    disk_bytes_per_second: Numbers,
    coefficients: StageCoefficients,
) -> Any:
    """Return the seconds from raw text to token ids on a disk, in batches; 0 tokens (images) are only read.

    While one batch is tokenised the next is read, so the longer of both counts, and one batch of the shorter:
    max(io, cpu) + min(io, cpu) / batches + batches * seconds per start.
    50 GB of which 1B tokens are taken, on 64 cores with 32 GB and a disk of 0.2 GB/s: io 270 s over cpu 78 s,
    6 batches, 295 s. With all its 12.5B tokens it is io 500 s, cpu 977 s: text that is tokenised whole is held up
    by its cores, unless the disk is a slow remote one.
    """
    io = ingest_io_seconds(raw_bytes, tokens, disk_bytes_per_second, coefficients)
    cpu = tokenise_seconds(tokens, cores, coefficients)
    batches = ingest_batches(raw_bytes, tokens, cores, ram_bytes, disk_bytes_per_second, coefficients)
    starts = batches * coefficients.ingest_batch_seconds
    return np.maximum(io, cpu) + np.minimum(io, cpu) / batches + starts


def evaluation_bytes(parameters: Numbers, coefficients: StageCoefficients) -> Any:
    """Return the bytes that forward passes need: all 16-bit weights and activations. 7B parameters: 16.8 GB."""
    return coefficients.evaluation_memory_factor * coefficients.weight_bytes_per_parameter * np.asarray(parameters)


def evaluation_fits(parameters: Numbers, usable_bytes: Numbers, coefficients: StageCoefficients) -> Any:
    """Return whether a GPU (or a machine's memory) holds the whole network for forward passes."""
    return evaluation_bytes(parameters, coefficients) <= np.asarray(usable_bytes)


def forward_tokens_per_second_gpu(
    active_parameters: Numbers, peak_flops: Numbers, efficiency: Numbers, coefficients: StageCoefficients
) -> Any:
    """Return the tokens per second of forward passes in large batches on one GPU.

    `peak_flops` in 16 bit, of which training reaches `efficiency` and forward passes alone a little less.
    7B parameters at 0.7 of 312 TFLOP/s: 14,040 tokens/s. Generating text token by token is far slower.
    """
    reached = np.asarray(peak_flops) * efficiency * coefficients.evaluation_factor
    return reached / (_FORWARD_FLOP * np.asarray(active_parameters))


def forward_tokens_per_second_cpu(active_parameters: Numbers, cores: Numbers, coefficients: StageCoefficients) -> Any:
    """Return the tokens per second of forward passes on CPU cores: 69 for 7B parameters on 32 cores."""
    reached = np.asarray(cores) * coefficients.cpu_flop_per_core_second
    return reached / (_FORWARD_FLOP * np.asarray(active_parameters))


def merge_seconds(weight_bytes: Numbers, disk_bytes_per_second: Numbers) -> Any:
    """Return the seconds of merging adapters into the 16-bit weights, which are read once and written once.

    14 GB on a disk that reaches 0.6 GB/s take 47 s; the additions themselves are negligible.
    """
    return 2.0 * np.asarray(weight_bytes) / np.asarray(disk_bytes_per_second)


def retained_gb_months(gb: Numbers, hours: Numbers) -> Any:
    """Return the GB-months of storage, in billing months of 730 hours: 100 GB for 30 days are 98.6."""
    return np.asarray(gb) * np.asarray(hours) / MONTH_HOURS


HALF_BYTES = 2.0
"""Bytes of a 16-bit weight."""


@dataclass(frozen=True)
class ExportCoefficients(Coefficients):
    """Plain floats, keys of `models/calibration/stages.yaml`; units end the name."""

    merge_bytes_per_weight: float
    merge_fixed_bytes: float
    gguf_weights_per_second: float
    gguf_8_bits_per_weight: float
    gguf_4_bits_per_weight: float
    group_bits_per_weight: float
    gpu_quantise_seconds_per_weight: float
    gpu_quantise_peak_flops: float
    gpu_quantise_slowest: float
    gpu_quantise_samples: float


def merge_ram_bytes(weights: Numbers, coefficients: ExportCoefficients) -> Any:
    """Return the bytes of host memory that merging adapters into `weights` weights takes: 7B weights 23.4 GB."""
    return coefficients.merge_bytes_per_weight * np.asarray(weights) + coefficients.merge_fixed_bytes


def gguf_bytes(weights: Numbers, bits: int, coefficients: ExportCoefficients) -> Any:
    """Return the bytes of a GGUF file of 4 or 8 bits (q4_0, q8_0), embeddings included: 3.43B weights, 4 bits: 1.93 GB.

    A block of 32 weights has one 16-bit scale, which is half a bit per weight.
    """
    of_bits = {4: coefficients.gguf_4_bits_per_weight, 8: coefficients.gguf_8_bits_per_weight}
    return np.asarray(weights) * of_bits[bits] / 8.0


def grouped_bytes(network: Network, weights: float, bits: int, coefficients: ExportCoefficients) -> float:
    """Return the bytes of GPTQ or AWQ weights: linear layers in `bits` with a scale and a zero per group of 128.

    Embedding and head stay in 16 bit. Llama 3 70B at 4 bits: 68.45B weights in 4.156 bits and 2.1B in 16 bits, 39.8 GB.
    """
    kept = min(float(network.embedding_parameters), weights)
    return kept * HALF_BYTES + (weights - kept) * (bits + coefficients.group_bits_per_weight) / 8.0


def gguf_seconds(
    weights: Numbers, made_bytes: Numbers, disk_bytes_per_second: Numbers, coefficients: ExportCoefficients
) -> Any:
    """Return the seconds from 16-bit weights on a disk to a quantised GGUF file, by CPUs.

    First the weights are written as a 16-bit GGUF file, read once and written once; then this is quantised, at the
    speed of the CPUs or of the disk, whichever is slower. 7B weights on a disk of 1 GB/s, 4 bits: 28 s and 28 s.
    """
    half, disk = HALF_BYTES * np.asarray(weights), np.asarray(disk_bytes_per_second)
    quantised = np.maximum(np.asarray(weights) / coefficients.gguf_weights_per_second, (half + made_bytes) / disk)
    return merge_seconds(half, disk) + quantised


def gpu_quantise_seconds(
    weights: Numbers,
    made_bytes: Numbers,
    peak_flops: Numbers,
    disk_bytes_per_second: Numbers,
    coefficients: ExportCoefficients,
) -> Any:
    """Return the seconds of GPTQ or AWQ on one GPU, reading and writing included: 8B weights on an A100, 31 minutes.

    Published times of an A100 and an H100 do not differ by their peaks, so a faster card gains nothing; a slower one
    takes longer by the root of its peak, at most `gpu_quantise_slowest` times as long.
    """
    ratio = np.sqrt(coefficients.gpu_quantise_peak_flops / np.asarray(peak_flops))
    slower = np.clip(ratio, 1.0, coefficients.gpu_quantise_slowest)
    moved = (HALF_BYTES * np.asarray(weights) + made_bytes) / np.asarray(disk_bytes_per_second)
    return np.asarray(weights) * coefficients.gpu_quantise_seconds_per_weight * slower + moved


def gpu_quantise_bytes(network: Network, coefficients: ExportCoefficients) -> float:
    """Return the GPU memory of quantising by layers: two of them, a Hessian in fp32, the activations of the samples.

    Llama 3 70B (80 layers, hidden 8,192, feed-forward 28,672), 128 samples of 2,048 tokens: 3.4, 3.3 and 8.6 GB.
    """
    layers = HALF_BYTES * 2.0 * (network.parameters - network.embedding_parameters) / network.layers
    widest = 4.0 * max(float(network.ffn), float(network.hidden)) ** 2
    return layers + widest + 2.0 * HALF_BYTES * coefficients.gpu_quantise_samples * network.hidden


# The cost of interruptions of spot machines: repeated work, restarts, waiting.
# All times are in one unit of the caller's choice.
#
# Symbols: M mean up-time of the node group, D mean outage, a availability, R restart cost (boot, load, warm-up),
# C stall per checkpoint, tau work between checkpoints.
# Numbers: stages.yaml (node groups, checkpoints) and uncertainty.yaml (wall_spread).
# Sources of form: Young 1974, Daly 2006 (exponential up-times).
# The factor for heavier tails, the node-group exponents and the share of Young's interval come from published traces.

_INFINITE_UPTIME = 1e15
"""Up-time of a machine that is never taken."""
_MAX_EXPONENT = 50.0
"""Exponent beyond which a run never ends; keeps the exponential finite."""


@dataclass(frozen=True)
class NodeGroupCoefficients(Coefficients):
    """The market of a node group of k instances relative to one, and the spacing of checkpoints."""

    gang_rate_exponent: float  # lambda_k = lambda * k^this
    gang_availability_exponent: float  # a_k = a * k^this
    interval_share_of_young: float
    heavy_tail_factor: float  # overhead of real up-times over that of exponential ones


class SpotAvailability(NamedTuple):
    """Spot statistics of one node group: mean up-time and outage, and the share of time that it is available."""

    mean_up: Any
    mean_outage: Any
    availability: Any


class InterruptedRun(NamedTuple):
    """A run of given length on a spot market."""

    interval: Any  # work between checkpoints
    inflation: Any  # paid time over run time, Phi_ht
    paid: Any  # machine time paid
    interruptions: Any  # expected number
    wall: Any  # expected, with waiting


def node_group_market(
    mean_up: Numbers, availability: Numbers, instances: Numbers, coefficients: NodeGroupCoefficients
) -> SpotAvailability:
    """Return the statistics of a node group that needs all `instances`, from those of a single one.

    Interruptions come in batches, so their rate grows more slowly than the group: k^0.8.
    """
    k = np.asarray(instances, dtype=float)
    up = np.asarray(mean_up) * np.exp(-coefficients.gang_rate_exponent * np.log(k))
    share = np.asarray(availability) * np.exp(coefficients.gang_availability_exponent * np.log(k))
    return SpotAvailability(up, up * (1.0 - share) / share, share)


def young_interval(stall: Numbers, mean_up: Numbers) -> Any:
    """Return the work between checkpoints that loses least, to first order (Young 1974): sqrt(2 C M)."""
    return np.sqrt(2.0 * np.asarray(stall) * np.minimum(mean_up, _INFINITE_UPTIME))


def paid_inflation(mean_up: Numbers, restart: Numbers, stall: Numbers, interval: Numbers) -> Any:
    """Return Phi, paid machine time over work done, for exponential up-times (Daly 2006).

    Phi = M e^(R/M) (e^((tau+C)/M) - 1) / tau, about 1 + C/tau + (tau/2 + R)/M while M is long. `interval` > 0.
    """
    up = np.minimum(mean_up, _INFINITE_UPTIME)
    tau = np.asarray(interval, dtype=float)
    restarted = np.exp(np.minimum(np.asarray(restart) / up, _MAX_EXPONENT))
    return restarted * np.expm1(np.minimum((tau + stall) / up, _MAX_EXPONENT)) * up / tau


def add_heavy_tail(inflation: Numbers, coefficients: NodeGroupCoefficients) -> Any:
    """Return Phi_ht, the same for real up-times, of which many are short (1.4 times the overhead)."""
    return 1.0 + coefficients.heavy_tail_factor * (np.asarray(inflation) - 1.0)


def interrupted_run(
    run: Numbers,
    restart: Numbers,
    stall: Numbers,
    market: SpotAvailability,
    coefficients: NodeGroupCoefficients,
    outage_cv: Numbers = 1.0,
    write: Numbers = 0.0,
) -> InterruptedRun:
    """Return the paid and expected wall time of `run` units of work on a spot node group; all shapes broadcast.

    wall = (1 - a) D (1 + CV^2)/2 + Phi_ht run + interruptions * D.
    The first term is the wait of a job that arrives at any moment: it meets an outage with chance 1 - a
    and then waits out the rest of it.
    Waiting is not proportional to the work: a short job on a bad market mostly waits once or not at all.
    A checkpoint is safe `write` after it was taken: the interval is at least that long, and an interruption loses the
    write in flight, which counts like a longer restart.
    """
    length = np.asarray(run, dtype=float)
    spaced = coefficients.interval_share_of_young * young_interval(stall, market.mean_up)
    # A free checkpoint would be taken all the time; a job shorter than the interval takes one, at its end.
    shortest = np.maximum(1e-9 * np.minimum(market.mean_up, _INFINITE_UPTIME), np.finfo(float).tiny)
    spaced = np.maximum(spaced, write)
    interval = np.maximum(np.minimum(spaced, length), shortest)
    lost = restart + np.where(spaced < length, write, 0.0)
    inflation = add_heavy_tail(paid_inflation(market.mean_up, lost, stall, interval), coefficients)
    paid = inflation * length
    interruptions = paid / np.minimum(market.mean_up, _INFINITE_UPTIME)
    wait = (1.0 - market.availability) * market.mean_outage * (1.0 + np.square(outage_cv)) / 2.0
    wall = wait + paid + interruptions * market.mean_outage
    return InterruptedRun(interval, inflation, paid, interruptions, wall)


def wall_quantile_factor(confidence: float, spread: float) -> float:
    """Return the factor on the expected wall time that is met with probability `confidence`: exp(spread * z(p)).

    The published replays reach 1.3 at 0.9 (spread 0.205). ValueError outside (0, 1).
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a probability must lie between 0 and 1, not {confidence}")
    return math.exp(spread * NormalDist().inv_cdf(confidence))
