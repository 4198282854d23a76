"""The command `python -m benchmarks.calibrate`."""

from __future__ import annotations

import sys

from benchmarks.calibration.calibrate import main

if __name__ == "__main__":
    sys.exit(main())
