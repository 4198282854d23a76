"""The command `python -m benchmarks.accuracy`."""

from __future__ import annotations

import sys

from benchmarks.accuracy.benchmark import main

if __name__ == "__main__":
    sys.exit(main())
