"""What a job asks for that its network does not have: of images or of text, its frameworks, its tower of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.configurations.recipe import framework_of
from planner.errors import Fault
from planner.library.schema import Architecture, Library
from planner.library.technique_tables import FrameworkProfile
from planner.scenario.job import Job
from planner.scenario.techniques import Targets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import BaseModel


_OF_SEQUENCES = ("sequence_length", "tokens_per_sample", "packing", "length_cv")
_OF_VOCABULARIES = ("train_embeddings", "adapt_head", "experts_16_bit")
"""Settings of language models alone: of sequences of text, and of layers that networks of images do not have."""


def text_faults(given: BaseModel, network: str) -> Iterator[tuple[str, str, str]]:
    """Yield settings of language models that a network of images is given: key, what is wrong, what to do.

    `given`: keys of a job, of its adapters, or of an estimate; those with their default change nothing.
    """
    for key in (*_OF_SEQUENCES, *_OF_VOCABULARIES):
        usual = type(given).model_fields.get(key)
        if usual is not None and getattr(given, key) != usual.default:
            why = f", which have no {key}" if key in _OF_SEQUENCES else f": {key} is of language models"
            fix = "give the resolution" if key == "sequence_length" else "leave it out"
            yield key, f"{network} is trained on images{why}", fix


AVERAGED_IMAGES = "an average of the weights is modelled of networks of images alone"


def _average_faults(job: Job, architecture: Architecture, library: Library) -> Iterator[Fault]:
    """Yield why no average of the trained weights is kept: no network of images, or a tool without one."""
    where = f"jobs.{job.name}.ema"
    if architecture.image is None:
        yield Fault(job.name, 0, where, AVERAGED_IMAGES, "leave it out")
    for name in job.framework or ():
        if architecture.image is not None and not framework_of(library, name).averages:
            yield Fault(job.name, 0, where, f"{name} averages no weights here", "choose simpletuner, or none")


def frameworks_for(architecture: Architecture, library: Library) -> dict[str, FrameworkProfile]:
    """Return the frameworks, by name, with which training of a network is planned."""
    network = architecture.name, architecture.family, architecture.image is not None
    return {name: profile for name, profile in library.techniques.frameworks.items() if profile.takes_network(*network)}


def network_refusal(framework: str, architecture: Architecture, library: Library) -> str:
    """Return why training of a network is not planned with a framework; empty where it is."""
    profile = framework_of(library, framework)
    if framework in frameworks_for(architecture, library):
        return ""
    if profile.images != (architecture.image is not None):
        return f"{framework} does not train {architecture.name}"
    return f"training of {architecture.name} is not planned with {framework}"  # which may have one


def targets_refusal(frameworks: Sequence[str], targets: Targets, library: Library) -> Iterator[str]:
    """Yield why the matrices that adapters extend are those of none of the frameworks, where all have others."""
    if (
        frameworks
        and targets != "all-linear"
        and all(framework_of(library, framework).adapts_all for framework in frameworks)
    ):
        named = " and ".join(frameworks)
        yield f"{named} {'has' if len(frameworks) == 1 else 'have'} adapters on all linear layers alone"


def network_faults(job: Job, architecture: Architecture, library: Library) -> Iterator[Fault]:
    """Yield what a job asks for that networks of images, or those of text, do not have."""
    image, where = architecture.image, f"jobs.{job.name}"
    for name in job.framework or ():
        if wrong := network_refusal(name, architecture, library):
            fitting = ", ".join(frameworks_for(architecture, library))
            fix = f"choose {fitting}" if image else "choose one of language models, such as hf"
            yield Fault(job.name, 0, f"{where}.framework", wrong, fix)
    if "lora" in (job.techniques.method or ("lora",)):
        for wrong in targets_refusal(job.framework or (), job.lora.targets, library):
            yield Fault(job.name, 0, f"{where}.lora.targets", wrong, "give all-linear")
    if image is not None and job.kind == "pretrain":
        wrong = f"training {architecture.name} from nothing is not modelled"
        yield Fault(job.name, 0, f"{where}.kind", wrong, "give finetune, with method full or lora")
    for place, part in (("", job), ("lora.", job.lora)) if image is not None else ():
        for key, wrong, fix in text_faults(part, architecture.name):
            yield Fault(job.name, 0, f"{where}.{place}{key}", wrong, fix)
    if job.ema != "none":
        yield from _average_faults(job, architecture, library)
    if image is None and job.techniques.latents:
        wrong = f"{architecture.name} is trained on text, which has no latents"
        yield Fault(job.name, 0, f"{where}.techniques.latents", wrong, "leave it out, or choose an image network")
    yield from tower_faults(job, architecture, job.techniques.method)
    yield from _size_faults(job, architecture)


def _size_faults(job: Job, architecture: Architecture) -> Iterator[Fault]:
    """Yield what of the size of images, or of frames of videos, the network cannot read."""
    image, where = architecture.image, f"jobs.{job.name}"
    if job.work.frames is not None and (image is None or not image.makes_videos):
        wrong = f"{architecture.name} makes no videos"
        yield Fault(
            job.name, 0, f"{where}.work.frames", wrong, "leave it out, or choose a network such as wan-2.1-1.3b"
        )
    elif image is not None:
        for key, wrong, fix in image.faults(*job.work.image_size):
            yield Fault(job.name, 0, f"{where}.work.{key}", wrong, fix)


def tower_faults(job: Job, architecture: Architecture, methods: Sequence[str] | None) -> Iterator[Fault]:
    """Yield what a job asks for images next to text that the model, its processor or its methods do not have."""
    given, where = job.work.image_input, f"jobs.{job.name}.work.image_input"
    if given is None:
        return
    for key, wrong, fix in given.faults(architecture.name, architecture.tower):
        yield Fault(job.name, 0, f"{where}.{key}" if key else where, wrong, fix)
    if job.trains and given.tower == "lora" and tuple(methods or ()) != ("lora",):
        fix = "add techniques.method: lora, or write frozen or trained"
        yield Fault(job.name, 0, f"{where}.tower", "adapters in the tower of a run that may be full", fix)
