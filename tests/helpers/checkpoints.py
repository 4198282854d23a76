"""Folders of checkpoints as trainers write them, without PyTorch; each file shows by its form whether it is whole.

The names are those that TRL 1.16.0 with Transformers 5.23.0 and Accelerate 1.15.0 writes, DeepSpeed 0.19.8 included.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def tensors(count: int = 2) -> bytes:
    """Return a file of safetensors: the length of its header, the header, then 64 bytes for each tensor."""
    places = {f"t{at}": {"dtype": "F32", "shape": [16], "data_offsets": [64 * at, 64 * at + 64]} for at in range(count)}
    header = json.dumps({"__metadata__": {"format": "pt"}, **places}, separators=(",", ":")).encode()
    return struct.pack("<Q", len(header)) + header + bytes(range(64)) * count


def pickled(size: int = 3000) -> bytes:
    """Return what `torch.save` writes: a zip archive without compression."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data/0", bytes(size))
    return stream.getvalue()


def _written(folder: Path, files: dict[str, bytes], processes: int) -> Path:
    state = {"trainer_state.json": b'{\n  "global_step": 100,\n  "log_history": []\n}', "scheduler.pt": pickled(10)}
    random = {f"rng_state_{one}.pth" if processes > 1 else "rng_state.pth": pickled(50) for one in range(processes)}
    for name, content in {**files, **state, **random}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def adapters(folder: Path) -> Path:
    """Write a checkpoint of adapters."""
    files = {"adapter_model.safetensors": tensors(), "adapter_config.json": b'{"r": 8}', "optimizer.pt": pickled()}
    return _written(folder, files, 1)


def whole_model(folder: Path) -> Path:
    """Write a checkpoint of full training whose weights are in two files."""
    parts = [f"model-0000{one}-of-00002.safetensors" for one in (1, 2)]
    index = json.dumps({"metadata": {}, "weight_map": {f"w{at}": part for at, part in enumerate(parts)}}, indent=2)
    files = {part: tensors() for part in parts} | {"model.safetensors.index.json": index.encode()}
    return _written(folder, files | {"optimizer.pt": pickled(), "config.json": b"{}"}, 2)


def sharded(folder: Path, processes: int = 4) -> Path:
    """Write a checkpoint of PyTorch's FSDP: a part for each process, and metadata that name them."""
    files = {}
    for kind in ("pytorch_model_fsdp_0", "optimizer_0"):
        parts = [f"__{one}_0.distcp" for one in range(processes)]
        files |= {f"{kind}/{part}": pickled() for part in parts}
        files[f"{kind}/.metadata"] = b"\x80\x04" + b"".join(b"\x8c\x0d" + part.encode() + b"\x94" for part in parts)
    return _written(folder, files, processes)


def deepspeed(folder: Path, processes: int = 4) -> Path:
    """Write a checkpoint of DeepSpeed: a file of states for each process, in a folder that `latest` names."""
    states = {
        f"global_step100/bf16_zero_pp_rank_{one}_mp_rank_00_optim_states.pt": pickled() for one in range(processes)
    }
    files = {"latest": b"global_step100", "global_step100/mp_rank_00_model_states.pt": pickled()}
    return _written(folder, files | states | {"model.safetensors": tensors()}, processes)
