"""Names that a function or command received, resolved in the library."""

from __future__ import annotations

from planner.errors import Fault, LibraryError
from planner.library.reading import CardNames, read_library
from planner.library.schema import Architecture, GpuSpec, Library


def resolve_cards(
    architecture: str | Architecture, gpu: str, library: Library | None
) -> tuple[Architecture, GpuSpec, Library]:
    """Return architecture, GPU and their library; `LibraryError` with every unknown name."""
    faults: list[Fault] = []
    asked_alone = library is None
    if library is None:
        library = _read(architecture, faults)
    network = architecture if isinstance(architecture, Architecture) else None
    if network is None and asked_alone and not faults:
        (network,) = library.architectures.values()
    if network is None and not faults:
        try:
            network = library.architecture(str(architecture))
        except KeyError as error:
            faults.append(Fault(str(architecture), 0, "", str(error.args[0]), "add it to the library that is given"))
    try:
        card = library.gpu(gpu)
    except KeyError:
        faults.append(Fault(gpu, 0, "", "unknown GPU", CardNames("gpus").suggestion(gpu)))
    if faults or network is None:
        raise LibraryError(faults)
    return network, card, library


def _read(architecture: str | Architecture, faults: list[Fault]) -> Library:
    """Return the shipped library with one architecture; without it if it cannot be read."""
    try:
        return read_library([architecture] if isinstance(architecture, str) else [])
    except LibraryError as error:
        faults += error.faults
        return read_library([])
