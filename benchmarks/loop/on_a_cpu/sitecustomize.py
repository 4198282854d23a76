"""Let Accelerate shard over processes on a CPU, which it does over GPUs alone; Python imports this file at its start.

Nothing is imported here: a finder waits for the modules below, and changes them when a trainer loads them.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from typing import Any


def shard_on_cpus(state: Any) -> None:
    """Make the state of several CPU processes one of FSDP or DeepSpeed where the trainer asked for it."""
    kinds, original = state.DistributedType, state.AcceleratorState.__init__

    def changed(self: Any, *given: Any, **named: Any) -> None:
        original(self, *given, **named)
        zero = named.get("deepspeed_plugin") or getattr(self, "deepspeed_plugins", None)
        if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" and zero is not None and self._cpu:
            plugins = zero if isinstance(zero, dict) else {"default": zero}
            if self.distributed_type != kinds.DEEPSPEED:
                self.distributed_type, self.deepspeed_plugins = kinds.DEEPSPEED, plugins
                for each in plugins.values():
                    each.set_mixed_precision(self._mixed_precision)
                next(iter(plugins.values())).select(_from_accelerator_state=True)
            return
        plugin = named.get("fsdp_plugin") or getattr(self, "fsdp_plugin", None)  # every further one shares the first's
        if plugin is not None and self.distributed_type == kinds.MULTI_CPU:
            self.distributed_type = kinds.FSDP
            if self._mixed_precision != "no":
                plugin.set_mixed_precision(self._mixed_precision)
            self.fsdp_plugin = plugin

    state.AcceleratorState.__init__ = changed


def load_on_cpus() -> None:
    """Let PyTorch load states onto `cpu:0`, the device that Transformers 5.6 names for each of several processes."""
    from torch.serialization import register_package

    register_package(5, lambda _: None, lambda stored, place: stored if place.startswith("cpu:") else None)


def compile_nothing_for_cpus(torch_backend: Any) -> None:
    """Let DeepSpeed reduce with PyTorch: its own kernel for CPUs is compiled for minutes."""
    torch_backend.build_shm_op = lambda: None


def change_state(state: Any) -> None:
    """Change what Accelerate needs for CPUs."""
    shard_on_cpus(state)
    load_on_cpus()


CHANGES = {"accelerate.state": change_state, "deepspeed.comm.torch": compile_nothing_for_cpus}
"""Module -> what changes it once it is loaded."""


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds each of these modules once, and changes it after it was loaded."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:  # noqa: ARG002 # of importlib
        change = CHANGES.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        load = spec.loader.exec_module

        def load_and_change(module: Any) -> None:
            load(module)
            change(module)

        spec.loader.exec_module = load_and_change  # type: ignore[method-assign]
        return spec


if os.environ.get("ACCELERATE_USE_CPU") == "true":
    sys.meta_path.insert(0, _AfterImport())
