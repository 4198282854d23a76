"""The command `python -m benchmarks.bill`."""

from __future__ import annotations

import sys

from benchmarks.cost.bill import main

if __name__ == "__main__":
    sys.exit(main())
