"""What is known by name: providers, instance types, repositories of fine-tunes, short names and counts of GPUs."""

from __future__ import annotations

import math
import re
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from planner.documents.files import data_folder, parse_value, read_shipped, read_text
from planner.documents.validation import fold
from planner.units import GB, GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path


@cache
def _read_links(models: Path) -> tuple[tuple[str, tuple[str, ...], str], ...]:
    file = models / "machines" / "interconnect.yaml"
    rows: list[dict[str, Any]] = parse_value(read_text(file), str(file))
    return tuple(
        (row["provider"], tuple(name.casefold() for name in row["instances"]), row["interconnect"]) for row in rows
    )


def known_interconnect(provider: str, instance: str) -> str | None:
    """Return the link between the GPUs of an instance type; None where nothing is known of that name."""
    name = instance.casefold()
    for beginnings, link in _links_of(data_folder("models"), provider.casefold()):
        if name.startswith(beginnings):
            return link
    return None


@cache
def _links_of(models: Path, provider: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return the beginnings of instance types and their link, of one provider."""
    return tuple((names, link) for owner, names, link in _read_links(models) if owner == provider)


def is_sxm_family(provider: str, instance: str) -> bool:
    """Whether an instance type, or a larger one of its family, links its GPUs by NVLink, which SXM boards do.

    `p5.4xlarge` has one GPU of the boards of `p5.48xlarge`, `a3-highgpu-1g` one of those of `a3-highgpu-8g`.
    """
    models, owner = data_folder("models"), provider.casefold()
    if not _links_of(models, owner):
        return False
    if known_interconnect(provider, instance) in _BOARD_LINKS:
        return True
    return (owner, _family(instance)) in _linked_families(models)


_BOARD_LINKS = ("nvlink", "nvswitch")


@cache
def _linked_families(models: Path) -> frozenset[tuple[str, str]]:
    links = ((owner, names) for owner, names, link in _read_links(models) if link in _BOARD_LINKS)
    families = ((owner, _family(name)) for owner, names in links for name in names)
    return frozenset((owner, family) for owner, family in families if family)


def _family(instance: str) -> str:
    """Return the part of a name that sizes share: `p5`, `a3-highgpu`; empty where a name has no such part."""
    found = re.fullmatch(r"([a-z]\w*(?:-\w+)*?)(?:\.\w*|-\d+g)", instance.casefold())
    return found[1] if found else ""


@cache
def _read_providers(models: Path) -> dict[str, str]:
    file = models / "machines" / "providers.yaml"
    rows: list[dict[str, Any]] = parse_value(read_text(file), str(file))
    return {fold(alias): row["name"] for row in rows for alias in (row["name"], row["full"], *row["aliases"])}


def is_known_provider(name: str) -> bool:
    """Whether a name, whatever its case and separators, is one that people or catalogs use for a provider."""
    return fold(name) in _read_providers(data_folder("models"))


def provider_name(written: str) -> str:
    """Return the name under which a provider's offers stand; one that is not known keeps its name."""
    return _read_providers(data_folder("models")).get(fold(written), written.strip())


@cache
def _read_tiers(models: Path) -> dict[str, dict[str, str]]:
    file = models / "machines" / "providers.yaml"
    rows: list[dict[str, Any]] = parse_value(read_text(file), str(file))
    return {row["name"]: row["tiers"] for row in rows if "tiers" in row}


def tiers_of(provider: str) -> Mapping[str, str]:
    """Return the providers that a name stands for by tier (secure, community); empty where it is one provider."""
    return _read_tiers(data_folder("models")).get(provider, {})


def seller_of(provider: str) -> str:
    """Return the company behind a tier, `runpod` of `runpod-secure`; any other provider as it is."""
    tiers = _read_tiers(data_folder("models"))
    return next((company for company, names in tiers.items() if provider in names.values()), provider)


class Unsold(NamedTuple):
    """Why an instance type has no price on demand, and whether it can be had on spot."""

    reason: str
    sold_on_spot: bool


@cache
def _read_unsold(models: Path) -> tuple[tuple[str, tuple[str, ...], Unsold], ...]:
    file = models / "machines" / "unsold.yaml"
    rows: list[dict[str, Any]] = parse_value(read_text(file), str(file))
    return tuple(
        (
            row["provider"],
            tuple(name.casefold() for name in row["instances"]),
            Unsold(row["reason"], row["sold_on_spot"]),
        )
        for row in rows
    )


def unsold_type(provider: str, instance: str) -> Unsold | None:
    """Return why a provider does not sell an instance type on demand; None where nothing is known against it."""
    owner, name = provider.casefold(), instance.casefold()
    for seller, patterns, unsold in _read_unsold(data_folder("models")):
        if seller == owner and any(fnmatchcase(name, pattern) for pattern in patterns):
            return unsold
    return None


class KnownGpus(NamedTuple):
    """The GPUs of an instance type; `gpu` is empty where its form alone is known."""

    gpu: str
    gpus: float  # below 1: a part of one
    form: str = ""


class _Instances(NamedTuple):
    machines: dict[tuple[str, str], KnownGpus]  # by provider and instance type
    forms: tuple[tuple[str, str, str], ...]  # provider, pattern of the instance type, form


@cache
def _read_instances(models: Path) -> _Instances:
    file = models / "machines" / "instances.yaml"
    rows: list[dict[str, Any]] = parse_value(read_text(file), str(file))
    machines = {
        (row["provider"], name.casefold()): KnownGpus(gpu, gpus)
        for row in rows
        for name, (gpu, gpus) in row.get("machines", {}).items()
    }
    forms = (
        (row["provider"], pattern.casefold(), form)
        for row in rows
        for form, patterns in row.get("forms", {}).items()
        for pattern in patterns
    )
    return _Instances(machines, tuple(forms))


@cache
def known_gpus(provider: str, instance: str) -> KnownGpus | None:
    """Return the GPUs of an instance type by its name; None where nothing is known of it."""
    known, owner, name = _read_instances(data_folder("models")), provider_name(provider), instance.casefold()
    found = known.machines.get((owner, name))
    forms = (form for seller, pattern, form in known.forms if seller == owner and fnmatchcase(name, pattern))
    form = "" if found else next(forms, "")
    return found or (KnownGpus("", 0, form) if form else None)


class Host(NamedTuple):
    """What lies around the GPUs of one machine."""

    cpu_cores: float  # virtual ones
    ram_gb: float  # GB of 10^9 bytes


_TERM = re.compile(r"-(?:reserved|committed|prepaid)-.*")
"""What a name of a commitment adds to the instance type: `p4d.24xlarge-reserved-12-months`."""


class _Hosts(NamedTuple):
    machines: dict[tuple[str, str], Host]  # by provider and instance type
    per_gpu: dict[tuple[str, str], Host]  # by provider and GPU: what a pod gets for each
    typical: dict[str, float]


@cache
def _read_hosts(models: Path) -> _Hosts:
    file = models / "machines" / "hosts.yaml"
    table: dict[str, Any] = parse_value(read_text(file), str(file))
    machines, per_gpu = dict[tuple[str, str], Host](), dict[tuple[str, str], Host]()
    for row in table["hosts"]:
        bytes_of_unit = {"GiB": GIB, "GB": GB}[row["unit"]]
        for key, hosts in (("machines", machines), ("per_gpu", per_gpu)):
            for name, (cores, memory) in row.get(key, {}).items():
                host = Host(float(cores), round(memory * bytes_of_unit / GB, 1))
                hosts.update({(provider, name.casefold()): host for provider in row["providers"]})
    return _Hosts(machines, per_gpu, table["typical"])


def known_host(provider: str, instance: str, gpu: str, gpus: int) -> Host | None:
    """Return cores and memory of an instance type, or of a pod with so many GPUs; None where neither is known."""
    hosts, owner = _read_hosts(data_folder("models")), provider_name(provider)
    found = hosts.machines.get((owner, _TERM.sub("", instance.casefold())))
    if found is None and (per_gpu := hosts.per_gpu.get((owner, gpu.casefold()))) is not None:
        return Host(per_gpu.cpu_cores * gpus, per_gpu.ram_gb * gpus)
    return found


def typical_ram_gb(gpu_gib: float, is_private: bool) -> float:
    """Return the GB of memory that a host with so many GiB of GPU memory is taken to have where it states none.

    `is_private`: a host of a marketplace, or one's own.

    It is the median of the known machines of its class, `typical` of `models/machines/hosts.yaml`: half have less. Four
    RTX 3090 of 24 GiB (103 GB) in a cloud: 206 GB; in a marketplace 140 GB.
    """
    typical = _read_hosts(data_folder("models")).typical
    return float(math.floor(gpu_gib * GIB / GB * typical["marketplace" if is_private else "cloud"]))


class Attached(NamedTuple):
    """An accelerator that a price list names apart from its machine."""

    gpu: str
    usd_per_hour: float  # least price on demand of one in any region, 0 where it is not known
    hosts: Mapping[int, Sequence[str]]  # names of machines by the number of accelerators
    cores: Mapping[int, int]  # in place of names: virtual cores of an N1 machine
    includes_host: bool  # whether its price is that of the whole machine


@cache
def _read_attached(models: Path) -> dict[tuple[str, str], Attached]:
    file = models / "machines" / "attached.yaml"
    rows: list[dict[str, Any]] = parse_value(read_text(file), str(file))
    return {
        (row["provider"], name.casefold()): Attached(
            entry.get("gpu", name),
            entry.get("usd_per_hour", 0.0),
            {int(count): names for count, names in entry.get("hosts", {}).items()},
            {int(count): cores for count, cores in entry.get("cores", {}).items()},
            entry.get("includes_host", False),
        )
        for row in rows
        for name, entry in row["accelerators"].items()
    }


def attached_accelerator(provider: str, name: str) -> Attached | None:
    """Return which machines an accelerator is attached to, by its name in price lists; None where it is not known."""
    return _read_attached(data_folder("models")).get((provider.casefold(), name.casefold()))


class ChipSlice(NamedTuple):
    """A slice of TPUs: the chip, their number, and the name of its instance type."""

    gpu: str
    chips: float
    instance: str
    no_price_usd: float  # what a list writes where it knows no price


@cache
def _read_slices(models: Path) -> dict[tuple[str, str], tuple[str, str, int, float]]:
    file = models / "machines" / "tpu_slices.yaml"
    rows: list[dict[str, Any]] = parse_value(read_text(file), str(file))
    return {
        (row["provider"], name): (entry["gpu"], entry["instance"], entry["numbers_per_chip"], row["no_price_usd"])
        for row in rows
        for entry in row["slices"]
        for name in entry["names"]
    }


def chip_slice(provider: str, name: str) -> ChipSlice | None:
    """Return the slice behind a name such as `tpu-v5p-8`; None where it is none that is known."""
    beginning, _, number = name.casefold().rpartition("-")
    known = _read_slices(data_folder("models")).get((provider.casefold(), beginning))
    if known is None or not number.isdecimal() or not number.isascii():
        return None
    gpu, instance, per_chip, no_price_usd = known
    return ChipSlice(gpu, int(number[:9]) / per_chip, f"{instance}-{number}", no_price_usd)


_CODE_FIRST = re.compile(r"([A-Z]{2})(-[A-Z][A-Za-z]*)?")
"""A region that is named by its country: `DE`, `US-Texas`."""


@cache
def _read_regions(models: Path) -> tuple[dict[str, str], dict[str, frozenset[str]]]:
    """Return the country of each region, and the countries of each area: a country or a continent by its letters."""
    file = models / "machines" / "regions.yaml"
    rows: list[dict[str, Any]] = parse_value(read_text(file), str(file))
    countries = {region.casefold(): row["code"] for row in rows for region in row["regions"]}
    areas: dict[str, set[str]] = {}
    for row in rows:
        for area in (row["code"], *row["names"], *row["within"]):
            areas.setdefault(fold(area), set()).add(row["code"])
    return countries, {area: frozenset(codes) for area, codes in areas.items()}


def country_of(region: str) -> str | None:
    """Return the code of the country that a region, or the region of a zone, lies in; None where it is unknown."""
    countries, areas = _read_regions(data_folder("models"))
    name = region.partition("/")[0]
    coded = _CODE_FIRST.fullmatch(name)
    return countries.get(name.casefold()) or (coded[1] if coded and coded[1].casefold() in areas else None)


def countries_in(area: str) -> frozenset[str]:
    """Return the codes of the countries in `europe`, `eu`, `germany` or `DE`, in any case; none of another word."""
    return _read_regions(data_folder("models"))[1].get(fold(area), frozenset())


@cache
def _read_refused(models: Path) -> dict[str, str]:
    file = models / "machines" / "refused_chips.yaml"
    rows: list[dict[str, Any]] = parse_value(read_text(file), str(file))
    return {fold(name): row["reason"] for row in rows for name in row["names"]}


def refused_chip(name: str) -> str | None:
    """Return why nothing is planned with an accelerator of that name; None where nothing is known against it."""
    return _read_refused(data_folder("models")).get(fold(name))


def disk_classes() -> dict[str, float]:
    """Return the GB per second of each class of disks by name, such as `gp3`."""
    return _read_disks(data_folder("models"))


@cache
def _read_disks(models: Path) -> dict[str, float]:
    file = models / "machines" / "disks.yaml"
    rows: list[dict[str, Any]] = parse_value(read_text(file), str(file))
    return {row["name"]: float(row["gb_per_second"]) for row in rows}


_SIZE = re.compile(r"\d+(\.\d+)?[bm]\d*")
"""A word that says how large a model is: 7b, 1.5b, 135m, 7b1."""
_SAME_SHAPE = re.compile(
    r"instruct|chat|base|it|pt|hf|coder|code|math|thinking|deduped|meta|preview|sft|dpo|orpo|unsloth|bnb|dynamic|"
    r"gptq|awq|gguf|fp8|bf16|fp16|int[48]|[48]bit|mxfp4|nvfp4|fp4|nf4|exl2|w[48]a(8|16)|quantized|v\d[\d.]*|\d+[km]|\d{4}"
)
"""A word of a repository's name that leaves the dimensions as they are."""
_OTHER_SHAPE = frozenset(
    [
        "vl",
        "vision",
        "omni",
        "audio",
        "embedding",
        "reranker",
        "reward",
        "moe",
        "draft",
        "pruned",
        "eagle",
        "mini",
        "nano",
        "lite",
        "air",
        "next",
        "medusa",
        "minitron",
        "speculator",
        "adapter",
    ]
)
"""Words of networks that are built on another: encoders, heads and drafts next to it, or a smaller copy."""
_MAKERS = re.compile(r"nvidia|geforce|tesla|quadro|amd|instinct|generation|^ *rtx")
_MEMORY = re.compile(r"(?<=[-_ ])(\d+) ?(gib|gb|g)\b")
_COUNT = re.compile(r"(\d{1,6}) *[x×*] *(.+)|(.+?) *: *(\d{1,6})")


def split_count(gpu: str) -> tuple[int | None, str]:
    """Return the count and the name of `2xA100`, `8 x H100` or `A100:8`; None where the text has no count."""
    found = _COUNT.fullmatch(gpu.strip())
    if found is None:
        return None, gpu
    return int(found[1] or found[4]), found[2] or found[3]


def find_gpu(wanted: str, by_label: Mapping[str, str]) -> str | None:
    """Return the GPU that a text means whatever its separators, maker and unit (`4090`, `a100-80g`), None if unclear.

    `by_label`: name or alias -> name.
    """
    key = _gpu_key(wanted)
    names = {name for label, name in by_label.items() if _gpu_key(label) == key}
    return names.pop() if len(names) == 1 else None


def gpu_group(wanted: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the GPUs of a chip that is sold in several forms: `H100` -> `H100-80GB`, `H100-NVL-94GB`, ...; else none.

    A name that is a GPU's own, such as `H200`, is no group.
    """
    key, listed = _gpu_key(wanted), tuple(names)
    group = tuple(name for name in listed if _gpu_key(name.partition("-")[0]) == key)
    return () if any(_gpu_key(name) == key for name in listed) else group


def gpu_with_memory(wanted: str, named: Callable[[str], str | None], memory_gib: Callable[[str], float]) -> str | None:
    """Return the GPU that a name with its memory at the end means, as sellers write it: `RTX 4090 24GB` -> `RTX4090`.

    `named` finds the GPU of the rest of the name, `memory_gib` what a GPU has. None where there is none, or it has
    another memory.
    """
    said = _MEMORY.search(wanted.casefold())
    if said is None or said.end() != len(wanted.rstrip()):
        return None
    found = named(wanted[: said.start()].rstrip(" -_"))
    return found if found is not None and memory_gib(found) == int(said[1]) else None


def _gpu_key(text: str) -> str:
    text = _MEMORY.sub(r"\1", text.casefold())
    for _ in range(2):  # a maker's name may stand before `RTX`
        text = _MAKERS.sub("", text)
    return re.sub(r"[^a-z0-9]", "", text)


def find_architecture(wanted: str, by_label: Mapping[str, str]) -> str | None:
    """Return the base that a repository's name says (`someone/Hermes-3-Llama-3.1-8B`), None if unclear.

    A label counts where its words follow one another in the name. One without a size (`gpt2`) counts only where the
    other words leave the dimensions as they are. The longest label wins.
    """
    words = _words(wanted)
    plain = [word for word in words if not _SAME_SHAPE.fullmatch(word)]
    by_length: dict[int, set[str]] = {}
    for label, name in by_label.items():
        parts = _words(label)
        if any(_is_base(parts, reading) for reading in (words, plain)):
            by_length.setdefault(len(parts), set()).add(name)
    best = by_length[max(by_length)] if by_length else set()
    return best.pop() if len(best) == 1 else None


_NUMBERED = re.compile(r"([a-z]{3,})(\d+(?:\.\d+)?)")
"""A family with its number joined on: llama2, qwen2.5."""


def _words(text: str) -> list[str]:
    """Return the words of a name in small letters; a family and its number are two, however they are joined."""
    words: list[str] = []
    for word in re.split(r"[-_ :]+", text.casefold().rpartition("/")[2]):
        joined = None if _SAME_SHAPE.fullmatch(word) else _NUMBERED.fullmatch(word)
        words += joined.groups() if joined else [word] if word else []
    return words


def _is_base(parts: list[str], words: list[str]) -> bool:
    """Whether the words of a label follow one another in a name whose other words do not say another shape."""
    for start in range(len(words) - len(parts) + 1):
        if parts and words[start : start + len(parts)] == parts:
            rest = words[:start] + words[start + len(parts) :]
            return _keeps_shape(rest, any(_SIZE.fullmatch(part) for part in parts))
    return False


def _keeps_shape(rest: Iterable[str], sized: bool) -> bool:
    if sized:
        return not any(word in _OTHER_SHAPE or _SIZE.fullmatch(word) for word in rest)
    return all(_SAME_SHAPE.fullmatch(word) for word in rest)


@cache
def _gated() -> tuple[str, ...]:
    rows = read_shipped(data_folder("models") / "exports" / "gated" / "repositories.yaml").data
    return tuple(str(pattern).casefold() for pattern in rows["patterns"])


def is_gated(repository: str | None) -> bool:
    """Return whether a repository of the Hub asks for a token of an account that has accepted its terms."""
    return repository is not None and any(fnmatchcase(repository.casefold(), pattern) for pattern in _gated())
