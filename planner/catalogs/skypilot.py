"""SkyPilot's `vms.csv`: instance types by region or zone, dollars per instance and hour, read by column name.

Any version is read. Its rows say what a provider sells, not what is in stock. The memory of a GPU stands in a Python
dictionary as text; SizeInMiB is that of one GPU, of all GPUs of the instance, or in GB in spite of its name;
TotalGpuMemoryInMiB that of all GPUs or of one. A price of 0.00 is not known.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from planner.catalogs.catalog_rows import CatalogRows, read_rows, whole_gpus
from planner.catalogs.gpu_match import says_nvlink
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


def read_skypilot(table: CsvTable, provider: str, matcher: GpuMatcher) -> CatalogRows:
    """Return the rows of a catalog of one provider."""
    return read_rows(
        table, NEEDED, "SkyPilot catalog", lambda line, cells, found: _offer(line, cells, provider, matcher, found)
    )


def _offer(line: int, cells: Cells, provider: str, matcher: GpuMatcher, found: CatalogRows) -> Row | None:
    name = cells["AcceleratorName"]
    count = whole_gpus(found, line, found.number(line, cells, "AcceleratorCount") if name else None)
    if count is None:
        return None
    instance = cells["InstanceType"]
    match = matcher.match(name, _readings(cells.get("GpuInfo", ""), count), provider, instance)
    if match.gpu is None:
        found.leave_out(line, match.reason)
        return None
    if match.note:
        found.note(match.note)
    memory_gib = found.number(line, cells, "MemoryGiB")
    return {
        **{"provider": provider, "region": _region(cells)},
        **{"instance": instance, "gpu": match.gpu, "gpus": count, "notes": match.note},
        "usd_per_hour": found.price(line, cells, "Price"),
        "spot_usd_per_hour": found.price(line, cells, "SpotPrice"),
        "cpu_cores": found.number(line, cells, "vCPUs") or None,
        "ram_gb": round(memory_gib * GIB / GB, 1) if memory_gib else None,
        "interconnect": "nvlink" if count > 1 and (says_nvlink(name) or says_nvlink(instance)) else None,
        "community": True if instance.casefold().endswith("_community") else None,
    }


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
