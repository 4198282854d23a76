"""The step that makes the result of a run, on a machine of stand-ins: merged, quantised, there or elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.cli.options import scenario_of
from planner.exports.export import choose_job, export_all
from planner.exports.field_map import launch_maps
from planner.results.plan import ExportedResult, Plan
from planner.results.plan_parts import SeparateMachine
from tests.helpers.exported_plans import WISHES, changed, on_hugging_face, solved, texts
from tests.helpers.fake_machine import FakeMachine

pytestmark = pytest.mark.slow
TWO = {"instances": 2, "gpus_per_instance": 4, "gpus": 8}
BASE = "mistralai/Mistral-7B-v0.1"
MERGES = 'case "$1" in *merge_adapters.py) mkdir "$3" ;; esac'


def asked(plan: Plan, form: str, bits: int | None = None, offer: str | None = None, merges: bool = True) -> Plan:
    """Return a plan that pays for a result."""
    ram_gb = 16.0 if merges else 0.0
    made = ExportedResult(format=form, bits=bits, gb=14.5, ram_gb=ram_gb, offer=offer, ram_known=True)
    machine = SeparateMachine(stage="export", provider="example", offer=offer or "", hours=0.5, usd=0.25)
    return changed(plan, export=made, separate_machines=(machine,) if offer else ())


def files_of(plan: Plan) -> dict[str, str]:
    """Return the folder of a plan."""
    return export_all(choose_job(plan, scenario_of(plan, "plan.json"), "plan.json", None), WISHES)[0]


def llama_cpp(machine: FakeMachine, quantises: str = "", converts: str = "") -> dict[str, str]:
    """Put llama.cpp into a folder, as someone who has it already; return the variable that names it."""
    folder = machine.folder / "llama.cpp"
    (folder / "build" / "bin").mkdir(parents=True)
    (folder / "convert_hf_to_gguf.py").write_text("")
    tool = folder / "build" / "bin" / "llama-quantize"
    tool.write_text(f'#!/bin/sh\necho result llama-quantize "$@" >> "{machine.calls}"\ntouch "$2"\n{quantises}\n')
    tool.chmod(0o755)
    machine.tool("python", f'for last; do :; done; touch "$last"; {converts}', of_result=True)
    return {"LLAMA_CPP": str(folder)}


def order(calls: list[str], *starts: str) -> list[int]:
    """Return where the first call of each kind stands."""
    return [next(at for at, call in enumerate(calls) if call.startswith(start)) for start in starts]


def test_a_merged_result_that_is_paid_for_is_made_once_and_uploaded(tmp_path: Path) -> None:
    """After the training, into 16-bit weights of the base; a merge that failed is tried again without training."""
    machine = FakeMachine(tmp_path, files_of(asked(solved("quickstart"), "merged")))
    out = machine.out / "quickstart"
    machine.tool("python", 'case "$1" in *merge_adapters.py) exit 4 ;; esac')
    failed = machine.run_script(UPLOAD_TO="me/model")
    assert failed.code == 4 and any(call.startswith("trl sft") for call in failed.calls)
    assert not any("upload" in call for call in failed.calls)
    machine.tool("python", MERGES)
    again = machine.run_script(UPLOAD_TO="me/model")
    assert again.code == 0 and not any(call.startswith("trl sft") for call in again.calls)
    assert again.calls[-2].endswith(f"merge_adapters.py {out} {out}/merged bfloat16 {BASE}")
    assert again.calls[-1].startswith(f"hf upload me/model {out}/merged ")
    assert not any("merge_adapters" in call for call in machine.run_script().calls), "once"
    (out / "finished.txt").unlink()
    assert any("merge_adapters" in call for call in machine.run_script().calls), "another training, another result"


def test_adapters_are_merged_in_the_16_bits_of_their_training() -> None:
    """A V100 has no bfloat16: `merge_adapters.py` and the converter of GGUF are told so."""
    plan = changed(asked(solved("quickstart"), "gguf", 4), {"precision": "fp16_mixed"})
    script = files_of(plan)["run.sh"]
    assert f'"$OUT"/merged float16 {BASE}' in script and '"$OUT"/gguf-4bit 4 f16\n' in script


@pytest.mark.parametrize("bits", [4, 8])
def test_gguf_is_made_after_the_training(tmp_path: Path, bits: int) -> None:
    """In an environment of its own that is made before; 8 bits by the converter alone, 4 by llama-quantize of 16 bits.

    Adapters are merged first, and the merged weights go when the result is there.
    """
    machine = FakeMachine(tmp_path, files_of(asked(solved("quickstart"), "gguf", bits)))
    out, made = machine.out / "quickstart", machine.out / "quickstart" / f"gguf-{bits}bit"
    machine.tool("python", MERGES)
    cpp = llama_cpp(machine)
    ended = machine.run_script(UPLOAD_TO="me/model", **cpp)
    assert ended.code == 0, ended.said
    index = "--extra-index-url https://download.pytorch.org/whl/cu128 torch==2.11.0"
    install = f"result pip install {index} transformers==5.24.0 sentencepiece=="
    convert = f"result python {cpp['LLAMA_CPP']}/convert_hf_to_gguf.py {out}/merged --outtype"
    places = order(ended.calls, install, "trl sft", "python /tmp/", convert, "hf upload")
    assert places[:2] + places[3:] == sorted(places[:2] + places[3:]), "installed, trained, made, uploaded"
    if bits == 8:
        assert f"{convert} q8_0 --outfile {made}.part/model-q8_0.gguf" in ended.calls
    else:
        assert f"{convert} bf16 --outfile {made}.part/model-16bit.gguf" in ended.calls
        quantise = f"result llama-quantize {made}.part/model-16bit.gguf {made}.part/model-q4_0.gguf Q4_0"
        assert quantise in ended.calls
    assert [path.name for path in made.iterdir()] == [f"model-q{bits}_0.gguf"]
    assert not (out / "merged").exists() and ended.calls[-1].startswith(f"hf upload me/model {made} ")
    again = machine.run_script(**cpp)
    assert again.code == 0 and not any(call.startswith("result") for call in again.calls), "once"


def test_a_result_that_fails_passes_its_code_on_and_is_made_at_the_next_start(tmp_path: Path) -> None:
    """Nothing is uploaded, what was half made is no result, and the training is not done again."""
    machine = FakeMachine(tmp_path, files_of(asked(solved("quickstart"), "gguf", 4)))
    machine.tool("python", MERGES)
    cpp = llama_cpp(machine, quantises="exit 6")
    made = machine.out / "quickstart" / "gguf-4bit"
    failed = machine.run_script(UPLOAD_TO="me/model", **cpp)
    assert failed.code == 6 and not made.exists() and not any("upload" in call for call in failed.calls)
    tool = Path(cpp["LLAMA_CPP"]) / "build" / "bin" / "llama-quantize"
    tool.write_text(tool.read_text().replace("exit 6", ""))
    again = machine.run_script(UPLOAD_TO="me/model", **cpp)
    assert again.code == 0 and made.exists() and not any(call.startswith("trl sft") for call in again.calls)
    assert not any("merge_adapters" in call for call in again.calls), "merged already"


@pytest.mark.parametrize("step", ["pip", "cmake", "python"])
def test_a_tool_that_cannot_be_had_ends_the_run_before_it_trains(tmp_path: Path, step: str) -> None:
    """Packages, the build of llama-quantize, and the archive, which is unpacked where there is no llama.cpp yet."""
    machine = FakeMachine(tmp_path, files_of(asked(solved("quickstart"), "gguf", 4)))
    unpack = '[ "$1" != -c ] || { mkdir -p "$4/llama.cpp-x"; touch "$4/llama.cpp-x/convert_hf_to_gguf.py"; }'
    build = f'[ "$1" != --build ] || {{ mkdir -p "$2/bin"; cp {machine.bin}/nvidia-smi "$2/bin/llama-quantize"; }}'
    machine.tool("python", MERGES)
    machine.tool("python", f'{unpack}; for last; do :; done; touch "$last"', of_result=True)
    machine.tool("cmake", build, of_result=True)
    machine.tool("nvidia-smi", 'touch "$2"')
    before = (machine.bin_of_result / step).read_text()
    machine.tool(step, "exit 9", of_result=True)
    failed = machine.run_script()
    assert failed.code == 9 and not any(call.startswith("trl sft") for call in failed.calls)
    (machine.bin_of_result / step).write_text(before)
    ended = machine.run_script()
    assert ended.code == 0 and (machine.out / "quickstart" / "gguf-4bit" / "model-q4_0.gguf").exists(), ended.said
    assert (machine.folder / "llama.cpp-gguf-v0.19.0" / "build" / "bin" / "llama-quantize").exists()


@pytest.mark.parametrize(("form", "bits"), [("gptq", 4), ("gptq", 8), ("awq", 4)])
def test_quantised_weights_are_made_with_the_data_of_the_run(tmp_path: Path, form: str, bits: int) -> None:
    """By LLM Compressor with the PyTorch of the GPU, in an environment of its own."""
    machine = FakeMachine(tmp_path, files_of(asked(solved("quickstart"), form, bits)))
    out = machine.out / "quickstart"
    machine.tool("python", MERGES)
    machine.tool("python", 'mkdir "$3"', of_result=True)
    ended = machine.run_script()
    assert ended.code == 0, ended.said
    index = "--extra-index-url https://download.pytorch.org/whl/cu128 torch==2.11.0"
    assert f"result pip install {index} llmcompressor==0.14.0.1" in ended.calls
    assert ended.calls[-1].startswith("result python /") and ended.calls[-1].endswith(
        f"quantise_weights.py {out}/merged {out}/{form}-{bits}bit {form} {bits} my/data"
    )
    assert not (out / "merged").exists()


def test_all_weights_are_quantised_as_they_are(tmp_path: Path) -> None:
    """Full training leaves nothing to merge, and what it left stays."""
    machine = FakeMachine(tmp_path, files_of(asked(solved("fsdp"), "gguf", 8, merges=False)))
    ended = machine.run_script(NODE_RANK="0", HEAD_IP="a", **llama_cpp(machine))
    (out,) = machine.out.iterdir()
    assert ended.code == 0 and any(f"convert_hf_to_gguf.py {out} --outtype q8_0" in call for call in ended.calls)
    assert out.exists() and not any("merge_adapters" in call for call in ended.calls)


def test_the_first_of_several_machines_alone_makes_the_result(tmp_path: Path) -> None:
    """The others neither install what makes it nor make it."""
    machine = FakeMachine(tmp_path, files_of(changed(asked(solved("quickstart"), "gguf", 8), **TWO)))
    machine.tool("python", MERGES)
    cpp = llama_cpp(machine)
    for rank in ("1", "0"):
        ended = machine.run_script(NODE_RANK=rank, HEAD_IP="10.0.0.1", **cpp)
        made = [call for call in ended.calls if call.startswith("result") or "merge_adapters" in call]
        assert ended.code == 0 and bool(made) == (rank == "0"), ended.said


@pytest.mark.parametrize("form", ["merged", "gguf"])
def test_a_machine_of_its_own_has_a_script_of_its_own(tmp_path: Path, form: str) -> None:
    """The run makes nothing and sends its adapters; the script takes their folder, or fetches them from the Hub."""
    machine = FakeMachine(tmp_path, files_of(asked(solved("quickstart"), form, 4 if form == "gguf" else None, "a/cpu")))
    assert "merge_adapters" not in (machine.run / "run.sh").read_text()
    trained = machine.run_script(UPLOAD_TO="me/adapters")
    assert trained.calls[-1].startswith(f"hf upload me/adapters {machine.out}/quickstart --exclude")
    machine.tool("python", MERGES)
    cpp = llama_cpp(machine)
    machine.tool("hf", '[ "$1" != download ] || mkdir -p "$4"')
    ended = machine.run_script("result.sh", "me/adapters", UPLOAD_TO="me/model", **cpp)
    assert ended.code == 0, ended.said
    assert "--extra-index-url https://download.pytorch.org/whl/cpu torch==2.11.0 transformers==" in ended.calls[0]
    assert "hf download me/adapters --local-dir trained" in ended.calls
    folder = "merged" if form == "merged" else "gguf-4bit"
    assert ended.calls[-1] == f"hf upload me/model trained/{folder}" and (machine.run / "trained" / folder).exists()
    here = machine.run_script("result.sh", str(machine.out / "quickstart"), **cpp)
    assert here.code == 0 and (machine.out / "quickstart" / folder).exists()
    assert not any(call.startswith("hf") for call in here.calls)
    machine.tool("python", "exit 5")
    (machine.out / "quickstart" / folder).rename(machine.out / "else")
    failed = machine.run_script("result.sh", str(machine.out / "quickstart"), UPLOAD_TO="me/model", **cpp)
    assert failed.code == 5 and not any("upload" in call for call in failed.calls)
    without = machine.run_script("result.sh", **cpp)
    assert without.code != 0 and "folder of the run, or OWNER/NAME" in without.said


def head(text: str) -> str:
    """Return the comment at the top of a file as one line."""
    lines = [line.lstrip("# ") for line in text.splitlines()[:40] if line.startswith(("#", '"_comment', '    "'))]
    return " ".join(lines)


@pytest.mark.parametrize("form", ["merged", "gguf", "gptq", "awq"])
def test_every_file_says_who_makes_the_result(form: str) -> None:
    """Trainers and launchers alike, in their first lines, and the README."""
    bits = None if form == "merged" else 4
    plan = asked(solved("secure"), form, bits)
    for name, text in files_of(plan).items():
        if name == "README.md":
            assert "\nResult: " in text and "made by run.sh and tasks" in text
        elif name != "requirements.txt":
            assert "Result: " in head(text) and "made by run.sh and tasks" in head(text), name
    others = [name for name in launch_maps() if name not in ("huggingface", "dstack", "skypilot")]
    assert set(others) == {"kubernetes", "slurm"}
    flavored = asked(on_hugging_face(solved("quickstart"), "A100-80GB", 4), form, bits)
    assert "Result: " in head(texts(flavored, "huggingface", "trl")["hf_job.sh"])
    elsewhere = asked(solved("secure"), form, bits, "a/machine")
    assert "made by result.sh" in head(files_of(elsewhere)["run.sh"])


@pytest.mark.parametrize(
    ("gpu", "why"),
    [("V100-16GB", "needs PyTorch 2.10, and V100-16GB has 2.8.0"), ("MI300X", "replace the PyTorch of the image")],
)
def test_what_no_file_makes_is_said_with_what_a_person_does(gpu: str, why: str) -> None:
    """Of GPUs whose PyTorch the tool does not have: in the script, and in the README's checklist."""
    files = files_of(asked(changed(solved("quickstart"), gpu=gpu), "gptq", 4))
    for name in ("run.sh", "README.md", "sft.yaml"):
        text = " ".join(line.lstrip("# ") for line in files[name].splitlines())
        assert why in text and "not made by these files" in text, name
        assert "llmcompressor's GPTQModifier with W4A16" in text, name
    assert "quantise_weights" not in files["run.sh"] and "merge_adapters" not in files["run.sh"]


def test_weights_in_a_form_of_their_own_are_not_merged() -> None:
    """Adapters of LitGPT are no PEFT's."""
    plan = changed(asked(solved("quickstart"), "gguf", 4), framework="litgpt", gpus=1, gpus_per_instance=1)
    plan = changed(
        plan, {"framework": "litgpt", "sharding": "none", "quant": "none", "activation_checkpointing": "none"}
    )
    text = texts(plan, "litgpt")["litgpt.yaml"]
    assert "LitGPT saves weights in a form of its own" in " ".join(line.lstrip("# ") for line in text.splitlines())


@pytest.mark.parametrize("form", ["adapters", "merged"])
def test_full_training_in_fp32_leaves_as_the_16_bits_that_the_plan_counts(tmp_path: Path, form: str) -> None:
    """Half the gigabytes to send and keep: `export.gb` has two bytes for each weight."""
    plan = asked(solved("fsdp"), form, merges=False)
    assert plan.jobs[0].techniques.precision == "bf16_mixed"
    machine = FakeMachine(tmp_path, files_of(plan))
    machine.tool("python", MERGES)
    ended = machine.run_script(UPLOAD_TO="me/model", NODE_RANK="0", HEAD_IP="a")
    (out,) = machine.out.iterdir()
    assert ended.code == 0 and f"merge_adapters.py {out} {out}/merged bfloat16" in ended.calls[-2], ended.said
    assert ended.calls[-1].startswith(f"hf upload me/model {out}/merged ")
    assert (
        "weights in 16 bits, where the training saves fp32: made by run.sh" in (machine.run / "README.md").read_text()
    )


def test_what_training_leaves_needs_no_step() -> None:
    """Adapters that are only sent, and all weights of full training in 16 bits."""
    half = changed(solved("fsdp"), {"precision": "bf16"})
    for plan in (asked(solved("quickstart"), "adapters"), asked(half, "merged", merges=False)):
        files = files_of(plan)
        assert "Result: " not in files["README.md"] and "result.sh" not in files
        assert "merge_adapters" not in files["run.sh"]
