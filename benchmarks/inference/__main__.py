"""Runs the benchmark from the command line."""

import sys

from benchmarks.inference.benchmark import main

if __name__ == "__main__":
    sys.exit(main())
