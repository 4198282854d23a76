"""How a command starts: settings of the process that spare a short command time."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

PYDANTIC_PLUGINS = "pydantic.plugin._loader"
"""Module in which pydantic looks for its plugins."""
WITHOUT_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"
"""Environment variable of pydantic: `1` for no plugins."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h: bytes from which on memory is given back, or is a mapping


def prepare_process() -> None:
    """Set up the process for a short command; what the environment sets already stays."""
    # The library and the offers make hundreds of thousands of objects that live to the end: scanning them for
    # garbage again and again takes a tenth of a short command.
    gc.set_threshold(200_000, 20, 20)
    # For the same reason Python is not to look for garbage among them when the process ends.
    atexit.register(gc.freeze)
    _keep_memory()
    # Products of matrices are small here: starting more threads for them costs a short command a tenth of its CPU.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # pydantic looks for plugins in the metadata of every installed package; the planner needs none.
    if os.environ.setdefault(WITHOUT_PLUGINS, "1") == "1" and PYDANTIC_PLUGINS not in sys.modules:
        sys.modules[PYDANTIC_PLUGINS] = NoPlugins(PYDANTIC_PLUGINS)


def _keep_memory() -> None:
    """Let the C library keep the memory of arrays that are given up: new pages for each take 3 % of a short command.

    glibc gives blocks of 128 KiB and more back at once, unless `mallopt` says otherwise; other libraries have no such
    setting.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError, TypeError):
        settings = ctypes.CDLL(None).mallopt
        settings(_M_MMAP_THRESHOLD, 4 << 20)
        settings(_M_TRIM_THRESHOLD, 64 << 20)


class NoPlugins(ModuleType):
    """Replaces the module that searches for plugins, which imports 46 modules even when plugins are disabled.

    Any other attribute loads the real module.
    """

    @staticmethod
    def get_plugins() -> tuple[()]:
        """Return no plugins."""
        return ()

    def __getattr__(self, name: str) -> Any:
        """Return what the real module has, which then takes its place."""
        if name.startswith("__"):  # such as __file__, which tools ask of every module
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)
