"""The table of techniques is the only place that lists them: a made-up value in a copy of it is everywhere."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from planner.errors import LibraryError
from planner.library import technique_tables as techniques
from planner.library.reading import read_library
from planner.library.technique_tables import TECHNIQUE_FIELDS, read_techniques
from planner.scenario.scenario import scenario_schema

ROOT = Path(__file__).parent.parent.parent
VALUES = ROOT / "models" / "techniques" / "values.yaml"

FP8 = {
    # file: what is put before which line. A real technique needs a golden case and the CHANGELOG besides.
    "values.yaml": {
        "    tf32: {compute: tf32}\n": "    fp8: {words: FP8 mixed, technique: mixed_precision, compute: 8-bit}\n",
        "  16-bit: {peak:": "  8-bit: {peak: [tensor16_tflops], linear_peak: fp8_tflops,"
        " linear_share: linear_share.fp8_torch, element_bytes: 2}\n",
    },
    "bytes.yaml": {
        "  tf32: {w: 4": "  fp8: {w: 4, g: 4, o: 8, t: 4, cast: 1, traffic: 30, reduced: 4, added: 12, gathered: 1}\n"
    },
    "rules.yaml": {
        "  - when: {attention: flash": "  - when: {precision: fp8, framework: [hf]}\n    reason: hf has no fp8 recipe\n"
        '    source: "made up"\n'
    },
}
PROGRAM = """
import json
from dataclasses import replace
from planner.configurations.recipe import GpuClass, enumerate_recipes, find_incompatibility
from planner.configurations.coefficients import peaks_of
from planner.library.reading import read_library
from planner.library.technique_tables import read_techniques
from planner.scenario.scenario import Job, scenario_schema

library, table = read_library(["llama-3-8b"]), read_techniques()
asked = {"techniques": {"precision": "fp8"}, "framework": "torchtitan"}
job = Job(name="j", architecture="llama-3-8b", work={"steps": 1}, **asked)
found = {}
for name in ("H100-80GB", "A100-80GB"):
    gpu = library.gpu(name)
    recipes = enumerate_recipes(job, GpuClass.of(gpu), True, library)
    full = next(recipe for recipe in recipes if recipe.method == "full")
    same = [replace(full, framework=name) for name in ("torchtitan", "hf")]
    reasons = [find_incompatibility(one, GpuClass.of(gpu), library) for one in same]
    found[name] = [sorted({recipe.precision for recipe in recipes}), full.uses(False), reasons]
share = library.calibrations["kernels"].value("linear_share.fp8_torch")
print(json.dumps({
    "found": found,
    "peaks": peaks_of(library.gpu("H100-80GB"), "fp8", library),
    "sheet": [library.gpu("H100-80GB").tensor16_tflops, share * library.gpu("H100-80GB").fp8_tflops],
    "schema": scenario_schema()["$defs"]["Techniques"]["properties"]["precision"]["anyOf"][0]["enum"],
}))
"""


@pytest.fixture(scope="module")
def with_fp8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose tables know fp8: the code and all other data are links to ours."""
    folder = tmp_path_factory.mktemp("fp8")
    for name in ("planner", "scenarios"):
        os.symlink(ROOT / name, folder / name)
    (folder / "models").mkdir()
    for entry in (ROOT / "models").iterdir():
        if entry.name != "techniques":
            os.symlink(entry, folder / "models" / entry.name)
    shutil.copytree(ROOT / "models" / "techniques", folder / "models" / "techniques")
    for name, changes in FP8.items():
        path = folder / "models" / "techniques" / name
        text = path.read_text(encoding="utf-8")
        for before, added in changes.items():
            assert text.count(before) == 1, before
            text = text.replace(before, added + before)
        path.write_text(text, encoding="utf-8")
    return folder


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_precision_of_the_table_is_planned_at_its_own_peak(with_fp8: Path) -> None:
    """Recipes, 0/1 names, peaks, refusals and the schema follow from three YAML files."""
    result = python(with_fp8, "-c", PROGRAM)
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    names = read_techniques().values.names
    for gpu, refusal in (("H100-80GB", None), ("A100-80GB", "precision fp8: the GPU has no fp8_tflops")):
        precisions, uses, reasons = told["found"][gpu]
        assert precisions == ["fp8"]
        assert dict(zip(names, uses, strict=True))["mixed_precision"]
        assert reasons == [refusal, "hf has no fp8 recipe"]
    assert told["peaks"] == pytest.approx([peak * 1e12 for peak in told["sheet"]])
    assert "fp8" in told["schema"]


@pytest.mark.long
def test_a_precision_of_the_table_has_an_option_words_and_a_speed(with_fp8: Path) -> None:
    """`estimate` lists it, prints its words and computes at its peak; a GPU without that peak is refused."""
    assert "|fp8|" in python(with_fp8, "-m", "planner", "estimate", "--help").stdout
    ask = ("-m", "planner", "estimate", "--architecture", "tinyllama-1.1b", "--method", "full", "--framework", "fsdp")
    ask = (*ask, "--micro-batch", "4")
    text = python(with_fp8, *ask, "--gpu", "H200", "--precision", "fp8")
    assert "FP8 mixed" in text.stdout, text.stderr
    estimates = {
        precision: json.loads(python(with_fp8, *ask, "--gpu", "H200", "--precision", precision, "--json").stdout)
        for precision in ("fp8", "bf16_mixed")
    }
    seconds = {precision: one["step_seconds"]["parts"]["matmul"] for precision, one in estimates.items()}
    ratio = seconds["fp8"] / seconds["bf16_mixed"]
    library = read_library([])
    share, sheet = library.calibrations["kernels"].value("linear_share.fp8_torch"), library.gpu("H200").peaks
    assert ratio == pytest.approx(sheet["tensor16_tflops"] / (share * sheet["fp8_tflops"]), rel=0.02)
    refused = python(with_fp8, *ask, "--gpu", "A100-80GB", "--precision", "fp8")
    assert refused.returncode == 2
    assert "the GPU has no fp8_tflops" in refused.stderr


def test_a_name_without_a_row_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A precision without its bytes, or a misspelt key, is reported with its file."""
    shutil.copytree(VALUES.parent, tmp_path / "techniques")
    monkeypatch.setattr(techniques, "data_folder", lambda kind: tmp_path)
    path = tmp_path / "techniques" / "values.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("    fp32: {compute: fp32}", "    fp32: {compute: fp32}\n    fp6: {compute: fp6}"))
    with pytest.raises(LibraryError, match=r"precision.fp6: fp6, training bytes: fp6"):
        read_techniques.__wrapped__()
    path.write_text(text.replace("    fp32: {compute: fp32}", "    fp32: {computes: fp32}"))
    with pytest.raises(LibraryError, match=r"values.yaml:\d+: precision.values.fp32.computes: unknown key"):
        read_techniques.__wrapped__()


def test_the_schema_lists_the_values_of_the_table() -> None:
    """The JSON Schema, the synonyms and the table agree."""
    properties = scenario_schema()["$defs"]["Techniques"]["properties"]
    for field in TECHNIQUE_FIELDS:
        assert properties[field]["anyOf"][0]["enum"] == list(read_techniques().allowed(field))


COMMON = {
    *("optimizer", "none", "full", "lora", "selective", "flash", "eager", "sharding", "activation_checkpointing"),
    *("model", "adapter"),
}
"""Values that are words of other things too."""
NAMES_TOOLS = {
    "analysis/probe_question.py",
    "cli/plan_commands.py",
    "exports/export.py",
    "exports/field_map.py",
    "exports/script_parts.py",
    "exports/read_configs.py",
}
"""Modules that name tools which files are written for; some are frameworks too."""
MAY_NAME = {
    # words of the public table of measurements
    "analysis/probe_question.py": {
        *read_techniques().allowed("attention"),
        *read_techniques().allowed("precision"),
        "optimizer_and_weights",
        "nf4_dq",
    },
    # module: single values on which a rule of its own depends; another value of the technique does not change it
    "analysis/estimate_question.py": {"zero3", "adamw", "adamw_8bit", "bf16", "cached"},
    "analysis/why_not.py": {"nf4", "bf16_mixed", "adamw", "zero3"},
    "generation/evaluated_replica.py": {"bf16", "nf4"},  # formats of weights that answer prompts, too
    "evaluation/evaluated_stages.py": {"bf16", "gptq"},  # a format of what leaves, too
    "candidates/job_candidates.py": {"bf16_mixed", "adamw"},
    "reinforcement/rl_text.py": {"precomputed", "offloaded_model"},  # their words in the text of an estimate
    "candidates/stage_hours.py": {"gptq"},
    "exports/script_parts.py": {"adamw_4bit", "bf16", "gptq"},  # what a compiler is needed for; formats of what leaves
    "exports/rl_export.py": {"nf4", "bf16_mixed"},  # how trainers of kind rl hold weights
    "configurations/coefficients.py": {"mem_efficient", "sparse"},
    # How files of images and a variable of Accelerate spell them.
    "exports/facts.py": {"online", "fp16_mixed", "fp32", "tf32"},
    "exports/image_configs.py": {"cached", "nf4", "nf4_dq"},
    "exports/machine_names.py": {"mixed_precision"},  # an option of Accelerate
    "exports/read_configs.py": {"optimizer_and_weights", "zero2"},  # what the name of a missing file of DeepSpeed says
    "library/decoder_parts.py": {"sparse"},  # a word of configurations for a layer with experts
    "generation/replica_enumeration.py": {"bf16", "nf4"},
    "generation/generation_settings.py": {"bf16"},
    "library/engines.py": {"gptq", "mixed_precision"},  # formats in the files of a release
    "library/technique_tables.py": {"gradient_accumulation", "bf16"},  # what a GPU can compute, too
    "report/catalog_text.py": {"bf16"},
    "scenario/techniques.py": {"adamw"},
    "scenario/job_stages.py": {"gptq"},
    "solving/solve.py": {"nf4"},  # the only format of 4 bits of which the quality is published
}


@pytest.mark.slow
def test_no_module_lists_the_values_of_a_technique() -> None:
    """No module has two values of one technique in a list, and a distinctive value stands in the modules above only."""
    table = read_techniques()
    fields = [field for field in TECHNIQUE_FIELDS if field not in ("method", "weight_bits")]
    groups = [set(table.allowed(field)) - {"activation_checkpointing", "sharding"} for field in (*fields, "names")]
    distinctive = set().union(*groups) - COMMON
    groups.append(set(table.allowed("framework")))
    quoted = re.compile("|".join(f"[\"']{re.escape(str(value))}[\"']" for value in set().union(*groups)))
    wrong = []
    for path in sorted((ROOT / "planner").rglob("*.py")):
        name, text = path.relative_to(ROOT / "planner").as_posix(), path.read_text(encoding="utf-8")
        if not quoted.search(text):  # most modules: they need no parsing
            continue
        # The evaluation is written apart from the search, so that a wrong row of the table shows.
        allowed = MAY_NAME.get(name, {"hsdp"} if name.startswith("evaluation/") else set())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in distinctive - allowed:
                wrong.append(f"{name}:{node.lineno}: {node.value}")
            parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else []
            values = {part.value for part in parts if isinstance(part, ast.Constant)}
            if name not in NAMES_TOOLS and any(len(values & group) > 1 for group in groups):
                wrong.append(f"{name}:{node.lineno}: a list of {sorted(map(str, values))}")
    assert not wrong, "\n".join(wrong)
