"""What exported files share: the comment at their top, and the environment of a run."""

from __future__ import annotations

import textwrap
from functools import cache
from typing import TYPE_CHECKING

from planner.documents.files import data_folder
from planner.documents.strict_yaml import read_shipped
from planner.errors import Fault, InputError
from planner.exports.field_map import Facts, FieldMap, Tool
from planner.exports.quoting import comment, shell_word
from planner.library.reading import read_library
from planner.library.schema import GpuSpec
from planner.library.technique_tables import Row
from planner.records import record
from planner.results.plan import Assignment, Plan
from planner.results.plan_parts import describe_machines

if TYPE_CHECKING:
    from collections.abc import Iterable


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
        f"by {hours.at_confidence:.1f} h, "
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
    found = []
    if job.trials > 1:
        found.append(
            f"the plan has {job.trials} runs of this kind, {job.runs_at_once} at once; hours and dollars are of all"
        )
    found += [f"{machine.stage} happens on another machine ({machine.offer})" for machine in job.separate_machines]
    return found


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
    what = f"no image has code for {gpu} ({why})"
    raise InputError([Fault("plan", 0, "", what, f"plan with limits.gpus.forbid=[{gpu}]")])


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


@record(frozen=True)
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
    found = []
    if facts["framework"] in ("hf-fused", "unsloth") or facts["optimizer"] == "adamw_4bit":
        found.append(_TRITON)
    if facts["engine"] == "deepspeed" and facts["offload"] != "none":
        found.append(_CPU_ADAM)
    return found


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
