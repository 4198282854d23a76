"""gpuhunt's CSV: dollars per instance and hour, one row on demand and one on spot.

Columns of its second version: instance_name, location, price, cpu, memory, gpu_count, gpu_name, gpu_memory (GB of one
GPU), spot, disk_size, gpu_vendor, flags, cpu_arch, provider_data. The provider is the name of the file. GCP's rows with
the flag `gcp-dws-calendar-mode` are reservations for a fixed time, although their column `spot` reads as on demand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.catalogs.catalog_rows import CatalogRows, read_rows, whole_gpus
from planner.errors import Fault
from planner.units import GB, GIB

if TYPE_CHECKING:
    from planner.catalogs.catalog_rows import Cells
    from planner.catalogs.gpu_match import GpuMatcher
    from planner.documents.csv_table import CsvTable
    from planner.loading.offer_table import Row

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
        lambda line, cells, found: _offer(line, cells, provider, matcher, found),
    )


def _offer(line: int, cells: Cells, provider: str, matcher: GpuMatcher, found: CatalogRows) -> Row | None:
    """Return a machine with one of its prices."""
    count = whole_gpus(found, line, found.number(line, cells, "gpu_count") if cells["gpu_name"] else None)
    if count is None:
        return None
    instance = cells["instance_name"]
    if "gcp-dws-calendar-mode" in cells.get("flags", ""):
        found.leave_out(line, "a price of capacity that is reserved by the calendar")
        return None
    memory_gib = found.number(line, cells, "gpu_memory")
    match = matcher.match(cells["gpu_name"], (memory_gib,) if memory_gib else (), provider, instance)
    if match.gpu is None:
        found.leave_out(line, match.reason)
        return None
    if (sold := cells["spot"].casefold()) not in ("true", "false"):
        fix = "gpuhunt writes True or False"
        found.faults.append(Fault(found.table.file, line, "spot", f"{cells['spot']!r} is neither", fix))
        return None
    if match.note:
        found.note(match.note)
    return {
        **{"provider": provider, "region": cells["location"] or "any", "instance": instance},
        **{"gpu": match.gpu, "gpus": count, "notes": match.note},
        "spot_usd_per_hour" if sold == "true" else "usd_per_hour": found.price(line, cells, "price"),
        "cpu_cores": found.number(line, cells, "cpu") or None,
        "ram_gb": _ram_gb(provider, found.number(line, cells, "memory")),
    }


def _ram_gb(provider: str, memory: float | None) -> float | None:
    """Return memory in GB of 10^9 bytes; None where it is not stated."""
    if not memory:
        return None
    return round(memory * GIB / GB, 1) if provider in GIB_PROVIDERS else memory
