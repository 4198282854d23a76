"""The command `python -m benchmarks.pilot`."""

from __future__ import annotations

import sys

from benchmarks.calibration.pilot import main

if __name__ == "__main__":
    sys.exit(main())
