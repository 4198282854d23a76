"""The order in which variants are solved: neighbours differ in one value, and mostly in one that is cheap to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.documents.sweep_ranges import SweepRange

CHUNKS_PER_WORKER = 4
"""More chunks than workers, because some variants take longer; fewer, because each starts without a neighbour."""
MAX_CHUNK = 50
"""Most variants of a chunk: what an interrupted worker loses."""

Places = tuple[int, ...]
"""The place of the value of each range."""


def change_cost(path: str) -> int:
    """Return how much `prepare` computes again where a value changes: 0 nothing, 3 the market and every candidate."""
    steps = path.split(".")
    if path == "limits.budget_usd" or steps[0] in ("objective", "value_of_time_usd_per_hour", "solve"):
        return 0
    if path in ("limits.vram_headroom", "limits.regions"):
        return 2
    if steps[0] == "limits" or (steps[0] == "jobs" and steps[-1] == "deadline"):
        return 1
    return 2 if steps[0] == "jobs" else 3


def chained_places(ranges: Sequence[SweepRange]) -> list[Places]:
    """Return every combination of values so that each differs from the one before in one value, by one step.

    A reflected Gray code: the range that is the most expensive to change is the outermost.
    """
    axes = sorted(range(len(ranges)), key=lambda axis: -change_cost(ranges[axis].path))
    found = []
    for digits in _reflected([len(ranges[axis].values) for axis in axes]):
        by_axis = dict(zip(axes, digits, strict=True))
        found.append(tuple(by_axis[axis] for axis in range(len(ranges))))
    return found


def _reflected(sizes: Sequence[int]) -> Iterator[Places]:
    if not sizes:
        yield ()
        return
    inner = list(_reflected(sizes[1:]))
    for digit in range(sizes[0]):
        yield from ((digit, *rest) for rest in (reversed(inner) if digit % 2 else inner))


def chunks_of(places: Sequence[Places], workers: int) -> list[Sequence[Places]]:
    """Return the combinations in runs of neighbours, some for each worker."""
    size = max(1, min(MAX_CHUNK, -(-len(places) // (CHUNKS_PER_WORKER * workers))))
    return [places[first : first + size] for first in range(0, len(places), size)]
