"""Waiting for what a test has started: only a hang takes as long as the limit, on a slow and busy machine, too."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable

HANG_SECONDS = float(os.environ.get("HANG_SECONDS", "600"))
"""What only a hang takes; a run of tests on planted bugs, of which some hang, waits less."""


def wait_until(there: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    """Wait until something is there; AssertionError where the process ends before, or where it hangs."""
    for _ in range(round(HANG_SECONDS / 0.02)):
        if there():
            return
        assert process is None or process.poll() is None, "the script has ended"
        time.sleep(0.02)
    raise AssertionError("it hangs")
