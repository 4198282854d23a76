"""How far off memory is on rows that no fit has seen, turned into the spreads of models/calibration/memory.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.accuracy.predictions import Prediction
from benchmarks.calibration.evidence import MEASURES, Evidence, weighted_quantile
from benchmarks.calibration.traced import key_of
from planner.library.schema import Library

USUAL_FRAMEWORKS = ("hf", "hf-fused")
"""The byte accounting of Transformers is known best: these are told apart by what was measured, not by name."""


def memory_spreads(
    known: Sequence[Prediction], unknown: Sequence[Prediction], library: Library, evidence: Evidence
) -> dict[str, float]:
    """Return the spreads by full key: by kind of figure for Transformers, by name for each other profiled framework.

    `unknown` are the same rows with their framework forgotten. Nothing where there are no rows.
    """
    profiled = [p for p in known if p.configuration is not None and p.configuration.profiled]
    if not profiled or not unknown:
        return {}
    usual = [p for p in profiled if _framework(p) in USUAL_FRAMEWORKS]
    others = [p for p in profiled if _framework(p) not in USUAL_FRAMEWORKS]
    allocated = [p for p in usual if p.row.peak_kind == "allocated"]
    groups = {"allocated": (allocated, usual), "reserved": ([p for p in usual if p not in allocated], usual)}
    groups |= {name: ([p for p in others if _framework(p) == name], others) for name in own_classes(library)}
    values = {}
    for suffix, share, reach in MEASURES:
        for name, (rows, everything) in groups.items():
            believed = evidence.believed(rows)
            size = believed * _size(rows, share, evidence)
            size += (1.0 - believed) * _size(everything or profiled, share, evidence)
            values[key_of("memory", f"{suffix}_{name}")] = size / reach
        values[key_of("memory", f"{suffix}_unknown")] = _size(unknown, share, evidence) / reach
    return values


def own_classes(library: Library) -> list[str]:
    """Return the profiled frameworks with a spread of their own."""
    table = library.techniques.frameworks
    return [name for name, facts in table.items() if facts.profiled and name not in USUAL_FRAMEWORKS]


def memory_sigma(prediction: Prediction, values: Mapping[str, float]) -> tuple[float, float]:
    """Return the display and tail spread of a row's memory."""
    assert prediction.configuration is not None
    kind = "allocated" if prediction.row.peak_kind == "allocated" else "reserved"
    own = _framework(prediction)
    name = own if key_of("memory", f"sigma_{own}") in values else kind
    name = name if prediction.configuration.profiled else "unknown"
    display = values[key_of("memory", f"sigma_{name}")]
    return display, values.get(key_of("memory", f"sigma_tail_{name}"), display)


def _framework(prediction: Prediction) -> str:
    assert prediction.configuration is not None
    return prediction.configuration.framework


def _size(rows: Sequence[Prediction], share: float, evidence: Evidence) -> float:
    size = np.array([abs(p.peak.log_error) for p in rows if p.peak is not None])
    return weighted_quantile(size, share, evidence.weights(rows))
