"""How a command starts: settings of the process that spare a short command time."""

from __future__ import annotations

import atexit
import gc
import os


def prepare_process() -> None:
    """Set up the process for a short command; what the environment sets already stays."""
    # The library and the offers make hundreds of thousands of objects that live to the end: scanning them for
    # garbage again and again takes a tenth of a short command.
    gc.set_threshold(200_000, 20, 20)
    # For the same reason Python is not to look for garbage among them when the process ends.
    atexit.register(gc.freeze)
    # Products of matrices are small here: starting more threads for them costs a short command a tenth of its CPU.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # pydantic looks for plugins in the metadata of every installed package; the planner needs none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
