"""A machine whose logarithms, powers and sines differ in their last bit: answers must not depend on it.

    python -m tests.helpers.last_bit SEED solve quickstart --json ...     the command on such a machine
    LAST_BIT=SEED python -m pytest -p tests.helpers.last_bit tests/spot   the tests on such a machine

numpy computes these functions by other code where the processor has AVX-512 (`NPY_DISABLE_CPU_FEATURES` says which
code it may use), and the C library by other code on another machine.
"""

from __future__ import annotations

import math
import os
import sys
from functools import wraps
from typing import Any

import numpy as np

OF_NUMPY = ("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sinh", "cosh", "tanh", "arcsinh", "power")
OF_MATH = ("exp", "expm1", "log", "log1p", "log2", "log10", "pow", "sinh", "asinh", "erf", "erfc")


def disturb(seed: int) -> None:
    """Let the functions above err by up to one unit in the last place, alike for like results, in this process."""

    def moved(found: Any) -> Any:
        bits = np.asarray(found).view(np.int64) * np.int64(2 * seed + 1) ^ np.int64(seed)
        mixed = (bits ^ (bits >> 29)) * np.int64(0x4F1BBCDCBFA53E0B)
        return found * (1.0 + ((mixed >> 40) % 3 - 1) * 2.0**-52)

    def of_arrays(function: Any) -> Any:
        @wraps(function)
        def other(*arguments: Any, **named: Any) -> Any:
            found = function(*arguments, **named)
            if np.ndim(found) == 0 or found.dtype != np.float64 or not found.flags.c_contiguous:
                return found
            with np.errstate(all="ignore"):
                found[...] = moved(found)
            return found

        return other

    def of_numbers(function: Any) -> Any:
        @wraps(function)
        def other(*arguments: Any) -> float:
            found = function(*arguments)
            with np.errstate(all="ignore"):
                return float(moved(np.float64(found))) if math.isfinite(found) else found

        return other

    for name in OF_NUMPY:
        setattr(np, name, of_arrays(getattr(np, name)))
    for name in OF_MATH:
        setattr(math, name, of_numbers(getattr(math, name)))


if os.environ.get("LAST_BIT") and __name__ != "__main__":
    disturb(int(os.environ["LAST_BIT"]))

if __name__ == "__main__":
    disturb(int(sys.argv[1]))
    from planner.cli import main

    sys.argv = ["planner", *sys.argv[2:]]
    main()
