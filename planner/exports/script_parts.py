"""Parts of exported scripts: the comment at their top, quoting, the environment, the step that makes the result."""

from __future__ import annotations

import re
import shlex
import textwrap
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from planner.documents.files import data_folder, read_shipped
from planner.documents.validation import Row
from planner.errors import Fault, InputError, plan_with, printable
from planner.exports.field_map import Facts, FieldMap, Tool, field_maps
from planner.library.reading import read_library
from planner.library.schema import GpuSpec
from planner.library.technique_tables import read_techniques
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import describe_machines
from planner.scenario.scenario import Scenario
from planner.units import round_up

if TYPE_CHECKING:
    from collections.abc import Iterable


def shell_word(text: object) -> str:
    """Return text as one word of a shell command, in which the shell replaces and starts nothing."""
    return shlex.quote(str(text))


def shell_inside(text: str) -> str:
    """Return text for a place between double quotes of a shell command, a `${NAME:-...}` in them included."""
    return re.sub(r'([\\$"`}])', r"\\\1", text)


def document(text: str) -> str:
    """Return a text for people, in which no sign is one that a terminal obeys."""
    return "\n".join(map(printable, text.split("\n")))


def comment(lines: Iterable[str]) -> str:
    """Return lines as comments of YAML or a shell script; none of them can end before its last sign.

    YAML takes more than a line feed for the end of a line, so every sign that is not printed is written as an escape.
    """
    return "".join(f"# {printable(line)}".rstrip() + "\n" for line in lines)


# The comment at the top of every exported file: where it comes from and what the plan expects.


_WIDTH = 110


def header(
    plan: Plan, job: Assignment, tool: Tool, run: str, remarks: Iterable[str], result: Iterable[str] = ()
) -> list[str]:
    """Return the lines of the comment, without comment signs; `result`: what is said of the step that makes it."""
    versions = ", ".join(f"{package} {version}" for package, version in tool.checked.items())
    cost, hours, vram = job.cost, job.hours, job.vram_gib
    lines = [
        f"Job {job.name} of plan {plan.scenario}, for {tool.label} {tool.version}"
        + (f" (fields of {versions})." if versions else "."),
        written_by(plan),
        f"Machines: {describe_machines(job.gpus, job.gpu)} at {job.provider}, {_market(job)}.",
        f"Expected: likely {hours.expected:.1f} h ({hours.low:.1f} to {hours.high:.1f}), "
        f"by {round_up(hours.at_confidence, 1):.1f} h, "
        f"${cost.expected:,.2f} (${cost.low:,.2f} to {cost.high:,.2f}), "
        f"{vram.peak:.1f} of {vram.usable:.1f} GiB on each GPU.",
    ]
    if run:
        lines.append(f"Run: {run}")
    lines += [f"Result: {remark}" for remark in result]
    lines += [f"Note: {remark}" for remark in (*remarks, *_runs(job))]
    return wrapped(lines)


def wrapped(lines: Iterable[str]) -> list[str]:
    """Return lines that are no longer than a comment may be."""
    return [
        part for line in lines for part in textwrap.wrap(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    ]


def commented(lines: Iterable[str]) -> str:
    """Return lines as comments of YAML or a shell script."""
    return comment(lines)


def written_by(plan: Plan) -> str:
    """Return the version of the planner and the date of the plan."""
    from planner import __version__

    version = plan.inputs.versions.get("planner", __version__) if plan.inputs else __version__
    return f"Written by planner {version} from a plan of {plan.as_of}."


def _market(job: Assignment) -> str:
    if job.spot_share <= 0:
        return "on demand"
    latest = job.switch_to_on_demand_at_hours
    guard = f", on demand from hour {latest:.1f} if no spot capacity appears" if latest is not None else ""
    return f"on spot for {100 * job.spot_share:.0f} % of the run{guard}"


def _runs(job: Assignment) -> list[str]:
    remarks = []
    if job.trials > 1:
        remarks.append(
            f"the plan has {job.trials} runs of this kind, {job.runs_at_once} at once; hours and dollars are of all"
        )
    remarks += [f"{machine.stage} happens on another machine ({machine.offer})" for machine in job.separate_machines]
    return remarks


# The environment of a run: image, CUDA and PyTorch by the GPU, and the packages of the trainer.


class Image(Row):
    """A container image and the PyTorch in it; the keys are explained in `models/machines/images.yaml`."""

    vendor: str
    least: float = 0.0
    below: float = 0.0
    cuda: str = ""
    torch: str = ""
    image: str
    index: str = ""
    driver: int = 0


class _Table(Row):
    sources: dict[str, str]
    images: tuple[Image, ...]


@cache
def _images() -> tuple[Image, ...]:
    return _Table.model_validate(read_shipped(data_folder("models") / "machines" / "images.yaml").data).images


@cache
def _card(gpu: str) -> GpuSpec:
    """Return a GPU of the shipped library; a plan for some tools asks for the image of every offer."""
    return read_library([]).gpu(gpu)


def image_of(gpu: str) -> Image:
    """Return the image for a GPU of the library: an RTX 5090 (capability 12.0) gets CUDA 12.8, a V100 (7.0) 12.6.

    `InputError` for a GPU that current CUDA has no code for, and for what is neither NVIDIA's nor AMD's.
    """
    card = _card(gpu)
    capability = float(card.compute_capability) if card.vendor == "NVIDIA" else 0.0
    for image in _images():
        if image.vendor == card.vendor and (not image.below or image.least <= capability < image.below):
            return image
    why = f"compute capability {card.compute_capability}" if card.vendor == "NVIDIA" else f"{card.vendor}'s"
    problem = f"no image has code for {gpu} ({why})"
    raise InputError([Fault("plan", 0, "", problem, plan_with("limits.gpus.forbid", [gpu]))])


def environment_facts(gpu: str) -> dict[str, str]:
    """Return what conditions of a field map may ask: the release of PyTorch, empty where the image decides it."""
    return {"torch": image_of(gpu).torch}


def environment_remark(gpu: str) -> str:
    """Return the image and why it is this one, as a comment says it."""
    image, capability = image_of(gpu), _card(gpu).compute_capability
    if not image.cuda:
        return f"image {image.image} (has its own PyTorch)"
    return (
        f"image {image.image}; {gpu} has compute capability {capability}: PyTorch {image.torch} for CUDA {image.cuda}, "
        f"driver {image.driver} or newer"
    )


def requirements(trainer: FieldMap, facts: Facts, gpu: str) -> str:
    """Return the file of packages, with the releases that the field maps were checked with, for the CUDA of the GPU."""
    about = comment([environment_remark(gpu)]).rstrip()
    lines = [about, *torch_lines(gpu), *split_packages(trainer, facts)[0]]
    return "".join(f"{line}\n" for line in lines)


def script_lines(name: str) -> list[str]:
    """Return the lines of a script of `models/exports`."""
    return (data_folder("models") / "exports" / name).read_text(encoding="utf-8").splitlines()


def written_program(variable: str, name: str) -> list[str]:
    """Return the lines that write a program of `models/exports` to a file whose path the variable has."""
    file = name.rpartition("/")[2]
    head = [f"{variable}=$(mktemp -d)/{file}", f"cat > \"${variable}\" <<'END_OF_PROGRAM'"]
    return [*head, *script_lines(name), "END_OF_PROGRAM"]


def environment_lines(name: str) -> list[str]:
    """Return the shell lines that make the virtual environment of a run where there is none, and enter it."""
    return [*script_lines("environment.sh"), f"enter_environment {shell_word(name)}"]


def setup_script(trainer: FieldMap, facts: Facts, gpu: str, name: str) -> str:
    """Return the shell script that installs what a run needs, and tries it; options of pip make a line of their own.

    `name`: that of the virtual environment, which the run enters again.
    """
    together, alone = split_packages(trainer, facts)
    packages = " ".join((*torch_lines(gpu), *map(shell_word, together)))
    installs = (f"pip install {requirement}" for requirement in (packages, *alone))
    return in_environment(name, *installs, *trying_lines(facts))


def in_environment(name: str, *lines: str) -> str:
    """Return a shell script that runs lines in a virtual environment, which it makes where there is none."""
    return "\n".join(("set -e", *environment_lines(name), *lines)) + "\n"


@dataclass(frozen=True)
class Compiled:
    """What a run compiles on its machine at its first use, by a package that is installed without a compiler."""

    what: str
    try_it: str
    """Command that compiles it, and fails where that cannot be."""
    needs: str


_TRITON = Compiled(
    what="the launcher of Triton's kernels",
    try_it="python -c 'from triton.runtime import driver; driver.active'",
    needs="a C compiler and the headers of Python (Debian: apt install gcc python3-dev)",
)
"""triton/runtime/build.py of 3.6 to 3.9: kernels of Liger and Unsloth, and what torch.compile makes."""
_CPU_ADAM = Compiled(
    what="DeepSpeed's AdamW of the CPUs",
    try_it="python -c 'from deepspeed.ops.op_builder import CPUAdamBuilder; CPUAdamBuilder().load()'",
    needs="a C++ compiler, the headers of Python and, before DeepSpeed 0.19, CUDA's toolkit: the image has them",
)
"""op_builder/cpu/cpu_adam.py of 0.19.8; TorchCPUOpBuilder of 0.18.9 links curand. It takes one to four minutes."""


def compiled_by(facts: Facts) -> list[Compiled]:
    """Return what a run compiles before its first step."""
    compiled = []
    if facts["framework"] in ("hf-fused", "unsloth") or facts["optimizer"] == "adamw_4bit":
        compiled.append(_TRITON)
    if facts["engine"] == "deepspeed" and facts["offload"] != "none":
        compiled.append(_CPU_ADAM)
    return compiled


def needs_image(facts: Facts, gpu: str) -> bool:
    """Return whether a run needs what the image has and a bare machine may lack: its PyTorch, or CUDA's toolkit."""
    return not image_of(gpu).torch or _CPU_ADAM in compiled_by(facts)


def trying_lines(facts: Facts) -> list[str]:
    """Return the lines that fail before weights are downloaded where a machine cannot run what is installed."""
    lines = [
        "# Fails at once where driver, PyTorch and GPU do not fit each other.",
        "python -c 'import torch; torch.ones(1, device=\"cuda\").sum().item()'",
    ]
    for compiled in compiled_by(facts):
        said = f"{compiled.what} cannot be compiled here: it needs {compiled.needs}"
        lines.append(f"{compiled.try_it} || {{ echo {shell_word(said)} >&2; exit 1; }}")
    return lines


def split_packages(trainer: FieldMap, facts: Facts) -> tuple[list[str], list[str]]:
    """Return the packages that are installed together, and those that need options of pip."""
    packages = trainer.packages_of(facts)
    return [package for package in packages if " " not in package], [package for package in packages if " " in package]


def torch_lines(gpu: str) -> list[str]:
    """Return the index and the release of PyTorch for a GPU, as pip takes them; none where the image has its own."""
    image = image_of(gpu)
    index = [f"--extra-index-url {image.index}"] if image.index else []
    return [*index, *([f"torch=={image.torch}"] if image.torch else [])]


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


@dataclass(frozen=True)
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
        result = f"{self.form} of {self.bits} bits" if self.is_quantised else self._whole()
        where = f" on {self.offer}" if self.offer else ""
        if self.trouble:
            return [f"{result}{where}: paid for, and not made by these files ({self.trouble}). {self.by_hand()}"]
        with_tool = f"with {_tool(self.form).label} {_tool(self.form).version}{where}, after the run"
        if self.offer:
            return [f"{result}: made by {SCRIPT} (--all writes it) {with_tool}"]
        return [f"{result}: made by run.sh and tasks {with_tool}, in the folder {self.folder} of its results"]

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
    lines = script_lines(f"{_FOLDER}/own_environment.sh")
    if step.form != "gguf":
        return lines
    tag = _tool(step.form).version
    place = f"LLAMA_CPP=${{LLAMA_CPP:-${{HOME:-/root}}/llama.cpp-{tag}}}"
    return [*lines, *script_lines(f"{_FOLDER}/make_gguf.sh"), place]


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
