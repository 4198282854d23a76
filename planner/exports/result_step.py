"""The step after a run that makes its result: adapters merged, weights quantised, there or on a machine of its own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from planner.documents.files import data_folder
from planner.documents.strict_yaml import read_shipped
from planner.errors import InputError
from planner.exports.field_map import field_maps
from planner.exports.quoting import shell_word
from planner.exports.script_parts import environment_lines, image_of, script_lines, torch_lines, written_program
from planner.library.technique_tables import Row, read_techniques
from planner.records import record

if TYPE_CHECKING:
    from planner.exports.field_map import Facts
    from planner.results.plan import Assignment
    from planner.scenario.scenario import Scenario

MERGED = "merged"
"""Folder of the merged weights, in that of a run."""
SCRIPT = "result.sh"
"""Script of a machine that is rented for this step alone."""
_FOLDER = "results"
_HALF_BYTES = 2.0


class _Tool(Row):
    """A tool of `models/exports/results/tools.yaml`, which explains the keys."""

    label: str
    version: str
    formats: tuple[str, ...]
    packages: tuple[str, ...]
    archive: str = ""
    least_torch: tuple[int, int] | None = None
    source: str


class _Tools(Row):
    tools: tuple[_Tool, ...]
    cpu_index: str
    cpu_torch: str


@cache
def _tools() -> _Tools:
    path = data_folder("models") / "exports" / _FOLDER / "tools.yaml"
    return _Tools.model_validate(read_shipped(path).data)


def _tool(form: str) -> _Tool:
    return next(tool for tool in _tools().tools if form in tool.formats)


@record(frozen=True)
class ResultStep:
    """What is made of the trained weights, by which machine, or why these files cannot make it."""

    form: str
    bits: int
    """16 where nothing is quantised."""
    merges: bool
    """Whether adapters are merged first; else all weights were trained."""
    half: str
    """16-bit type of PyTorch that adapters are merged in."""
    offer: str | None
    """Label of the machine that is rented for this step; None: the run's own."""
    gpu: str | None
    """GPU of the machine that makes it; None of a machine without."""
    trouble: str
    """Why no file makes it; empty where one does."""

    @property
    def folder(self) -> str:
        """Return the folder of the result, in that of the run."""
        return MERGED if self.form == "merged" else f"{self.form}-{self.bits}bit"

    @property
    def is_quantised(self) -> bool:
        """Whether it is more than merged."""
        return self.form != "merged"

    def remarks(self) -> list[str]:
        """Return what the head of each exported file says of this step."""
        what = f"{self.form} of {self.bits} bits" if self.is_quantised else self._whole()
        where = f" on {self.offer}" if self.offer else ""
        if self.trouble:
            return [f"{what}{where}: paid for, and not made by these files ({self.trouble}). {self.by_hand()}"]
        with_tool = f"with {_tool(self.form).label} {_tool(self.form).version}{where}, after the run"
        if self.offer:
            return [f"{what}: made by {SCRIPT} (--all writes it) {with_tool}"]
        return [f"{what}: made by run.sh and tasks {with_tool}, in the folder {self.folder} of its results"]

    def _whole(self) -> str:
        return "merged adapters" if self.merges else "weights in 16 bits, where the training saves fp32"

    def by_hand(self) -> str:
        """Return what a person does where no file makes the result."""
        first = "merge the adapters with PEFT in 16 bits" if self.merges else "take the weights in 16 bits"
        then = {
            "merged": "",
            "gguf": f", then convert_hf_to_gguf.py and llama-quantize of llama.cpp, to q{self.bits}_0",
            "gptq": f", then llmcompressor's GPTQModifier with W{self.bits}A16",
            "awq": ", then llmcompressor's AWQModifier and QuantizationModifier with W4A16_ASYM",
        }
        return f"After the run: {first}{then[self.form]}"


def result_step(job: Assignment, scenario: Scenario) -> ResultStep | None:
    """Return the step that a plan pays for; None where what training leaves is the result."""
    made = job.export
    if made is None:
        return None
    merges = made.ram_gb > 0
    form = MERGED if made.format == "adapters" and _leaves_fp32(job) else made.format
    if form == "adapters" or (form == MERGED and not merges and not _leaves_fp32(job)):
        return None
    gpu: str | None = job.gpu
    if made.offer is not None:
        offers = (offer for label, offer in scenario.labelled_offers() if label == made.offer)
        gpu = next((offer.card for offer in offers if offer.rents_gpus), None)
    half = "float16" if job.techniques.precision.startswith("fp16") else "bfloat16"
    trouble = _form_trouble(job) or _gpu_trouble(form, gpu)
    return ResultStep(form, made.bits or 16, merges, half, made.offer, gpu, trouble)


def _leaves_fp32(job: Assignment) -> bool:
    """Whether full training saves fp32 weights, where the plan sends 16 bits for each."""
    kept = read_techniques().bytes.training[job.techniques.precision].weight_bytes
    return job.techniques.method == "full" and kept > _HALF_BYTES


def _form_trouble(job: Assignment) -> str:
    """Return why the weights that the trainer leaves cannot be read; empty where they can."""
    framework = job.framework or job.techniques.framework
    tools = [tool for tool in field_maps().values() if tool.launch and framework in tool.frameworks]
    other = next((tool.label for tool in tools if not tool.saves_adapters), None)
    return f"{other} saves weights in a form of its own" if other else ""


def _gpu_trouble(form: str, gpu: str | None) -> str:
    """Return why the tool of a format does not run with a GPU; empty where it does."""
    tool = _tool(form)
    if tool.least_torch is None or gpu is None:
        return ""
    least = ".".join(map(str, tool.least_torch))
    try:
        torch = image_of(gpu).torch
    except InputError as error:
        return error.faults[0].what
    if not torch:
        return f"{tool.label} {tool.version} would replace the PyTorch of the image of {gpu}"
    if tuple(map(int, torch.split(".")[:2])) < tool.least_torch:
        return f"{tool.label} {tool.version} needs PyTorch {least}, and {gpu} has {torch}"
    return ""


# The lines of the script: what is installed before the run, so that a fault ends it at once, and what is made after it.


def preparing_lines(facts: Facts) -> list[str]:
    """Return the lines by which the first machine installs what quantises; none where its own run merges at most."""
    step = facts["result"]
    if step is None or step.trouble or step.offer or not step.is_quantised:
        return []
    there = f'[ -e "$OUT/finished.txt" ] && [ -e "$OUT"/{step.folder} ]'
    needed = f'[ "${{NODE_RANK:-0}}" = 0 ] && ! {{ {there}; }}'
    return [*_functions(step), f"if {needed}; then", f"  {_install(step)}", "fi"]


def making_lines(facts: Facts) -> list[str]:
    """Return the lines by which the first machine makes the result of what lies in `$OUT`, once."""
    step = facts["result"]
    if step is None or step.trouble or step.offer:
        return []
    missing = f'[ "${{NODE_RANK:-0}}" = 0 ] && [ ! -e "$OUT"/{step.folder} ]'
    return [f"if {missing}; then", *_made(step, facts), "fi"]


def clearing_lines(facts: Facts) -> list[str]:
    """Return the line by which the first machine removes the result of an earlier training."""
    step = facts["result"]
    if step is None or step.trouble or step.offer:
        return []
    folders = " ".join(f'"$OUT"/{name}' for name in dict.fromkeys((MERGED, step.folder)))
    return [f'[ "${{NODE_RANK:-0}}" != 0 ] || rm -rf {folders}']


def _functions(step: ResultStep) -> list[str]:
    """Return the functions of the shell that the commands below call."""
    found = script_lines(f"{_FOLDER}/own_environment.sh")
    if step.form != "gguf":
        return found
    tag = _tool(step.form).version
    place = f"LLAMA_CPP=${{LLAMA_CPP:-${{HOME:-/root}}/llama.cpp-{tag}}}"
    return [*found, *script_lines(f"{_FOLDER}/make_gguf.sh"), place]


def _install(step: ResultStep) -> str:
    """Return the command that installs the tool into an environment of its own."""
    tool = _tool(step.form)
    packages = " ".join((*_torch_words(step), *tool.packages))
    if step.form == "gguf":
        return f"in_environment_of_result prepare_gguf {shell_word(tool.archive)} {step.bits} {packages}"
    return f"in_environment_of_result pip install {packages}"


def _torch_words(step: ResultStep) -> list[str]:
    """Return PyTorch for the machine that makes the result, as pip takes it."""
    if step.gpu is not None:
        return torch_lines(step.gpu)
    return [f"--extra-index-url {_tools().cpu_index}", f"torch=={_tools().cpu_torch}"]


def _made(step: ResultStep, facts: Facts) -> list[str]:
    """Return the indented lines that make the result of the weights in `$OUT`."""
    lines, weights = list[str](), '"$OUT"'
    if step.merges or not step.is_quantised:
        weights = f'"$OUT"/{MERGED}'
        base = f" {shell_word(facts['model_id'])}" if facts["model_id"] else ""
        merge = f'python "$MERGE" "$OUT" {weights} {step.half}{base}'
        lines += written_program("MERGE", f"{_FOLDER}/merge_adapters.py")
        lines.append(f"  [ -e {weights} ] || {merge}" if step.is_quantised else f"  {merge}")
    if not step.is_quantised:
        return lines
    result = f'"$OUT"/{step.folder}'
    if step.form == "gguf":
        kind = {"bfloat16": "bf16", "float16": "f16"}[step.half]
        lines.append(f"  in_environment_of_result make_gguf {weights} {result} {step.bits} {kind}")
    else:
        data = shell_word(facts["dataset_path"] or "")
        lines += written_program("QUANTISE", f"{_FOLDER}/quantise_weights.py")
        words = f"{weights} {result} {step.form} {step.bits} {data}"
        lines.append(f'  in_environment_of_result python "$QUANTISE" {words}')
    return [*lines, f"  rm -rf {weights}"] if step.merges else lines


def result_body(step: ResultStep, facts: Facts, name: str, upload: str) -> list[str]:
    """Return the lines of the script of a machine that makes the result alone; its argument is what the run left."""
    merging = (*_torch_words(step), *_tool("merged").packages) if step.merges else ()
    lines = [
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        "TRAINED=${1:?folder of the run, or OWNER/NAME of the Hub that it was uploaded to}",
        *environment_lines(f"{name}-result"),
        f"pip install {' '.join((*merging, 'huggingface_hub'))}",
        *(_functions(step) if step.is_quantised else []),
        *([_install(step)] if step.is_quantised else []),
        '[ -d "$TRAINED" ] || hf download "$TRAINED" --local-dir trained',
        "OUT=trained",
        '[ ! -d "$TRAINED" ] || OUT=$TRAINED',
        f'if [ ! -e "$OUT"/{step.folder} ]; then',
        *_made(step, facts),
        "fi",
    ]
    return [*lines, f'[ -z "${{{upload}:-}}" ] || hf upload "${upload}" "$OUT"/{step.folder}']
