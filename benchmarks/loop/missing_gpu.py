"""What is changed in exported files because there is no GPU here: each change by name, with its reason.

The list may only shrink: a change whose text is no longer found in a file ends the benchmark with an error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from benchmarks.loop.cases import OF_SCRIPTS


class Change(NamedTuple):
    """A replacement in one exported file; `optional`: only some plans write what it replaces."""

    name: str
    file: str
    pattern: str
    text: str
    reason: str
    optional: bool = False


_INSTALL = r"(?m)^pip install .*\n"
_GPU_TEST = r"(?m)^python -c 'import torch; torch\.ones.*\n"
COMMON = (
    Change("nothing installed", "run.sh", _INSTALL, "", "the trainer is in the environment of the case already"),
    Change("no GPU test", "run.sh", _GPU_TEST, "", "the line allocates on a GPU, and there is none"),
)
"""Changes of the script that every trainer starts with."""
_NO_FLASH_IN_SCRIPT = Change(
    "no flash attention", "train.json", '"flash"', '"mem_efficient"', "as for TRL", optional=True
)
BY_TRAINER: dict[str, tuple[Change, ...]] = {
    "trl": (
        Change("use_cpu", "sft.yaml", r"\Z", "\nuse_cpu: true\n", "Transformers takes the CPU only where it is told"),
        Change(
            "no flash attention",
            "sft.yaml",
            "flash_attention_2",
            "sdpa",
            "its kernels run on GPUs alone",
            optional=True,
        ),
    ),
    "llamafactory": (Change("use_cpu", "llamafactory.yaml", r"\Z", "\nuse_cpu: true\n", "as for TRL"),),
    "accelerate": (_NO_FLASH_IN_SCRIPT,),
    "deepspeed": (_NO_FLASH_IN_SCRIPT,),
    "axolotl": (Change("no flash attention", "axolotl.yml", "flash_attention_2", "sdpa", "as for TRL"),),
}
IN_PROCESS = {
    "sharded on CPUs": (
        "Accelerate runs FSDP and DeepSpeed on GPUs only: `on_a_cpu/sitecustomize.py` changes its state for CPUs"
    ),
    "DeepSpeed on CPUs": (
        "DS_ACCELERATOR=cpu and LOCAL_SIZE=2: else it starts one process for each group of memory of the CPUs; "
        "reductions of PyTorch, as its own for CPUs are compiled for minutes: the same file"
    ),
    "states loaded onto cpu:0": (
        "Transformers 5.6 names devices of processes as of GPUs; PyTorch loads onto `cpu` alone: the same file"
    ),
}
"""Changes inside the process of a trainer, which its files do not see."""


def apply_changes(folder: Path, trainer: str) -> list[str]:
    """Change the exported files of a folder; return the names of the changes that were made."""
    made = []
    scripts = COMMON if trainer not in OF_SCRIPTS else ()
    for change in (*scripts, *BY_TRAINER[trainer]):
        path = folder / change.file
        text, count = re.subn(change.pattern, change.text, path.read_text())
        if not count and not change.optional:
            raise SystemExit(f"{change.file} has nothing for the change {change.name!r}: take it off the list")
        path.write_text(text)
        made += [change.name] if count else []
    return made
