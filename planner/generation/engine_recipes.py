"""What may serve a model: engines and formats, and one served configuration as the formulas take it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from planner.configurations.coefficients import PCIE_BYTES_PER_SECOND
from planner.configurations.compared_runs import GPUS_PER_MACHINE
from planner.configurations.grid import parts_of_card
from planner.configurations.recipe import UNSHARDED, Recipe
from planner.errors import Fault
from planner.estimates.generation import (
    CHUNK_TOKENS,
    ServedModel,
    ServingHardware,
    ServingStack,
    activation_bytes,
    cache_bytes,
    encoder_flop,
)
from planner.estimates.parts import cache_of
from planner.library.engines import GROWING_SHARE, Engine, WeightFormat, read_engines
from planner.library.image_models import ImageTower
from planner.library.reading import describe_published, is_16_bit, servable_formats
from planner.library.schema import Architecture, Coefficient, GpuSpec, Library
from planner.library.technique_tables import read_techniques
from planner.scenario.inference_job import InferenceJob
from planner.scenario.job import Job
from planner.scenario.job_stages import PromptImages
from planner.units import GB, GIB, TERA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


# One served configuration as the formulas of generation take it: dimensions, and sheet figures times coefficients.


OTHER_ENGINE = "other"
"""An engine without a profile: it gets the coefficients that all engines share."""

TIMED_ATTENTION = ("Ampere", "Ada", "Hopper", "Blackwell")
"""Generations whose attention of prompts has a coefficient of its own; others start from that of training."""

LINKED_GPUS = (2, 4, 8)
"""Numbers of GPUs whose exchange without NVLink has a coefficient: more of them share one way through the host."""


class Network(NamedTuple):
    """What joins the machines of one replica."""

    bytes_per_second: float  # of one machine, one direction


class Division(NamedTuple):
    """How the GPUs of a replica share a model, and what joins those of one layer."""

    tensor: int = 1
    pipeline: int = 1
    link: str | Network | None = None
    """Of a machine (nvlink, pcie, host), by default what its GPUs come with; or the network of the machines among which
    each layer is divided: its GPUs exchange at the speed of the slowest link."""


EXPERT_LAUNCHES = 10 / 40
"""Kernels of one expert over those of a dense layer, of an engine that loops over experts: the tokens that chose it are
found, gathered, multiplied with three matrices, weighted and added back; a layer has about forty."""

QUANTITIES = (
    *("bandwidth", "cache_bandwidth", "flops", "attention_flops", "link_bytes_per_second", "link_seconds"),
    *("layer_seconds", "step_seconds", "sequence_seconds", "request_seconds", "arrival_seconds"),
    *("wait_share", "sequences"),
)
"""What is a sheet figure (or 1) times coefficients of `models/calibration/inference.yaml`."""
OF_AN_ENGINE = ("step_seconds", "sequence_seconds", "request_seconds", "arrival_seconds", "sequences")
"""Of these what all share, times a factor of the engine alone."""


@dataclass(frozen=True)
class Serving:
    """One configuration: what is known of it, and which coefficients it depends on."""

    model: ServedModel
    tensor: int
    pipeline: int
    weight_bytes: float
    kv_bytes: float
    held_share: float  # of an answer: its cache that a request in flight holds in the mean
    base: Mapping[str, float]  # quantity -> sheet figure
    keys: Mapping[str, tuple[str, ...]]  # quantity -> coefficients that multiply it
    image_flop: float = 0.0  # of a request: a tower's pass over its images, in which the engine does nothing else


def served_model(
    architecture: Architecture, weights: WeightFormat, rounds_head: bool = False, padded: float = 1.0
) -> ServedModel:
    """Return the dimensions of an architecture; matrices kept in another format than the rest weigh in its bytes.

    `rounds_head`: the output head has the format of the rest where it is a matrix of its own. `padded`: bytes of an
    expert with what its kernels add, over those of its weights.
    """
    a = architecture
    table = float(a.vocab * a.hidden)
    matrices = 2 if a.gated else 1
    each_expert = (matrices + 1.0) * a.hidden * a.ffn
    experts = a.experts * each_expert * (a.layers - a.dense_layers) if a.experts else 0.0
    as_16_bit = 2.0 / weights.bytes if weights.experts_only and a.experts else 1.0
    scale = weights.head / 8.0 / weights.bytes if weights.head else 1.0  # bytes of the head over those of a weight
    extra = 0.0 if a.tied_embeddings else table * scale
    tower = 2.0 / weights.bytes * a.tower_parameters  # of images: in 16 bit, and read for images alone
    head = table if rounds_head and not a.tied_embeddings else table * scale
    body = as_16_bit * (a.parameters - experts - table * (1 if a.tied_embeddings else 2))
    met = a.active_parameters - table * (1 if a.tied_embeddings else 2) + table
    latent = a.kv_lora_rank + a.rope_head_dim if a.kv_lora_rank else 0
    layer_elements = latent or 2 * a.kv_heads * a.head_dim  # elements of a token in one layer
    kept = cache_of(parts_of_card(a))
    layers = kept.elements / layer_elements
    return ServedModel(
        layers=a.layers,
        hidden=a.hidden,
        attention_width=kept.score_width / layers if a.parts else a.heads * a.head_dim,
        cache_layers=layers if a.parts else a.layers - a.linear_layers,
        kv_heads=a.kv_heads,
        head_dim=a.head_dim,
        latent=latent,
        window=kept.window if a.parts else a.sliding_window,
        window_share=kept.window_share if a.parts else a.sliding_layer_share,
        state_tokens=kept.state / kept.elements,
        dense_weights=body + head,
        expert_weights=experts * padded,
        experts=a.experts,
        experts_per_token=a.experts_per_token,
        stored_weights=body + experts * padded + head + extra + tower,
        met_weights=met,
    )


def serving_of(
    architecture: Architecture,
    gpu: GpuSpec,
    library: Library,
    *,
    engine: str,
    weights: str,
    kv_bits: float = 16,
    division: Division | tuple[int, int] = (1, 1),
) -> Serving:
    """Return a configuration with its sheet figures and the keys of its coefficients.

    `division`: GPUs that share each layer, groups among which the layers are divided, and what joins the GPUs.
    """
    divided = Division(*division)
    table = read_engines()
    form, profile, fitted = table.formats[weights], table.engines.get(engine), table.fitted_as(weights)
    speeds = library.calibrations["gpu_efficiency"]
    peak = _peak_tflops(gpu, form) * TERA * speeds.value(gpu.name)
    timed = gpu.generation in TIMED_ATTENTION
    attention = gpu.matmul16_tflops * TERA * (1.0 if timed else speeds.value(f"attention.{gpu.generation}"))
    link, per_link = _exchange(gpu, divided.link)
    count = next((some for some in LINKED_GPUS if divided.tensor <= some), max(LINKED_GPUS))
    reach = gpu.memory_bandwidth_gb_s * GB
    mixed = architecture.experts > 0
    loops = profile is not None and profile.loops_experts
    base = dict.fromkeys(QUANTITIES, 1.0) | {
        "bandwidth": reach * form.bytes / (form.moved or form.bytes),
        "cache_bandwidth": reach / (cache_moves(architecture) if profile is not None and profile.copies_cache else 1.0),
        "flops": peak,
        "attention_flops": attention,
        "link_bytes_per_second": per_link,
        "layer_seconds": 1.0 + architecture.experts * EXPERT_LAUNCHES if loops else 1.0,
    }

    def by_engine(name: str) -> tuple[str, ...]:
        return name, f"{name}.{engine}"

    host = (f"host.{gpu.generation}", f"card.{gpu.name}")
    kernels = (f"launch.{fitted}", f"launch.{engine}.{fitted}", f"mixture.{engine if mixed else 'none'}")
    grouped = f"experts.{'mixture' if mixed else 'none'}"
    by_format = (f"reading.{fitted}", f"reading.{engine}.{fitted}")
    keys = {
        "bandwidth": (*by_engine("bandwidth"), f"memory.{gpu.name}", *by_format),
        "cache_bandwidth": (*by_engine("cache_bandwidth"), f"memory.{gpu.name}"),
        "flops": (*by_engine("flops"), f"products.{gpu.name}", f"products.{fitted}", grouped),
        "attention_flops": (f"attention_flops.{gpu.generation if timed else 'other'}",),
        "link_bytes_per_second": (f"link.{link}", f"link.{link}.{count}"),
        "link_seconds": (f"link_seconds.{link}", f"link_seconds.{link}.{count}"),
        "layer_seconds": (*by_engine("layer_seconds"), *host, *kernels),
        **{name: by_engine(name) for name in OF_AN_ENGINE},
        "wait_share": ("wait_share",),
    }  # fmt: skip
    held = GROWING_SHARE if profile is None else profile.held_share
    width = architecture.ffn / divided.tensor
    hidden, padded = architecture.hidden, 1.0
    if profile is not None and mixed:
        padded = profile.expert_padding(weights, capability(gpu), hidden, width)
    model = served_model(architecture, form, profile is not None and profile.rounds_head, padded)
    return Serving(model, divided.tensor, divided.pipeline, form.bytes, kv_bits / 8.0, held, base, keys)


def _exchange(gpu: GpuSpec, link: str | Network | None) -> tuple[str, float]:
    """Return the link of an all-reduce as coefficients are called, and bytes/s of its sheet in one direction."""
    if isinstance(link, Network):
        return "network", link.bytes_per_second
    name = link or usual_link(gpu)
    return name, gpu.nvlink_gb_s * GB / 2 if name == "nvlink" else PCIE_BYTES_PER_SECOND[gpu.pcie_gen]


def usual_link(gpu: GpuSpec) -> str:
    """Return what joins GPUs of one kind in a machine: NVLink, PCIe with peer access, or the memory of the host."""
    return "nvlink" if gpu.nvlink_by_default else "pcie" if has_peer_access(gpu) else "host"


def asked_link(gpu: GpuSpec, interconnect: str | None) -> str:
    """Return the link that a user names, as coefficients are called; that of the GPU where none is named."""
    if interconnect is None:
        return usual_link(gpu)
    return "nvlink" if interconnect != "pcie" else "pcie" if has_peer_access(gpu) else "host"


def cache_moves(architecture: Architecture) -> float:
    """Return how often the cache passes through memory in a step of an engine that copies it.

    Read and written one token longer, read once more by attention; with fewer heads of keys than of queries also read
    to be repeated for each query head, and then written and read as often as they are. Example: 32 query heads on 8:
    2 + 1 + 2 * 4 = 11 times; 3 times where each query head has its own.
    """
    repeats = 1.0 if architecture.kv_lora_rank else architecture.heads / architecture.kv_heads
    return 3.0 + 2.0 * repeats if repeats > 1.0 else 3.0


def has_peer_access(gpu: GpuSpec) -> bool:
    """Return whether GPUs reach the memory of one another over PCIe; GeForce GPUs exchange through host memory.

    NVIDIA's driver offers no peer access on GeForce since Ampere (its answer on the RTX 4090 in the developer forum);
    the one older GeForce that ships is treated alike.
    """
    return not any(name.startswith("GeForce") for name in gpu.aliases)


def _peak_tflops(gpu: GpuSpec, form: WeightFormat) -> float:
    """Return the dense peak of the sheet that products of a format take.

    8-bit products: the FP8 peak, twice the 16-bit peak of Turing and newer GPUs without FP8 (their INT8 rate). 4-bit
    products: twice that. A GPU older than the products of a format turns its weights into 16 bit.
    """
    if form.compute == 32:
        return gpu.fp32_tflops
    if form.compute > 8 or not gpu.tensor16_tflops or _capability(gpu) < form.native:
        return gpu.matmul16_tflops
    turing = gpu.generation in ("Turing", "Ampere")
    eight = gpu.fp8_tflops or (2.0 if turing else 1.0) * gpu.matmul16_tflops
    return eight * 8.0 / form.compute


def _capability(gpu: GpuSpec) -> float:
    """Return the CUDA compute capability; other vendors' present GPUs have the products of every format."""
    return float(gpu.compute_capability) if gpu.vendor == "NVIDIA" else float("inf")


class ServingColumns:
    """Configurations as columns (n,), from which coefficients make the inputs of the formulas."""

    def __init__(self, servings: Sequence[Serving]):
        def fact(name: str) -> Any:
            return np.array([float(getattr(serving, name)) for serving in servings])

        names = [field.name for field in fields(ServedModel)]
        self.model = ServedModel(
            **{name: np.array([float(getattr(s.model, name)) for s in servings]) for name in names}
        )
        self._base = {name: np.array([serving.base[name] for serving in servings]) for name in QUANTITIES}
        self._division = {name: fact(name) for name in ("tensor", "pipeline")}
        self._bytes = {name: fact(name) for name in ("weight_bytes", "kv_bytes", "held_share")}
        self._image_flop = fact("image_flop")

    def inputs(self, factor: Callable[[str], Any]) -> tuple[ServedModel, ServingHardware, ServingStack]:
        """Return the inputs, given the product of the coefficients (n,) of each quantity."""
        rates = {name: base * factor(name) for name, base in self._base.items() if name != "sequences"}
        own = {field.name for field in fields(ServingHardware)}
        hardware = ServingHardware(**{n: value for n, value in rates.items() if n in own}, **self._division)
        rates["request_seconds"] = rates["request_seconds"] + self._image_flop / (hardware.flops * hardware.tensor)
        return self.model, hardware, ServingStack(**{n: v for n, v in rates.items() if n not in own}, **self._bytes)


def coefficient_factors(servings: Sequence[Serving], values: Mapping[str, float]) -> Callable[[str], Any]:
    """Return the function that gives the product of each quantity's coefficients (n,); what has no entry counts 1."""
    return lambda name: np.array([np.prod([values.get(key, 1.0) for key in s.keys[name]]) for s in servings])


# What may serve a model: engines, formats of weights and cache, and on which GPUs they run.


# Memory of one GPU of a replica: weights, the widest pass, the engine's own, and what is left for the cache.


MOST_PROMPTS_AT_ONCE = 64
"""Prompts that one pass takes in at most, however short they are."""


class ReplicaMemory(NamedTuple):
    """Bytes on one GPU."""

    usable: float  # what the engine may take
    weights: float
    cache: float
    activations: float
    overhead: float

    @property
    def fixed(self) -> float:
        """All but the cache."""
        return self.weights + self.activations + self.overhead

    @property
    def parts(self) -> dict[str, float]:
        """The parts by name; they sum to what is used."""
        return {
            "weights": self.weights,
            "kv_cache": self.cache,
            "activations": self.activations,
            "overhead": self.overhead,
        }


class EngineStart(NamedTuple):
    """How an engine is started, as far as its memory depends on it."""

    release: str | None = None  # None: what holds for every release
    use: str = "server"  # or offline, where a script hands over all prompts
    share: float | None = None  # of a GPU's memory that it may take; None: its default
    headroom: float = 0.0  # share of the GPU that stays free, where that is more than the engine leaves
    bound: str = "value"  # or low or high, of what the engine takes besides weights and profile


DEFAULT_START = EngineStart()


def replica_memory(
    serving: Serving,
    architecture: Architecture,
    gpu: GpuSpec,
    engine: Engine,
    prompt: float,
    coefficients: Mapping[str, Coefficient],
    start: EngineStart = DEFAULT_START,
) -> ReplicaMemory:
    """Return the memory of one GPU where prompts have `prompt` tokens at most."""
    gpus = serving.tensor * serving.pipeline
    stated = engine.releases_of(start.release) if start.release is not None else ()
    share = min(start.share or (stated[0].share if stated else engine.share), 1.0 - start.headroom)
    weights = float(serving.model.stored_weights) * serving.weight_bytes / gpus
    activations, graphs = start_bytes(serving, architecture, gpu, engine, prompt, start)
    overhead = overhead_bytes(engine, gpus, coefficients, start.bound) + graphs
    usable = engine.usable(gpu.usable_gib * GIB, share, weights, activations + overhead)
    cache = float(cache_bytes(usable, weights, activations, overhead))
    return ReplicaMemory(usable, weights, cache, activations, overhead)


def start_bytes(
    serving: Serving, architecture: Architecture, gpu: GpuSpec, engine: Engine, prompt: float, start: EngineStart
) -> tuple[float, float]:
    """Return the bytes on one GPU at the peak of the widest pass, and of captured graphs.

    An engine with known releases tries its largest step before it sizes the cache: a pass over all tokens of a step,
    and then the sampler with all sequences, whose logits lie whole on each GPU. The larger of the two counts. Example:
    Llama 3.1 8B on H100 with vLLM 0.11: 1.0 GB and 1,024 * 128,256 * 38.5 bytes = 5.06 GB (4.8 GiB are printed).
    Where no release is given the one that takes most counts, so that what is planned starts with each.
    """
    a, limits = architecture, engine.limits_on(gpu)
    releases = engine.releases_of(start.release)
    if not releases:
        chunk = min(CHUNK_TOKENS, max(prompt, 1) * min(limits.sequences, MOST_PROMPTS_AT_ONCE))
        bytes_ = activation_bytes(a.hidden, widest_values(a), chunk, a.vocab, limits.sequences, serving.tensor)
        return float(bytes_), 0.0
    tokens = limits.offline if start.use == "offline" else limits.server
    forward = float(activation_bytes(a.hidden, widest_values(a), tokens, 0.0, 0.0, serving.tensor))
    if a.tower is not None:  # whose result waits while the language model is tried
        forward += encoder_cache_bytes(a.hidden, a.tower, tokens)
        forward = max(forward, largest_image_bytes(a, serving.tensor))
    by_release = [(max(forward, limits.sequences * a.vocab * row.logit_bytes), row.graph_gib * GIB) for row in releases]
    return max(by_release, key=math.fsum)


def largest_image_bytes(architecture: Architecture, tensor: int) -> float:
    """Return the bytes of a layer of the tower at work on the largest image, which the engine tries at its start.

    Qwen3-VL lets 16,777,216 pixels through: 65,536 patches of (4 * 1,152 + 2 * 4,304) * 2 bytes are 1.7 GB.
    Source: vLLM 0.33, `profile_run` of v1/worker/gpu_model_runner.py (embed_multimodal of the largest item).
    """
    tower = architecture.tower
    if tower is None:
        return 0.0
    widest = (3 if tower.gated else 2) * tower.ffn
    return float(activation_bytes(tower.hidden, widest, tower.most_patches, 0.0, 0.0, tensor))


def encoder_cache_bytes(hidden: int, tower: ImageTower, tokens: float) -> float:
    """Return the bytes of what a tower makes of the tokens of a step, or of its largest image where that has more.

    Qwen3-VL-8B: 16,384 tokens of 4 * 4,096 values in 16 bit are 0.54 GB, on each GPU. Source: vLLM 0.33,
    `compute_mm_encoder_budget` of v1/core/encoder_cache_manager.py, and `profile_run`, which keeps them.
    """
    return 2.0 * hidden * tower.outputs * max(tokens, tower.most_tokens)


def image_flop(architecture: Architecture, images: PromptImages | None) -> float:
    """Return the FLOP of a tower for the images of one prompt; 0 without images.

    No image is cached, and none is part of a shared prefix.
    """
    tower = architecture.tower
    if images is None or tower is None:
        return 0.0
    view = tower.view(*images.edges, images.limits)
    return images.count * encoder_flop(tower.matrices, view.patches, view.tiles, tower.layers, tower.hidden)


def overhead_bytes(engine: Engine, gpus: int, coefficients: Mapping[str, Coefficient], bound: str = "value") -> float:
    """Return the bytes on one GPU that are neither weights nor tensors of a pass: libraries, buffers of exchanges.

    Of an engine with known releases on one GPU or several, else of any engine with its graphs.
    """
    kind = (".profiled" if gpus == 1 else ".profiled-shared") if engine.releases else ""
    entry = coefficients.get(f"overhead_bytes{kind}")
    gigabytes = getattr(entry, bound) if entry is not None else 0.0
    return float(gigabytes if gigabytes is not None else getattr(entry, "value", 0.0))


def widest_values(architecture: Architecture) -> int:
    """Return the values per token that go in and out of the widest product: those of the MLP of a layer."""
    a = architecture
    return (3 if a.gated else 2) * (a.ffn * max(1, a.experts_per_token) if a.experts else a.ffn)


GENERATE = "generate"
"""In place of a method: nothing is trained."""
ALL_BITS = (16, 8, 4)
"""Bits of weights whose price the ladder of a plan shows, allowed or not."""
BY_THEMSELVES = ("vllm", "sglang", "trt-llm")
"""Engines that take part unnamed: a pool for the cache, and published measurements of many requests in flight."""

SERVE_ADAPTERS = ("vllm", "sglang", "trt-llm", "llama.cpp", "exllamav2", "hf")
"""Engines that serve several adapters next to the weights, as their documentation says of LoRA."""


@dataclass(frozen=True)
class ServingRecipe(Recipe):
    """An engine with its formats: `framework` is the engine, `quant` the format of the weights."""

    kv_bits: int = 16
    released: bool = False  # the weights are in the format of the release, so nothing is rounded

    @property
    def method_label(self) -> str:
        """The rung of the ladder: vLLM 16-bit, SGLang 8-bit."""
        cache = "" if self.kv_bits == 16 else f", {self.kv_bits}-bit cache"
        return f"{self.engine.label} {self.weight_bits}-bit{cache}"

    @property
    def resumes(self) -> bool:
        """Whether a lost machine costs no more than its requests in flight: always."""
        return True

    @property
    def engine(self) -> Engine:
        """The facts of the engine."""
        return read_engines().engines[self.framework]

    @property
    def form(self) -> WeightFormat:
        """The facts of the format of the weights."""
        return read_engines().formats[self.quant]

    @property
    def lossiness(self) -> int:
        """How much weights and cache round."""
        return (0 if self.released else super().lossiness) + (self.kv_bits < 16)

    def uses(self, accumulates: bool) -> tuple[bool, ...]:
        """Return that no 0/1 technique of training is on."""
        del accumulates
        return (False,) * len(read_techniques().values.names)


def serving_recipe(
    engine: str, weights: str, kv_bits: int, tensor: int, pipeline: int, released: bool = False
) -> ServingRecipe:
    """Return the recipe of an engine with its formats, and how the GPUs of a replica share the model."""
    bits, none = read_engines().formats[weights].bits, UNSHARDED
    return ServingRecipe(
        *(GENERATE, bits, weights, none, none, none, none, none, tensor, pipeline, engine),
        kv_bits=kv_bits,
        released=released,
    )


def capability(gpu: GpuSpec) -> float:
    """Return the CUDA compute capability; that of Hopper for AMD's CDNA3, which has FP8 and no FP4."""
    try:
        return float(gpu.compute_capability)
    except ValueError:
        return 9.0


def has_kernels(form: WeightFormat, gpu: GpuSpec) -> bool:
    """Return whether a GPU computes with a format of weights."""
    return capability(gpu) >= form.capability and (gpu.bf16 or form.bits != 16 or gpu.tensor16_tflops is not None)


def supports(engine: Engine, gpu: GpuSpec) -> bool:
    """Return whether an engine runs on a GPU at all."""
    return gpu.vendor in engine.vendors and capability(gpu) >= engine.capability


READS_IMAGES = ("vllm", "sglang")
"""Engines whose towers are modelled: they run images of a prompt before its tokens, and try them at their start."""


def without_images(engines: str) -> tuple[str, str]:
    """Return what is wrong where none of these engines has modelled towers, and what to do."""
    return f"images of prompts are not modelled for {engines}", f"choose {' or '.join(READS_IMAGES)}"


def engines_of(job: InferenceJob) -> tuple[str, ...]:
    """Return the engines that a job may use: those that it names, else those that take part by themselves."""
    named = job.techniques.engine or BY_THEMSELVES
    if job.work.image_input is not None:
        named = tuple(name for name in named if name in READS_IMAGES) or named  # where none does, that is a fault
    if job.adapter is None or job.adapter.served is None:
        return named
    return tuple(name for name in named if name in SERVE_ADAPTERS) or named  # where none does, that is a fault


def format_of(engine: str, bits: int, gpu: GpuSpec, job: InferenceJob, architecture: Architecture) -> str | None:
    """Return the format of so many bits: the first that the engine can serve the model in, with kernels of the GPU."""
    table, asked = read_engines(), job.techniques.weight_format
    for name in servable_formats(table.engines[engine], architecture):
        form = table.formats[name]
        if form.bits == bits and has_kernels(form, gpu) and (asked is None or name in asked):
            return name
    return None


def serving_recipes(
    job: InferenceJob, architecture: Architecture, gpu: GpuSpec, gpus_per_instance: int
) -> Iterator[ServingRecipe | str]:
    """Yield what may serve the model on machines of one kind, and as text why an engine or a format may not.

    Bits that the job excludes are made too, because the plan prices each rung of the ladder.
    """
    table = read_engines()
    degrees = [degree for degree in range(1, gpus_per_instance + 1) if gpus_per_instance % degree == 0]
    for name in engines_of(job):
        engine = table.engines[name]
        if not supports(engine, gpu):
            yield f"{engine.label} does not support the GPU"
            continue
        for bits, kv_bits in itertools.product(ALL_BITS, job.techniques.kv_bits):
            weights = format_of(name, bits, gpu, job, architecture)
            if kv_bits not in engine.kv_bits:
                yield f"{engine.label} has no cache of {kv_bits} bits"
            elif weights is None:
                if bits in job.techniques.weight_bits:
                    known = any(
                        table.formats[servable_format].bits == bits
                        for servable_format in servable_formats(engine, architecture)
                    )
                    there = "" if known or is_16_bit(architecture) else f": {describe_published(architecture)}"
                    yield f"{engine.label} has no {bits}-bit weights for the GPU{there}"
            else:
                yield from _divided(job, architecture, engine, degrees, (name, weights, kv_bits))


def _divided(
    job: InferenceJob,
    architecture: Architecture,
    engine: Engine,
    degrees: list[int],
    format_names: tuple[str, str, int],
) -> Iterator[ServingRecipe | str]:
    """Yield a recipe for each number of GPUs that may hold the model together: as many as divide a machine."""
    asked = job.techniques.tensor_parallel
    if asked is not None:
        degrees = [degree for degree in degrees if degree in asked]
        if not degrees:
            yield "the tensor parallel degree does not divide the GPUs of a machine"
    for degree in degrees:
        fault = architecture.split_fault(degree) if engine.tensor else None
        if fault is None:
            released = format_names[1] == architecture.published[0]
            yield serving_recipe(*format_names, *((degree, 1) if engine.tensor else (1, degree)), released)
        elif asked is not None:
            yield fault


# What a job of generation asks for that no engine, GPU or model has: one fault each.


MOST_OVER_16_BITS = 4.0
"""Products in 4 bits over those in 16, as the sheets of Blackwell have them: no format is faster."""


def generation_faults(jobs: Sequence[Job], gpus: Sequence[GpuSpec], library: Library) -> Iterator[Fault]:
    """Yield what nothing can do of the prompts of jobs, their measurements, and the test prompts of training jobs."""
    for job in jobs:
        architecture = library.architecture(job.architecture)
        if isinstance(job, InferenceJob):
            yield from request_faults(job, architecture, gpus)
            yield from run_faults(job, architecture, library)
        yield from prompt_faults(job, architecture)


def request_faults(job: InferenceJob, architecture: Architecture, gpus: Sequence[GpuSpec]) -> Iterator[Fault]:
    """Yield what of the job nothing can do: on the model, and on each of the `gpus` that are offered."""
    place = f"jobs.{job.name}"
    if architecture.image is not None:
        fix = "choose a language model"
        yield Fault(job.name, 0, f"{place}.architecture", f"{architecture.name} makes images", fix)
        return
    if job.work.image_input is not None and job.measured:
        wrong = "measured runs of prompts with images are not modelled"
        yield Fault(job.name, 0, f"{place}.measured", wrong, "leave measured or image_input out")
    for index, request_class in enumerate(job.work.classes):
        if request_class.input_tokens + request_class.output_tokens > architecture.max_sequence:
            longer = "input_tokens" if request_class.input_tokens >= request_class.output_tokens else "output_tokens"
            row = f"lengths.{index}.{longer}" if job.work.lengths else longer
            where = f"{'work' if job.ends else 'load'}.{row}"
            tokens = f"{request_class.input_tokens:,} + {request_class.output_tokens:,} tokens"
            wrong = f"{tokens} exceed the context of {architecture.name}"
            yield Fault(job.name, 0, f"{place}.{where}", wrong, f"at most {architecture.max_sequence:,} together")
            break
    yield from _engine_faults(job, architecture, place, gpus)


def prompt_faults(job: Job, architecture: Architecture) -> Iterator[Fault]:
    """Yield what is wrong with the test prompts of a training job: they exceed the context of the model."""
    wanted = job.stages.evaluation
    if wanted is None or wanted.requests is None:
        return
    longest = (wanted.input_tokens or 0) + (wanted.output_tokens or 0)
    if longest > architecture.max_sequence:
        wrong = f"{longest:,} tokens exceed the context of {architecture.name}"
        where = f"jobs.{job.name}.stages.evaluation.input_tokens"
        yield Fault(job.name, 0, where, wrong, f"at most {architecture.max_sequence:,} with the answer")


def run_faults(job: InferenceJob, architecture: Architecture, library: Library) -> Iterator[Fault]:
    """Yield what cannot be of the measurements of a job: beyond the model's context, or beyond any peak of the GPU."""
    for number, run in enumerate(job.measured):
        place = f"jobs.{job.name}.measured.{number}"
        if run.input_tokens + run.output_tokens > architecture.max_sequence:
            wrong = f"{run.input_tokens + run.output_tokens:,.0f} tokens exceed the context of {architecture.name}"
            yield Fault(job.name, 0, f"{place}.input_tokens", wrong, f"at most {architecture.max_sequence:,}")
        tokens = (run.input_tokens - run.prefix_tokens + run.output_tokens) / run.output_tokens
        needed = run.output_tokens_per_second * tokens * 2 * architecture.active_parameters / TERA
        peak = MOST_OVER_16_BITS * library.gpu(run.gpu).matmul16_tflops * run.gpus
        if needed > peak:
            wrong = f"needs {needed:,.0f} TFLOP/s, more than {run.gpus} x {run.gpu} compute in any format"
            yield Fault(job.name, 0, f"{place}.output_tokens_per_second", wrong, "are unit and GPU count right?")


def _engine_faults(
    job: InferenceJob, architecture: Architecture, place: str, gpus: Sequence[GpuSpec]
) -> Iterator[Fault]:
    table, asked = read_engines(), job.techniques
    engines = {name: table.engines[name] for name in engines_of(job)}
    labels = ", ".join(engine.label for engine in engines.values())
    if job.work.image_input is not None and not any(name in READS_IMAGES for name in engines):
        yield Fault(job.name, 0, f"{place}.techniques.engine", *without_images(labels))
    if not any(set(asked.kv_bits) & set(engine.kv_bits) for engine in engines.values()):
        have = sorted({bits for engine in engines.values() for bits in engine.kv_bits}, reverse=True)
        wrong = f"{labels} has no cache of {' or '.join(map(str, asked.kv_bits))} bits"
        yield Fault(job.name, 0, f"{place}.techniques.kv_bits", wrong, f"choose {' or '.join(map(str, have))}")
    formats, fault = _usable_formats(job, architecture, engines, f"{place}.techniques")
    if fault is not None:
        yield fault
        return
    served = job.adapter is not None and job.adapter.served is not None
    if served and not any(name in SERVE_ADAPTERS for name in engines):
        fix = f"merge them, or choose {', '.join(SERVE_ADAPTERS)}"
        yield Fault(job.name, 0, f"{place}.adapter.served", f"{labels} serves no adapters next to the weights", fix)
    names = ", ".join(dict.fromkeys(gpu.name for gpu in gpus))
    if gpus and not any(supports(engine, gpu) for engine in engines.values() for gpu in gpus):
        need = min(engine.capability for engine in engines.values())
        wrong = f"{labels} does not support {names}"
        yield Fault(
            job.name, 0, f"{place}.techniques.engine", wrong, f"offer a GPU of compute capability {need} or newer"
        )
    elif gpus and not any(has_kernels(form, gpu) for form in formats.values() for gpu in gpus):
        wrong = f"{names} has no kernels for {' or '.join(formats)}"
        need = min(form.capability for form in formats.values())
        fix = f"they need compute capability {need} or newer"
        yield Fault(job.name, 0, f"{place}.techniques.weight_bits", wrong, fix)
    for degree in asked.tensor_parallel or ():
        where = f"{place}.techniques.tensor_parallel"
        if not any(engine.tensor for engine in engines.values()) and degree > 1:
            wrong = f"{labels} does not split layers among GPUs"
            yield Fault(job.name, 0, where, wrong, "choose 1, or vllm, sglang, trt-llm")
        elif (why := architecture.split_fault(degree)) is not None and any(
            engine.tensor for engine in engines.values()
        ):
            yield Fault(job.name, 0, where, why, f"such as {', '.join(map(str, divisions(architecture)))}")


def divisions(architecture: Architecture) -> list[int]:
    """Return the numbers of GPUs of one machine that the layers of a model divide among, up to 8."""
    return [degree for degree in range(1, GPUS_PER_MACHINE + 1) if architecture.split_fault(degree) is None]


def _usable_formats(
    job: InferenceJob, architecture: Architecture, engines: Mapping[str, Engine], place: str
) -> tuple[dict[str, WeightFormat], Fault | None]:
    """Return the formats that engines can serve the model in and the job allows; without any the fault.

    What the job says may ask for a format that the model is not published in, or that its engines do not load.
    """
    table, asked, bits = read_engines(), job.techniques.weight_format, job.techniques.weight_bits
    loaded = {name: table.formats[name] for engine in engines.values() for name in engine.formats}
    there = {name for engine in engines.values() for name in servable_formats(engine, architecture)}
    usable = {
        name: form
        for name, form in loaded.items()
        if name in there and form.bits in bits and name in (asked or (name,))
    }
    if usable:
        return usable, None
    where = f"{place}.{'weight_format' if asked else 'weight_bits'}"
    labels, wanted = ", ".join(engine.label for engine in engines.values()), " or ".join(map(str, asked or bits))
    if not there:
        wrong = f"{labels} loads no {' or '.join(architecture.published)} weights, in which {architecture.name} exists"
        fix = "name another engine, or the release that the weights were made from"
        return {}, Fault(job.name, 0, f"{place}.engine", wrong, fix)
    if is_16_bit(architecture):
        have = sorted({form.bits for form in loaded.values()}, reverse=True)
        wrong = f"{labels} has no weights of {' or '.join(map(str, bits))} bits"
        return {}, Fault(job.name, 0, f"{place}.weight_bits", wrong, f"choose {' or '.join(map(str, have))}")
    wrong = f"{describe_published(architecture)}, not in {wanted}{'' if asked else ' bits'}"
    have = sorted({table.formats[name].bits for name in there}, reverse=True)
    fix = f"leave it out, or choose {' or '.join(sorted(there) if asked else map(str, have))}"
    return {}, Fault(job.name, 0, where, wrong, fix)
