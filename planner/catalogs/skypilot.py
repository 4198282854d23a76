"""SkyPilot's `vms.csv`: instance types by region or zone, dollars per instance and hour, read by column name.

Any version is read. Its rows say what a provider sells, not what is in stock. The memory of a GPU stands in a Python
dictionary as text; SizeInMiB is that of one GPU, of all GPUs of the instance, or in GB in spite of its name;
TotalGpuMemoryInMiB that of all GPUs or of one. A price of 0.00 is not known.

Rows of GCP without an instance type are accelerators alone, and their machines stand in rows of their own: an offer is
the sum of both. Some of these rows have the price of flex-start in place of that on demand.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from planner.catalogs.catalog_rows import CatalogRows, read_rows, whole_gpus
from planner.catalogs.gpu_match import says_nvlink
from planner.library.machines import Attached, attached_accelerator
from planner.units import GB, GIB

if TYPE_CHECKING:
    from planner.catalogs.catalog_rows import Cells
    from planner.catalogs.gpu_match import GpuMatcher
    from planner.documents.csv_table import CsvTable
    from planner.loading.offer_table import Row

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
    hosts = _read_hosts(table)
    return read_rows(
        table,
        NEEDED,
        "SkyPilot catalog",
        lambda line, cells, found: _offer(_Row(line, cells, provider), hosts, matcher, found),
    )


@dataclass(frozen=True)
class _Row:
    """One row of a provider's catalog."""

    line: int
    cells: Cells
    provider: str

    def prices(self, found: CatalogRows) -> list[float | None]:
        """Return the prices on demand and on spot."""
        return [found.price(self.line, self.cells, column) for column in ("Price", "SpotPrice")]


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

    alone = [one for _, one in table.rows if cell(one, "AcceleratorName") and not cell(one, "InstanceType")]
    if not alone:
        return hosts
    for values in alone:
        gpu, price, count = (cell(values, name) for name in ("AcceleratorName", "Price", "AcceleratorCount"))
        one = _quotient(price, count)
        hosts.highest_usd[gpu.casefold()] = max(one, hosts.highest_usd.get(gpu.casefold(), 0.0))
    for line, values in table.rows:
        if cell(values, "InstanceType") and not cell(values, "AcceleratorName"):
            zone = cell(values, "Region"), cell(values, "AvailabilityZone")
            hosts.by_zone.setdefault(zone, []).append((line, dict(zip(table.columns, values, strict=True))))
    return hosts


def _quotient(price: str, count: str) -> float:
    """Return the price of one accelerator; 0 where a cell is no number, which is a fault that its row tells."""
    try:
        return float(price) / float(count)
    except (ValueError, ZeroDivisionError):
        return 0.0


def _offer(row: _Row, hosts: _Hosts, matcher: GpuMatcher, found: CatalogRows) -> Row | None:
    line, cells = row.line, row.cells
    name = cells["AcceleratorName"]
    count = whole_gpus(found, line, found.number(line, cells, "AcceleratorCount") if name else None)
    if count is None:
        return None
    prices, machine = row.prices(found), row
    if not cells["InstanceType"] and (attached := attached_accelerator(row.provider, name)) is not None:
        host = _host_of(row, count, attached, hosts, found)
        if host is None:
            found.leave_out(line, f"{name} without a price of the machine that it is attached to")
            return None
        name, machine = attached.gpu, host
        prices = _sums(row, count, attached, hosts, host, found)
    instance = machine.cells["InstanceType"]
    match = matcher.match(name, _readings(cells.get("GpuInfo", ""), count), row.provider, instance)
    if match.gpu is None or not instance:
        found.leave_out(line, match.reason or f"{name} without its machine")
        return None
    if match.note:
        found.note(match.note)
    memory_gib = found.number(machine.line, machine.cells, "MemoryGiB")
    return {
        **{"provider": row.provider, "region": _region(cells)},
        **{"instance": instance, "gpu": match.gpu, "gpus": count, "notes": match.note},
        **{"usd_per_hour": prices[0], "spot_usd_per_hour": prices[1]},
        "cpu_cores": found.number(machine.line, machine.cells, "vCPUs") or None,
        "ram_gb": round(memory_gib * GIB / GB, 1) if memory_gib else None,
        "interconnect": "nvlink" if count > 1 and (says_nvlink(name) or says_nvlink(instance)) else None,
        "community": True if instance.casefold().endswith("_community") else None,
    }


def _host_of(row: _Row, count: int, attached: Attached, hosts: _Hosts, found: CatalogRows) -> _Row | None:
    """Return the cheapest machine of the zone that takes so many accelerators."""
    names, cores = attached.hosts.get(count, ()), attached.cores.get(count)
    zone = row.cells.get("Region", ""), row.cells.get("AvailabilityZone", "")
    fitting = []
    for line, cells in hosts.by_zone.get(zone, ()):
        host = _Row(line, cells, row.provider)
        if cells["InstanceType"] in names or (cores is not None and _is_n1_of(host, cores, found)):
            price = host.prices(found)[0]
            fitting.append((price is None, price or 0.0, line, host))
    return min(fitting)[-1] if fitting else None


def _is_n1_of(host: _Row, cores: int, found: CatalogRows) -> bool:
    """Return whether a machine is of N1 and has at least so many virtual cores, and the memory that goes with them."""
    if not host.cells["InstanceType"].startswith(_N1):
        return False
    has = (found.number(host.line, host.cells, "vCPUs") or 0.0, found.number(host.line, host.cells, "MemoryGiB") or 0.0)
    return has[0] >= cores and has[1] >= _N1_GIB_PER_CORE * cores


def _sums(
    row: _Row, count: int, attached: Attached, hosts: _Hosts, host: _Row, found: CatalogRows
) -> list[float | None]:
    """Return the prices of accelerators with their machine, None where one of both is not known."""
    prices = row.prices(found)
    highest = hosts.highest_usd.get(row.cells["AcceleratorName"].casefold(), 0.0)
    if attached.usd_per_hour:  # a price that stands for none (700.00 for each size of a TPU) is not a yardstick
        highest = max(attached.usd_per_hour, min(highest, 2 * attached.usd_per_hour))
    if prices[0] is not None and prices[0] / count < FLEX_START_BELOW * highest:
        found.note(FLEX_START)
        prices[0] = None
    if attached.includes_host:
        return prices
    both = zip(prices, host.prices(found), strict=True)
    return [None if part is None or base is None else round(part + base, 6) for part, base in both]


def _region(cells: Cells) -> str:
    """Return the zone, with its region where its name does not say it, else the region.

    AWS's zones are identifiers (`use1-az4`); marketplaces write `, US` where they know no city.
    """
    zone, region = cells.get("AvailabilityZone", ""), cells.get("Region", "").strip(" ,")
    return f"{region}/{zone}" if zone and region and not zone.startswith(region) else zone or region or "any"


@cache
def _readings(info: str, count: int) -> tuple[float, ...]:
    """Return what the memory of one GPU may be in GiB, the likeliest first; nothing where it is not stated."""
    stated = _parsed(info)
    gpus = stated.get("Gpus")
    first = gpus[0] if isinstance(gpus, (list, tuple)) and gpus and isinstance(gpus[0], dict) else {}
    inside = first.get("MemoryInfo")
    size = _gib(inside.get("SizeInMiB") if isinstance(inside, dict) else None)
    total = _gib(stated.get("TotalGpuMemoryInMiB"))
    if size is None:
        return () if total is None else (total / count, total)
    return (size, size / count) if count > 1 and size == total else (size,)


def _parsed(info: str) -> dict[str, Any]:
    if not info or len(info) > _LONGEST_INFO:
        return {}
    try:
        value = ast.literal_eval(_JSON_NULL.sub(": None", info))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return {}
    return value if isinstance(value, dict) else {}


def _gib(size: Any) -> float | None:
    if isinstance(size, bool) or not isinstance(size, (int, float)) or not 0 < size < 10**9:
        return None
    return size / 1024 if size >= _LEAST_MIB else float(size)
