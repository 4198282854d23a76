"""A law: every export of a plan to a training tool, read back, gives the job that it came from.

What a file cannot carry is in `UNCARRIED`, by tool and place, and what it does not tell apart in `SAME`, with reasons.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.exports.export import export
from planner.exports.facts import Given, Wishes
from planner.exports.field_map import field_maps
from planner.exports.read_configs import read_tool_file
from planner.library.reading import read_library
from planner.library.technique_tables import holds, read_techniques
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Assignment
from tests.helpers.plans import make_assignment, make_plan

SCENARIO = """
schema: 2
jobs: [{name: quickstart, architecture: ARCHITECTURE, work: {tokens: 10M}, lora: {train_embeddings: EMBEDDINGS}}]
offers: [{provider: x, gpu: H100-80GB, gpus: 1, usd_per_hour: 3}]
"""
TRAINERS = ("trl", "axolotl", "llamafactory", "litgpt")
ELSEWHERE = "the script that is launched with it says it"
LAUNCHED_ONE_GPU = "the command that starts the tool says how many processes there are, and FSDP or not"
CHOSEN = "the file does not name it, and it is chosen"
OF_SCRIPT = dict.fromkeys(
    (
        *(
            "architecture",
            "sequence_length",
            "work.steps",
            "packing",
            "lora.rank",
            "lora.targets",
            "lora.train_embeddings",
        ),
        *("techniques.method", "techniques.weight_bits", "techniques.quant", "techniques.attention"),
    ),
    ELSEWHERE,
)
UNCARRIED: dict[str, dict[str, str]] = {
    "trl": {"techniques.sharding": LAUNCHED_ONE_GPU, "techniques.offload": CHOSEN},
    "axolotl": {"techniques.sharding": LAUNCHED_ONE_GPU, "techniques.offload": CHOSEN},
    "llamafactory": {"techniques.sharding": LAUNCHED_ONE_GPU, "techniques.offload": CHOSEN},
    "litgpt": {
        "techniques.attention": "its kernel is PyTorch's, whichever the card has",
        "techniques.offload": "it has none",
    },
    "deepspeed": {
        **OF_SCRIPT,
        "techniques.precision": "pure 16 bit is refused, and tf32 is not told from fp32",
        "techniques.activation_checkpointing": ELSEWHERE,
        "techniques.optimizer": "an optimizer that is not on the CPUs is the script's",
        "framework": "only stage 3 tells DeepSpeed's own sharding",
    },
    "accelerate": {
        **OF_SCRIPT,
        "global_batch": ELSEWHERE,
        "techniques.precision": "weights in the type that computes need no autocast, and are not named",
        "techniques.activation_checkpointing": "only FSDP's own is in it",
        "techniques.optimizer": ELSEWHERE,
        "techniques.offload": CHOSEN,
        "framework": "only stage 3 tells DeepSpeed's own sharding",
    },
}
"""Tool -> place in a job that a file of it may leave out -> why."""
SAME = {
    ("*", "global_batch", "of several GPUs"): "files of trainers have the batch of one GPU, and no number of GPUs",
    (
        "*",
        "framework",
        "hf with zero3 and its optimizer in host memory",
    ): "only DeepSpeed does that, and the file says so",
    (
        "litgpt",
        "techniques.precision",
        "bf16",
    ): "with adapters the file says bf16-true for both, of the same memory and speed",
    (
        "llamafactory",
        "techniques.attention",
        "flash",
    ): "PyTorch's own attention runs in place of flash, and the header says so",
    ("*", "packing", "fixed"): "samples of one length need no padding, and files call both padded",
}
"""What a file does not tell from another value."""
MODELS = ("mistral-7b", "qwen2.5-7b", "phi-3-mini")


OPTIMIZERS = ["adamw", "adamw_8bit", "adamw_paged", "adamw_8bit_paged", "adamw_4bit", "adafactor"]


@st.composite
def jobs(draw: st.DrawFn, target: str) -> tuple[Assignment, bool]:
    """Return a job of a tool's frameworks with techniques that go together, and whether its embeddings are trained."""
    written = field_maps()[target].techniques

    def known(name: str, values: list[str]) -> st.SearchStrategy[str]:
        """Return a value that the tool's map has, where it has the technique."""
        return st.sampled_from([value for value in values if value in written.get(name, values)])

    full = draw(st.booleans())
    gpus = draw(st.sampled_from([1, 2, 8]))
    micro, accumulation = draw(st.integers(1, 8)), draw(st.integers(1, 16))
    quant = "none" if full else draw(st.sampled_from(["none", "nf4", "nf4_dq", "int8"]))
    framework = draw(st.sampled_from(field_maps()[target].frameworks))
    allowed = read_techniques().frameworks[framework].allowed
    sharding = "none" if gpus == 1 else draw(st.sampled_from([one for one in allowed if one not in ("none", "yafsdp")]))
    instances = 2 if sharding == "hsdp" else 1  # sharded inside of one machine it is zero3
    assume(sharding != "hsdp" or gpus == 8)
    techniques = {
        "framework": framework,
        "method": "full" if full else "lora",
        "quant": quant,
        "weight_bits": 16 if full else {"none": 16, "int8": 8}.get(quant, 4),
        "lora_rank": None if full else draw(st.integers(1, 256)),
        "lora_targets": None if full else draw(st.sampled_from(["all-linear", ("q", "v"), ("q", "k", "v", "o")])),
        "precision": draw(known("precision", ["bf16_mixed", "fp16_mixed", "bf16", "tf32", "fp32"])),
        "activation_checkpointing": draw(known("activation_checkpointing", ["none", "selective", "full"])),
        "attention": draw(known("attention", ["flash", "mem_efficient", "eager"])),
        "optimizer": draw(known("optimizer", OPTIMIZERS)),
        "sharding": sharding,
        "offload": draw(known("offload", ["none", "none", "optimizer", "optimizer_and_weights"])),
        "micro_batch": micro,
        "accumulation_steps": accumulation,
    }
    job = make_assignment(
        architecture=draw(st.sampled_from(MODELS)),
        framework=framework,
        techniques=techniques,
        gpus=gpus,
        gpus_per_instance=gpus // instances,
        instances=instances,
        gpu="H100-80GB",
        global_batch=micro * accumulation * gpus,
        sequence_length=draw(st.sampled_from([512, 2048, 4096])),
        packing=draw(st.sampled_from(["packed", "padded", "fixed"])),
        steps=draw(st.integers(1, 5000)),
    )
    if target == "litgpt":  # on one GPU it checkpoints nothing, on several every block
        techniques["activation_checkpointing"] = "none" if gpus == 1 else "full"
    facts = {"generation": "Hopper", "vendor": "NVIDIA", "bf16": True, "splits_sequences": False, **techniques}
    rules = [rule.when for rule in read_techniques().rules if rule.when.keys() <= facts.keys()]
    assume(not any(holds(when, facts) for when in rules))
    return job, not full and draw(st.booleans())


ATTEND = "attend to one another"
"""What the header of a file says where samples of a pack are not kept apart."""
APART: dict[str, Callable[[dict[str, Any]], bool]] = {
    # Without padding, by the positions of each sample (sft_trainer.py: padding_free), which flash kernels alone read.
    "trl": lambda file: (
        file["packing"] is True
        and file["packing_strategy"] in ("bfd", "bfd_split")
        and file["attn_implementation"] == "flash_attention_2"
    ),
    # Multipack, by the lengths of each sample, which flash kernels alone read.
    "axolotl": lambda file: file["sample_packing"] is True and file["attn_implementation"] == "flash_attention_2",
    # A mask of blocks, which every kernel but that of flash attention reads (data/collator.py).
    "llamafactory": lambda file: (
        file["packing"] is True and file["neat_packing"] is True and file["flash_attn"] in ("sdpa", "disabled")
    ),
    "litgpt": lambda file: False,
}
"""Tool -> whether its fields keep the samples of a pack apart."""


@pytest.mark.parametrize("target", TRAINERS)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(data=st.data())
def test_samples_of_a_pack_do_not_see_each_other_or_the_file_says_that_they_do(
    target: str, data: st.DataObject
) -> None:
    """Of every packed job that a tool can express: its fields keep them apart, or its header says otherwise."""
    job, embeddings = data.draw(jobs(target))
    packed = job.model_copy(update={"packing": "packed"})
    text = SCENARIO.replace("ARCHITECTURE", job.architecture).replace("EMBEDDINGS", str(embeddings).lower())
    text = text.replace("work:", "packing: packed, work:")
    given_job = Given(make_plan(packed), parse_scenario(text), packed)
    try:
        file = next(iter(export(given_job, [target], Wishes(model_id=job.architecture, dataset="my/data")).values()))
    except InputError:
        return
    says = ATTEND in " ".join(file.replace("#", "").split())
    event(f"{target} {'says' if says else 'keeps apart'}")
    assert APART[target](yaml.safe_load(file)) != says


def test_the_script_of_unsloth_keeps_samples_of_a_pack_apart() -> None:
    """By the strategy that it packs with, `wrapped` does not."""
    packing = field_maps()["unsloth"].techniques["packing"]
    assert packing["packed"]["train"] == {"packing": True, "packing_strategy": "bfd"}


def said_of(job: Assignment, embeddings: bool) -> dict[str, Any]:
    """Return what a scenario of the job says, by place."""
    used = job.techniques
    said: dict[str, Any] = {
        "architecture": job.architecture,
        "sequence_length": job.sequence_length,
        "work.steps": job.steps,
        "global_batch": job.global_batch,
        "packing": job.packing,
        "framework": used.framework,
    }
    for name in ("method", "precision", "activation_checkpointing", "attention", "optimizer", "sharding", "offload"):
        said[f"techniques.{name}"] = getattr(used, name)
    if used.method == "lora":
        said |= {
            "lora.rank": used.lora_rank,
            "lora.targets": used.lora_targets,
            "techniques.weight_bits": used.weight_bits,
        }
        said |= {"lora.train_embeddings": True} if embeddings else {}
        said |= {"techniques.quant": used.quant} if used.weight_bits == 4 else {}
    return said


def exported(job: Assignment, embeddings: bool, target: str) -> dict[str, Any] | None:
    """Return what is held of the file of a tool, by place; None where the tool cannot express the job."""
    text = SCENARIO.replace("ARCHITECTURE", job.architecture).replace("EMBEDDINGS", str(embeddings).lower())
    given_job = Given(make_plan(job), parse_scenario(text), job)
    try:
        files = export(given_job, [target], Wishes(model_id=job.architecture, dataset="my/data"))
    except InputError:
        return None
    name, content = next(iter(files.items()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(content)
        found = read_tool_file(path)
    return {".".join(map(str, place)): one.value for place, one in found.held.items()}


def agrees(target: str, place: str, value: Any, held: Any, job: Assignment) -> bool:
    """Return whether what is held of a place is what the job has there."""
    if place == "lora.targets" and value != "all-linear":
        (card,) = read_library([job.architecture]).architectures.values()
        chosen = read_techniques().linears.chosen
        return held != "all-linear" and chosen(card.family, tuple(held)) == chosen(card.family, value)
    if place == "global_batch":  # of all GPUs where the file says so, else of one
        return held in (value, value // job.gpus)
    if place == "framework" and job.techniques.sharding == "zero3" and job.techniques.offload == "optimizer":
        return held in (value, "deepspeed")
    one_of = held if isinstance(held, list) else [held]
    return value in one_of or (target, place, value) in SAME or ("*", place, value) in SAME


@pytest.mark.parametrize("target", UNCARRIED)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_an_exported_file_is_read_as_the_job_that_it_came_from(target: str, data: st.DataObject) -> None:
    """Each place is held with the value of the job, or listed as one that the tool's file does not carry."""
    job, embeddings = data.draw(jobs(target))
    held = exported(job, embeddings, target)
    event(f"{target} {'refuses' if held is None else 'writes'}")
    if held is None:
        return
    for place, value in said_of(job, embeddings).items():
        if place not in held:
            assert place in UNCARRIED[target], (place, value, "is lost")
            continue
        assert agrees(target, place, value, held[place], job), (place, value, held[place])
    extra = held.keys() - said_of(job, embeddings).keys()
    assert not extra, (extra, "is held of a job that does not have it")


@pytest.mark.slow
@pytest.mark.parametrize("target", UNCARRIED)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_the_law_holds_for_many_jobs(target: str, data: st.DataObject) -> None:
    """The same with many more."""
    test_an_exported_file_is_read_as_the_job_that_it_came_from.hypothesis.inner_test(target, data)  # type: ignore[attr-defined]


@pytest.mark.parametrize("target", TRAINERS)
def test_the_law_is_not_empty(target: str) -> None:
    """A plain job of each trainer is written, and nothing of it is lost but what is listed."""
    framework = "litgpt" if target == "litgpt" else "hf"
    techniques = {"framework": framework, "activation_checkpointing": "none" if target == "litgpt" else "full"}
    job = make_assignment(framework=framework, techniques=techniques, gpu="H100-80GB", packing="padded")
    held = exported(job, False, target)
    assert held is not None and {"architecture", "work.steps", "lora.rank", "techniques.method"} <= held.keys()


@pytest.mark.parametrize("target", ["trl", "axolotl", "llamafactory"])
@pytest.mark.parametrize(
    ("lora", "model", "changed", "place"),
    [
        ("{dora: true}", "mistral-7b", {"dora": True}, "lora.dora"),
        (
            "{adapt_head: true, targets: [q, v]}",
            "mistral-7b",
            {"adapt_head": True, "lora_targets": ("q", "v")},
            "lora.adapt_head",
        ),
        (
            "{experts_16_bit: true, targets: attention}",
            "mixtral-8x7b",
            {"experts_16_bit": True, "weight_bits": 4, "quant": "nf4_dq", "lora_targets": "attention"},
            "lora.experts_16_bit",
        ),
    ],
)
def test_what_adapters_have_besides_their_rank_is_read_back(
    target: str, lora: str, model: str, changed: dict[str, Any], place: str
) -> None:
    """Magnitudes, adapters at the head, and experts that stay in 16 bits."""
    job = make_assignment(architecture=model, techniques={"framework": "hf", **changed})
    text = SCENARIO.replace("ARCHITECTURE", model).replace("{train_embeddings: EMBEDDINGS}", lora)
    files = export(
        Given(make_plan(job), parse_scenario(text), job), [target], Wishes(model_id=model, dataset="my/data")
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / next(iter(files))
        path.write_text(next(iter(files.values())))
        found = read_tool_file(path)
    assert {".".join(map(str, at)): one.value for at, one in found.held.items()}[place] is True


def test_quantised_experts_are_exported_for_the_tool_that_has_them() -> None:
    """Axolotl quantises experts that are no linear layers; TRL and LLaMA-Factory leave them in 16 bits."""
    changed = {"framework": "hf", "weight_bits": 4, "quant": "nf4", "lora_targets": "attention"}
    job = make_assignment(architecture="mixtral-8x7b", techniques=changed)
    text = SCENARIO.replace("ARCHITECTURE", "mixtral-8x7b").replace(
        "{train_embeddings: EMBEDDINGS}", "{targets: attention}"
    )
    plan = Given(make_plan(job), parse_scenario(text), job)
    wishes = Wishes(model_id="mixtral-8x7b", dataset="my/data")
    assert "quantize_moe_experts: true" in "".join(export(plan, ["axolotl"], wishes).values())
    for target in ("trl", "llamafactory"):
        with pytest.raises(InputError, match="no linear layers in Transformers 5"):
            export(plan, [target], wishes)


@pytest.mark.parametrize("target", ["trl", "axolotl", "llamafactory"])
@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "w1"]])
def test_adapters_on_experts_are_refused_where_the_tool_would_leave_them_out(target: str, targets: Any) -> None:
    """PEFT adapts linear layers, which experts are not in Transformers 5: the run would not be what was planned."""
    adapted = targets if isinstance(targets, str) else tuple(targets)
    job = make_assignment(architecture="mixtral-8x7b", techniques={"framework": "hf", "lora_targets": adapted})
    text = SCENARIO.replace("ARCHITECTURE", "mixtral-8x7b").replace(
        "{train_embeddings: EMBEDDINGS}", f"{{targets: {json.dumps(targets)}}}"
    )
    plan = Given(make_plan(job), parse_scenario(text), job)
    with pytest.raises(InputError, match=r"plan with lora\.targets attention"):
        export(plan, [target], Wishes(model_id="mixtral-8x7b", dataset="my/data"))


@pytest.mark.parametrize("target", ["trl", "axolotl", "llamafactory"])
def test_modules_are_named_where_all_linear_of_peft_stops(target: str) -> None:
    """PEFT refuses out_proj of Mamba-2 in Nemotron-H, which its all-linear would reach."""
    job = make_assignment(architecture="nemotron-nano-9b-v2", techniques={"framework": "hf"})
    text = SCENARIO.replace("ARCHITECTURE", "nemotron-nano-9b-v2").replace("{train_embeddings: EMBEDDINGS}", "{}")
    wishes = Wishes(model_id="nvidia/NVIDIA-Nemotron-Nano-9B-v2", dataset="my/data")
    (file, *_) = export(Given(make_plan(job), parse_scenario(text), job), [target], wishes).values()
    assert "in_proj" in file and "mixer.down_proj" in file
    assert "out_proj" not in file and "all-linear" not in file
