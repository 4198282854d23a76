"""The GPU that a catalog's row means: its chip by name, then the card of that chip with this memory and this form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from planner.documents.files import data_folder
from planner.library.names import is_sxm_family, known_gpus, refused_chip
from planner.library.reading import CardNames, read_library
from planner.library.schema import GpuSpec
from planner.loading.price_files import Row, is_shipped_machine, shipped_gpu

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MEMORY_TOLERANCE = 0.1
"""Largest relative difference between a card's memory and what a catalog says: 22.4 GiB are an A10G's 24, 192 a B200's
180; 12 are not an RTX3080's 10."""
_FORM = re.compile(r"(?<![a-z])(sxm\d?|pcie|nvl)(?![a-z])|(?<=\d)(sxm\d?|pcie|nvl)(?![a-z])", re.IGNORECASE)
_LINK = re.compile(r"[-_ ]?nvlink(?![a-z])", re.IGNORECASE)
_BARE_METAL = re.compile(r"[-_ ]bare[-_ ]?metal$", re.IGNORECASE)
_SIZE = re.compile(r"[-_ ](\d+) ?g(?:i?b)?(?![a-z0-9])", re.IGNORECASE)
_MEMORY_KIND = re.compile(r"[-_ ](hbm\d[ep]?)(?![a-z0-9])", re.IGNORECASE)
_FORM_BY_MEMORY = {("H100", "hbm3"): "SXM", ("H100", "hbm2e"): "PCIe"}
"""Chip and kind of memory -> form, where forms of one size differ in it (NVIDIA H100 data sheet)."""

_LISTING = re.compile(r"\d+x-(.+)-\d+(?:\.\d+)?-\d+")
"""How SkyPilot names machines of Vast.ai: `2x-RTX_4090D-32-65536`, with cores and memory."""

FORM_NOT_STATED = "form factor not stated: taken as PCIe, the slower one"


@dataclass(frozen=True)
class GpuMatch:
    """A GPU of the library, or why a row has none; a note where the catalog left something open."""

    gpu: str | None
    reason: str = ""
    kind: str = ""
    """The reason without what differs from row to row, by which a summary adds rows up."""
    note: str = ""


class GpuMatcher:
    """Finds GPUs by name, memory and form factor; each question is answered once."""

    def __init__(self) -> None:
        self._names = CardNames("gpus")
        self._cards = read_library([]).gpus
        self._find, self._ask = cache(self._matched), cache(self._answer)

    def match(self, name: str, memory_gib: tuple[float, ...], provider: str, instance: str, hint: str = "") -> GpuMatch:
        """Return the GPU of a row.

        Parameters
        ----------
        name
            The GPU as the catalog writes it.
        memory_gib
            Readings of the memory of one GPU, the likeliest first; empty where the catalog does not state it.
        provider, instance
            Say the form factor where the name does not: `gpu_1x_h100_pcie`, `p5.48xlarge`.
        hint
            Says it where neither does: the GPU as the driver or the cloud behind a broker calls it.
        """
        return self._ask(name, memory_gib, provider, instance, hint)

    def _answer(self, name: str, memory_gib: tuple[float, ...], provider: str, instance: str, hint: str) -> GpuMatch:
        if (listing := _LISTING.fullmatch(instance)) is not None and self._named(listing[1]) is not None:
            name = listing[1]  # SkyPilot cuts Ti, S and D off the names of Vast.ai's GPUs
        known = known_gpus(provider, instance) if instance else None
        if known is not None and known.gpu:
            return self._of_instance(name, known.gpu, instance)
        form = _form_of(name) or _form_of(instance) or (known.form if known else "")
        shipped = shipped_gpu(provider, instance) if instance and not form else None
        if shipped is not None and (named := self._named(name)) is not None and _chip(named) == _chip(shipped):
            form = _form_factor(self._cards[shipped])
        form = form or ("SXM" if is_sxm_family(provider, instance) else "")
        form = form or _form_of(hint)
        device = next((found for text in (instance, hint) if (found := self._device(text)) is not None), None)
        if not form and device is not None:  # `NVIDIA H100 80GB HBM3`: what the driver reports
            form = _form_factor(self._cards[device])
        return self._find(name, memory_gib, form)

    def _device(self, text: str) -> str | None:
        """Return the GPU that a driver reports so: `NVIDIA H100 80GB HBM3`, with blanks or hyphens."""
        spaced = text.replace("-", " ").casefold()
        return self._names.canonical(text) if spaced.startswith(("nvidia ", "tesla ")) else None

    def _of_instance(self, name: str, gpu: str, instance: str) -> GpuMatch:
        """Return the GPU that an instance type is known to have, unless the row names another chip."""
        named = self._named(name) if name else gpu
        if named is not None and _chip(named) != _chip(gpu):
            return GpuMatch(None, f"{instance} has {gpu}, and is listed with {name}", kind="another GPU than it has")
        return GpuMatch(gpu)

    def _matched(self, name: str, memory_gib: tuple[float, ...], form: str) -> GpuMatch:
        named = self._named(name)
        if named is None:
            return GpuMatch(None, *unknown_gpu(name))
        family = {gpu: card for gpu, card in self._cards.items() if _chip(gpu) == _chip(named)}
        if not memory_gib and (size := _SIZE.search(name)) is not None:
            memory_gib = (float(size[1]),)
        sized = _of_memory(family, named, memory_gib)
        if not sized:
            what = f"no {_chip(named)} with {min(memory_gib):.3g} GiB is known"
            return GpuMatch(None, what, kind="no GPU of that memory is known")
        kind = _MEMORY_KIND.search(name)
        if kind is not None and not form:
            meant = _FORM_BY_MEMORY.get((_chip(named), kind[1].casefold()), "")
            form = meant if meant in map(_form_factor, sized.values()) else ""
        # Catalogs name NVL parts apart, so a bare name is none of them unless only an NVL part has that memory.
        plain = {gpu: card for gpu, card in sized.items() if _form_factor(card) != "NVL"}
        right = {gpu: card for gpu, card in sized.items() if _form_factor(card) == form} if form else plain or sized
        if not right:
            known = " or ".join(sorted({_form_factor(card) for card in sized.values()}))
            if known != "superchip" and (form == "SXM" or len(sized) > 1):
                what = f"no {form} form of {_chip(named)} is known, only {known}"
                return GpuMatch(None, what, kind="no GPU of that form is known")
            right = sized  # one card of that memory: PCIe is how its slot is called, SXM a superchip's board
        if len(right) == 1:
            return GpuMatch(next(iter(right)))
        slower = min(right, key=lambda gpu: (_form_factor(right[gpu]) != "PCIe", gpu))
        return GpuMatch(slower, note=FORM_NOT_STATED)

    def _named(self, name: str) -> str | None:
        """Return a card of the chip that a name means, with or without its memory and form."""
        bare = name
        for part in (_BARE_METAL, _LINK, _FORM, _MEMORY_KIND, _SIZE):
            bare = part.sub("", bare)
        return self._names.canonical(name) or self._names.canonical(bare.strip(" -_"))


def unknown_gpu(name: str) -> tuple[str, str]:
    """Return why a GPU has no match, and the reason without its name: nothing is planned with it, or it is unknown."""
    refused = refused_chip(_SIZE.sub("", name))
    if refused is not None:
        return f"{name}: {refused}", f"a GPU that nothing is planned with ({refused})"
    return f"unknown GPU {name}", "unknown GPU"


def with_board_link(row: Row) -> Row:
    """Return the keys of an offer with the link between its GPUs that follows from their form, where it states none.

    SXM boards of eight GPUs have a switch, parts of a board are linked; those of the V100 have links between pairs.
    Hosts of a community differ, and of a machine of the shipped list it is known whether its link is known.
    """
    gpus, board = row.get("gpus"), _boards(data_folder("models")).get(str(row.get("gpu")))
    if board is None or not isinstance(gpus, int) or gpus < 2 or row.get("interconnect"):
        return row
    if row.get("community") or is_shipped_machine(row):
        return row
    return {**row, "interconnect": "nvswitch" if gpus >= GPUS_OF_A_BOARD and board != "Volta" else "nvlink"}


@cache
def _boards(models: Path) -> dict[str, str]:
    """Return the generation of each GPU on an SXM board."""
    del models  # whose GPUs they are
    return {name: card.generation for name, card in read_library([]).gpus.items() if card.form == "SXM"}


GPUS_OF_A_BOARD = 8
"""GPUs of a whole SXM board."""


def _of_memory(family: Mapping[str, GpuSpec], named: str, memory_gib: tuple[float, ...]) -> dict[str, GpuSpec]:
    """Return the cards of the first reading that fits: that of the named card, else of any card of its chip."""
    own = family[named].vram_gib
    readings = memory_gib or (own,)
    ordered = [own] if any(_is_near(reading, own) for reading in readings) else list(readings)
    for wanted in ordered:
        near = {gpu: card for gpu, card in family.items() if _is_near(wanted, card.vram_gib)}
        if near:
            best = min(abs(card.vram_gib - wanted) for card in near.values())
            return {gpu: card for gpu, card in near.items() if abs(card.vram_gib - wanted) <= best}
    return {}


def _is_near(memory_gib: float, vram_gib: float) -> bool:
    return abs(memory_gib - vram_gib) <= MEMORY_TOLERANCE * vram_gib


def says_nvlink(text: str) -> bool:
    """Whether a name says that its GPUs are linked: `A100-80G-PCIe-NVLink`."""
    return _LINK.search(text) is not None


def _form_of(text: str) -> str:
    """Return SXM, PCIe or NVL where a text says it."""
    found = _FORM.search(text)
    if found is None:
        return ""
    word = (found[1] or found[2]).casefold()
    return "SXM" if word.startswith("sxm") else "PCIe" if word == "pcie" else "NVL"


def _form_factor(card: GpuSpec) -> str:
    return "NVL" if "-NVL" in card.name else card.form


_OF_A_CARD = re.compile(r"(?:-(?:PCIe|NVL|SXM\d?|\d+GB))+$")


def _chip(name: str) -> str:
    """Return the chip of a card's name: `H100` of `H100-NVL-94GB`, `TPU-v6e` of itself."""
    return _OF_A_CARD.sub("", name)
