"""The environment of a run: image, CUDA and PyTorch by the GPU, and the packages of the trainer."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from planner.documents.files import data_folder
from planner.documents.strict_yaml import read_shipped
from planner.errors import Fault, InputError
from planner.exports.quoting import comment, shell_word
from planner.library.reading import read_library
from planner.library.technique_rows import Row

if TYPE_CHECKING:
    from planner.exports.field_map import Facts, FieldMap


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


def image_of(gpu: str) -> Image:
    """Return the image for a GPU of the library: an RTX 5090 (capability 12.0) gets CUDA 12.8, a V100 (7.0) 12.6.

    `InputError` for a GPU that current CUDA has no code for.
    """
    card = read_library([]).gpu(gpu)
    capability = float(card.compute_capability) if card.vendor == "NVIDIA" else 0.0
    for one in _images():
        if one.vendor == card.vendor and (not one.below or one.least <= capability < one.below):
            return one
    what = f"no image has code for {gpu} (compute capability {card.compute_capability})"
    raise InputError([Fault("plan", 0, "", what, f"plan with limits.gpus.forbid=[{gpu}]")])


def environment_facts(gpu: str) -> dict[str, str]:
    """Return what conditions of a field map may ask: the release of PyTorch, empty where the image decides it."""
    return {"torch": image_of(gpu).torch}


def environment_remark(gpu: str) -> str:
    """Return the image and why it is this one, as a comment says it."""
    image, capability = image_of(gpu), read_library([]).gpu(gpu).compute_capability
    if not image.cuda:
        return f"image {image.image} (has its own PyTorch)"
    return (
        f"image {image.image}; {gpu} has compute capability {capability}: PyTorch {image.torch} for CUDA {image.cuda}, "
        f"driver {image.driver} or newer"
    )


def requirements(trainer: FieldMap, facts: Facts, gpu: str) -> str:
    """Return the file of packages, with the releases that the field maps were checked with, for the CUDA of the GPU."""
    about = comment([environment_remark(gpu)]).rstrip()
    lines = [about, *_index(image_of(gpu)), *_torch(gpu), *split_packages(trainer, facts)[0]]
    return "".join(f"{one}\n" for one in lines)


def setup_script(trainer: FieldMap, facts: Facts, gpu: str) -> str:
    """Return the shell script that installs what a run needs; a package with options of pip has a line of its own."""
    together, alone = split_packages(trainer, facts)
    packages = " ".join((*_index(image_of(gpu)), *map(shell_word, (*_torch(gpu), *together))))
    return "".join(f"pip install {one}\n" for one in (packages, *alone))


def split_packages(trainer: FieldMap, facts: Facts) -> tuple[list[str], list[str]]:
    """Return the packages that are installed together, and those that need options of pip."""
    packages = trainer.packages_of(facts)
    return [one for one in packages if " " not in one], [one for one in packages if " " in one]


def _index(image: Image) -> list[str]:
    return [f"--extra-index-url {image.index}"] if image.index else []


def _torch(gpu: str) -> list[str]:
    torch = image_of(gpu).torch
    return [f"torch=={torch}"] if torch else []
