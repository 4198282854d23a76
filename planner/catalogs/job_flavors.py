"""Hugging Face's machines for jobs: JSON of `huggingface_hub.list_jobs_hardware()` or of the address that it asks.

A machine has texts in place of numbers (`"4"` GPUs, `"96 GB"` of all of them), and a price per minute. Keys are those
of the package (`unit_cost_usd`) or of the interface (`unitCostUSD`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planner.documents.csv_table import CsvTable
from planner.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.documents.json_file import JsonDocument

PROVIDER = "huggingface"
FLAVORS_WANTED = "give the JSON list of huggingface_hub.list_jobs_hardware()"
_COLUMNS = ("instance_name", "location", "price", "cpu", "memory", "gpu_count", "gpu_name", "gpu_memory", "spot")
_UNITS_PER_HOUR = {"second": 3600, "minute": 60, "hour": 1}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def flavors_table(document: JsonDocument) -> CsvTable:
    """Return the machines as a table with the columns of a gpuhunt catalog, each with its line in the file.

    `InputError` with every fault: a machine without name, price or unit.
    """
    data = document.data
    if not isinstance(data, list) or not data or not all(isinstance(one, dict) for one in data):
        raise InputError([document.fault((), "no list of machines", FLAVORS_WANTED)])
    faults: list[Fault] = []
    rows = []
    for index, machine in enumerate(data):
        missing = [name for name in ("name", "unit_cost_usd", "unit_label") if _get(machine, name) is None]
        unit = str(_get(machine, "unit_label") or "").casefold()
        if missing:
            faults.append(document.fault((index,), f"a machine without {' and '.join(missing)}", FLAVORS_WANTED))
        elif unit not in _UNITS_PER_HOUR:
            what, fix = f"{unit!r} is no unit of time that is known", f"expected {', '.join(_UNITS_PER_HOUR)}"
            faults.append(document.fault((index,), what, fix))
        else:
            rows.append((document.line((index,)), _cells(machine, _UNITS_PER_HOUR[unit])))
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
    return [{**vars(one), "accelerator": vars(one.accelerator) if one.accelerator else None} for one in machines]
