"""Lists of machines as others publish them: SkyPilot's `vms.csv`, and Hugging Face's machines for jobs."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from planner.arrays import median
from planner.catalogs.gpu_match import GpuMatch, GpuMatcher, says_nvlink
from planner.documents.tables import CsvTable, JsonDocument
from planner.errors import Fault, InputError
from planner.library.names import (
    Attached,
    ChipSlice,
    attached_accelerator,
    chip_slice,
    known_gpus,
    provider_name,
    seller_of,
    tiers_of,
    unsold_type,
)
from planner.loading.price_files import MAX_FILE_OFFERS, Row, parse_number, too_many_offers
from planner.units import GB, GIB

if TYPE_CHECKING:
    from collections.abc import Sequence


# SkyPilot's `vms.csv`: instance types by region or zone, dollars per instance and hour, read by column name.
#
# Any version is read. Its rows say what a provider sells, not what is in stock. The memory of a GPU stands in a Python
# dictionary as text; SizeInMiB is that of one GPU, of all GPUs of the instance, or in GB in spite of its name;
# TotalGpuMemoryInMiB that of all GPUs or of one. A price of 0.00 is not known.
#
# Rows of GCP without an instance type are accelerators alone, and their machines stand in rows of their own: an offer
# is the sum of both. Some of these rows have the price of flex-start in place of that on demand.


# What the readers of catalogs share: rows that are read, rows that are left out by reason, faults of cells.


Cells = Mapping[str, str]
"""The cells of a row by column."""


@dataclass
class LeftOut:
    """Rows that are left out for one reason: how many, and the line of the first."""

    rows: int
    line: int
    kind: str = ""
    """The reason without the name that differs from row to row, by which a summary adds rows up; empty: no other."""


PRICE_KEYS = ("usd_per_hour", "spot_usd_per_hour")


@dataclass
class CatalogRows:
    """The machines of a catalog as offers to be validated, and what became of the other rows."""

    table: CsvTable
    machines: dict[tuple[Any, ...], tuple[int, Row]] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def add(self, line: int, row: Row) -> None:
        """Add a row with one or both of its prices; a row of the same machine adds the price that is missing.

        Of two prices the higher one is kept: the lower one may not be to be had. All rows of a catalog have the same
        keys in the same order, so that their values tell machines apart.
        """
        prices = {key: price for key in PRICE_KEYS if (price := row.pop(key, None)) is not None}
        if not prices:
            self.leave_out(line, "no price (empty or 0.00)")
            return
        machine = tuple(value for key, value in row.items() if key != "notes")
        if machine not in self.machines:
            stated = {key: value for key, value in row.items() if value is not None and value != ""}
            self.machines[machine] = (line, stated | prices)
            return
        _, known = self.machines[machine]
        if any(key in known and known[key] != price for key, price in prices.items()):
            self.leave_out(line, "the same machine at another price: the higher one is kept")
        elif all(key in known for key in prices):
            self.leave_out(line, "a repeated row")
        known |= {key: max(price, known.get(key, 0.0)) for key, price in prices.items()}

    def offers(self) -> list[tuple[int, Row]]:
        """Return line and keys of each machine that is sold, without spot prices that are no discount."""
        return bookable(self.machines.values(), self)

    def leave_out(self, line: int, reason: str, kind: str = "") -> None:
        """Count a row that cannot be mapped."""
        self.left_out.setdefault(reason, LeftOut(0, line, kind)).rows += 1

    def note(self, text: str) -> None:
        """Count a row that is read in a way that the user should know."""
        self.notes[text] = self.notes.get(text, 0) + 1

    def number(self, line: int, cells: Cells, column: str) -> float | None:
        """Return the number in a cell, None where it is empty; one that is no number or negative is a fault."""
        cell = cells.get(column, "")
        if not cell:
            return None
        try:
            number = parse_number(cell)
        except ValueError as error:
            self.faults.append(Fault(self.table.file, line, column, str(error), "correct the row or leave it out"))
            return None
        if number < 0:
            self.faults.append(Fault(self.table.file, line, column, f"{cell} is negative", "it must be at least 0"))
            return None
        return number

    def price(self, line: int, cells: Cells, column: str) -> float | None:
        """Return the price in a cell; None where it is empty or 0.00, which means that it is not known."""
        return self.number(line, cells, column) or None


def bookable(rows: Iterable[tuple[int, Row]], catalog: CatalogRows) -> list[tuple[int, Row]]:
    """Return the rows that can be booked, each with the prices at which it can; the others are left out."""
    sold = ((line, _as_sold(line, row, catalog)) for line, row in rows)
    return [(line, _with_usable_spot(row, catalog)) for line, row in sold if row is not None]


def _as_sold(line: int, row: Row, catalog: CatalogRows) -> Row | None:
    """Return a row without a price on demand where its provider sells none; None where it cannot be had at all."""
    instance = str(row.get("instance", ""))
    unsold = unsold_type(provider_name(str(row.get("provider", ""))), instance)
    if unsold is None:
        return row
    if not unsold.sold_on_spot or "spot_usd_per_hour" not in row:
        catalog.leave_out(line, f"{instance}: {unsold.reason}", unsold.reason)
        return None
    if "usd_per_hour" in row:
        catalog.note(f"{instance}: {unsold.reason}, its price on demand is left out")
    return {key: value for key, value in row.items() if key != "usd_per_hour"}


def _with_usable_spot(row: Row, catalog: CatalogRows) -> Row:
    """Return a row without a spot price that is no discount."""
    on_demand, spot = (row.get(key) for key in PRICE_KEYS)
    if spot is None or on_demand is None or spot < on_demand:
        return row
    catalog.note("spot price not below that on demand: left out, it is no discount")
    return {key: value for key, value in row.items() if key not in ("spot_usd_per_hour", "zones")}


def of_one_tier(rows: Iterable[tuple[int, Row]], catalog: CatalogRows) -> Iterator[tuple[int, Row]]:
    """Yield the rows, each of a provider that sells several tiers under the name of its tier: `runpod-secure`.

    The instance says it (`1x_L4_SECURE`), or the column `community`, or the region of gpuhunt, which is a country for
    hosts of the community and a data centre for secure ones. A row that does not say it is a fault.
    """
    for line, row in rows:
        if "provider" not in row:
            yield line, row  # which is refused for that
            continue
        tiers, company = tiers_of(str(row["provider"])), seller_of(str(row["provider"]))
        said = _said_tier(row)
        if tiers and said not in tiers:
            fix = f"say which: --provider {' or --provider '.join(tiers.values())}"
            what = f"{row['provider']} sells {' and '.join(tiers)} machines at prices of their own"
            catalog.faults.append(Fault(catalog.table.file, 0, "", what, fix))
            return
        if tiers:
            yield line, {**row, "provider": tiers[said]}
        elif company != row["provider"] and said and tiers_of(company)[said] != row["provider"]:
            catalog.leave_out(line, f"a machine of {tiers_of(company)[said]}, and not of {row['provider']}")
        else:
            yield line, row


def _said_tier(row: Row) -> str:
    """Return the tier that a row says, empty where it says none."""
    instance, region = str(row.get("instance", "")).casefold(), str(row.get("region", "any"))
    for tier in ("secure", "community"):
        if instance.endswith(f"_{tier}"):
            return tier
    if "community" in row:
        return "community" if row["community"] else "secure"
    if re.fullmatch(r"[A-Z]{2}", region):
        return "community"
    return "secure" if re.fullmatch(r"[A-Z]{2,3}-[A-Z]{2,3}-\d+", region) else ""


def read_rows(
    table: CsvTable, needed: tuple[str, ...], kind: str, offer: Callable[[int, Cells, CatalogRows], Row | None]
) -> CatalogRows:
    """Return the rows of a catalog, each read by `offer` (None: left out), or a fault for each missing column."""
    catalog = CatalogRows(table, faults=check_columns(table, needed, kind))
    if catalog.faults:
        return catalog
    for line, values in table.rows:
        if len(catalog.machines) >= MAX_FILE_OFFERS:
            catalog.faults.append(too_many_offers(table.file, line))
            break
        row = offer(line, dict(zip(table.columns, values, strict=True)), catalog)
        if row is not None:
            catalog.add(line, row)
    return catalog


def check_columns(table: CsvTable, needed: tuple[str, ...], kind: str) -> list[Fault]:
    """Return a fault for each column that a catalog of this kind needs and the file has not."""
    has = ", ".join(table.columns)
    return [
        Fault(table.file, 1, name, f"a {kind} without this column", f"it has {has[:200]}")
        for name in needed
        if name not in table.columns
    ]


def matched_gpu(
    catalog: CatalogRows, line: int, matcher: GpuMatcher, name: str, memory_gib: tuple[float, ...], machine: Machine
) -> tuple[GpuMatch | None, int]:
    """Return the GPU of a machine and the number of them; no GPU, and the row left out, where it is not known.

    Where the number of an instance type is known, it counts: a list has twelve GPUs in Azure's ND96isr_H100_v5.
    """
    match = matcher.match(name, memory_gib, machine.provider, machine.instance, machine.hint)
    if match.gpu is None:
        catalog.leave_out(line, match.reason, match.kind)
        return None, machine.gpus
    known = known_gpus(machine.provider, machine.instance) if machine.instance else None
    if known is not None and known.gpus and known.gpus != int(known.gpus):
        catalog.leave_out(line, f"{machine.instance} has a part of a GPU", "a part of a GPU")
        return None, machine.gpus
    if match.note:
        catalog.note(match.note)
    if known is not None and known.gpus not in (0, machine.gpus):
        catalog.note("another number of GPUs than the instance type has: that of the type is taken")
        return match, int(known.gpus)
    return match, machine.gpus


class Machine(NamedTuple):
    """What a row says of its machine besides the GPU."""

    provider: str
    instance: str
    gpus: int
    hint: str = ""  # other names that may say the form


def whole_gpus(catalog: CatalogRows, line: int, count: float | None) -> int | None:
    """Return the number of GPUs of a row; None, and the row left out, where it has none or a part of one."""
    if not count:
        catalog.leave_out(line, "no GPU")
        return None
    if count != int(count):
        catalog.leave_out(line, "a fraction of a GPU")
        return None
    return int(count)


# gpuhunt's CSV: dollars per instance and hour, one row on demand and one on spot.
#
# Columns of its second version: instance_name, location, price, cpu, memory, gpu_count, gpu_name, gpu_memory (GB of one
# GPU), spot, disk_size, gpu_vendor, flags, cpu_arch, provider_data. The provider is the name of the file. GCP's rows
# with the flag `gcp-dws-calendar-mode` are reservations for a fixed time, although their column `spot` reads as on
# demand.


NEEDED_COLUMNS = ("instance_name", "location", "price", "gpu_count", "gpu_name", "spot")
NAMED_COLUMNS = frozenset([*NEEDED_COLUMNS, "gpu_memory", "cpu", "memory", "disk_size", "gpu_vendor", "provider_data"])
"""Columns that tell this catalog from others."""
GIB_PROVIDERS = frozenset({"aws", "azure", "gcp", "nebius"})
"""Providers whose column `memory` is in GiB: gpuhunt says GB, and passes on what these state (0.1.34, `providers/`)."""


def read_gpuhunt(table: CsvTable, provider: str, matcher: GpuMatcher) -> CatalogRows:
    """Return the rows of a catalog of one provider, the two prices of a machine in one row."""
    return read_rows(
        table,
        NEEDED_COLUMNS,
        "gpuhunt catalog",
        lambda line, cells, catalog: _gpuhunt_offer(line, cells, provider, matcher, catalog),
    )


def _gpuhunt_offer(line: int, cells: Cells, provider: str, matcher: GpuMatcher, catalog: CatalogRows) -> Row | None:
    """Return a machine with one of its prices."""
    count = whole_gpus(catalog, line, catalog.number(line, cells, "gpu_count") if cells["gpu_name"] else None)
    if count is None:
        return None
    instance = cells["instance_name"]
    if "gcp-dws-calendar-mode" in cells.get("flags", ""):
        catalog.leave_out(line, "a price of capacity that is reserved by the calendar")
        return None
    if "pod_counts" in cells.get("provider_data", ""):
        catalog.leave_out(line, "a machine of a cluster, which is rented as several")
        return None
    memory_gib = catalog.number(line, cells, "gpu_memory")
    memory = (memory_gib,) if memory_gib else ()
    match, count = matched_gpu(catalog, line, matcher, cells["gpu_name"], memory, Machine(provider, instance, count))
    if match is None:
        return None
    if (sold := cells["spot"].casefold()) not in ("true", "false"):
        fix = "gpuhunt writes True or False"
        catalog.faults.append(Fault(catalog.table.file, line, "spot", f"{cells['spot']!r} is neither", fix))
        return None
    return {
        **{"provider": provider, "region": cells["location"] or "any", "instance": instance},
        **{"gpu": match.gpu, "gpus": count, "notes": match.note},
        "spot_usd_per_hour" if sold == "true" else "usd_per_hour": catalog.price(line, cells, "price"),
        "cpu_cores": catalog.number(line, cells, "cpu") or None,
        "ram_gb": _ram_gb(provider, catalog.number(line, cells, "memory")),
    }


def _ram_gb(provider: str, memory: float | None) -> float | None:
    """Return memory in GB of 10^9 bytes; None where it is not stated."""
    if not memory:
        return None
    return round(memory * GIB / GB, 1) if provider in GIB_PROVIDERS else memory


NEEDED = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price")
NAMED = frozenset([*NEEDED, "SpotPrice", "GpuInfo", "Region", "AvailabilityZone", "MemoryGiB"])
"""Columns that tell this catalog from others."""

_LEAST_MIB = 2000
"""Below this a number of MiB is one of GB: no GPU has 2 GB, none 2,000."""
_LONGEST_INFO = 2000
_JSON_NULL = re.compile(r": *null(?=[,}])")
"""Some clouds mix the null of JSON into the dictionary."""


_N1 = ("n1-standard-", "n1-highmem-", "n1-highcpu-")
_N1_GIB_PER_CORE = 4
FLEX_START_BELOW = 0.6
"""Share of the highest price of an accelerator in any region below which a price is that of flex-start.

In SkyPilot's catalog of GCP (v8) flex-start is at 0.33 to 0.50 of it; prices on demand, least for L4, begin at 0.62."""
FLEX_START = "a price far below that on demand elsewhere, which is that of flex-start: left out"


def read_skypilot(table: CsvTable, provider: str, matcher: GpuMatcher) -> CatalogRows:
    """Return the rows of a catalog of one provider."""
    hosts, placeholders = _read_hosts(table), _read_placeholders(table)
    catalog = read_rows(
        table,
        NEEDED,
        "SkyPilot catalog",
        lambda line, cells, catalog: _offer(_Row(line, cells, provider, placeholders), hosts, matcher, catalog),
    )
    catalog.machines = _by_region(catalog)
    return catalog


@dataclass(frozen=True)
class _Row:
    """One row of a provider's catalog."""

    line: int
    cells: Cells
    provider: str
    placeholders: frozenset[tuple[str, str]] = frozenset()

    def prices(self, catalog: CatalogRows) -> list[float | None]:
        """Return the prices on demand and on spot."""
        return [catalog.price(self.line, self.cells, column) for column in ("Price", "SpotPrice")]


@dataclass
class _Hosts:
    """The machines without accelerators of a catalog, and what its accelerators without a machine cost at most."""

    by_zone: dict[tuple[str, str], list[tuple[int, Cells]]] = field(default_factory=dict)
    highest_usd: dict[str, float] = field(default_factory=dict)  # of one accelerator, by its name in lower case


def _read_hosts(table: CsvTable) -> _Hosts:
    """Return the machines to which accelerators are attached; none where every accelerator stands in its machine."""
    hosts = _Hosts()
    names = {name: table.position(name) for name in (*NEEDED, "AvailabilityZone", "Region")}
    if any(names[name] is None for name in NEEDED):
        return hosts

    def cell(values: tuple[str, ...], name: str) -> str:
        place = names[name]
        return "" if place is None else values[place]

    alone = [row for _, row in table.rows if cell(row, "AcceleratorName") and not cell(row, "InstanceType")]
    if not alone:
        return hosts
    for values in alone:
        gpu, price, count = (cell(values, name) for name in ("AcceleratorName", "Price", "AcceleratorCount"))
        each_usd = _quotient(price, count)
        hosts.highest_usd[gpu.casefold()] = max(each_usd, hosts.highest_usd.get(gpu.casefold(), 0.0))
    for line, values in table.rows:
        if cell(values, "InstanceType") and not cell(values, "AcceleratorName"):
            zone = cell(values, "Region"), cell(values, "AvailabilityZone")
            hosts.by_zone.setdefault(zone, []).append((line, dict(zip(table.columns, values, strict=True))))
    return hosts


_SIZES_OF_ONE_PRICE = 3
"""Slices of so many sizes at one price have none."""


def _read_placeholders(table: CsvTable) -> frozenset[tuple[str, str]]:
    """Return the chips of slices, each with a price that slices of several sizes share."""
    places = [table.position(name) for name in ("AcceleratorName", "Price")]
    sizes: dict[tuple[str, str], set[str]] = {}
    if None in places:
        return frozenset()
    for _, values in table.rows:
        name, price = (values[place or 0] for place in places)
        if price and name.startswith("tpu-"):
            chip, _, size = name.rpartition("-")
            sizes.setdefault((chip, price), set()).add(size)
    return frozenset(key for key, several in sizes.items() if len(several) >= _SIZES_OF_ONE_PRICE)


def _by_region(catalog: CatalogRows) -> dict[tuple[Any, ...], tuple[int, Row]]:
    """Return the machines with those of several zones of a region as one offer of the region.

    Its spot price is the median of the zones, each of which it lists; of two prices on demand the higher one is kept.
    """
    groups: dict[tuple[Any, ...], list[tuple[int, Row]]] = {}
    for line, row in catalog.machines.values():
        same = tuple((key, value) for key, value in row.items() if key not in (*_BY_ZONE, *PRICE_KEYS))
        groups.setdefault(same, []).append((line, row))
    merged = []
    for rows in groups.values():
        if len({row["zone"] for _, row in rows if "zone" in row}) > 1:
            merged.append((rows[0][0], _of_region([row for _, row in rows], catalog)))
            continue
        merged += [(line, {**row, "region": _place(row["region"], row.get("zone", ""))}) for line, row in rows]
    plain = ((line, {key: value for key, value in row.items() if key != "zone"}) for line, row in merged)
    return {(place,): row for place, row in enumerate(plain)}


_BY_ZONE = ("zone", "notes")


def _of_region(rows: Sequence[Row], catalog: CatalogRows) -> Row:
    """Return one offer of the rows of the zones of a region."""
    zones = {row["zone"]: row["spot_usd_per_hour"] for row in rows if "zone" in row and "spot_usd_per_hour" in row}
    on_demand = {row["usd_per_hour"] for row in rows if "usd_per_hour" in row}
    spot = [row["spot_usd_per_hour"] for row in rows if "spot_usd_per_hour" in row]
    if len(on_demand) > 1:
        catalog.note("zones of one region at several prices on demand: the highest is kept")
    merged = {key: value for key, value in rows[0].items() if key not in ("zone", *PRICE_KEYS)}
    prices = {"usd_per_hour": max(on_demand, default=None), "spot_usd_per_hour": median(spot) if spot else None}
    listed = {"zones": tuple(sorted(zones.items()))} if len(zones) > 1 else {}
    return {**merged, **{key: price for key, price in prices.items() if price is not None}, **listed}


def _quotient(price: str, count: str) -> float:
    """Return the price of one accelerator; 0 where a cell is no number, which is a fault that its row tells."""
    try:
        return float(price) / float(count)
    except (ValueError, ZeroDivisionError):
        return 0.0


def _offer(row: _Row, hosts: _Hosts, matcher: GpuMatcher, catalog: CatalogRows) -> Row | None:
    line, cells = row.line, row.cells
    name = cells["AcceleratorName"]
    number = catalog.number(line, cells, "AcceleratorCount") if name else None
    if number and (chips := chip_slice(row.provider, name)) is not None:
        return _slice_offer(row, chips, matcher, catalog)
    count = whole_gpus(catalog, line, number)
    if count is None:
        return None
    prices, machine = row.prices(catalog), row
    if not cells["InstanceType"] and (attached := attached_accelerator(row.provider, name)) is not None:
        host = _host_of(row, count, attached, hosts, catalog)
        if host is None:
            what = "without a price of the machine that it is attached to"
            catalog.leave_out(line, f"{name} {what}", f"a GPU {what}")
            return None
        name, machine = attached.gpu, host
        prices = _sums(row, count, attached, hosts, host, catalog)
    instance = machine.cells["InstanceType"]
    if not instance and matcher.match(name, (), row.provider, "").gpu is not None:
        catalog.leave_out(line, f"{name} without its machine", "a GPU without its machine")
        return None
    info = _info(cells.get("GpuInfo", ""), count)
    seen = Machine(row.provider, instance, count, _hint(row, info))
    match, count = matched_gpu(catalog, line, matcher, name, _readings(row, info), seen)
    if match is None:
        return None
    memory_gib = catalog.number(machine.line, machine.cells, "MemoryGiB")
    return {
        **{"provider": row.provider, **_where(cells)},
        **{"instance": instance, "gpu": match.gpu, "gpus": count, "notes": match.note},
        **{"usd_per_hour": prices[0], "spot_usd_per_hour": prices[1]},
        "cpu_cores": catalog.number(machine.line, machine.cells, "vCPUs") or None,
        "ram_gb": round(memory_gib * GIB / GB, 1) if memory_gib else None,
        "interconnect": "nvlink" if count > 1 and (says_nvlink(name) or says_nvlink(instance)) else None,
        "community": True if instance.casefold().endswith("_community") else None,
    }


def _host_of(row: _Row, count: int, attached: Attached, hosts: _Hosts, catalog: CatalogRows) -> _Row | None:
    """Return the cheapest machine of the zone that takes so many accelerators."""
    names, cores = attached.hosts.get(count, ()), attached.cores.get(count)
    zone = row.cells.get("Region", ""), row.cells.get("AvailabilityZone", "")
    fitting = []
    for line, cells in hosts.by_zone.get(zone, ()):
        host = _Row(line, cells, row.provider)
        if cells["InstanceType"] in names or (cores is not None and _is_n1_of(host, cores, catalog)):
            price = host.prices(catalog)[0]
            fitting.append((price is None, price or 0.0, line, host))
    return min(fitting)[-1] if fitting else None


def _is_n1_of(host: _Row, cores: int, catalog: CatalogRows) -> bool:
    """Return whether a machine is of N1 and has at least so many virtual cores, and the memory that goes with them."""
    if not host.cells["InstanceType"].startswith(_N1):
        return False
    has_cores, has_gib = (catalog.number(host.line, host.cells, key) or 0.0 for key in ("vCPUs", "MemoryGiB"))
    return has_cores >= cores and has_gib >= _N1_GIB_PER_CORE * cores


def _sums(
    row: _Row, count: int, attached: Attached, hosts: _Hosts, host: _Row, catalog: CatalogRows
) -> list[float | None]:
    """Return the prices of accelerators with their machine, None where one of both is not known."""
    prices = row.prices(catalog)
    highest = hosts.highest_usd.get(row.cells["AcceleratorName"].casefold(), 0.0)
    if attached.usd_per_hour:  # a price that stands for none (700.00 for each size of a TPU) is not a yardstick
        highest = max(attached.usd_per_hour, min(highest, 2 * attached.usd_per_hour))
    if prices[0] is not None and prices[0] / count < FLEX_START_BELOW * highest:
        catalog.note(FLEX_START)
        prices[0] = None
    if attached.includes_host:
        return prices
    both = zip(prices, host.prices(catalog), strict=True)
    return [None if part is None or base is None else round(part + base, 6) for part, base in both]


def _slice_offer(row: _Row, chips: ChipSlice, matcher: GpuMatcher, catalog: CatalogRows) -> Row | None:
    """Return the offer of a slice of TPUs, whose price has its hosts."""
    match = matcher.match(chips.gpu, (), row.provider, "")
    if match.gpu is None:
        catalog.leave_out(row.line, match.reason, match.kind)
        return None
    count = whole_gpus(catalog, row.line, chips.chips)
    if count is None:
        return None
    prices = row.prices(catalog)
    chip, price = row.cells["AcceleratorName"].rpartition("-")[0], row.cells["Price"]
    if prices[0] == chips.no_price_usd or (chip, price) in row.placeholders:
        catalog.leave_out(row.line, f"${price} an hour for slices of every size, which is no price")
        return None
    prices = [price if price != chips.no_price_usd else None for price in prices]
    return {
        **{"provider": row.provider, **_where(row.cells)},
        **{"instance": chips.instance, "gpu": match.gpu, "gpus": count, "notes": ""},
        **{"usd_per_hour": prices[0], "spot_usd_per_hour": prices[1]},
        **{"cpu_cores": None, "ram_gb": None, "interconnect": "ici" if count > 1 else None, "community": None},
    }


def _where(cells: Cells) -> dict[str, str]:
    """Return the region and the zone of a row; marketplaces write `, US` where they know no city."""
    region, zone = cells.get("Region", "").strip(" ,"), cells.get("AvailabilityZone", "")
    return {"region": region, "zone": zone} if region else {"region": zone or "any", "zone": ""}


def _place(region: str, zone: str) -> str:
    """Return the zone, with its region where its name does not say it, else the region.

    AWS's zones are identifiers (`use1-az4`).
    """
    return f"{region}/{zone}" if zone and region and not zone.startswith(region) else zone or region or "any"


class _Info(NamedTuple):
    """What the column GpuInfo says of one GPU: its name, and what its memory may be in GiB, the likeliest first."""

    name: str = ""
    readings: tuple[float, ...] = ()


@cache
def _info(info: str, count: int) -> _Info:
    """Return what the dictionary in a cell says; nothing where it is none. Some clouds write its keys in lower case."""
    stated = _parsed(info)
    gpus = stated.get("gpus")
    first = gpus[0] if isinstance(gpus, (list, tuple)) and gpus and isinstance(gpus[0], dict) else {}
    inside, name = first.get("memoryinfo"), first.get("name")
    size = _gib(inside.get("sizeinmib") if isinstance(inside, dict) else None)
    total = _gib(stated.get("totalgpumemoryinmib"))
    readings: tuple[float, ...] = () if total is None else (total / count, total)
    if size is not None:
        readings = (size, size / count) if count > 1 and size == total else (size,)
    return _Info(name if isinstance(name, str) else "", readings)


def _parsed(info: str) -> dict[str, Any]:
    if not info or len(info) > _LONGEST_INFO:
        return {}
    try:
        value = ast.literal_eval(_JSON_NULL.sub(": None", info))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return {}
    return _with_plain_keys(value) if isinstance(value, dict) else {}


def _with_plain_keys(value: Any) -> Any:
    """Return nested dictionaries with their keys in lower case."""
    if isinstance(value, dict):
        return {str(key).casefold(): _with_plain_keys(inner) for key, inner in value.items()}
    return [_with_plain_keys(inner) for inner in value] if isinstance(value, (list, tuple)) else value


_MEMORY_IN_INSTANCE = re.compile(r"(?<![A-Za-z0-9])\d+x[A-Za-z0-9]+_(\d+)GB(?![A-Za-z0-9])")
"""`hyperstack__8xH100_80GB__192__960`: the memory of one GPU, where the column has that of all twice over."""


def _readings(row: _Row, info: _Info) -> tuple[float, ...]:
    """Return what the memory of one GPU may be in GiB: as the name of the instance says it, else as GpuInfo does."""
    found = _MEMORY_IN_INSTANCE.search(row.cells["InstanceType"])
    return (float(found[1]),) if found else info.readings


def _hint(row: _Row, info: _Info) -> str:
    """Return what else may say the form: the GPU's name in GpuInfo, and the instance of the cloud behind a broker."""
    upstream = re.sub(r"_\d+$", "", row.cells.get("UpstreamCloudId", ""))
    owner, behind, _ = row.cells["InstanceType"].partition("__")
    known = known_gpus(owner, upstream) if upstream and behind else None
    return " ".join(filter(None, (upstream, info.name, known.form if known else "")))


def _gib(size: Any) -> float | None:
    if isinstance(size, bool) or not isinstance(size, (int, float)) or not 0 < size < 10**9:
        return None
    return size / 1024 if size >= _LEAST_MIB else float(size)


# Hugging Face's machines for jobs: JSON of `huggingface_hub.list_jobs_hardware()` or of the address that it asks.
#
# A machine has texts in place of numbers (`"4"` GPUs, `"96 GB"` of all of them), and a price per minute. Keys are those
# of the package (`unit_cost_usd`) or of the interface (`unitCostUSD`).


PROVIDER = "huggingface"
FLAVORS_WANTED = "give the JSON list of huggingface_hub.list_jobs_hardware(), or the answer of a provider that is read"
_COLUMNS = ("instance_name", "location", "price", "cpu", "memory", "gpu_count", "gpu_name", "gpu_memory", "spot")
_UNITS_PER_HOUR = {"second": 3600, "minute": 60, "hour": 1}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def flavors_table(document: JsonDocument) -> CsvTable:
    """Return the machines as a table with the columns of a gpuhunt catalog, each with its line in the file.

    `InputError` with every fault: a machine without name, price or unit.
    """
    data = document.data
    if not isinstance(data, list) or not data or not all(isinstance(flavor, dict) for flavor in data):
        raise InputError([document.fault((), "no list of machines", FLAVORS_WANTED)])
    faults: list[Fault] = []
    rows = []
    lines = [record.line for record in document.records(lambda _: True)]
    for index, machine in enumerate(data):
        missing = [name for name in ("name", "unit_cost_usd", "unit_label") if _get(machine, name) is None]
        unit = str(_get(machine, "unit_label") or "").casefold()
        if missing:
            faults.append(document.fault((index,), f"a machine without {' and '.join(missing)}", FLAVORS_WANTED))
        elif unit not in _UNITS_PER_HOUR:
            what, fix = f"{unit!r} is no unit of time that is known", f"expected {', '.join(_UNITS_PER_HOUR)}"
            faults.append(document.fault((index,), what, fix))
        else:
            rows.append((lines[index], _cells(machine, _UNITS_PER_HOUR[unit])))
    if faults:
        raise InputError(faults)
    return CsvTable(document.file, _COLUMNS, tuple(rows))


def _get(machine: Mapping[str, Any], name: str) -> Any:
    """Return a value under the name of the package or that of the interface."""
    first, *others = name.split("_")
    camel = first + "".join("USD" if word == "usd" else word.capitalize() for word in others)
    return machine.get(name, machine.get(camel))


def _cells(machine: Mapping[str, Any], units_per_hour: int) -> tuple[str, ...]:
    cost = _get(machine, "unit_cost_usd")
    price = f"{cost * units_per_hour:.6g}" if isinstance(cost, (int, float)) else str(cost)
    accelerator = machine.get("accelerator")
    gpu: Mapping[str, Any] = accelerator if isinstance(accelerator, dict) else {}
    count, total = _number(gpu.get("quantity")), _number(gpu.get("vram"))
    memory = f"{float(total) / float(count):g}" if count and total and float(count) else ""
    name = str(gpu.get("model") or "")
    ram, cores = _number(machine.get("ram")), _number(machine.get("cpu"))
    return (str(machine["name"]), "any", price, cores, ram, count or ("1" if name else "0"), name, memory, "False")


def _number(text: Any) -> str:
    """Return the first number in a text such as `46 GB`; empty without one."""
    found = _NUMBER.search(str(text)) if text is not None else None
    return found[0] if found else ""


def plain_flavors(machines: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the machines of huggingface_hub as plain data."""
    return [
        {**vars(machine), "accelerator": vars(machine.accelerator) if machine.accelerator else None}
        for machine in machines
    ]
