"""The shipped scenarios on frozen prices, so that a new price changes no recorded cost; a checkout of links."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FROZEN_MARKET = ROOT / "tests" / "data" / "market-2026-11.yaml"
"""The market inventory of the day on which costs and sessions were first recorded. Do not update its prices."""


SHIPPED_PRICES = "\n  - market\n"
"""How a shipped scenario asks for the shipped price list."""


def copy_scenarios(target: Path) -> Path:
    """Copy `scenarios/` to `target`, with the frozen market in place of the present one, and return `target`."""
    shutil.copytree(ROOT / "scenarios", target)
    frozen = target / "inventory" / "market.yaml"
    shutil.copy(FROZEN_MARKET, frozen)
    for path in target.rglob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        if SHIPPED_PRICES in text:
            path.write_text(text.replace(SHIPPED_PRICES, f"\n  - {frozen}\n"), encoding="utf-8")
    return target


def make_workplace(folder: Path) -> Path:
    """Fill `folder` so that it looks like a checkout, and return it: links to the folders of the real one.

    A process that starts there imports the package through the link and finds the data next to it. Its prices are
    those that ship: documents show what the program prints.
    """
    for name in ("planner", "benchmarks", "models", "docs", "scenarios"):
        (folder / name).symlink_to(ROOT / name, target_is_directory=True)
    return folder


FOLDERS = ("whole-job", "timetable", "decisions", "generation", "choices", "serving", "tuning", "reinforcement")
"""Folders of shipped scenarios."""


@cache
def frozen_scenarios() -> dict[str, Path]:
    """Return the files of all shipped scenarios on frozen prices, by name; one copy per process."""
    folder = Path(tempfile.mkdtemp(prefix="planner-scenarios-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copied = copy_scenarios(folder / "scenarios")
    return {
        path.stem: path
        for pattern in ("*.yaml", *(f"{name}/*.yaml" for name in FOLDERS))
        for path in sorted(copied.glob(pattern))
    }
