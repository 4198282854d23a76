"""Self-written catalogs in the forms of SkyPilot and gpuhunt; no provider's data is in them."""

from __future__ import annotations

from pathlib import Path

SKYPILOT_HEADER = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone"
)
GPUHUNT_HEADER = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,cpu_arch,"
    "provider_data"
)


def gpu_info(name: str, count: int, size: float | None, total: float | None = None) -> str:
    """Return a cell of SkyPilot's column GpuInfo; sizes as they stand under MiB."""
    memory = "" if size is None else f", 'MemoryInfo': {{'SizeInMiB': {size}}}"
    end = "" if total is None else f", 'TotalGpuMemoryInMiB': {total}"
    return f"\"{{'Gpus': [{{'Name': '{name}', 'Manufacturer': 'NVIDIA', 'Count': {count}.0{memory}}}]{end}}}\""


def skypilot_row(
    instance: str = "m-1", gpu: str = "L4", count: str = "1.0", info: str = "", price: str = "1.0", spot: str = ""
) -> str:
    """Return a row of SkyPilot's `vms.csv`."""
    return f"{instance},{gpu},{count},8.0,32.0,{info},{price},{spot},eu-1,"


def gpuhunt_row(
    instance: str = "m-1", gpu: str = "L4", memory: str = "24.0", price: str = "1.0", spot: str = "False"
) -> str:
    """Return a row of a gpuhunt catalog."""
    return f"{instance},eu-1,{price},8,32.0,{1 if gpu else 0},{gpu},{memory},{spot},100.0,nvidia,[],x86,{{}}"


def write_skypilot(folder: Path, *rows: str) -> Path:
    """Write a catalog `aws/vms.csv` below a folder and return its path."""
    (folder / "aws").mkdir(exist_ok=True)
    path = folder / "aws" / "vms.csv"
    path.write_text("\n".join([SKYPILOT_HEADER, *rows, ""]), encoding="utf-8")
    return path


def write_gpuhunt(folder: Path, *rows: str) -> Path:
    """Write a catalog `vastai.csv` below a folder and return its path."""
    path = folder / "vastai.csv"
    path.write_text("\n".join([GPUHUNT_HEADER, *rows, ""]), encoding="utf-8")
    return path
