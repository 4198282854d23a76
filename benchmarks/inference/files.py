"""Writes `models/calibration/inference.yaml` from a fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from benchmarks.inference.fitting import Fitted, prior_of, read_priors
from planner.units import MEGA

INFORMED_ROWS, INFORMED_SHARE = 3, 0.1
"""A coefficient is measured where so many figures depend on it and take so much of its prior's variance away."""

HEADER = """\
# Speed of generation (planner/estimates/generation.py); no formula lives here.
# A key without a dot is shared by all; `key.NAME` is a factor on it of one engine, GPU or weight format.
# Written by `python -m benchmarks.inference TABLE.csv --fit`; priors: benchmarks/inference/priors.yaml.
# memory: bandwidth of a GPU; products: its matrix products; reading: unpacking of a format, also by engine;
# launch: kernels of a format, mixture: of a mixture of experts; host, card: small kernels and their launches beside a
# generation of GPUs and on one GPU; NAME-older: an earlier generation of an engine, in the benchmark only.
# spread: standard deviation of ln(speed) for organisations that the fit has not seen.

name: inference
"""

ASSUMED = {
    "overhead_bytes": (
        2147483648, 1073741824, 5368709120, "bytes", "assumption",
        "context of the device and captured graphs: order of magnitude; "
        "llm-d-planner counts 5 GiB with activations (H100, vLLM)",
    ),
    "overhead_bytes.profiled": (
        214748365, 53687091, 536870912, "bytes", "assumption",
        "of an engine that profiles its start, on one GPU: vLLM prints 0.05 to 0.4 GiB as non_torch_memory",
    ),
    "overhead_bytes.profiled-shared": (
        858993459, 429496730, 2254857830, "bytes", "assumption",
        "the same on several, buffers of NCCL among it: vLLM prints 0.4 to 2.1 GiB on two to eight GPUs",
    ),
    "spread.prior": (
        0.2, 0.1, 0.4, "1", "assumption", "further spread where engine, GPU or format have no measurements",
    ),
}  # fmt: skip


def calibration_text(found: Fitted, spread: Mapping[str, tuple[float, int]], said: str) -> str:
    """Return the file: every coefficient that moved or that all share, with its range, basis and source."""
    lines = [HEADER + f'description: "Coefficients of generation, fitted on {said}."', "", "coefficients:"]
    for key in sorted(found.values):
        prior, rows, left = prior_of(key), found.rows.get(key, 0), found.spread.get(key, 0.0)
        if prior.sd == 0 or (key not in read_priors()[0] and prior.value == 1.0 and rows < INFORMED_ROWS):
            continue  # a deviation that nothing informs is 1
        known = 1.0 - (left / prior.sd) ** 2
        basis = "measured" if rows >= INFORMED_ROWS and known >= INFORMED_SHARE else "prior"
        value = found.values[key]
        low, high = max(prior.low, value * math.exp(-1.28 * left)), min(prior.high, value * math.exp(1.28 * left))
        source = f"fitted, {rows} published figures depend on it; prior: {prior.why}"
        lines.append(_line(key, value, min(low, value), max(high, value), prior.unit, basis, source))
    for key, (value, n) in sorted(spread.items()):
        source = f"68 % of {n} figures of organisations left out of the fit lie within"
        lines.append(f'  {key}: {{value: {value:.3g}, unit: "1", basis: measured, source: "{source}"}}')
    for key, entry in ASSUMED.items():
        lines.append(_line(key, *entry))
    return "\n".join(lines) + "\n"


def _line(key: str, value: float, low: float, high: float, unit: str, basis: str, source: str) -> str:
    numbers = ", ".join(f"{name}: {_number(x)}" for name, x in (("value", value), ("low", low), ("high", high)))
    return f'  {key}: {{{numbers}, unit: "{unit}", basis: {basis}, source: "{source}"}}'


def _number(value: float) -> str:
    """Return four digits without an exponent, which the strict reader does not take."""
    text = f"{float(f'{value:.4g}'):.12f}" if value < MEGA else f"{value:.0f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def write(path: Path, text: str) -> None:
    """Write the file."""
    path.write_text(text, encoding="utf-8")
