"""Arguments of a function or command to a validated configuration and to library entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from planner.documents.source_map import Source
from planner.documents.validation import validation_complaints
from planner.errors import Fault, LibraryError, ScenarioError
from planner.library.reading import CardNames, read_library
from planner.library.schema import Architecture, GpuSpec, Library
from planner.scenario.configuration import WHERE, Configuration
from planner.scenario.observed_run import Measured

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_configuration(architecture: str, gpu: str, settings: dict[str, Any]) -> Configuration:
    """Return the configuration; `ScenarioError` with every fault of its settings."""
    data = {"architecture": architecture, "gpu": gpu, **settings}
    try:
        return Configuration.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(Source(WHERE).faults(validation_complaints(error, Configuration, data))) from None


def read_run(entry: Mapping[str, Any], where: str) -> Measured:
    """Return an observed run; `ScenarioError` with every fault of its settings, located at `where`."""
    data = dict(entry)
    try:
        return Measured.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(Source(where).faults(validation_complaints(error, Measured, data))) from None


def resolve_cards(
    architecture: str | Architecture, gpu: str, library: Library | None
) -> tuple[Architecture, GpuSpec, Library]:
    """Return architecture, GPU and their library; `LibraryError` with every unknown name."""
    faults: list[Fault] = []
    if library is None:
        library = _read(architecture, faults)
    network = architecture if isinstance(architecture, Architecture) else None
    if network is None and not faults:
        try:
            network = library.architecture(str(architecture))
        except KeyError as error:
            faults.append(Fault(str(architecture), 0, "", str(error.args[0])))
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
