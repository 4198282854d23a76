"""A CSV of memory: `memory.used [MiB]` of nvidia-smi, or peaks that torch reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.analysis.calibration.run_log import RunLog, fault
from planner.units import GIB, MIB

if TYPE_CHECKING:
    from planner.analysis.calibration.csv_table import CsvTable

NVIDIA_SMI = "nvidia-smi log"
TORCH = "CSV of torch memory"
SMI_UNITS = {"memory.used [mib]": float(MIB)}
TORCH_NAMES = {"max_memory_allocated": "allocated", "max_memory_reserved": "reserved"}
TORCH_UNITS = {"": 1.0, "_bytes": 1.0, "_mib": float(MIB), "_gib": float(GIB), "_mb": 1e6, "_gb": 1e9}
MIN_PEAK_BYTES, MAX_PEAK_BYTES = 64 * MIB, 2048.0 * GIB
"""Range of plausible peaks of one GPU: outside it, another unit is meant."""


def is_memory_use(table: CsvTable) -> bool:
    """Return whether a table has a column of memory."""
    return _column(table) is not None


def read_memory_use(table: CsvTable) -> RunLog:
    """Return the highest figure of all rows and GPUs; `InputError` for one that is no memory of a GPU."""
    found = _column(table)
    assert found is not None  # the caller has asked `is_memory_use`
    column, unit, kind = found
    sizes = [value * unit for value in table.numbers(column, suffix="MiB" if unit == MIB else "")]
    peak = max(sizes)
    if not MIN_PEAK_BYTES <= peak <= MAX_PEAK_BYTES:
        fix = "name the unit in the column: max_memory_allocated is in bytes, max_memory_allocated_gib in GiB"
        what = f"a peak of {peak / GIB:.3g} GiB is implausible for a training run on one GPU"
        raise fault(table.file, table.lines[sizes.index(peak)], what, fix, column)
    name = NVIDIA_SMI if kind == "device" else TORCH
    return RunLog(table.file, name, peak_gib=peak / GIB, peak_kind=kind)


def _column(table: CsvTable) -> tuple[str, float, str] | None:
    """Return name, bytes per unit and kind of the column of memory; allocated bytes come first."""
    for name, kind in TORCH_NAMES.items():
        for ending, unit in TORCH_UNITS.items():
            if name + ending in table.names:
                return name + ending, unit, kind
    for name, unit in SMI_UNITS.items():
        if name in table.names:
            return name, unit, "device"
    return None
