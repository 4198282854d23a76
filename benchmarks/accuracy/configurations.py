"""From a row to everything that the estimates take: the one place where a published run becomes a setup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from benchmarks.accuracy.hosts import Host, gpu_of_row, host_of_row
from benchmarks.accuracy.lengths import longest_sample, typical_share
from benchmarks.accuracy.measurements import Row
from benchmarks.accuracy.networks import Incomplete, NotExpressible, as_framework_builds, network_of_row
from benchmarks.accuracy.recipes import (
    casts_each_product,
    checkpointing_of_row,
    checkpointing_open,
    degree,
    first_flash_share,
    framework_of_row,
    fuses_adapters,
    in_host_memory,
    keeps_16bit,
    lora_targets,
    loss_stays_16bit,
    optimizer_bytes,
    partial_share,
    precision_open,
    precisions_of_row,
    recipe_of_row,
    stated_kernels,
    trains_embeddings,
    usual_sharding,
    weights_dtype,
    zero_group,
)
from benchmarks.accuracy.releases import keeps_inputs_on_card, losses_of_row, pipelined_batch
from planner.configurations.coefficients import RecipeCoefficients, head_gradient_bytes, recipe_coefficients
from planner.configurations.recipe import GpuClass, Recipe, framework_of
from planner.estimates.inputs import (
    CHECKPOINT_EVERY_2ND,
    CHECKPOINT_FULL,
    CHECKPOINT_OFFLOAD,
    Activations,
    Kernels,
    Layout,
    Network,
    Stack,
    States,
)
from planner.estimates.weights import with_modules
from planner.library.schema import Library
from planner.scenario.job import Job
from planner.scenario.job_stages import Work
from planner.scenario.techniques import LoraSettings

LOSS_ROWS = {"fused-16bit": "chunked"}
"""Loss kernels that a table names otherwise than models/techniques: logits in 16 bit and one chunk."""

ONE_STEP_BY_DEFAULT = ("maxtext",)
"""Frameworks that take a global batch in one micro-step by default."""

BATCH_DECIDES = ("neuronx",)
"""Frameworks whose runs accumulate over hundreds of micro-batches: without the global batch no step can be told."""

MOVED_BYTES = ("adapter_pass_bytes", "reduced_bytes", "optimizer_traffic_bytes", "added_bytes", "handed_bytes")
"""Fields of `States` that count traffic alone: no memory depends on them."""

CHUNK_LAYERS = 2
"""Layers per chunk of interleaved pipelines in NeMo's published recipes, where the stage divides into such."""


class Setting(NamedTuple):
    """One way to run that a row allows."""

    share: float
    states: States
    activations: Activations


@dataclass(frozen=True)
class Configuration:
    """One row in the units of the estimates.

    `settings` share a run: two of them where only some layers are checkpointed, or where a row leaves a choice open.
    `host` is None where the row names no card: then there is no speed, and nothing caps the memory.
    """

    row: Row
    framework: str
    profiled: bool
    recipe: Recipe
    network: Network
    layout: Layout
    states: States
    settings: tuple[Setting, ...]
    stack: Stack
    kernels: Kernels
    host: Host | None
    lengths_assumed: bool  # processed lengths come from a mean
    left_open: bool  # settings are readings of the row, of which one is true


def configuration_of(row: Row, library: Library, as_unknown: bool = False) -> Configuration:
    """Return the configuration of a row; `as_unknown` ignores its framework.

    Raises Incomplete (a column is blank) or NotExpressible (the estimate has no word for it).
    """
    each = [_configuration(one, library, as_unknown) for one in precisions_of_row(row)]
    settings = [one._replace(share=one.share / len(each)) for found in each for one in found.settings]
    return replace(each[0], row=row, settings=tuple(settings))


def _configuration(row: Row, library: Library, as_unknown: bool) -> Configuration:
    network = as_framework_builds(network_of_row(row, library), row.text("framework"))
    framework = framework_of_row(row, library, as_unknown)
    card = _card_class(row, library)
    recipe = recipe_of_row(row, card, framework)
    if recipe.method == "lora":
        network = _with_named_modules(network, lora_targets(row), library)
    profile = framework_of(library, framework)
    job = _job(row, framework)
    setup = recipe_coefficients(recipe, job, network, library)
    stated = stated_kernels(row) if profile.unknown else None
    if profile.compiled and row.text("compile") == "no":
        stated = "eager"
    if profile.kernels in ("eager", "hf") and row.text("compile") == "yes":
        stated = "compiled"
    if stated is not None:
        setup = _as_stated(
            setup, recipe_coefficients(replace(recipe, framework=stated), job, network, library), profile.unknown
        )
    layout = _layout(row, recipe, stated or framework, network)
    if profile.unknown and recipe.method == "lora" and "pure" in row.text("precision"):
        setup = _in_16_bit(setup, library)
    states = _states(row, recipe, setup.states)
    if recipe.method == "lora" and fuses_adapters(row, network):
        states = replace(states, adapter_pass_bytes=library.techniques.bytes.adapters["fused"].adapter_pass_bytes)
    each = [
        _activations(row, network, setup.activations, states, recipe.zero_stage, loss, library)
        for loss in losses_of_row(row)
    ]
    open_sequences = profile.unknown and stated is None and layout.tensor > 1
    if open_sequences:  # nothing says whether it cuts norms and residuals over the tensor-parallel ranks, too
        each = [replace(one, sequence_parallel=cut) for one in each for cut in (0, 1)]
    host = host_of_row(row, library, recipe.precision) if card else None
    nodes = host.gpus_per_node if host else 8
    return Configuration(
        row=row,
        framework=framework,
        profiled=profile.profiled,
        recipe=recipe,
        network=network,
        layout=replace(layout, gpus_per_node=min(nodes, layout.gpus)),
        states=states,
        settings=_settings(row, states, each),
        stack=setup.stack,
        kernels=_kernels(row, framework, stated or framework, setup.kernels, library),
        host=host,
        lengths_assumed=bool(row.lengths and not row.lengths.full),
        left_open=open_sequences or _left_open(row),
    )


def _left_open(row: Row) -> bool:
    """Return whether a row leaves a setting to its reader, so that its settings are equally likely readings."""
    return checkpointing_open(row) or precision_open(row) or len(losses_of_row(row)) > 1


def require_columns(row: Row, library: Library) -> None:
    """Raise Incomplete where a column that every estimate needs is blank.

    A row that states something inexpressible is our gap only if this passes.
    """
    with suppress(NotExpressible):
        network_of_row(row, library)
    with suppress(NotExpressible):
        checkpointing_of_row(row)
    gpus = row.count("num_gpus")
    accumulated = row.count("grad_accum") is not None and row.count("global_batch") is not None
    blank = {
        "the method": not row.text("method"),
        "the number of GPUs": gpus is None,
        "how the network is spread over its GPUs": gpus != 1 and not row.text("sharding") and not usual_sharding(row),
        "the sequence length": not row.text("seq_len"),
        "the micro-batch": row.count("micro_batch") is None and not accumulated and not _one_step(row),
    }
    for what in (name for name, is_blank in blank.items() if is_blank):
        raise Incomplete(what)


def _card_class(row: Row, library: Library) -> GpuClass | None:
    try:
        return GpuClass.of(gpu_of_row(row, library))
    except (Incomplete, NotExpressible):  # memory can be told without a card
        return None


def _with_named_modules(network: Network, targets: str | tuple[str, ...], library: Library) -> Network:
    """Return a network without a card with the modules of the family that its adapters' names belong to."""
    table = library.techniques.linears
    names = [] if isinstance(targets, str) else [name for name in targets if name in table.names]
    family = table.family_of(names) if names and not network.linears else None
    return with_modules(network, table.modules[family]) if family else network


def _as_stated(setup: RecipeCoefficients, stated: RecipeCoefficients, unknown: bool) -> RecipeCoefficients:
    """Return the setup with the kernels of a framework whose kernels its row states.

    An unknown framework that runs them also checkpoints as they do, and moves the bytes that they move.
    """
    if not unknown:
        return replace(setup, kernels=stated.kernels)
    moved = {name: getattr(stated.states, name) for name in MOVED_BYTES}
    return replace(
        setup,
        kernels=stated.kernels,
        states=replace(setup.states, **moved),
        activations=replace(setup.activations, checkpointing=stated.activations.checkpointing),
    )


def _in_16_bit(setup: RecipeCoefficients, library: Library) -> RecipeCoefficients:
    """Return the setup with all weights in 16 bit, those of the adapters and the residual stream among them."""
    adapters = library.techniques.bytes.adapters["bf16"].model_dump()
    states, activations = replace(setup.states, **adapters), replace(setup.activations, residual_bytes=2.0)
    return replace(setup, states=states, activations=activations)


def _job(row: Row, framework: str) -> Job:
    """Return the part of a job that a recipe's coefficients read: framework, rank and targets."""
    lora = {}
    if row.text("method") in ("lora", "qlora"):
        lora = {
            "lora": LoraSettings(
                rank=row.count("lora_rank") or 16, targets=lora_targets(row), train_embeddings=trains_embeddings(row)
            )
        }  # type: ignore[arg-type]
    return Job.model_validate(
        {"name": "row", "architecture": "row", "work": Work(steps=1), "framework": framework, **lora}
    )


def _layout(row: Row, recipe: Recipe, framework: str, network: Network) -> Layout:
    gpus = row.count("num_gpus")
    sequence = row.count("seq_len")
    if sequence is None:
        raise Incomplete("the sequence length")
    assert gpus is not None  # recipe_of_row has seen it
    context = degree(row, "cp")
    ranks = gpus / (recipe.tensor_parallel * recipe.pipeline_parallel * context)
    if ranks < 1 or ranks != int(ranks):
        raise NotExpressible("degrees of parallelism that do not divide the GPUs")
    micro, rounds = _batches(row, int(ranks))
    if row.text("framework") == "torchtitan" and recipe.pipeline_parallel > 1 and rounds == 1:
        micro, rounds = pipelined_batch(row, micro, recipe.pipeline_parallel)
    if "layer split" in row.text("sharding"):
        rounds = 1  # stages take turns: nothing is in flight behind a micro-batch, and more of them hide nothing
    interleave = 1
    if framework == "nemo" and recipe.pipeline_parallel > 1:
        stage = math.ceil(network.layers / recipe.pipeline_parallel)
        interleave = stage // CHUNK_LAYERS if stage % CHUNK_LAYERS == 0 else 1
    return Layout(
        micro_batch=micro,
        accumulation=rounds,
        sequence=float(sequence),
        longest_sequence=longest_sample(row, float(sequence)),
        gpus=gpus,
        tensor=recipe.tensor_parallel,
        pipeline=recipe.pipeline_parallel,
        interleave=interleave,
        context=context,
        zero_stage=recipe.zero_stage,
        hybrid=int(recipe.sharding == "hsdp" or (zero_group(row) or ranks) < ranks),
        variable_length=typical_share(row, float(sequence)),
    )


def _batches(row: Row, ranks: int) -> tuple[int, int]:
    """Return the micro-batch and micro-steps; one micro-step where accumulation is not stated."""
    micro, rounds, whole = row.count("micro_batch"), row.count("grad_accum"), row.count("global_batch")
    if rounds is None and _one_step(row):
        rounds = 1
    if micro is None and whole is not None and rounds is not None and whole % (ranks * rounds) == 0:
        micro = whole // (ranks * rounds)
    if micro is None:
        raise Incomplete("the micro-batch")
    if rounds is None and whole is None and row.text("framework") in BATCH_DECIDES:
        raise Incomplete("the global batch")
    if rounds is None:
        rounds = math.ceil(whole / (micro * ranks)) if whole is not None else 1
    return micro, rounds


def _one_step(row: Row) -> bool:
    """Return whether a row's framework accumulates only where that is set, and the whole batch is stated."""
    return row.text("framework") in ONE_STEP_BY_DEFAULT and row.count("global_batch") is not None


def _states(row: Row, recipe: Recipe, states: States) -> States:
    weights = weights_dtype(row)
    changes: dict[str, Any] = optimizer_bytes(row) | in_host_memory(row, recipe.zero_stage)
    if recipe.quant in ("nf4", "nf4_dq") and (weights in ("bf16", "fp16") or keeps_16bit(row)):
        # A base loaded in 16 bit without the k-bit preparation; plugins that load it so quantise the scales too.
        changes |= {"weight_bytes": 0.5159, "embedding_bytes": 2.0, "gathered_bytes": 0.5159}
    if recipe.method == "lora" and recipe.quant == "none" and weights == "fp32":
        changes |= {"weight_bytes": 4.0, "embedding_bytes": 4.0}
        if recipe.activation_checkpointing == "none" and "mixed" in row.text("precision"):
            # Autocast hands the backward pass a 16-bit copy of every frozen weight, which nothing frees before.
            changes |= {"cast_bytes": 2.0}
    if casts_each_product(row):
        changes |= {"gathered_bytes": 4.0, "reduced_bytes": 4.0}
    if recipe.quant == "int8" and "gptq" in row.text("weight_quant"):
        # PEFT's k-bit preparation leaves GPTQ networks as they are; a scale and a zero per group of 128.
        changes |= {"weight_bytes": 1.02, "embedding_bytes": 2.0, "gathered_bytes": 1.02}
    return replace(states, **changes)


def _activations(
    row: Row, network: Network, activations: Activations, states: States, zero_stage: int, loss: str, library: Library
) -> Activations:
    prepared = bool(states.quantised and states.embedding_bytes == 4.0)
    changes = _loss(row, network, states, zero_stage, loss, library)
    if states.quantised and not prepared and activations.residual_bytes == 4.0 and row.count("num_gpus") == 1:
        changes["residual_bytes"] = 2.0
    if casts_each_product(row):
        # A loop of its own: the outputs of the last step live on, logits (4 bytes) and cache, until the next ones come.
        changes |= {"residual_bytes": 4.0, "keeps_cache": 1}
        changes["logit_bytes"] = changes.get("logit_bytes", activations.logit_bytes) + 4.0
    words, text = row.text("precision"), row.text("act_ckpt")
    if prepared and "compute" in words and "autocast" not in words and "mixed" not in words:
        changes["fp32_paths"] = 1  # only the type in which the quantised linears compute is said
    if "every 2nd" in text or text == "selective (layer)":
        changes["checkpointing"] = CHECKPOINT_EVERY_2ND
    if row.text("framework") == "unsloth" and keeps_inputs_on_card(row):
        changes["checkpointing"] = CHECKPOINT_FULL
    if ("offload" in text and text != "all_offloaded") or "activations" in row.text("cpu_offload"):
        changes["checkpointing"] = CHECKPOINT_OFFLOAD
    if row.text("compile") in ("yes", "no"):
        changes["compiled"] = int(row.text("compile") == "yes")
    if "sequence parallel" in row.text("sharding"):
        changes["sequence_parallel"] = 1
    return replace(activations, **changes)


def _loss(row: Row, network: Network, states: States, zero_stage: int, kernel: str, library: Library) -> dict[str, Any]:
    """Return the bytes of the loss kernel that a row allows, as changes of `Activations`."""
    prepared = bool(states.quantised and states.embedding_bytes == 4.0)
    losses = library.techniques.bytes.loss
    if row.text("framework") == "unsloth" and not keeps_inputs_on_card(row):
        kernel = "liger"
    if kernel == "hf" and (prepared or casts_each_product(row)):
        kernel = "hf-prepared"
    if kernel == "hf" and loss_stays_16bit(row, network):
        kernel = "hf-16bit"
    loss = losses.get(LOSS_ROWS.get(kernel, kernel))
    if loss is None:
        return {}
    early = head_gradient_bytes(states, zero_stage) if loss.gradient_in_forward else 0.0
    return {
        "logit_bytes": loss.logit_bytes,
        "logits_materialised": int(loss.materialised),
        "head_gradient_bytes": early,
    }


def _settings(row: Row, states: States, each: Sequence[Activations]) -> tuple[Setting, ...]:
    """Return the settings that a row allows; `each` are equally likely."""
    share = 0.5 if checkpointing_open(row) else partial_share(row)
    shares = [(1.0, None)] if share is None else [(share, CHECKPOINT_FULL), (1.0 - share, None)]
    return tuple(
        Setting(part / len(each), states, one if code is None else replace(one, checkpointing=code))
        for part, code in shares
        for one in each
    )


def _kernels(row: Row, framework: str, like: str, kernels: Kernels, library: Library) -> Kernels:
    """Return the kernels of a row; `like` is the framework whose kernels they are."""
    values = library.calibrations["kernels"]
    # The published mixtures trained under Transformers 4, which looped over experts; its release 5 groups them, and a
    # row that names its implementation is what it says (Transformers documentation, "Experts backends").
    profile, stated = library.techniques.frameworks[like].kernels, row.text("experts_implementation")
    looped = values.value(f"{profile}.naive_experts") if stated in ("", "eager") else 0.0
    kernels = replace(kernels, naive_experts=looped)
    if row.text("sharding") == "yafsdp":
        exposed = values.value("yafsdp.exposed_share") * (1.0 - kernels.overlap)
        kernels = replace(kernels, overlap=1.0 - exposed)
    if row.text("attention_kernel").startswith("cudnn"):  # PyTorch's own choice where a run asks for sdpa
        gain = values.value("fused.attention_factor") / values.value("hf.attention_factor")
        kernels = replace(kernels, attention_factor=gain * kernels.attention_factor)
    if (share := first_flash_share(row, framework)) > 0.0:
        first = values.value("flash_1.attention_factor")
        kernels = replace(kernels, attention_factor=first / (share + (1.0 - share) * first))
    return kernels
