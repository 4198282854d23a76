"""What the speeds of the shipped offers rest on: `python -m benchmarks.offers [--json]`.

Each offer with a GPU counts once: training runs that were published of that GPU, matrix products that were timed on it,
or a prior (`models/calibration/gpu_efficiency.yaml`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planner.configurations.coefficients import efficiency_of
from planner.errors import Fault, InputError, raise_faults
from planner.library.reading import read_library
from planner.loading.scenario_file import MARKET, read_inventory

LABELS = {"measured": "training runs", "kernels": "timed products", "prior": "prior"}


def count_offers() -> dict[str, Any]:
    """Return the offers by what the speed of their GPU rests on, in all and by GPU."""
    library, faults = read_library(), list[Fault]()
    speeds, found = library.calibrations["gpu_efficiency"], dict[str, Counter[str]]()
    for _, offers in read_inventory(MARKET, Path(), faults):
        for offer in offers:
            if offer.gpu:
                gpu = library.gpu(offer.gpu)
                found.setdefault(efficiency_of(gpu, speeds)[1], Counter())[gpu.name] += 1
    raise_faults(faults)
    total = sum(counts.total() for counts in found.values())
    known = total - found.get("prior", Counter()).total()
    by = {LABELS.get(basis, basis): dict(counts.most_common()) for basis, counts in sorted(found.items())}
    return {"offers": total, "share_measured": known / total, "by": by}


def text_of(found: dict[str, Any]) -> str:
    """Return the counts as text."""
    lines = [f"{found['share_measured']:.1%} of {found['offers']} offers are on GPUs with a measured speed"]
    for basis, counts in found["by"].items():
        named = ", ".join(f"{gpu} {count}" for gpu, count in counts.items())
        lines.append(f"{basis:15}{sum(counts.values()):5d}  {named}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts; 2 where the market cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offers", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    chosen = parser.parse_args(arguments)
    try:
        found = count_offers()
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(found, indent=1) if chosen.json else text_of(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
