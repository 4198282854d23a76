"""Plans of shipped scenarios on frozen prices, and their exports, for the tests of `planner export`."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from functools import cache
from typing import Any

import yaml

import planner
from planner.cli.options import scenario_of
from planner.errors import InputError
from planner.exports.export import choose_job, export
from planner.exports.facts import Given, Wishes
from planner.exports.field_map import field_maps
from planner.library.reading import read_library
from planner.library.technique_tables import read_techniques
from planner.results.plan import Assignment, Plan
from planner.scenario.scenario import SolveOptions
from tests.helpers.frozen_data import frozen_scenarios

AS_OF = datetime.date(2026, 11, 21)
FULL = "jobs.llama-2-7b-full-vs-lora.techniques"
SETTINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "quickstart": (
        "quickstart",
        (
            *("limits.providers=[runpod-community]", "limits.gpus=[A5000]", "limits.spot=false"),
            "jobs.quickstart.techniques.activation_checkpointing=selective",
        ),
    ),
    "cut": (
        "quickstart",
        (
            *("limits.providers=[runpod-community]", "limits.gpus=[A5000]", "limits.spot=false"),
            "jobs.quickstart.work={samples: 5000, tokens_per_sample: 8000}",
        ),
    ),
    "secure": (
        "quickstart",
        ("limits.providers=[aws, lambda, nebius, runpod-secure, verda]", "limits.gpus=[A5000]", "limits.spot=false"),
    ),
    "on lambda": (
        "quickstart",
        ("limits.providers=[lambda]", "limits.spot=false", "jobs.quickstart.framework=[hf-fused]"),
    ),
    "on verda": (
        "quickstart",
        ("limits.providers=[verda]", "limits.spot=false", "jobs.quickstart.framework=[hf-fused]"),
    ),
    "fsdp": (
        "llama-2-7b-full-vs-lora",
        (f"{FULL}.method=full", f"{FULL}.sharding=zero3", f"{FULL}.activation_checkpointing=full"),
    ),
    "zero2": ("llama-2-7b-full-vs-lora", (f"{FULL}.method=full", f"{FULL}.sharding=zero2")),
    "spot": ("spot-heavy", ("jobs.spot-heavy.framework=[hf, hf-fused]",)),
}
"""Name of a plan -> shipped scenario and what is changed in it."""
INSTALL = "pip install --extra-index-url https://download.pytorch.org/whl/cu128 torch==2.11.0"
"""How the packages of a run on an A5000 are installed."""
WISHES = Wishes(dataset="my/data")
LABEL = "jobs.label-2m-documents"
ON_AWS = ("limits.providers=[aws]", "limits.gpus=[H100-80GB, H200]")
GENERATION: dict[str, tuple[str, tuple[str, ...]]] = {
    "spot": ("label-2m-documents", ON_AWS),
    "merged": ("label-2m-documents", (*ON_AWS, "limits.spot=false", f"{LABEL}.adapter={{rank: 16, merged: true}}")),
    "served": ("label-2m-documents", (*ON_AWS, "limits.spot=false", f"{LABEL}.adapter={{rank: 48, served: 3}}")),
    "sglang": (
        "label-2m-documents",
        (*ON_AWS, "limits.spot=false", f"{LABEL}.techniques={{engine: sglang, weight_bits: 8, kv_bits: 8}}"),
    ),
}
"""The same of plans of generation."""


@cache
def solved(name: str) -> Plan:
    """Return one of the plans of `SETTINGS`, or with `generation ` before its name of `GENERATION`."""
    scenario, settings = SETTINGS.get(name) or GENERATION[name.removeprefix("generation ")]
    found: Plan = planner.solve(
        planner.read_scenario(str(frozen_scenarios()[scenario]), settings), SolveOptions(as_of=AS_OF)
    )
    return found


def texts(plan: Plan, *targets: str, wishes: Wishes = WISHES) -> dict[str, str]:
    """Return the exported files of the only job of a plan."""
    return export(choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None), targets, wishes, "plan.json")


def settings(plan: Plan, target: str, wishes: Wishes = WISHES) -> dict[str, Any]:
    """Return the content of the only file of a target."""
    (text,) = texts(plan, target, wishes=wishes).values()
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def changed(plan: Plan, techniques: dict[str, Any] | None = None, **changes: Any) -> Plan:
    """Return a plan whose first job is another; what follows from it is left as it was."""
    job = plan.jobs[0]
    job = job.model_copy(update={**changes, "techniques": job.techniques.model_copy(update=techniques or {})})
    return plan.model_copy(update={"jobs": (Assignment.model_validate(job.model_dump()), *plan.jobs[1:])})


@cache
def _image_plan(network: str, framework: str) -> Plan:
    job = {
        **{"name": "style", "architecture": network, "framework": [framework], "work": {"images": 40, "epochs": 50}},
        **{"global_batch": 1, "lora": {"rank": 16}},
        "techniques": {
            **{"method": "lora", "weight_bits": 16, "activation_checkpointing": "full", "sharding": "none"},
            **({"latents": "cached"} if framework == "musubi-tuner" else {}),
        },
    }
    offer = {"provider": "p", "gpu": "H200", "gpus": 1, "usd_per_hour": 3.0}
    scenario = planner.build_scenario({"name": "s", "schema": 2, "jobs": [job], "offers": [offer], "objective": "cost"})
    plan: Plan = planner.solve(scenario)
    return plan


def image_run(network: str, framework: str, **techniques: Any) -> Given:
    """Return a LoRA of a network of images on one GPU with these techniques; its figures are those of the plain one."""
    plan = changed(_image_plan(network, framework), techniques)
    return choose_job(plan, scenario_of(plan, "plan"), "plan", None)


IMAGE_RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "attention": {"lora_targets": "attention"},
    "nf4": {"weight_bits": 4, "quant": "nf4", "lora_targets": "attention"},
    "int8": {"weight_bits": 8, "quant": "int8", "lora_targets": "attention"},
    "fp8": {"weight_bits": 8, "quant": "fp8_weights"},
    "dynamic fp8": {"weight_bits": 8, "quant": "fp8_dynamic"},
    "ramtorch": {"offload": "frozen_weights", "lora_targets": "attention"},
    "swapped": {"offload": "block_swap_50", "weight_bits": 8, "quant": "fp8_weights", "latents": "cached"},
    "pairs": {"activation_checkpointing": "paired_blocks"},
    "half": {"activation_checkpointing": "every_2nd"},
    "attention in host memory": {"activation_checkpointing": "attention_offloaded"},
    "half, attention in host memory": {"activation_checkpointing": "every_2nd_attention_offloaded"},
    "cached": {"latents": "cached", "optimizer": "adamw_8bit"},
    "no checkpoints": {"activation_checkpointing": "none", "lora_targets": "attention", "latents": "cached"},
}
"""Techniques of an image run, those that no tool refuses for every network."""


def image_files(tool: str, *networks: str, runs: Iterable[str] = IMAGE_RUNS) -> dict[str, dict[str, str]]:
    """Return the exported files of a tool for these or all its networks by name, with the techniques that it has."""
    found, profiles = {}, read_techniques().frameworks
    cards = {name: card for name, card in read_library().architectures.items() if card.image is not None}
    named = {card.family: name for name, card in cards.items()}
    for network in networks or dict.fromkeys(named.get(name, name) for name in field_maps()[tool].networks):
        able = field_maps()[tool].frameworks
        framework = next(name for name in able if profiles[name].takes_network(network, cards[network].family, True))
        for run, asked in ((name, IMAGE_RUNS[name]) for name in runs):
            try:
                found[f"{network} {run}"] = export(image_run(network, framework, **asked), [tool], WISHES, "plan")
            except InputError:  # what the tool cannot express
                continue
    return found


def on_hugging_face(plan: Plan, gpu: str, count: int, instances: int = 1) -> Plan:
    """Return a plan on machines of Hugging Face's jobs."""
    moved = changed(plan, provider="huggingface", gpu=gpu, gpus=count * instances)
    return changed(
        moved, instances=instances, gpus_per_instance=count, region="any", instance=f"{count}x", spot_share=0
    )


def unsloth_plan() -> Plan:
    """Return the quickstart as Unsloth would run it: one GPU, full checkpointing."""
    techniques = {"activation_checkpointing": "full", "sharding": "none", "framework": "unsloth"}
    return changed(solved("quickstart"), techniques, framework="unsloth", gpus=1, gpus_per_instance=1, instances=1)
