"""Rows of a table of inference measurements as served configurations.

Nothing is read from `id`, `source`, `notes` or `organisation`, which only group rows.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.accuracy.hosts import GPUS_PER_NODE, NETWORK_GB_S, USUAL_GPUS_PER_NODE
from benchmarks.accuracy.measurements import Row, read_table
from benchmarks.inference.engine_facts import (
    BARE_LABELS,
    CACHES_8_BIT,
    KEPT_IN_16_BIT,
    LIKE,
    OF_A_GENERATION,
    OF_AN_OLDER_AMD,
    as_run,
    is_older,
    kept_in_16_bit,
    trial_bytes,
    tries_whole_prompts,
)
from planner.configurations.coefficients import DEFAULT_NETWORK_BYTES_PER_SECOND
from planner.estimates.generation import activation_bytes, kv_bytes_per_token
from planner.generation.engine_recipes import OTHER_ENGINE, Division, Network, Serving, serving_of, widest_values
from planner.library.engines import Engine, read_engines
from planner.library.schema import Architecture, GpuSpec, Library
from planner.units import GB, GIB

NEEDED_COLUMNS = ("model", "gpu", "num_gpus", "engine", "mode", "weight_bits", "input_tokens", "output_tokens", "batch")
FIGURES = ("throughput", "tpot", "ttft")
"""Output tokens/s of the server, seconds per token after the first, seconds to the first token."""

SINGLE_STREAM_OUTPUT = 128.0
"""Tokens of a single stream whose source names no lengths: short, so that the cache hardly counts."""
OTHER_SEQUENCES = 256.0
"""In flight at most, of an engine without a profile: the default of vLLM and of SGLang."""
LEAST_IN_FLIGHT = 0.5
"""Share of the stated concurrency that a closed loop holds at least, by its own figures: start and end of a run cost
less."""
CONFIGURATION_COLUMNS = (
    "model", "gpu", "num_gpus", "tp", "pp", "engine", "weight_bits", "weight_format", "kv_bits", "input_tokens",
    "output_tokens", "batch", "request_rate_per_s", "mode",
)  # fmt: skip
RESERVED_BYTES = 2.0 * GIB
"""Activations and context of the device, in addition to weights and cache, where memory caps a batch: rounded."""
_REQUESTS = re.compile(r"\b(\d+) (?:\w+ )?(?:requests|prompts)\b")
FREE_SHARE = 0.3
"""Of a GPU that weights leave for the cache where a row does not say over how many GPUs the model is divided."""


@dataclass(frozen=True)
class Measured:
    """A row that can be predicted."""

    row: Row
    engine: str
    serving: Serving
    gpu: GpuSpec
    usable: float  # bytes of one GPU
    replicas: int
    prompt: float
    output: float
    batch: float  # in flight over all replicas; nan: not stated
    rate: float  # requests/s; nan: closed loop or all at once
    older: bool  # run by a generation of the engine before the present one
    requests: float  # of the whole run, where all come at once; nan: not stated, as good as endless
    most: float  # in flight of one replica, where the row does not say: the default of the engine
    pool: bool
    trial: float  # bytes of one GPU that a trial pass takes from the cache, next to what all engines keep free
    figures: Mapping[str, float]

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        """Coefficients by quantity; the tail of a finite run and older engines are of measurements, not of plans."""
        older = {name: (f"{name}.{self.engine}-older",) for name in OF_A_GENERATION if self.older}
        if self.older and self.gpu.vendor == "AMD":
            older |= {name: (f"{key}.AMD-older",) for name, key in OF_AN_OLDER_AMD.items()}
        found = {name: (*keys, *older.get(name, ())) for name, keys in self.serving.keys.items()}
        return {**found, "tail": () if math.isnan(self.requests) else ("tail",)}


class Unpredictable(Exception):
    """Why a row has no prediction."""


NOT_STATED = frozenset(
    [
        "no figure that is compared",
        "figures that contradict one another (Little's law)",
        "the number of GPUs is not stated",
        "lengths are not stated",
        "the bits of the weights are not stated",
    ]
)
"""Reasons that lie in a row: no estimate could predict it, so that it is not complete. All others count against us."""


def read_rows(path: str | Path) -> tuple[Row, ...]:
    """Return the rows of a table; InputError where it cannot be read or lacks columns."""
    return read_table(path, NEEDED_COLUMNS, "name the columns as in benchmarks/README.md, section inference")


def figures_of(row: Row) -> dict[str, float]:
    """Return what a row measured, in tokens/s and seconds."""
    found = {
        "throughput": _throughput(row),
        "tpot": _scaled(row.positive("tpot_ms")),
        "ttft": _scaled(row.positive("ttft_ms")),
    }
    return {name: value for name, value in found.items() if value}


def _throughput(row: Row) -> float | None:
    stated, rate, output = (
        row.positive(name) for name in ("output_tokens_per_s_total", "requests_per_s", "output_tokens")
    )
    return stated or (rate * output if rate and output else None)


def contradicts_itself(row: Row, figures: Mapping[str, float]) -> bool:
    """Return whether figures leave most of the requests that are stated to be in flight idle: one is mislabelled.

    Little's law: requests in flight = requests/s * seconds of one request. No prediction takes part.
    Example: 7.55 tokens/s of answers of 36 tokens that take 1.26 s + 35 * 0.0102 s each: 0.34 in flight, not 128.
    One request alone: 31.4 tokens/s, 2.37 s and 13.4 ms a token are answers of 128 tokens, not of 8,192.
    """
    batch, output, mode = row.positive("batch"), row.positive("output_tokens"), row.text("mode")
    batch = batch or (1.0 if mode == "single-stream" else None)
    if mode == "offline" or batch is None or output is None or len(figures) < len(FIGURES):
        return False
    stay = figures["ttft"] + figures["tpot"] * (output - 1.0)
    return figures["throughput"] / output * stay < LEAST_IN_FLIGHT * batch


def _scaled(milliseconds: float | None) -> float | None:
    return milliseconds / 1000.0 if milliseconds else None


def organisation(row: Row) -> str:
    """Return who published a row."""
    return row.cells.get("organisation") or row.source.partition("/")[0] or "unknown"


def side(row: Row) -> int:
    """Return 0 or 1: half of the configurations each, by a hash of what was run and never of a figure."""
    text = "\x1f".join(row.text(name) for name in CONFIGURATION_COLUMNS)
    return hashlib.sha256(text.encode()).digest()[0] & 1


def measured(row: Row, library: Library) -> Measured:
    """Return a row as a configuration; Unpredictable says what is missing."""
    figures = figures_of(row)
    if not figures:
        raise Unpredictable("no figure that is compared")
    if contradicts_itself(row, figures):
        raise Unpredictable("figures that contradict one another (Little's law)")
    architecture, gpu = _named(row, library)
    table = read_engines()
    engine = table.engine_behind(row.text("engine")) or OTHER_ENGINE
    like = LIKE.get(row.text("engine"), engine)
    weights = _format(row)
    gpus = row.count("num_gpus")
    if gpus is None:
        raise Unpredictable("the number of GPUs is not stated")
    profile = table.engines.get(engine)
    tensor, pipeline = _division(
        row, gpus, profile is None or profile.tensor, architecture, gpu, table.formats[weights].bytes
    )
    kv_bits = row.positive("kv_bits") or (8.0 if (engine, weights) in CACHES_8_BIT else 16.0)
    serving = serving_of(
        architecture, gpu, library, engine=like, weights=weights, kv_bits=kv_bits,
        division=Division(tensor, pipeline, _network(row, gpu, tensor)),
    )  # fmt: skip
    serving = as_run(serving, row.text("engine"), row.text("engine_version"), gpu)
    if (engine, architecture.name, weights, gpu.vendor) in KEPT_IN_16_BIT:
        serving = replace(serving, model=kept_in_16_bit(architecture, serving.model, serving.weight_bytes))
    weight_bytes = float(serving.model.stored_weights) * serving.weight_bytes / (tensor * pipeline)
    if weight_bytes > gpu.usable_gib * GIB:
        raise Unpredictable("weights larger than the memory of the GPUs, as with offloading")
    prompt, output = _lengths(row)
    single = row.text("mode") == "single-stream"
    older = is_older(engine, row.text("engine_version"), row.text("date"))
    usable = gpu.usable_gib * GIB * (profile.share if profile and profile.pool else 1.0)
    trial = 0.0
    if tries_whole_prompts(engine, older, row.text("mode"), gpu, architecture.max_sequence):
        trial = _trial(serving, architecture, usable - weight_bytes - RESERVED_BYTES)
    return Measured(
        row=row,
        engine=engine,
        serving=serving,
        gpu=gpu,
        usable=usable,
        replicas=max(1, gpus // (tensor * pipeline)),
        prompt=prompt,
        output=output,
        batch=row.positive("batch") or (1.0 if single else float("nan")),
        rate=_rate(row),
        older=older,
        requests=row.positive("requests") or _loop_of(row) or _at_once(row),
        most=_most(profile, gpu, older),
        pool=profile is not None and profile.pool,
        trial=trial,
        figures=figures,
    )


def _loop_of(row: Row) -> float | None:
    """Return the requests of a run whose rules state how many it had: "none (open loop, 500 requests)"."""
    found = _REQUESTS.search(row.text("slo"))
    return float(found[1]) if found else None


def _at_once(row: Row) -> float:
    """Return how many requests a run was of that were handed over together and ended with the longest answer.

    A mean answer that is no whole number is one of several lengths. nan: answers of one length end together, and others
    state no batch.
    """
    output = row.positive("output_tokens") or 0.0
    varied = row.text("mode") == "fixed-batch" and not output.is_integer()
    return (row.positive("batch") or float("nan")) if varied else float("nan")


def _most(profile: Engine | None, gpu: GpuSpec, older: bool) -> float:
    """Return the requests in flight at most: by the GPU since the present generation of an engine."""
    if profile is None:
        return OTHER_SEQUENCES
    return float(profile.sequences if older else profile.limits_on(gpu).sequences)


def _network(row: Row, gpu: GpuSpec, tensor: int) -> Network | None:
    """Return the network of the machines that a layer is divided among; None within one machine."""
    if tensor <= GPUS_PER_NODE.get(gpu.name, USUAL_GPUS_PER_NODE):
        return None
    gbps = row.positive("network_gbps") or 8.0 * NETWORK_GB_S.get(gpu.generation, DEFAULT_NETWORK_BYTES_PER_SECOND / GB)
    return Network(gbps * GB / 8.0)


def _trial(serving: Serving, architecture: Architecture, room: float) -> float:
    a = architecture
    each = float(activation_bytes(a.hidden, widest_values(a), 1.0, 0.0, 0.0, serving.tensor))
    cached = float(kv_bytes_per_token(serving.model, serving.kv_bytes, serving.tensor, serving.pipeline))
    return trial_bytes(each, cached, room, a.max_sequence)


def _named(row: Row, library: Library) -> tuple[Architecture, GpuSpec]:
    try:
        architecture = library.architecture(row.cells.get("model", ""))
    except KeyError:
        raise Unpredictable("model not in the library") from None
    if architecture.image is not None:
        raise Unpredictable("model generates no tokens")
    try:
        return architecture, library.gpu(row.cells.get("gpu", ""))
    except KeyError:
        raise Unpredictable("GPU not in the library") from None


def _format(row: Row) -> str:
    table, bits = read_engines(), row.positive("weight_bits")
    if bits is None:
        raise Unpredictable("the bits of the weights are not stated")
    label = row.text("weight_format")
    named = BARE_LABELS.get((row.text("engine"), label)) or table.format_behind(label)
    if named is not None and table.formats[named].bits == bits:
        return named
    plain = {32.0: "fp32", 16.0: "bf16", 8.0: "int8-weights", 4.0: "awq"}.get(bits)
    if plain is None:
        raise Unpredictable("weight format not in the table of formats")
    return plain


def _division(
    row: Row, gpus: int, splits: bool, architecture: Architecture, gpu: GpuSpec, weight_bytes: float
) -> tuple[int, int]:
    """Return tensor and pipeline parallelism: as stated, else the fewest GPUs that leave room for the cache."""
    tensor, pipeline = row.count("tp"), row.count("pp")
    if not splits:
        return 1, pipeline or (gpus if row.text("mode") == "single-stream" else 1)
    if tensor is None:
        need = architecture.parameters * weight_bytes / (gpu.usable_gib * GIB * (1.0 - FREE_SHARE))
        tensor = next((n for n in (1, 2, 4, 8) if n >= need or n >= gpus), gpus)
    return min(tensor, gpus), max(1, min(pipeline or 1, gpus // min(tensor, gpus)))


def _lengths(row: Row) -> tuple[float, float]:
    prompt, output = row.number("input_tokens"), row.positive("output_tokens")
    if row.text("mode") == "single-stream":
        return prompt or 0.0, output or SINGLE_STREAM_OUTPUT
    if prompt is None or output is None:
        raise Unpredictable("lengths are not stated")
    return prompt, output


def _rate(row: Row) -> float:
    """Return the requests per second that arrive; nan where there is a number in flight or all come at once."""
    rate = row.positive("request_rate_per_s")
    return rate if rate is not None and row.positive("batch") is None else float("nan")


def collect(rows: Sequence[Row], library: Library) -> tuple[list[Measured], dict[str, int]]:
    """Return the rows that can be predicted, and how many cannot by reason, the largest first."""
    found, reasons = [], dict[str, int]()
    for row in rows:
        try:
            found.append(measured(row, library))
        except Unpredictable as why:
            reasons[str(why)] = reasons.get(str(why), 0) + 1
    return found, dict(sorted(reasons.items(), key=lambda item: -item[1]))
