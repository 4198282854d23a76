"""Folders that are removed when a process has ended, also one that was killed: a small process waits for its end.

This file is also the program of that process. It imports nothing of the planner, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

REMOVAL_SECONDS = 5.0
"""Longest that is tried to remove a folder into which another process that ends still writes."""

_lock = threading.Lock()
_told: set[str] = set()
_remover: subprocess.Popen[bytes] | None = None


def remove_when_ended(folder: str) -> None:
    """Have a folder removed once this process has ended, in whatever way.

    The end of this process closes a pipe, which no signal can prevent; what reads the pipe removes the folders.
    """
    global _remover
    with _lock:
        if folder in _told:
            return
        if _remover is None:
            # A session of its own: Ctrl-C, and what ends a terminal, do not reach it.
            _remover = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        assert _remover.stdin is not None
        with contextlib.suppress(OSError):  # it was killed: the folder stays only if this process is killed, too
            _remover.stdin.write(os.fsencode(folder) + b"\0")
            _remover.stdin.flush()
        _told.add(folder)


def _remove_at_end_of_input() -> None:
    """Read folders, each ended by a zero byte, until the writer has ended; then remove them."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    folders = [os.fsdecode(name) for name in sys.stdin.buffer.read().split(b"\0")[:-1]]
    until = time.monotonic() + REMOVAL_SECONDS
    while folders and time.monotonic() < until:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        folders = [folder for folder in folders if os.path.exists(folder)]
        time.sleep(0.05 if folders else 0.0)


if __name__ == "__main__":
    _remove_at_end_of_input()
