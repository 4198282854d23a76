"""Every option and argument of every command that takes a name: in any case and spelling; unknown ones are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from planner.cli import main
from planner.configurations.recipe import framework_of
from planner.library.reading import read_library

JOBS = {
    "name": "two", "schema": 2,
    "jobs": [
        {"name": name, "architecture": "tinyllama-1.1b", "work": {"tokens": "2M"}, "techniques": {"method": "lora"}}
        for name in ("First-Job", "second_job")
    ],
    "offers": [{"provider": "runpod", "gpu": "H100-80GB", "gpus": 1, "usd_per_hour": 3.0}],
}  # fmt: skip
ESTIMATE = ("estimate", "tinyllama-1.1b", "RTX3090")
SERVED = (*ESTIMATE, "--inference")
SOLVE = ("solve", "jobs.json")
TRIED: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    # command and option: the command in which it is tried, and a right name in another spelling
    ("calibrate", "--gpu"): (("calibrate", "log.csv"), "rtx 3090"),
    ("calibrate", "--job"): (("calibrate", "log.csv", "--gpu", "A40", "--scenario", "jobs.json"), "first job"),
    ("estimate", "MODEL"): (("estimate", "--gpu", "RTX3090"), "TinyLlama 1.1B"),
    ("estimate", "CARD"): (("estimate", "tinyllama-1.1b"), "rtx 3090"),
    ("estimate", "--gpu"): (("estimate", "tinyllama-1.1b"), "RTX_3090"),
    ("estimate", "--architecture"): (("estimate", "--gpu", "RTX3090"), "TinyLlama_1.1B"),
    ("estimate", "--engine"): (SERVED, "VLLM"),
    ("estimate", "--weight-format"): (SERVED, "AWQ"),
    ("estimate", "--use"): (SERVED, "Offline"),
    ("estimate", "--framework"): (ESTIMATE, "HF Fused"),
    ("estimate", "--rl"): (ESTIMATE, "GRPO"),
    ("estimate", "--rollout-gpu"): ((*ESTIMATE, "--rl", "grpo", "--rollout-gpus", "1"), "rtx 4090"),
    ("estimate", "--rollout-engine"): ((*ESTIMATE, "--rl", "grpo"), "SGLang"),
    ("estimate", "--reward-model"): ((*ESTIMATE, "--rl", "grpo"), "Mistral 7B"),
    ("estimate", "--preference"): (ESTIMATE, "DPO"),
    ("estimate", "--compared-with"): ((*ESTIMATE, "--preference", "dpo"), "Precomputed"),
    ("estimate", "--method"): (ESTIMATE, "LoRA"),
    ("estimate", "--activation-checkpointing"): (ESTIMATE, "Full"),
    ("estimate", "--attention"): (ESTIMATE, "Flash"),
    ("estimate", "--offload"): (ESTIMATE, "Optimizer"),
    ("estimate", "--precision"): (ESTIMATE, "BF16"),
    ("estimate", "--quant"): (ESTIMATE, "NF4"),
    ("estimate", "--optimizer"): (ESTIMATE, "AdamW 8bit"),
    ("estimate", "--interconnect"): (ESTIMATE, "PCIe"),
    ("estimate", "--packing"): ((*ESTIMATE, "--tokens-per-sample", "500"), "Padded"),
    ("estimate", "--tower"): (("estimate", "qwen3-vl-2b", "H100-80GB", "--image-size", "448"), "Frozen"),
    ("estimate", "--ema"): (("estimate", "pixart-sigma", "H100-80GB"), "GPU"),
    ("estimate", "--sharding"): ((*ESTIMATE, "--gpus", "2"), "ZeRO-2"),
    ("estimate", "--lora-targets"): (ESTIMATE, "Attention"),
    ("architectures list", "--family"): (("architectures", "list"), "LLAMA"),
    ("architectures show", "NAME"): (("architectures", "show"), "Llama 3.1 8B"),
    ("gpus show", "NAME"): (("gpus", "show"), "h100 80gb"),
    ("offers list", "--provider"): (("offers", "list"), "RunPod"),
    ("offers list", "--gpu"): (("offers", "list"), "h100"),
    ("offers show", "NAME"): (("offers", "show"), "Lambda/ANY/gpu-1x-a10"),
    ("schema", "WHAT"): (("schema",), "What If"),
    ("scenarios show", "NAME"): (("scenarios", "show"), "QuickStart"),
    ("solve", "SCENARIO"): (("solve", "--set", "limits.gpus=[A5000]"), "QuickStart"),
    ("solve", "--method"): (("solve", "--model", "tinyllama-1.1b", "--tokens", "1M", "--gpus", "H200"), "QLoRA"),
    ("solve", "--objective"): (("solve", "--model", "tinyllama-1.1b", "--tokens", "1M", "--gpus", "H200"), "Time"),
    ("solve", "--model"): (("solve", "--tokens", "1M", "--gpus", "H200"), "TinyLlama 1.1B"),
    ("solve", "--gpus"): (("solve", "--model", "tinyllama-1.1b", "--tokens", "1M"), "h200"),
    ("solve", "--providers"): (("solve", "--model", "tinyllama-1.1b", "--tokens", "1M", "--gpus", "H100"), "RunPod"),
    ("solve", "--solver"): (SOLVE, "HiGHS"),
    ("solve", "--for"): (SOLVE, "Axolotl"),
    ("frontier", "--by"): (("frontier", "jobs.json", "--points", "2"), "Provider"),
    ("frontier", "--job"): (("frontier", "jobs.json"), ""),
    ("explain", "--why-not"): (("explain", "jobs.json"), "gpu=h100_80gb"),
    ("explain", "--technique"): (("explain", "jobs.json"), "Larger Batch"),
    ("export", "--job"): (("export", "plan.json", "--to", "slurm"), "first_job"),
    ("export", "--to"): (("export", "plan.json", "--job", "First-Job"), "Slurm"),
    ("probe", "--job"): (("probe", "plan.json"), "first_job"),
    ("track", "--job"): (("track", "plan.json", "log.csv"), "first_job"),
    ("report", "--figure"): (("report", "plan.json", "-o", "x.svg"), "Bill"),
    ("report", "--format"): (("report", "plan.json", "-o", "x", "--figure", "bill"), "SVG"),
    ("report", "--without"): (("report", "plan.json", "-o", "x.html"), ""),
    ("prices update", "--provider"): (("prices", "update"), ""),
    ("prices diff", "--provider"): (("prices", "diff"), ""),
    ("market fit", "--only"): (("market", "fit", "trace.json"), ""),
}  # fmt: skip
SAME = {
    # an option whose command reads it with the code of another command
    **{("calibrate", f"--{name}"): ("estimate", f"--{name}") for name in (
        "activation-checkpointing", "attention", "interconnect", "latents", "method", "offload", "optimizer",
        "precision", "quant", "sharding",
    )},
    ("estimate", "--latents"): ("estimate", "--offload"),
}  # fmt: skip
NO_NAME = {
    # numbers, days, files, settings, and names that the user gives to a thing
    *(
        "--accumulation-steps",
        "--as-of",
        "--budget",
        "--check",
        "--cluster",
        "--concurrency",
        "--dataset",
        "--date",
        "--deadline",
        "--engine-release",
    ),
    *(
        "--epochs",
        "--from",
        "--global-batch",
        "--inventory",
        "--kv-bits",
        "--lengths",
        "--losses",
        "--model-id",
        "--name",
        "--now",
    ),
    *(
        "--losses",
        "--offline",
        "--output",
        "--plan",
        "--plot",
        "--policy",
        "--samples",
        "--scenario",
        "--sequence-length",
        "--set",
        "--share",
        "--started",
    ),
    *("--answers", "--longest-output", "--pairs", "--prompts", "--steps"),
    *("--tokens", "--tokens-per-sample", "--trace", "--vary", "--max-gpus", "--input", "--prefix", "--requests"),
    *("--image-size", "--max-pixels"),
    *("FILE", "FILES", "LOGS", "PLAN_FILE", "TRACES", "WORDS"),
}
NAMING = {("prices check", "--provider"), ("offers import", "--provider"), ("architectures import", "MODEL")}
"""Options that say what something is called: of whom the offers of a file are, and a repository elsewhere."""


def options() -> Iterator[tuple[str, str]]:
    """Yield every command with each of its options and arguments that takes a text or one of some words."""

    def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        if isinstance(command, click.Group):
            for name in command.commands:
                yield from walk(command.commands[name], (*path, name))
            return
        for one in command.params:
            is_text = isinstance(one.type, click.Choice) or one.type is click.STRING
            if is_text and not getattr(one, "is_flag", False):
                name = one.opts[-1] if isinstance(one, click.Option) else (one.name or "").upper()
                yield " ".join(path), name

    yield from walk(main, ())


def test_every_option_that_takes_a_name_is_tried() -> None:
    """A new option is tried below, or is said to take no name. Options of a question are tried with `solve`."""
    known = {*TRIED, *SAME, *NAMING}
    shared = {name for command, name in TRIED if command == "solve"}
    left = {one for one in options() if one not in known and one[1] not in NO_NAME and one[1] not in shared}
    assert not left, sorted(left)
    assert {*TRIED, *SAME, *NAMING} <= {*options()}


def answer(base: tuple[str, ...], option: str, word: str) -> click.testing.Result:
    return CliRunner().invoke(main, [*base, *([option] if option.startswith("-") else []), word])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the scenario, its plan and a log."""
    monkeypatch.chdir(tmp_path)
    Path("jobs.json").write_text(json.dumps(JOBS), encoding="utf-8")
    Path("log.csv").write_text("step,seconds\n1,2.0\n2,4.0\n3,6.0\n4,8.0\n", encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def plan_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the plan of the scenario, solved once."""
    path = tmp_path_factory.mktemp("plan") / "jobs.json"
    path.write_text(json.dumps(JOBS), encoding="utf-8")
    found = CliRunner().invoke(main, ["solve", str(path), "--json"])
    return found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("tried", [one for one, (_, word) in TRIED.items() if word], ids=" ".join)
def test_a_name_is_read_in_any_spelling(tried: tuple[str, str], folder: Path, plan_text: str) -> None:
    """What is wrong afterwards, if anything, is not the name."""
    (folder / "plan.json").write_text(plan_text, encoding="utf-8")
    base, word = TRIED[tried]
    found = answer(base, tried[1], word)
    assert found.exit_code in (0, 2), found.output
    refused = ("unknown", "not one of", "is not a", "no job", "nothing is known", "no offers", "no shipped")
    assert found.exit_code == 0 or not any(word in found.output for word in refused), found.output


@pytest.mark.parametrize("tried", list(TRIED), ids=" ".join)
def test_an_unknown_name_is_refused_with_three_at_most(tried: tuple[str, str], folder: Path, plan_text: str) -> None:
    """Exit code 2, the name as it was written, and the nearest ones; never a list of all."""
    (folder / "plan.json").write_text(plan_text, encoding="utf-8")
    base, word = TRIED[tried]
    key = f"{word.partition('=')[0]}=" if "=" in word else ""
    found = answer(base, tried[1], f"{key}Zyxq")
    said = " ".join(found.output.split())
    assert found.exit_code == 2, said
    if tried[1] not in ("--only", "--job") or base[0] not in ("market", "frontier"):
        assert "Zyxq" in said
        fix = said.rpartition(";")[2] if "nearest" in said or "did you mean" in said else ""
        assert fix.count(",") <= 3 and len(said) < 500, said


def test_the_profile_of_a_framework_is_found_in_any_spelling() -> None:
    """An unknown one names the nearest three, not all."""
    library = read_library([])
    assert framework_of(library, "HF_Fused") is framework_of(library, "hf-fused")
    with pytest.raises(KeyError) as caught:
        framework_of(library, "torchtun")
    assert "did you mean torchtune" in str(caught.value) and str(caught.value).count(",") <= 3
