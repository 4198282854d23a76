"""The command `python -m benchmarks.spot`."""

from __future__ import annotations

import sys

from benchmarks.spot.benchmark import main

if __name__ == "__main__":
    sys.exit(main())
