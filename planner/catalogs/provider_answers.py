"""What providers' own interfaces answer, as JSON or CSV: each record is a machine with its price, or is left out.

A kind of answer is recognised by the keys of its records, whatever they are wrapped in (pages, `data`, lists by GPU).
Keys may be missing or null. Prices become dollars per machine and hour: some state cents, some one GPU.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from planner.arrays import median
from planner.catalogs.gpu_match import GpuMatcher
from planner.catalogs.skypilot import CatalogRows, Machine, matched_gpu
from planner.documents.tables import CsvTable, JsonRecord
from planner.errors import Fault
from planner.library.names import known_gpus
from planner.loading.price_files import Row, parse_number


@dataclass
class Listed:
    """A machine as an answer lists it; `why_not` where it cannot be rented at a known price.

    Prices are dollars per machine and hour, `memory_gib` is that of one GPU.
    """

    provider: str
    gpu: str = ""
    gpus: float | None = 1
    region: str = "any"
    instance: str = ""
    memory_gib: float | None = None
    usd: float | None = None
    spot_usd: float | None = None
    cores: float | None = None
    ram_gb: float | None = None
    community: bool | None = None
    interconnect: str | None = None
    stock_status: str | None = None
    day: datetime.date | None = None
    zones: Mapping[str, float] | None = None
    why_not: str = ""
    kind: str = ""
    """The reason without what differs from row to row."""
    note: str = ""


class _Unreadable(ValueError):
    """A value that is none of its kind; its text says what is wrong."""


Values = Mapping[str, Any]


def _number(values: Values, *path: str) -> float | None:
    """Return the number at a path of keys, None where there is none; a text is read as a number."""
    value: Any = values
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if value is None or value in ("", "null", "None", "N/A"):
        return None
    if isinstance(value, str):
        try:
            value = parse_number(value.strip().removeprefix("$"))
        except ValueError as error:
            raise _Unreadable(f"{path[-1]}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _Unreadable(f"{path[-1]}: {str(value)[:40]!r} is not a number")
    if value < 0:
        raise _Unreadable(f"{path[-1]}: {value:g} is negative")
    return float(value)


def _price(values: Values, *path: str) -> float | None:
    """Return a price; None where it is missing or 0, which means that there is none."""
    return _number(values, *path) or None


def _text(values: Values, *path: str) -> str:
    value: Any = values
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value.strip() if isinstance(value, str) else str(value) if isinstance(value, int) else ""


def _times(price: float | None, count: float) -> float | None:
    return None if price is None else round(price * count, 6)


def _other_currency(values: Values) -> str:
    """Return the currency of a record where it is another than dollars."""
    prices = values.get("prices")
    for place in (values, prices if isinstance(prices, dict) else {}):
        for key in ("currency", "currencyCode", "currency_code"):
            code = _text(place, key)
            if code and code.upper() not in ("USD", "US$", "$"):
                return code.upper()
    return ""


# Vast.ai, `search offers --raw` and `POST /api/v0/bundles`: one record per offer of a host.
#
# `dph_total` is dollars per hour of the whole offer with its default disk, `min_bid` the least bid of an interruptible
# one; `gpu_ram` MiB of one GPU, `cpu_ram` MB of the host, of which the offer has the share `gpu_frac`.


def _is_vast(values: Values) -> bool:
    return "gpu_name" in values and "num_gpus" in values and bool({"dph_total", "dph_base", "min_bid"} & values.keys())


def _vast(values: Values) -> Iterator[Listed]:
    memory = _number(values, "gpu_ram")
    listed = Listed("vast", _text(values, "gpu_name"), _number(values, "num_gpus"), instance=_text(values, "id"))
    listed.memory_gib = memory / 1024 if memory and memory >= _LEAST_MIB else memory
    listed.region = _place(_text(values, "geolocation"))
    total = _price(values, "dph_total") or _price(values, "search", "totalHour")
    bid = _price(values, "min_bid")
    if values.get("is_bid") is True:
        listed.spot_usd = max(filter(None, (total, bid)), default=None)
    else:
        listed.usd, listed.spot_usd = total, bid
    share = _number(values, "gpu_frac")
    share = share if share is not None and 0 < share <= 1 else 1.0
    ram = _number(values, "cpu_ram")
    listed.ram_gb = round(ram * share / (1000 if ram > _LEAST_MIB else 1), 1) if ram else None
    listed.cores = _number(values, "cpu_cores_effective") or None
    listed.community = True
    if "actual_status" in values or "cur_state" in values:
        listed.why_not = "a machine that is rented already, and no offer"
    elif str(values.get("rentable")).casefold() == "false" or str(values.get("rented")).casefold() == "true":
        listed.why_not = "not to be rented now"
    elif _text(values, "verification").casefold() == "deverified":
        listed.why_not = "a host that Vast.ai no longer vouches for"
    yield listed


_LEAST_MIB = 2000
"""Below this a number of MiB is one of GB: no GPU has 2 GB, none 2,000."""


def _place(written: str) -> str:
    """Return a place such as `California, US` as a region that begins with its country: `US-California`."""
    parts = [part.strip() for part in written.split(",") if part.strip()]
    if not parts or not re.fullmatch(r"[A-Z]{2}", parts[-1]):
        return written or "any"
    area = "".join(parts[0].split()) if len(parts) > 1 and parts[-1] == "US" else ""
    return f"{parts[-1]}-{area}" if re.fullmatch(r"[A-Z][A-Za-z]*", area) else parts[-1]


# RunPod, GraphQL `gpuTypes`: one record per GPU, dollars per hour of one of them.


def _is_runpod(values: Values) -> bool:
    known = {"displayName", "securePrice", "communityPrice", "lowestPrice", "secureSpotPrice", "communitySpotPrice"}
    return "memoryInGb" in values and bool(known & values.keys())


_POD_SIZES = (1, 2, 4, 8)


def _runpod(values: Values) -> Iterator[Listed]:
    name = re.sub(r"^(?:NVIDIA|AMD)\s+(?:GeForce\s+|Instinct\s+)?", "", _text(values, "id"))
    name = _text(values, "displayName") or name
    lowest = values.get("lowestPrice")
    if isinstance(lowest, dict):
        gone = not any(lowest.get(key) for key in ("minimumBidPrice", "uninterruptablePrice"))
        out = "stockStatus" in lowest and lowest["stockStatus"] in (None, "None", "none", "")
    else:
        gone = out = False
    status = _text(lowest, "stockStatus").casefold() if isinstance(lowest, dict) else ""
    for tier in ("secure", "community"):
        listed = Listed(f"runpod-{tier}", name, memory_gib=_number(values, "memoryInGb"))
        on_demand, spot = _price(values, f"{tier}Price"), _price(values, f"{tier}SpotPrice")
        listed.community = True if tier == "community" else None
        most = _number(values, f"maxGpuCount{tier.title()}Cloud") or _number(values, "maxGpuCount") or 1
        if values.get(f"{tier}Cloud") is False:
            listed.why_not = f"not sold in the {tier} cloud"
        elif on_demand is None and spot is None:
            if f"{tier}Price" in values:
                listed.why_not = "no price (empty or 0.00)"
            else:
                listed.why_not = f"no {tier}Price in the answer: ask for securePrice and communityPrice"
        elif (gone or out) and lowest:
            listed.why_not = "not in stock now"
        if listed.why_not:
            yield listed
            continue
        for count in (size for size in _POD_SIZES if size <= most):
            pod = Listed(listed.provider, name, count, memory_gib=listed.memory_gib, community=listed.community)
            pod.usd, pod.spot_usd = _times(on_demand, count), _times(spot, count)
            pod.stock_status = status if count == 1 and status in ("low", "medium", "high") else None
            yield pod


# Lambda, `GET /instance-types`: one record per instance type, cents per hour of the machine.


def _is_lambda(values: Values) -> bool:
    inner = values.get("instance_type")
    return isinstance(inner, dict) and "price_cents_per_hour" in inner


_DESCRIBED = re.compile(r"(?:(\d+)x\s+)?(.+?)\s*(?:\((\d+)\s*GB\s*([A-Za-z0-9]*)\))?")
"""`8x H100 (80 GB SXM5)`."""


def _lambda(values: Values) -> Iterator[Listed]:
    machine: Values = values["instance_type"]
    described = _text(machine, "gpu_description")
    if not described or described == "N/A":
        described = _text(machine, "description")
    found = _DESCRIBED.fullmatch(described)
    count, gpu, memory, form = found.groups() if found else (None, described, None, "")
    gpus = _number(machine, "specs", "gpus")
    cents = _price(machine, "price_cents_per_hour")
    ram = _number(machine, "specs", "memory_gib")
    regions = values.get("regions_with_capacity_available")
    listed = Listed("lambda", f"{gpu} {form or ''}".strip(), float(count or 1) if gpus is None else gpus)
    listed.instance = _text(machine, "name")
    listed.memory_gib = float(memory) if memory else None
    listed.usd = None if cents is None else round(cents / 100, 6)
    listed.cores = _number(machine, "specs", "vcpus") or None
    listed.ram_gb = round(ram * 2**30 / 1e9, 1) if ram else None
    if "regions_with_capacity_available" not in values and {"status", "ip", "hostname"} & values.keys():
        listed.why_not = "a machine that is rented already, and no offer"
        yield listed
        return
    if isinstance(regions, list) and not regions:
        listed.why_not = "no region has capacity now"
        yield listed
        return
    for region in regions if isinstance(regions, list) else [None]:
        listed.region = _text(region, "name") if isinstance(region, dict) else region if region else "any"
        yield listed


# Azure, retail prices: one record per meter, dollars per unit of measure.
#
# A size has meters on demand, on spot, for Windows, for batch (low priority), and its reservations.


def _is_azure(values: Values) -> bool:
    return "retailPrice" in values and ("armSkuName" in values or "meterName" in values)


def _azure(values: Values) -> Iterator[Listed]:
    size = _text(values, "armSkuName")
    names = f"{_text(values, 'skuName')} {_text(values, 'meterName')}"
    listed = Listed("azure", instance=size, region=_text(values, "armRegionName") or "any")
    known = known_gpus("azure", size) if size else None
    listed.gpus = known.gpus if known else 0
    price = _price(values, "retailPrice")
    listed.usd, listed.spot_usd = (None, price) if re.search(r"\bspot\b", names, re.IGNORECASE) else (price, None)
    listed.why_not, listed.kind = _not_azure(values, names)
    if not listed.why_not and known is None:
        is_gpu = re.match(r"Standard_N[CDGVPM]", size, re.IGNORECASE)
        listed.why_not = f"GPUs of the size {size} are not known" if is_gpu else "no GPU"
        listed.kind = "GPUs of the size are not known" if is_gpu else ""
    yield listed


def _not_azure(values: Values, names: str) -> tuple[str, str]:
    """Return why a meter is no machine by the hour that Linux runs on, and what kind of reason that is."""
    unit = _text(values, "unitOfMeasure")
    sold_as, product = _text(values, "serviceName"), _text(values, "productName")
    how = _text(values, "type")
    if how not in ("", "Consumption"):
        return f"a price of the kind {how}, and not by the hour on demand", ""
    if _text(values, "reservationTerm"):
        return "a reservation", ""
    if unit and unit.casefold() not in ("1 hour", "1/hour"):
        return f"a price per {unit}", "a price of another unit than an hour"
    if sold_as not in ("", "Virtual Machines"):
        return f"a price of {sold_as}", "a price of another service than virtual machines"
    if "windows" in product.casefold():
        return "a price with Windows", ""
    if "low priority" in names.casefold():
        return "a price of batch (low priority)", ""
    if "dedicated" in product.casefold() or not _text(values, "armSkuName"):
        return "a price of another product than a virtual machine", ""
    if (_number(values, "tierMinimumUnits") or 0) > 0:
        return "a price from a least amount on", ""
    end = _day(_text(values, "effectiveEndDate"))
    if end is not None and end < datetime.date.today():
        return "a price that has ended", ""
    return "", ""


def _day(written: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(written[:10])
    except ValueError:
        return None


# Shadeform, `GET /instances/types`: one record per cloud and type, cents per hour of the machine.


def _is_shadeform(values: Values) -> bool:
    return "hourly_price" in values and ("shade_instance_type" in values or "cloud_instance_type" in values)


def _shadeform(values: Values) -> Iterator[Listed]:
    inside = values.get("configuration")
    machine: Values = inside if isinstance(inside, dict) else values
    name = (_text(values, "shade_instance_type") or _text(values, "cloud_instance_type")).replace("_", "-")
    form = _text(machine, "interconnect")
    gpu = f"{_text(machine, 'gpu_type').replace('_', ' ')} {form if re.match('sxm|pcie|nvl', form, re.I) else ''}"
    listed = Listed("shadeform", gpu.strip(), _number(machine, "num_gpus"))
    listed.instance = "_".join(filter(None, (_text(values, "cloud"), name)))
    listed.memory_gib = _number(machine, "vram_per_gpu_in_gb")
    listed.cores, listed.ram_gb = _number(machine, "vcpus") or None, _number(machine, "memory_in_gb") or None
    if machine.get("nvlink") is True and (listed.gpus or 0) > 1 and not form.casefold().startswith("sxm"):
        listed.interconnect = "nvlink"
    places = values.get("availability")
    if not isinstance(places, list) or not places:
        listed.why_not = "no region is named"
        yield listed
        return
    for place in (place for place in places if isinstance(place, dict)):
        listed.region = _text(place, "region") or "any"
        cents = _price(place, "hourly_price")
        is_spot = _text(place, "rental_type").casefold() == "spot"
        if cents is None and not is_spot:
            cents = _price(values, "hourly_price")
        usd = None if cents is None else round(cents / 100, 6)
        listed.usd, listed.spot_usd = (None, usd) if is_spot else (usd, None)
        listed.why_not = "" if place.get("available", True) is True else "not available now"
        if is_spot and usd is None:
            listed.why_not = "on spot at a price that is not listed"
        yield listed


# Prime Intellect, `GET /availability/gpus`: one record per offer of a cloud, dollars per hour of the machine.


def _is_prime(values: Values) -> bool:
    return "gpuType" in values and "gpuCount" in values and isinstance(values.get("prices"), dict)


_OUT_OF_STOCK = frozenset({"outofstock", "unavailable", "none", "soldout"})


def _prime(values: Values) -> Iterator[Listed]:
    prices: Values = values["prices"]
    gpu = f"{_text(values, 'gpuType').replace('_', ' ')} {_text(values, 'socket')}".strip()
    gpus, memory = _number(values, "gpuCount"), _number(values, "gpuMemory")
    listed = Listed("primeintellect", gpu, gpus)
    if memory and gpus and not re.search(r"_\d+GB$", _text(values, "gpuType")):
        listed.memory_gib = memory / gpus  # it is stated of the whole machine
    listed.instance = "_".join(filter(None, (_text(values, "provider"), _text(values, "cloudId"))))
    country, center = _text(values, "country"), _text(values, "dataCenter")
    place = country or _text(values, "region") or "any"
    listed.region = f"{place}/{center}" if center and center != place else place
    listed.community = True if _text(values, "security") == "community_cloud" else None
    price = _price(prices, "onDemand") or _price(prices, "communityPrice") or _price(prices, "price")
    listed.usd, listed.spot_usd = (None, price) if values.get("isSpot") is True else (price, None)
    listed.cores = _number(values, "vcpu", "defaultCount") or None
    listed.ram_gb = _number(values, "memory", "defaultCount") or None
    status = re.sub(r"[^a-z]", "", _text(values, "stockStatus").casefold())
    listed.stock_status = status if status in ("low", "medium", "high") else None
    if status in _OUT_OF_STOCK:
        listed.why_not = "not in stock now"
    elif _number(values, "prepaidTime"):
        listed.why_not = "a price that is paid in advance"
    elif (listed.gpus or 0) > _MOST_GPUS:
        listed.why_not = f"a cluster of several machines, which share more than {_MOST_GPUS} GPUs"
    elif listed.gpu.casefold().startswith("cpu"):
        listed.why_not = "no GPU"
    yield listed


_MOST_GPUS = 8
"""Most GPUs of one machine at the clouds that Prime Intellect lists."""


# AWS, `describe-spot-price-history`: one record per change of a price, dollars per hour of the machine.
#
# The newest price of each zone counts. Its region has one offer at the median of its zones, like the shipped list.


def _is_aws(values: Values) -> bool:
    return {"InstanceType", "SpotPrice", "AvailabilityZone"} <= values.keys() and "AcceleratorName" not in values


def read_spot_history(records: Iterable[JsonRecord], catalog: CatalogRows) -> list[tuple[int, Listed]]:
    """Return an offer on spot alone for each instance type and region; the rows that it replaces are counted."""
    newest: dict[tuple[str, str], tuple[str, int, float]] = {}
    for record in records:
        values = record.data
        try:
            price = _price(values, "SpotPrice")
        except _Unreadable as error:
            fix = "correct the row or leave it out"
            catalog.faults.append(Fault(catalog.table.file, record.line, "", str(error), fix))
            continue
        name, zone = _text(values, "InstanceType"), _text(values, "AvailabilityZone")
        system = _text(values, "ProductDescription")
        if not system.startswith("Linux/UNIX") and system:
            catalog.leave_out(record.line, f"a price with {system}", "a price with another system than Linux/UNIX")
        elif price is None or not zone:
            catalog.leave_out(record.line, "no price (empty or 0.00)")
        else:
            when = _text(values, "Timestamp")
            old = newest.get((name, zone))
            if old is not None:
                catalog.leave_out(record.line, "an older price of the same zone")
            if old is None or when > old[0]:
                newest[name, zone] = (when, record.line, price)
    return _regions_of_history(newest)


def _regions_of_history(newest: Mapping[tuple[str, str], tuple[str, int, float]]) -> list[tuple[int, Listed]]:
    by_region: dict[tuple[str, str], dict[str, tuple[str, int, float]]] = {}
    for (name, zone), price in newest.items():
        by_region.setdefault((name, region_of_zone(zone)), {})[zone] = price
    rows = []
    for (name, region), zones in by_region.items():
        known = known_gpus("aws", name)
        listed = Listed("aws", gpus=known.gpus if known else 0, region=region, instance=name)
        prices = {zone: price for zone, (_, _, price) in sorted(zones.items())}
        listed.spot_usd = float(median(list(prices.values())))
        listed.zones = prices if len(prices) > 1 else None
        listed.day = max((day for when, _, _ in zones.values() if (day := _day(when))), default=None)
        if known is None and _AWS_GPU.match(name):
            listed.why_not = f"GPUs of the type {name} are not known"
            listed.kind = "GPUs of the type are not known"
        rows.append((min(line for _, line, _ in zones.values()), listed))
    return rows


_AWS_GPU = re.compile(r"(?:p|g|gr|trn|inf|dl)\d")


def region_of_zone(zone: str) -> str:
    """Return the region of a zone of AWS: `us-east-1` of `us-east-1a`."""
    found = re.match(r"[a-z]{2,4}(?:-[a-z]+)+-\d+", zone)
    return found[0] if found else zone


# The kinds, and their records as rows of offers.


@dataclass(frozen=True)
class AnswerKind:
    """A kind of answer: its name, how its records are known, and what each one lists."""

    name: str
    provider: str
    is_record: Callable[[Values], bool]
    read: Callable[[Values], Iterator[Listed]] | None = None  # None: records are read together


SPOT_HISTORY = AnswerKind("AWS spot price history", "aws", _is_aws)
ANSWERS: Sequence[AnswerKind] = (
    AnswerKind("Vast.ai offers", "vast", _is_vast, _vast),
    AnswerKind("RunPod GPU types", "runpod", _is_runpod, _runpod),
    AnswerKind("Lambda instance types", "lambda", _is_lambda, _lambda),
    AnswerKind("Azure retail prices", "azure", _is_azure, _azure),
    AnswerKind("Shadeform instance types", "shadeform", _is_shadeform, _shadeform),
    AnswerKind("Prime Intellect availability", "primeintellect", _is_prime, _prime),
    SPOT_HISTORY,
)
SPOT_COLUMNS = frozenset({"AvailabilityZone", "InstanceType", "ProductDescription", "SpotPrice", "Timestamp"})
"""Columns that tell a CSV file of AWS's history from a catalog."""


@cache
def answer_kind(name: str) -> AnswerKind | None:
    """Return the kind of that name; None where it is no kind of answer."""
    return next((kind for kind in ANSWERS if kind.name == name), None)


def kind_of_record(values: Values) -> AnswerKind | None:
    """Return the kind of answer that has such a record; None where none has."""
    return next((kind for kind in ANSWERS if kind.is_record(values)), None)


def records_of_csv(table: CsvTable) -> list[JsonRecord]:
    """Return the rows of a CSV file as records."""
    return [JsonRecord((), line, dict(zip(table.columns, cells, strict=True))) for line, cells in table.rows]


def read_answer(kind: AnswerKind, records: Sequence[JsonRecord], file: str, matcher: GpuMatcher) -> CatalogRows:
    """Return the machines of an answer, and what became of its other records."""
    catalog = CatalogRows(CsvTable(file, (), tuple((record.line, ()) for record in records)))
    if kind is SPOT_HISTORY:
        for line, listed in read_spot_history(records, catalog):
            _add(line, listed, catalog, matcher)
        return catalog
    for record in records:
        try:
            if code := _other_currency(record.data):
                catalog.leave_out(record.line, f"a price in {code}: ask for the prices in USD", "a price not in USD")
                continue
            for listed in kind.read(record.data) if kind.read else ():
                _add(record.line, listed, catalog, matcher)
        except _Unreadable as error:
            catalog.faults.append(Fault(file, record.line, "", str(error), "correct the record or leave it out"))
    return catalog


def pages_left(data: Any) -> str:
    """Return the note of an answer that is a page of several, empty where it is whole."""
    pages = data if isinstance(data, list) else [data]
    last = next((page for page in reversed(pages) if isinstance(page, dict)), {})
    if any(last.get(key) for key in ("NextPageLink", "NextToken", "nextLink", "next")):
        return "the answer has more pages, which are not in the file"
    items, total = last.get("items"), last.get("totalCount")
    if len(pages) == 1 and isinstance(items, list) and isinstance(total, int) and total > len(items):
        return f"the answer has {total:,} offers, of which {len(items):,} are in the file"
    return ""


def why_no_answer(data: Any, fix: str) -> tuple[str, str]:
    """Return what is wrong with a JSON document in which no record is known, and what to do."""
    for keys, what, instead in _NOT_READ:
        if isinstance(data, dict) and keys <= data.keys():
            return f"is {what}, which is not read", instead
    said = _error_of(data)
    if said:
        return f"the answer is an error: {said}", "ask again with the key of your account, and save the whole answer"
    lists = [value for value in data.values() if isinstance(value, list)] if isinstance(data, dict) else []
    if lists and not any(lists):
        return "the answer has no offers", "ask with a wider filter"
    return "no list of machines", fix


_NOT_READ: Sequence[tuple[frozenset[str], str, str]] = (
    (
        frozenset({"offerCode", "products", "terms"}),
        "a price list of AWS",
        "give SkyPilot's or gpuhunt's catalog of aws, or the spot price history",
    ),
    (frozenset({"skus"}), "a list of SKUs of Google Cloud", "give SkyPilot's or gpuhunt's catalog of gcp"),
)


def _error_of(data: Any) -> str:
    """Return the message of an answer that is an error, empty where it is none."""
    if not isinstance(data, dict):
        return ""
    errors = data.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else data.get("error")
    for place in (first, data):
        if isinstance(place, str):
            return place[:120]
        for key in ("message", "msg", "detail", "error"):
            if isinstance(place, dict) and isinstance(place.get(key), str) and place[key]:
                return str(place[key])[:120]
    return ""


def _add(line: int, listed: Listed, catalog: CatalogRows, matcher: GpuMatcher) -> None:
    """Add a listed machine, or count why it is none."""
    count = listed.gpus
    if listed.why_not:
        catalog.leave_out(line, listed.why_not, listed.kind)
        return
    if not count:
        catalog.leave_out(line, "no GPU")
        return
    if count != int(count):
        catalog.leave_out(line, "a fraction of a GPU")
        return
    memory = (listed.memory_gib,) if listed.memory_gib else ()
    machine = Machine(listed.provider, listed.instance, int(count))
    match, gpus = matched_gpu(catalog, line, matcher, listed.gpu, memory, machine)
    if match is None or match.gpu is None:
        return
    row: Row = {
        **{"provider": listed.provider, "region": listed.region or "any"},
        "instance": listed.instance or f"{gpus}x-{match.gpu.casefold()}",
        **{"gpu": match.gpu, "gpus": gpus, "notes": match.note},
        **{"usd_per_hour": listed.usd, "spot_usd_per_hour": listed.spot_usd},
        **{"cpu_cores": listed.cores, "ram_gb": listed.ram_gb, "interconnect": listed.interconnect},
        **{"community": listed.community, "stock_status": listed.stock_status},
        **{"date": listed.day, "zones": None if listed.zones is None else tuple(listed.zones.items())},
    }
    catalog.add(line, row)
