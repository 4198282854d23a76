"""How far a replica may be used, and how finely requests are distinguished: of the search and of the evaluation."""

from __future__ import annotations

import numpy as np

from planner.estimates.latency import Lengths

MOST_LENGTHS = 24
"""Lengths that are distinguished; a longer table is joined into as many groups of neighbours."""


def grouped_lengths(lengths: Lengths) -> Lengths:
    """Return the lengths, at most MOST_LENGTHS of them: neighbours in total length are joined at their mean."""
    count = np.asarray(lengths.count, dtype=float)
    if len(count) <= MOST_LENGTHS:
        return lengths
    order = np.lexsort((lengths.prompt, lengths.prompt + lengths.output))
    group = np.minimum((np.cumsum(count[order]) - count[order] / 2.0) / np.sum(count) * MOST_LENGTHS, MOST_LENGTHS - 1)
    group = group.astype(int)
    whole = np.bincount(group, weights=count[order])
    prompt, output = (
        np.bincount(group, weights=tokens[order] * count[order]) / np.maximum(whole, 1e-300)
        for tokens in (lengths.prompt, lengths.output)
    )
    some = whole > 0
    return Lengths(prompt[some], output[some], whole[some], lengths.prefix)


CAPACITY_HALVINGS = 30
BEYOND = 1.001
"""Factor on a capacity at which is asked whether places alone hold it."""
LEAST_USE = 1e-5
"""Share of its greatest rate below which a replica is of no use."""
