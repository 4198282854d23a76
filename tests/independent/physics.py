"""Memory and speed of one configuration in plain floats, a second time and by other hands.

Written from the two specifications of the estimates ("Analytic memory model" and "Time model") and from the tables
under `models/`, which are read as they are. Nothing of `planner.estimates` or `planner.configurations` is imported,
so a flag that is set wrong, an optimizer's bytes or the conversion of a link's speed show as a difference.
Symbols are those of the specifications: P parameters, L layers, h hidden, q and kv widths, f feed-forward,
V vocabulary, t tokens of a micro-batch, z sharding stage, tp and pp parallel degrees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import yaml

MODELS = Path(__file__).parents[2] / "models"
GIB, PACKED_FILL = 2.0**30, 0.97
ZERO = {"none": 0, "ddp": 0, "zero1": 1, "zero2": 2, "zero3": 3, "hsdp": 3, "yafsdp": 3}
RECOMPUTED = {
    "none": (0, 0),
    "selective": (0.4, 0),
    "full": (1, 1),
    "megatron": (0, 1),
    "offloaded": (1, 1),
    "attention": (1, 0),
    "all_offloaded": (0, 0),
}
"""Shares of the layers that run forward twice, in matrix products and in attention."""


@cache
def read(path: str) -> Any:
    """A file under `models/`."""
    return yaml.safe_load((MODELS / path).read_text(encoding="utf-8"))


@cache
def coefficients(name: str) -> dict[str, float]:
    """The values of a calibration by key."""
    return {key: entry["value"] for key, entry in read(f"calibration/{name}.yaml")["coefficients"].items()}


@dataclass(frozen=True)
class Setup:
    """What to run on what; `techniques` in the words of a plan."""

    architecture: str
    gpu: str
    gpus: int
    gpus_per_node: int
    link: str
    network_gbps: float | None
    framework: str
    techniques: dict[str, Any]
    sequence: float
    packing: str = "packed"
    mean_length: float = 0.0
    length_cv: float = 0.8
    headroom: float | None = None
    epochs: float = 1.0
    teacher: str = ""


@dataclass(frozen=True)
class Answer:
    """GiB of one GPU by the fit rule and in live tensors, seconds of a step, real tokens (or images) per second."""

    need_gib: float
    allocated_gib: float
    fit_probability: float
    step_seconds: float
    units_per_second: float


class Facts:
    """The setup with its cards and table rows, and the numbers that memory and time share."""

    def __init__(self, setup: Setup) -> None:
        self.s, self.t = setup, setup.techniques
        self.arch = {"gated": True, "rope": True, "tied_embeddings": False, "parallel_residual": False, "experts": 0}
        self.arch |= read(f"architectures/{setup.architecture}.yaml")
        self.card = read(f"gpus/{setup.gpu}.yaml")
        self.frame = read("techniques/frameworks.yaml")["frameworks"][setup.framework]
        self.bytes = read("techniques/bytes.yaml")
        a, t = self.arch, self.t
        self.P, self.L, self.h = a["parameters"], a["layers"], a["hidden"]
        self.q, self.kv = a["heads"] * a["head_dim"], a["kv_heads"] * a["head_dim"]
        self.f, self.V, self.g = a["ffn"], a["vocab"], 3 if a["gated"] else 2
        self.lora, self.z = t["method"] == "lora", ZERO[t["sharding"]]
        self.quantised = self.lora and t["weight_bits"] < 16
        self.tp, self.pp = t["tensor_parallel"], t["pipeline_parallel"]
        self.cp, self.ep = t.get("context_parallel", 1), t.get("expert_parallel", 1)
        # Experts are cut by tensor parallelism too where the GPUs of a stage allow it, else each is whole on its GPU.
        etp = self.tp if setup.gpus / self.pp % (self.tp * self.ep) == 0 else 1
        self.spread, self.folded = self.ep * etp / self.tp, etp < self.tp
        self.copies = setup.gpus / (self.tp * self.pp)  # that hold the same weights, or a shard of them each
        self.dp = self.copies / self.cp
        values = read("techniques/values.yaml")
        self.does = values["tuning"][t["tuning"]]
        self.compared = values["reference"]["values"].get(t["reference"], {})
        self.teacher = read(f"architectures/{setup.teacher}.yaml") if setup.teacher else {}
        self.n = self.does.get("answers", 1)  # sequences of a sample
        self.mb, self.m = t["micro_batch"], t["accumulation_steps"]
        self.mean = min((setup.mean_length or self.n * setup.sequence) / self.n, setup.sequence)
        pairs_end_to_end = setup.packing == "padding_free" and self.n == 2  # one answer is the longest, one the mean
        self.longest = (setup.sequence + self.mean) / 2 if pairs_end_to_end else setup.sequence
        precision = values["precision"]["values"][t["precision"]]
        self.mixed = precision.get("autocast", False)
        # Rounding in the forward pass: bytes kept per weight and per input element of a linear layer.
        self.rounded = self.bytes["rounded"][t["method"]] if precision.get("rounds") else None
        self.wide = values["compute"][precision["compute"]]["element_bytes"] == 4
        # bitsandbytes' optimizers: 8-bit moments, or fp32 ones in pages; Adafactor has a golden case of its own.
        self.own_states = self.bytes["optimizers"].get(t["optimizer"])
        self.paged, self.at_once = "_paged" in t["optimizer"], t["optimizer"].endswith("_in_backward")
        kbit = self.bytes["quantised"][t["quant"]]["prepared"] if self.quantised else False
        self.prepared = bool(kbit and self.z < 3 and self.frame.get("prepared", True))
        # Some frameworks quantise the scales of nf4 too, whatever they are asked for.
        self.quant = self.frame.get("stores", {}).get(t["quant"], t["quant"])
        self.offload = t.get("offload", "none")
        self.adapters = self.bytes["adapters"][self.frame["adapters"]]
        stages = (1, 2, 3) if self.frame.get("deepspeed_zero3") else (1, 2)
        self.deepspeed = not self.frame.get("masters") and (self.z in stages or self.offload == "optimizer")
        self.row = self._training_row()
        self.checkpoints = t["activation_checkpointing"]
        if self.checkpoints == "selective":
            self.checkpoints = {"scores": "megatron", "attention": "attention"}.get(
                self.frame.get("selective"), "selective"
            )
        if self.checkpoints == "full" and self.frame.get("offloaded_checkpoints"):
            self.checkpoints = "offloaded"
        # Data-parallel ranks that share one copy of the states: all, or with hybrid sharding those of one node.
        one_node = max(min(self.copies, setup.gpus_per_node / self.tp), 1.0)
        self.group = one_node if t["sharding"] == "hsdp" else self.copies
        self.E = self.L * (self.arch["experts"] or 0) * self.g * self.h * self.f  # parameters of all experts
        layers = self.P - self.V * self.h * (1 if a["tied_embeddings"] else 2)
        self.whole = self.E / layers if self.quantised and t["experts_16_bit"] else 0.0  # experts left in 16 bits
        self.scaled = 0.0  # bytes per token of a layer that DoRA keeps
        self.idle_linears = 0
        self.adapted_weights, self.adapted_inputs, self.adapted_linears = self._adapters() if self.lora else (0, 0, 0)
        self.trained = self.adapted_weights if self.lora else self.P

    def _training_row(self) -> Any:
        """The row of bytes per parameter of full training."""
        name = self.t["precision"]
        if self.mixed and self.frame.get("masters"):
            name = self.frame.get("deepspeed_masters", {}).get(name, self.frame["masters"])
        elif self.mixed and self.deepspeed:
            name = "deepspeed"
        return self.bytes["training"][name]

    def _adapters(self) -> tuple[float, float, float]:
        """Adapter weights in all, inputs and linears that a token meets in one layer."""
        h, q, kv, f = self.h, self.q, self.kv, self.f
        shapes = {"q": (h, q), "k": (h, kv), "v": (h, kv), "o": (q, h), "gate": (h, f), "up": (h, f), "down": (f, h)}
        targets = self.t["lora_targets"]
        groups = {"all-linear": list(shapes), "attention": ["q", "k", "v", "o"], "qv": ["q", "v"]}
        names = groups.get(targets, [targets]) if isinstance(targets, str) else list(targets)
        if not self.arch["gated"]:
            names = [name for name in names if name != "gate"]
        if self.arch["parallel_residual"]:  # Falcon and GPT-NeoX hold query, key and value in one matrix
            shapes["qkv"] = (h, q + 2 * kv)
            names = ["qkv", *(name for name in names if name not in ("q", "k", "v"))]
        each = met = out = made = 0.0
        linears = 0
        for name in names:
            copies = self.arch["experts"] or 1 if name in ("gate", "up", "down") else 1
            used = self.routed() if name in ("gate", "up", "down") else 1
            each += copies * sum(shapes[name])
            out, made = out + copies * shapes[name][1], made + used * shapes[name][1]
            met, linears = met + used * shapes[name][0], linears + used
            self.idle_linears += copies - used
        weights = self.L * self.t["lora_rank"] * each
        if rows := self.arch.get("adapters"):  # a network of images lists the sums of its matrices by letter
            weights = self.t["lora_rank"] * sum(
                inputs + outputs for letter, inputs, outputs in rows if targets == "all-linear" or letter in names
            )
        if self.t["adapt_head"]:  # one more linear of the whole network
            weights += self.t["lora_rank"] * (h + self.V)
            met, linears = met + h / self.L, linears + 1 / self.L
            out, made = out + self.V / self.L, made + self.V / self.L
        if self.t["dora"]:  # a magnitude for each output, and two copies of each output kept
            weights += self.L * out
            self.scaled = 2 * (4 if self.wide else 2) * made
        return weights, met, linears

    def routed(self) -> int:
        """Experts that a token meets in a layer."""
        return self.arch["experts_per_token"] + self.arch.get("shared_experts", 0) if self.arch["experts"] else 1


def answer(setup: Setup) -> Answer:
    """Memory and speed of a setup."""
    facts = Facts(setup)
    need, allocated, chance, away = memory(facts)
    draws = {"padded": facts.mb * facts.n, "padding_free": 1}.get(setup.packing)
    length = longest_of(facts, draws) if draws else setup.sequence
    seconds = step(facts, length, away)
    real = PACKED_FILL * setup.sequence if setup.packing == "packed" else facts.mean
    each = 1.0 if "image" in facts.arch else facts.n * real
    return Answer(need / GIB, allocated / GIB, chance, seconds, facts.mb * facts.m * facts.dp * each / seconds)


def longest_of(x: Facts, draws: float) -> float:
    """Mean of the longest of so many log-normal lengths, each cut at the sequence length, by its distribution."""
    setup, mean = x.s, x.s.mean_length / x.n
    sigma = math.sqrt(math.log(1.0 + setup.length_cv**2))
    normal, cells = NormalDist(), 20_000
    total, last = 0.0, 0.0
    for cell in range(1, cells + 1):
        at = -8.0 + 16.0 * cell / cells
        below = normal.cdf(at) ** draws
        length = mean * math.exp(sigma * (at - 8.0 / cells) - sigma * sigma / 2.0)
        total, last = total + (below - last) * min(length, setup.sequence), below
    return total


def memory(x: Facts) -> tuple[float, float, float, float]:
    """Bytes by the fit rule, bytes in live tensors at the peak, the chance to fit, and bytes of pages in host memory.

    Memory model, sections 2, 3 and 6.
    """
    k = coefficients("memory")
    embedding = x.V * x.h * (1 if x.arch["tied_embeddings"] else 2)
    each = (x.P - embedding) / x.L
    layers = math.ceil(x.L / x.pp)
    embedding = x.V * x.h if x.pp > 1 else embedding
    stage = each * layers + embedding
    base = 4.0 if x.wide else 2.0
    s1, s2, s3 = (x.group if x.z >= stage_of else 1 for stage_of in (1, 2, 3))
    if x.lora:
        weight = x.bytes["quantised"][x.quant]["weight"] if x.quantised else base
        weight = weight + x.whole * (base - weight)
        outer, trained, row = (4.0 if x.prepared else base), x.trained * layers / x.L, x.adapters
        optimizer = x.own_states["o"] if x.own_states else row["o"]
    else:
        weight = outer = x.row["w"]
        trained, row = stage, x.row
        optimizer = row["o"] - min(row["o"], 8.0) + x.own_states["o"] if x.own_states else row["o"]
    whole = (each * layers * weight + embedding * outer) / x.tp
    # Experts spread over ep ranks are cut over the larger of ep and the ranks that share a state.
    full, mine = not x.lora, x.E * layers / x.L / x.tp
    lacks = {over: mine / over - mine / (max(over, x.spread) if over > 1 else x.spread) for over in {1, s1, s2, s3}}
    copy = (stage / x.tp / s3 - lacks[s3]) * weight if x.compared.get("copied") else 0.0  # of the type that is trained
    if x.teacher:  # in 16 bits, and as large as it is
        copy *= 2.0 / weight * x.teacher["parameters"] / x.P
    copy *= k["host_resident"] if x.compared.get("hosted") else 1.0
    W, states = whole / s3 - lacks[s3] * weight, (trained / x.tp / s1 - full * lacks[s1]) * optimizer
    each -= lacks[1] * x.tp / layers
    stage -= lacks[1] * x.tp
    A = trained * row["w"] / x.tp / s3 if x.lora else 0.0
    # In host memory: all states, or the optimizer alone, and with it from ZeRO-2 on all gradients but copies in flight.
    stay, alone = k["host_resident"], x.offload == "optimizer"
    W, A = (W * stay, A * stay) if x.offload == "optimizer_and_weights" else (W, A)
    states = states * stay if x.offload != "none" else states
    pages, states = (states, 0.0) if x.paged else (0.0, states)
    gathers = x.z == 3 and (x.group > 1 or x.offload == "optimizer_and_weights")
    kept = gathers and x.m > 1 and bool(x.frame.get("no_sync") or x.pp > 1)
    over = 1 if kept else s2
    G = (trained / x.tp / over - full * lacks[over]) * (row["g"] + row.get("extra_gradient", 0))
    G *= 2 if x.z == 0 and x.dp > 1 and not x.frame.get("megatron") else 1
    if x.offload == "optimizer_and_weights" and not kept:
        G *= stay
    if alone and (x.z >= 2 or x.s.gpus == 1) and not kept:
        G *= stay
    # A step in the backward pass: one layer and one matrix of the vocabulary have gradients at a time.
    G *= min((each + x.V * x.h) / stage, 1.0) if x.at_once else 1
    early = G if x.m > 1 else 0.0
    temporary = 0.0 if x.frame["fused_step"] or x.own_states else row["t"]
    Tm = (trained / x.tp / s1 - full * lacks[s1]) * (temporary + row.get("extra_sharded", 0))
    Tm *= stay if x.offload != "none" else 1
    AMP = 0.0 if x.lora or x.z else x.row["cast"] * stage / x.tp
    if x.rounded:
        AMP += x.rounded["weight"] * each * (layers if x.checkpoints == "none" else 1) / x.tp
    layer = weight if x.quantised else 2.0 if x.lora else x.row["gathered"]
    wide = max(layer, 2.0)
    root = wide * (stage if kept else embedding) / x.tp if gathers else 0.0
    # FSDP2 has two whole layers of a mixture, and an fp32 copy of a layer's gradients, while it trains all of it.
    blocks = x.arch["experts"] and not x.lora and x.z == 3 and not x.deepspeed and not x.frame.get("compiles_graphs")
    ahead = max(k["n_uns"], 2.0) if blocks else k["n_uns"]
    at_loss = root
    U = (root if kept else ahead * each * layer / x.tp + root) if gathers else 0.0
    if gathers and x.deepspeed and not kept:  # a thousand million weights stay gathered, and the matrix in use
        U = at_loss = (min(1e9, stage - embedding) * layer + wide * min(x.V * x.h, embedding)) / x.tp
    Ug = (wide + (4.0 if blocks else 0.0)) * each / x.tp if gathers and not x.lora else 0.0
    # Liger's loss makes the gradient of the head in the forward pass, in the type of the weight that it is given.
    in_forward = x.bytes["loss"][x.frame["loss"]].get("gradient_in_forward") and not x.lora
    ahead_of_time = x.V * x.h / x.tp * (x.row["gathered"] if x.z == 3 else x.row["w"]) if in_forward else 0.0
    D = (2 * x.h * x.f if x.quantised else 0.0) + (x.rounded["passing"] * x.h * x.f if x.rounded else 0.0)
    D += 12 * x.h * x.f if x.scaled else 0.0  # three fp32 copies of the matrix whose norm is taken
    bucket = 5e8 * (4 if x.wide else 2) if x.deepspeed else 0.0
    left = G / x.group if x.deepspeed and x.z == 1 else G  # in the step: others' gradients are freed before
    load = whole * (1 + 1 / s3) if x.z == 3 and x.frame.get("load_whole") else 0.0

    first, last, Ws, Lg, fragments = activations(x, k, layers)
    B = W + A + states + copy
    # Bytes of each phase: states, and all else.
    phases = [
        (B + AMP + early, at_loss + last + Lg + bucket + ahead_of_time),
        (B + AMP + early, U + Ug + D + max(first, last) + Ws + bucket + ahead_of_time),
        (B + AMP + G, U + Ug + Ws + bucket),
        (B + left + Tm, 0.0),
        (load, 0.0),
    ]
    allocated = max(states_alive + rest for states_alive, rest in phases)
    together = B + AMP + U + Ug + D + G + Tm + max(first, last) + Ws + Lg + bucket + ahead_of_time
    image = x.arch.get("image") or {}
    megatron = x.frame.get("megatron")
    context = k["m_ctx_gib"] if megatron else k["ctx_gib"] + (k["fit_nccl_gib"] if x.s.gpus > 1 else 0.0)
    context = context * GIB + 2.0 * image.get("frozen_parameters", 0)
    own_copy = weight if x.compared.get("copied") and not x.compared.get("hosted") and not x.teacher else 0.0
    context += x.arch.get("tower_parameters", 0) * ((base if x.lora else weight) + own_copy)
    sigma, share = spread_of_memory(x, k)
    # The 85 % quantile, the confidence of memory where a job states none: of Student's t with 2 degrees of freedom, at
    # the scale at which the 95 % quantile is that of a normal.
    scale = sigma * 1.645 / 2.92
    margin = math.exp(scale * student_2(0.85)) - 1
    on_states = share * margin
    if x.s.headroom is not None:
        margin = on_states = x.s.headroom

    def rule(phi: float, margin: float, on_states: float) -> float:
        overlap = phi * k["rho"]
        peak = max((1 + on_states) * s + (1 + margin) * rest + overlap * (together - s - rest) for s, rest in phases)
        return float(max(peak, (1 + on_states) * load) + phi * fragments + context)

    usable = x.card["usable_gib"] * GIB

    def needed(margin: float, on_states: float) -> float:
        need = rule(k["phi"], margin, on_states)
        return rule(0.5, margin, on_states) if x.z == 3 and need > 0.8 * usable else need

    # The chance to fit: the largest error of what is uncertain that the rule still admits.
    below, above = -100.0, 100.0
    for _ in range(60):
        z = (below + above) / 2
        more = math.exp(z) - 1
        below, above = (z, above) if needed(more, share * more) <= usable else (below, z)
    t = below / scale
    chance = min(0.5 + 0.5 * t / math.sqrt(2 + t * t), 1.0 if x.frame["profiled"] else 0.98)
    # Pages have what allocator and context leave; half a GiB is never reserved unless live tensors take it.
    reserved = min(allocated + k["rho"] * (together - allocated) + fragments, max(allocated, usable - GIB / 2))
    away = max(pages - max(usable - reserved - context, 0.0), 0.0)
    return needed(margin, on_states), allocated, chance, away


def student_2(p: float) -> float:
    """Quantile of Student's t with 2 degrees of freedom."""
    return (2 * p - 1) / math.sqrt(2 * p * (1 - p))


def spread_of_memory(x: Facts, k: dict[str, float]) -> tuple[float, float]:
    """Spread of what memory exceeds its estimate by, and the share of it that states have."""
    least = 0.0 if x.offload == "none" else k["sigma_over_offload"]
    if x.frame.get("unknown"):
        return max(k["sigma_over_unknown"], least), k["known_share_unknown"]
    usual = k["sigma_over_usual"] if x.frame["profiled"] else k["sigma_over_documented"]
    return max(k.get(f"sigma_over_{x.s.framework}", usual), least), k["known_share"]


def activations(x: Facts, k: dict[str, float], layers: int) -> tuple[float, ...]:
    """Bytes of a micro-batch: stored on the first and the last stage, working set, logits, fragments (section 3)."""
    image = x.arch.get("image")
    t = x.mb * x.n * (image["memory_tokens_per_image"] if image else x.longest) / x.cp
    # Language models without gates have LayerNorms.
    hu = min(x.frame["norm_units"], 8 if x.arch["gated"] or image else 6)
    hu = min(hu, 5) if x.arch["parallel_residual"] else hu
    rope = 2 if x.arch["rope"] and not x.frame.get("fused_rope") else 1
    fu = ((3 if x.frame.get("fused_swiglu") else 4) if x.arch["gated"] else 2) * x.f * x.routed()
    sp = x.tp if x.frame.get("sequence_parallel") else 1
    layer = (4 if x.wide else 2) * t * (hu * x.h / sp + (rope * (x.q + 2 * x.kv) + x.q + fu) / x.tp)
    compiled = (k["k_comp"] if x.frame.get("compiled") else 1.0) * layer
    inputs = k["c_in"] * x.adapters["copies"] * x.adapted_inputs * t if x.lora else 0.0
    eager = x.arch["heads"] * t * x.longest / x.tp if x.t["attention"] == "eager" else 0.0
    # Autocast over fp32 weights on one replica: the embedding is fp32, and so is what is added to it.
    autocast = not x.lora and x.z == 0 and x.row["cast"] > 0
    boundary = x.h * (4 if x.prepared or x.wide or autocast else 2) * t / sp
    # Queries, keys and values round an input of their own, and so do gate and up.
    inner = (3 if x.arch["gated"] else 2) * x.routed()
    entering = 3 * x.h + x.q + (inner - x.routed()) * x.h + x.routed() * x.f
    rounded = x.rounded["input"] * entering * t if x.rounded else 0.0
    share = k["k_frz"] if x.lora else k["k_act"]
    if x.quantised and x.frame.get("frozen_quantised_factor", True) and x.t["quant"] in ("nf4", "nf4_dq", "int8"):
        share = k["k_frzq"]
    whole = kept_layer(x, k, share * compiled, inputs, rounded + k["e_sto"] * eager, t)
    stored = (
        layers
        * {
            "none": whole,
            "all_offloaded": k["k_wait"] * whole,
            "selective": boundary
            + (4 if x.wide else 2) * t * (2 * x.q + x.kv + x.f * x.routed()) / x.tp
            + ((4 if x.wide else 2) * t * x.h / sp if x.arch["gated"] else 0.0),
            "megatron": layer,
            "full": boundary,
            "attention": boundary + (4 if x.wide else 2) * t * x.q / x.tp,
            "offloaded": 0.0,
        }[x.checkpoints]
    )
    k_ws = x.frame.get("working_factor") or (k["k_mws"] if x.frame.get("megatron") else k["k_ws"])
    working = k_ws * compiled + inputs + x.scaled * t + rounded + k["e_att"] * eager
    working *= 0.25 if x.checkpoints in ("none", "all_offloaded") else 1.0
    if x.cp > 1:  # keys and values of the other parts with their gradients; in a ring of two parts at most
        others = t * (x.cp - 1)
        held = {"ring": 4 * x.kv * min(2 * t, others), "heads": (x.q + 2 * x.kv) * t, "gather": 4 * x.kv * others}
        working += 2 / x.tp * held[x.frame["context_parallel"]]
    fsdp_adapters = x.lora and x.z == 3 and not x.deepspeed and x.frame.get("fsdp_adapters_keep_gradients")
    if fsdp_adapters and x.checkpoints in ("full", "attention", "offloaded"):
        working += layers * boundary
    kernel = x.frame["loss"] if x.t["tuning"] == "sft" else x.frame.get("tuning_loss", x.frame["loss"])
    if kernel == "hf":
        pairs_16_bit = x.does.get("loss_16_bit") if x.deepspeed and not x.wide else None
        kernel = "hf-prepared" if x.prepared else pairs_16_bit or kernel
    loss, entries = x.bytes["loss"][kernel], 0.0 if x.does.get("scalar") else t * x.V / x.tp
    logits = k["k_log"] * loss["bytes"] * entries * (2 if x.teacher else 1)
    fragments = k["f_dyn"] * (stored + logits + working)
    if loss["materialised"] and x.checkpoints not in ("none", "all_offloaded"):
        fragments += k["f_log"] * entries
    if x.s.packing in ("padded", "padding_free"):
        typical = x.mean / x.longest
        fragments += (
            k["f_var"] * typical * (logits + working + (stored if x.checkpoints in ("full", "attention") else 0.0))
        )
    return min(x.pp, x.m) * stored, stored, working, logits, fragments


def kept_layer(x: Facts, k: dict[str, float], own: float, inputs: float, others: float, t: float) -> float:
    """Bytes that the backward pass of one layer needs where nothing is computed again."""
    return own + 0.5 * inputs + x.scaled * t + others


def copied_activations(x: Facts, tokens: float) -> float:
    """Bytes of all activations of one micro-batch, which go to host memory once and come back once."""
    k = coefficients("memory")
    routed = x.routed()
    fu = ((3 if x.frame.get("fused_swiglu") else 4) if x.arch["gated"] else 2) * x.f * routed
    layer = 2 * tokens * (x.frame["norm_units"] * x.h + 2 * (x.q + 2 * x.kv) + x.q + fu)
    share = k["k_frzq"] if x.quantised else k["k_frz"] if x.lora else k["k_act"]
    inputs = k["c_in"] * x.adapters["copies"] * x.adapted_inputs * tokens if x.lora else 0.0
    return x.L * kept_layer(x, k, share * layer, inputs, 0.0, tokens)


def step(x: Facts, sequence: float, away: float) -> float:
    """Seconds of one optimizer step (time model, sections 2 and 3); `away` bytes of pages come and go."""
    k, s = coefficients("time"), x.s
    nodes = math.ceil(s.gpus / s.gpus_per_node)
    PCI = {3: 12e9, 4: 24e9, 5: 48e9, 6: 96e9}[x.card["pcie_gen"]]
    inside = k["nvlink_utilisation"] * x.card["nvlink_gb_s"] * 1e9 / 2
    inside = inside if s.link in ("nvlink", "nvswitch", "ici") and inside else k["pcie_utilisation"] * PCI
    node = k["network_utilisation"] * (s.network_gbps * 1e9 / 8 if s.network_gbps else 12.5e9)
    across = min(inside, node / s.gpus_per_node)
    group = min(inside, node * max(1.0, s.gpus_per_node / x.tp) / s.gpus_per_node)
    group = group / (1 + k["group_loss_per_doubling"] * math.log2(nodes)) if nodes > 1 else inside
    hybrid = x.t["sharding"] == "hsdp"

    rc = RECOMPUTED[x.checkpoints][0]
    tokens = x.mb * x.n * sequence / x.cp
    work, attention = micro_batch(x, sequence, tokens)
    if x.cp > 1:
        link = across if x.tp * x.cp > s.gpus_per_node else inside
        each, again = tokens / x.tp * x.L / x.pp / link, RECOMPUTED[x.checkpoints][1]
        moved = (x.cp - 1) * each * 4 * x.kv * (3 + again)
        swapped = (1 - 1 / x.cp) * each * 4 * (x.q + x.kv) * (2 + again)  # four tensors of two bytes, there and back
        kind = x.frame["context_parallel"]
        work += {"ring": max(moved - attention, 0.0), "heads": swapped, "gather": moved}[kind]
    if x.ep > 1:
        # To each expert on another GPU; with a dispatcher by node over the network once to each node with one of them.
        hosts, routed = min(max(math.ceil(x.ep * (1 if x.folded else x.tp) / s.gpus_per_node), 1), x.ep), x.routed()
        if x.frame.get("expert_dispatch", "expert") == "node":
            copies = routed * (x.ep - hosts) / x.ep / inside + (hosts - 1) * (1 - (1 - 1 / hosts) ** routed) / across
        else:
            here = x.ep / hosts  # ranks of a node
            copies = routed * (here - 1) / x.ep / inside + routed * (x.ep - here) / x.ep / across
        work += k["expert_traffic_factor"] * (4 + 2 * rc) * 2 * tokens * x.h / x.tp * copies * x.L / x.pp
    if x.tp > 1:
        each = 4 * tokens * x.h * (x.tp - 1) / x.tp / inside + k["tensor_latency_seconds"]
        fused = k["fused_tensor_factor"] if x.frame["kernels"] == "fused" else 1.0
        work += x.L / x.pp * (4 + 2 * rc) * each * fused / (2 if x.folded else 1)
    reduced = (x.adapters if x.lora else x.row)["reduced"]
    quantised = x.bytes["quantised"][x.quant]["weight"] if x.quantised else 2
    gathered = quantised + x.whole * (2 - quantised) if x.lora else x.row["gathered"]
    cut = x.tp * x.pp
    sharding = reduction = 0.0

    def exchanged(ranks: float) -> float:
        """Share of all parameters that one rank lacks; of experts 1/ep, which ranks/ep ranks share."""
        of_experts = x.E / x.P
        return (1 - of_experts) * (1 - 1 / ranks) + of_experts / x.spread * max(1 - x.spread / ranks, 0.0)

    if x.z == 3:
        ranks, speed = (x.group, inside) if hybrid else (x.copies, group)
        sharding = (2 * gathered * x.P + reduced * min(x.trained, x.P)) / cut * exchanged(ranks) / speed
        if hybrid:
            sharding += 2 * reduced * x.trained / cut * (1 - ranks / x.dp) / (across * s.gpus_per_node * x.m)
        sharding /= x.m if x.pp > 1 else 1
    else:
        hidden = 0.0 if x.frame.get("reduces_at_end") else k["data_parallel_overlap"]
        reduction = (1 - hidden) * 2 * reduced * x.trained / cut * exchanged(x.copies) / group
        reduction *= x.m if x.z == 2 else 1
    if x.checkpoints == "all_offloaded":
        sharding += 2 * copied_activations(x, tokens) / (k["host_copy_utilisation"] * PCI)
    overlap = coefficients("kernels")[f"{x.frame['kernels']}.overlap"]
    if x.t["sharding"] == "yafsdp":
        overlap = 1 - coefficients("kernels")["yafsdp.exposed_share"] * (1 - overlap)
    longer = (work**3 + sharding**3) ** (1 / 3)
    each = longer + (1 - overlap) * work * sharding / longer
    # Activations and their gradients, 2 bytes each, a part by each tensor-parallel rank.
    each += 4 * tokens * x.h / x.tp / (across if nodes > 1 else inside) if x.pp > 1 else 0.0
    modules = 10 + x.g + (4 * x.adapted_linears if x.lora else 0)
    hook = coefficients("kernels").get(f"{x.frame['kernels']}.hook_seconds", 0.0)
    each += hook * modules * (2 + rc) * x.L / x.pp * coefficients("gpu_efficiency").get(f"host.{s.gpu}", 1.0)
    each += without_gradients(x, each, rc, k["host_copy_utilisation"] * PCI)
    copies = x.group * cut if hybrid else s.gpus if x.z else cut
    traffic = (x.adapters if x.lora else x.row)["traffic"]
    if x.own_states and not x.lora:
        traffic -= x.own_states["traffic_saved"]
    optimizer = traffic * x.trained / copies * k["optimizer_factor"] / (x.card["memory_bandwidth_gb_s"] * 1e9)
    optimizer += 2 * away / (k["host_copy_utilisation"] * PCI)
    rounds = x.m + x.pp - 1
    seconds = rounds * each + reduction + optimizer + k["fixed_seconds"]
    return seconds * (1 + k["node_loss_per_doubling"] * math.log2(nodes))


def without_gradients(x: Facts, each: float, rc: float, slot: float) -> float:
    """Seconds of the passes forward of a reference, and of a policy on answers that do not match, per micro-batch.

    A training pass is one forward, one for the gradients of inputs, one for those of weights, and what runs again.
    """
    own = x.does.get("further", 0)
    compared = (1 + own) if x.does.get("reference") else 0
    passes = own + compared / (x.s.epochs if x.compared.get("once") else 1)
    if x.teacher:
        mine = x.arch.get("active_parameters", x.P)
        passes *= x.teacher.get("active_parameters", x.teacher["parameters"]) / mine
    one = each / ((2 if x.lora else 3) + rc)
    if x.compared.get("hosted"):
        weights = 2.0 if x.lora else x.row["w"]
        one = max(one, weights * x.P / (x.s.gpus if x.z == 3 else x.tp * x.pp) / slot)
    return passes * one


def micro_batch(x: Facts, sequence: float, tokens: float) -> tuple[float, float]:
    """Seconds of one micro-batch on one GPU without communication, and of its attention.

    Device and host overlap as a smooth maximum (section 2).
    """
    k, speeds, kernels = coefficients("time"), coefficients("gpu_efficiency"), coefficients("kernels")
    profile, frozen = x.frame["kernels"], float(x.lora)
    card, name = x.card, x.s.gpu
    BW = card["memory_bandwidth_gb_s"] * 1e9
    peak16 = card.get("tensor16_tflops") or card["fp32_tflops"]
    tf32 = card.get("tf32_tflops") or card["fp32_tflops"]
    peak = {"fp32": card["fp32_tflops"], "tf32": tf32}.get(x.t["precision"], peak16) * 1e12
    E = speeds["fp32"] if x.wide else speeds[name]
    rc, rca = RECOMPUTED[x.checkpoints]
    scaling = k["magnitude_factor"] if x.scaled else 1.0
    offload = (k["offload_factor"] if x.checkpoints == "offloaded" else 1.0) * scaling
    experts = x.arch["experts"]
    embedding = x.V * x.h * (1 if x.arch["tied_embeddings"] else 2)
    N = x.L * (x.h * (2 * x.q + 2 * x.kv) + x.g * x.h * x.f)
    stored, ffn = N, float(x.f)
    if experts:
        N, stored = x.arch["active_parameters"] - embedding, x.P - embedding
        ffn = max(N / (3 * x.L * x.h) - 2 * x.h, x.f)
    knee = k["token_half_saturation"] * peak / BW
    saturation = 1 + knee / (tokens * (0.25 if experts else 1))
    narrow = x.h / math.sqrt(x.tp)
    factor = kernels[f"{profile}.matmul_factor"] * narrow / (narrow + k["width_half_saturation"])
    factor *= k["misaligned_factor"] if (x.h / x.tp) % 64 or x.arch["head_dim"] % 8 else 1.0
    factor *= kernels[f"{profile}.moe_factor"] if experts else 1.0
    passes = 2 + (0 if x.lora else 1 / k["weight_gradient_factor"]) + rc
    # Linear layers in fp8 reach a share of the card's fp8 peak, which holds the casts around each product.
    share8 = {"fp8_torchao": "linear_share.fp8_torch", "fp8_te": "linear_share.fp8_fused"}.get(x.t["precision"])
    linear = kernels[share8] * card["fp8_tflops"] * 1e12 if share8 else peak
    linear *= kernels["linear_share.rounded"] if x.rounded else 1.0
    matmul = 2 * offload * tokens * N * passes / (x.pp * x.tp) / factor * saturation / (linear * E)
    share = (1 / x.pp + k["head_imbalance"] * (1 - 1 / x.pp)) * offload
    entries = share * tokens * x.V / x.tp
    head = entries * 2 * x.h * (3 - frozen) * saturation / (peak * E)
    head += entries * kernels[f"{profile}.logit_traffic_bytes"] / BW
    head *= 0.0 if x.does.get("scalar") else 1.0
    plain = f"{profile}.plain_element_traffic"
    key = plain if not x.arch["gated"] and "image" not in x.arch and plain in kernels else f"{profile}.element_traffic"
    moved = kernels[key] * (12 * x.h + 4 * x.g * ffn / x.tp)
    moved += frozen * k["adapter_traffic"] * 1.5 * x.adapters["pass"] * x.adapted_linears * x.h
    moved *= 2 * offload * (1 + rc / 3) * tokens * x.L / x.pp
    rows = offload * tokens * x.L / x.pp / x.tp
    attention = attention_seconds(x, sequence, rows, rca, peak, E, BW)
    read_bytes = kernels[f"quantised_bytes.{x.t['quant']}"] * (1 - x.whole) if x.quantised else 0.0
    dequantised = (2 + rc) * offload * read_bytes * stored / (x.tp * x.pp) * speeds.get(f"dequant.{name}", 1.0) / BW
    device = matmul + head + moved / BW + attention + dequantised + gradient_bytes(x) / BW
    again = 1 + rc * kernels.get(f"{profile}.recomputed_launch", 1 / 3)
    launch = kernels[f"{profile}.launch_seconds"] * again * (k["frozen_launch_factor"] if x.lora else 1.0)
    whole = x.whole or not x.quantised
    grouped = x.frame.get("grouped_experts") == "all" or ("grouped_experts" in x.frame and whole)
    looped = 0.0 if grouped else kernels[f"{profile}.naive_experts"]
    adapted = x.adapted_linears + (looped * x.idle_linears / x.ep if experts and x.lora else 0)
    launch = (launch + adapted * k["adapter_launch_seconds"]) * scaling * speeds.get(f"host.{name}", 1.0)
    own = kernels.get(f"{profile}.quantised_launch_seconds")
    launched = x.arch["image"].get("blocks", x.L) if "image" in x.arch else x.L  # Python launches blocks one by one
    linears = x.arch["image"]["linears"] / launched if "image" in x.arch else 7
    launch += linears * (own * again if own else k["quantised_launch_seconds"]) if x.quantised else 0.0
    launch += kernels[f"{profile}.fsdp_launch_seconds"] if x.z == 3 else 0.0
    # Matrices and norms whose gradients DeepSpeed takes from a hook each.
    hooked = 4 + x.g + 2 if x.z in (1, 2) and not x.lora else 0
    launch += hooked * kernels.get(f"{profile}.gradient_launch_seconds", 0.0)
    launch += looped * experts / x.ep * k["expert_launch_seconds"] * again
    return float((device**3 + (launch * launched / x.pp) ** 3) ** (1 / 3)), attention


def gradient_bytes(x: Facts) -> float:
    """Bytes of one micro-step that add its gradients to those before, or hand them to FSDP's reduction."""
    if x.lora or x.frame.get("compiles_graphs"):
        return 0.0
    each = 8.0 if x.z == 3 else x.row["added"] * (1 - 1 / x.m)
    return float(each * x.P / (x.tp * x.pp))


def attention_seconds(x: Facts, sequence: float, rows: float, rca: float, peak: float, E: float, BW: float) -> float:
    """Attention of one micro-batch: fused kernels skip the causal half, eager ones move every score."""
    k, speeds, kernels, profile = (
        *(coefficients(name) for name in ("time", "gpu_efficiency", "kernels")), x.frame["kernels"],
    )  # fmt: skip
    if x.t["attention"] == "eager":
        flop = 4 * sequence * x.q * rows * (3 + rca) / (peak * k["eager_attention_factor"] * E)
        scores = 2 * x.arch["heads"] * rows * sequence * (1 + rca / 3) * kernels[f"{profile}.eager_traffic"]
        return flop + scores / BW
    met, window = sequence, x.arch.get("sliding_window", 0)
    if window and x.t["attention"] in ("flash", "flash_3", "flash_4") and sequence > window:
        # Twice the mean of min(position, window), for the layers that have one.
        cut = window * (2 - window / sequence)
        met = x.arch["sliding_layer_share"] * cut + (1 - x.arch["sliding_layer_share"]) * sequence
    met = min(met, 2 * math.sqrt(sequence)) if x.t["attention"] == "sparse" else met
    own, generation = f"attention.{x.s.gpu}", f"attention.{x.card['generation']}"
    reached = speeds[own if own in speeds else generation] * kernels[f"{profile}.attention_factor"]
    if x.t["attention"] in ("flash_3", "flash_4"):
        reached *= kernels[f"{x.t['attention']}.attention_factor"]
    return float(4 * met * x.q * rows * 0.5 * (3.5 + rca) / (peak * reached))
