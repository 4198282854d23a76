"""Fits what accelerators other than NVIDIA's reach: python -m benchmarks.accelerators TABLE.csv..."""

from __future__ import annotations

import sys

from benchmarks.calibration.accelerators import main

if __name__ == "__main__":
    sys.exit(main())
