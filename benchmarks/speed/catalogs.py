"""Time and memory of 50,000 offers of a CSV file: `python -m benchmarks.speed.catalogs KIND FILE` reads one."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.speed.markets import cpu_seconds, drawn, peak_megabytes
from benchmarks.speed.timing import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.scenario.offer import Offer

ROWS = 50_000
MOST_MEGABYTES = 300.0
MOST_CPU_SECONDS = 2.0


def _plain(offers: Sequence[Offer]) -> str:
    from planner.loading.price_files import offer_table_text

    return offer_table_text(offers)


def _skypilot(offers: Sequence[Offer]) -> str:
    head = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region\n"
    return head + "".join(
        f"{one.instance},{one.gpu},{one.gpus}.0,32.0,128.0,,{one.usd_per_hour},{one.spot_usd_per_hour},{one.region}\n"
        for one in offers
    )


KINDS: dict[str, Callable[[Sequence[Offer]], str]] = {"plain": _plain, "skypilot": _skypilot}
"""Kind of file -> what writes it."""


def catalog_lines(_: int) -> list[Line]:
    """Measure reading a CSV file that a scenario names, and importing a catalog of SkyPilot."""
    offers = drawn(ROWS)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, write in KINDS.items():
            path = Path(folder, f"{kind}.csv")
            path.write_text(write(offers), encoding="utf-8")
            command = [sys.executable, "-m", "benchmarks.speed.catalogs", kind, str(path)]
            seconds, megabytes, count = map(float, subprocess.check_output(command, text=True).split())
            what = f"{ROWS:,} offers of a {kind} CSV file"
            basis = f"{count:,.0f} offers read in a process of its own, imports not in the time but in the memory"
            lines.append(Line(f"{what}, CPU", seconds, "s", MOST_CPU_SECONDS, True, basis))
            lines.append(Line(f"{what}, memory", megabytes, "MB", MOST_MEGABYTES, True, basis))
    return lines


def main() -> int:
    """Print CPU seconds, peak of memory in MB and number of offers of one file that is read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.catalogs", description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("file")
    wanted = parser.parse_args()
    from planner.catalogs.catalog import read_catalog
    from planner.loading.scenario_file import read_inventory

    started = cpu_seconds()
    if wanted.kind == "plain":
        ((_, offers),) = read_inventory(wanted.file, Path(), [])
    else:
        offers = read_catalog(wanted.file, "somebody").offers
    print(cpu_seconds() - started, peak_megabytes(), len(offers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
