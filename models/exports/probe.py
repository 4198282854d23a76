"""Run the step of a plan on the machine that was rented for it, with random weights and tokens, and measure it.

`make` writes random weights of the true shape, a tokenizer and tokens; `train` runs the trainer on them with its own
settings file, and measures each step; `sum` writes `probe.json`. Nothing is downloaded, and what is written has no name
of a host, of a user or of a path. To run out of memory is a result, too. `planned.json` says what is run.
"""

from __future__ import annotations

import json
import os
import platform
import random
import resource
import runpy
import shutil
import statistics
import subprocess
import sys
import time
from importlib import metadata, util
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PLANNED = json.loads((HERE / "planned.json").read_text(encoding="utf-8"))
RESULTS, MODEL = HERE / "results", HERE / "model"
GIB = 2**30
SHARD_BYTES, BLOCK = 4 * GIB, 2**24
PACKAGES = (
    *("torch", "transformers", "trl", "peft", "accelerate", "bitsandbytes", "deepspeed", "liger-kernel"),
    *("kernels", "torchao", "triton"),
)
NO_MEMORY = ("out of memory", "can't allocate memory", "cublas_status_alloc_failed", "cuda_error_out_of_memory")


# make: a folder that looks to the trainer like a downloaded model, and a file of samples


def make() -> None:
    """Write weights, tokenizer and samples, and remove what an earlier run measured."""
    shutil.rmtree(RESULTS, ignore_errors=True)
    (HERE / "probe.json").unlink(missing_ok=True)
    MODEL.mkdir(exist_ok=True)
    config = {**PLANNED["config"], "dtype": "bfloat16", "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
    write_config(config)
    write_tokenizer()
    write_samples(int(config["vocab_size"]))
    write_config({**config, "architectures": [write_weights()]})  # TRL loads the class that is named here


def write_config(config: dict[str, Any]) -> None:
    """Write the shape of the network."""
    (MODEL / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


def write_tokenizer() -> None:
    """Write a tokenizer of two words: the samples are numbers already."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(WordLevel({"<pad>": 0, "<end>": 1}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>").save_pretrained(MODEL)


def write_samples(vocabulary: int) -> None:
    """Write samples of random tokens, of the lengths that the plan counts with."""
    draw = random.Random(0)
    lengths = [tokens for tokens, count in PLANNED["samples"] for _ in range(count)]
    draw.shuffle(lengths)
    with (HERE / PLANNED["data"]).open("w", encoding="utf-8") as stream:
        for length in lengths:
            stream.write(json.dumps({"input_ids": draw.choices(range(2, vocabulary), k=length)}) + "\n")


def write_weights() -> str:
    """Write random weights in 16 bits, in files of up to 4 GiB; return the name of the class that reads them."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        network = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(MODEL))
    weights = dict(network.named_parameters())  # of tied ones the first
    kept = network.state_dict()
    weights |= {name: value for name, value in network.named_buffers() if name in kept}
    total = sum(2 * value.numel() for value in weights.values())
    free = shutil.disk_usage(HERE).free
    if free < 1.05 * total:
        sys.exit(f"the weights take {total / 1e9:,.0f} GB, and the disk has {free / 1e9:,.0f} GB free")
    generator = torch.Generator().manual_seed(0)
    block = (0.02 * torch.randn(BLOCK, generator=generator)).to(torch.bfloat16)
    shards: list[dict[str, Any]] = [{}]
    taken = 0
    for name, value in weights.items():
        if taken and taken + 2 * value.numel() > SHARD_BYTES:
            shards.append({})
            taken = 0
        shards[-1][name] = value
        taken += 2 * value.numel()
    index = {}
    for number, shard in enumerate(shards, start=1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file({name: filled(name, value, block) for name, value in shard.items()}, MODEL / file, {"format": "pt"})
        index |= dict.fromkeys(shard, file)
    listed = {"metadata": {"total_size": total}, "weight_map": index}
    (MODEL / "model.safetensors.index.json").write_text(json.dumps(listed), encoding="utf-8")
    return type(network).__name__


def filled(name: str, like: Any, block: Any) -> Any:
    """Return random values of a shape; scales of norms are 1, and biases 0, as in a fresh network."""
    import torch

    if like.dim() < 2:
        return torch.full(like.shape, 0.0 if "bias" in name.rpartition(".")[2] else 1.0, dtype=torch.bfloat16)
    flat = torch.empty(like.numel(), dtype=torch.bfloat16)
    for start in range(0, flat.numel(), BLOCK):
        part = flat[start : start + BLOCK]
        part.copy_(block[: part.numel()])
    return flat.reshape(like.shape)


# train: the trainer itself, with a callback that measures


class Finished(Exception):
    """The last step is done: what a trainer does afterwards, such as saving, is not measured."""


class Record:
    """What one process measures, in files of its own."""

    def __init__(self) -> None:
        import torch

        self.torch, self.on_gpu = torch, torch.cuda.is_available()
        self.rank = int(os.environ.get("RANK", "0"))
        self.reached, self.last, self.tokens = "loading", 0.0, 0
        self.steps: list[dict[str, Any]] = []
        self.load_gib: float | None = None
        RESULTS.mkdir(exist_ok=True)
        self.log = (RESULTS / f"steps-{self.rank}.jsonl").open("w", encoding="utf-8")

    def memory(self) -> dict[str, float]:
        """Return the peaks of torch's allocator and what the driver says is used, in GiB; nothing without a GPU."""
        if not self.on_gpu:
            return {}
        free, whole = self.torch.cuda.mem_get_info()
        found = {
            "allocated_gib": self.torch.cuda.max_memory_allocated(),
            "reserved_gib": self.torch.cuda.max_memory_reserved(),
            "driver_gib": whole - free,
        }
        return {name: round(value / GIB, 4) for name, value in found.items()}

    def begin(self) -> None:
        """Count from here: the model lies on the device, and its optimizer is made."""
        if self.on_gpu:
            self.torch.cuda.synchronize()
            self.load_gib = self.memory()["allocated_gib"]
            self.torch.cuda.reset_peak_memory_stats()
        self.last, self.reached = time.perf_counter(), "step 1"

    def end_of_step(self, step: int, tokens: int) -> None:
        """Write the line of a step: seconds since the one before, peaks so far, tokens of all processes."""
        if self.on_gpu:
            self.torch.cuda.synchronize()
        now = time.perf_counter()
        row = {"step": step, "seconds": round(now - self.last, 6), "tokens": tokens - self.tokens, **self.memory()}
        self.last, self.tokens, self.reached = now, tokens, f"step {step + 1}"
        self.steps.append(row)
        self.log.write(json.dumps(row) + "\n")
        self.log.flush()
        if self.rank == 0:
            print(json.dumps(row), flush=True)

    def close(self, status: str, error: str = "") -> None:
        """Write how it ended, with what is known of the machine."""
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = {
            "status": status,
            "reached": self.reached,
            "error": error,
            "load_gib": self.load_gib,
            "host_gib": round(peak_kib / 2**20, 3),
            **self.memory(),
            "gpu": self.gpu(),
        }
        (RESULTS / f"end-{self.rank}.json").write_text(json.dumps(found), encoding="utf-8")

    def gpu(self) -> dict[str, Any]:
        """Return name and memory of the device; names without a GPU the processor's kind alone."""
        if not self.on_gpu:
            return {"name": "CPU", "gib": None}
        of = self.torch.cuda.get_device_properties(self.torch.cuda.current_device())
        return {"name": of.name, "gib": round(of.total_memory / GIB, 3)}


def measuring(record: Record) -> type:
    """Return the callback class that every trainer of Transformers is given."""
    from transformers import TrainerCallback

    class Measuring(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            record.begin()

        def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            record.end_of_step(state.global_step, int(state.num_input_tokens_seen or 0))

        def on_train_end(self, *_: Any, **__: Any) -> None:
            raise Finished

    return Measuring


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, says that memory ran out."""
    while error is not None:
        if type(error).__name__ == "OutOfMemoryError" or any(word in str(error).lower() for word in NO_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


def train(more: list[str]) -> int:
    """Run the program of the trainer in this process; `more` are options for it."""
    from transformers import trainer

    record = Record()
    trainer.DEFAULT_CALLBACKS.append(measuring(record))
    entry = PLANNED["entry"]
    found = util.find_spec(entry)
    if found is None or found.origin is None:
        sys.exit(f"{entry} is not installed here: pip install -r requirements.txt")
    sys.argv = [found.origin, *PLANNED["arguments"], *more]
    try:
        runpy.run_path(found.origin, run_name="__main__")
    except Finished:
        record.close("ok")
        return 0
    except Exception as error:
        if is_out_of_memory(error):
            record.close("oom")
            print(f"out of memory in {record.reached}", flush=True)
        else:
            record.close("failed", type(error).__name__)
            raise
        return 1
    record.close("failed", "the trainer ended before its last step")
    return 1


# sum: what all processes of this machine measured, as one file


def summary(ended: str) -> dict[str, Any]:
    """Return the result of a probe: of peaks the largest of all processes, of seconds the median.

    `ended`: the exit code of the command that started the processes.
    """
    ends = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("end-*.json"))]
    logs = {path.stem: path.read_text(encoding="utf-8") for path in RESULTS.glob("steps-*.jsonl")}
    rows = {name: [json.loads(line) for line in text.splitlines()] for name, text in logs.items()}
    states = {end["status"] for end in ends}
    missing = PLANNED["processes"] - len(ends)
    status = "oom" if "oom" in states else "ok" if states == {"ok"} and not missing else "failed"
    every = [*ends, *(row for steps in rows.values() for row in steps)]
    peaks = {}
    for name in ("allocated_gib", "reserved_gib", "driver_gib", "load_gib", "host_gib"):
        values = [row[name] for row in every if row.get(name) is not None]
        peaks[name] = max(values, default=None)
    steps = max(rows.values(), key=len, default=[])
    first = next((end for end in ends if end["status"] == status), ends[0] if ends else {})
    known = first.get("gpu", {})
    found: dict[str, Any] = {"probe": 1, "status": status, "plan": PLANNED["plan"], "run": PLANNED["run"]}
    if status != "ok":
        silent = f"{missing} of {PLANNED['processes']} processes wrote no end; exit code {ended}" if missing else ""
        error = "" if status == "oom" else first.get("error") or silent
        found |= {"reached": first.get("reached", "start"), "error": error}
    found |= {"gpu_name": known.get("name"), "gpu_gib": known.get("gib"), "gpus": PLANNED["run"]["gpus"], **peaks}
    return found | timed(steps) | {"versions": versions()}


def timed(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return median and spread of the seconds of a step without the first ones, which compile and warm up."""
    warm = min(2, len(steps) - 1)
    rows = steps[max(warm, 0) :]
    if not rows:
        return {"steps": [], "warm_up_steps": 0, "step_seconds": None, "step_spread": None, "tokens_per_second": None}
    seconds = [row["seconds"] for row in rows]
    middle = statistics.median(seconds)
    off = statistics.median(abs(value - middle) for value in seconds)
    tokens = statistics.median(row["tokens"] for row in rows)
    return {
        "steps": [row["seconds"] for row in steps],
        "warm_up_steps": warm,
        "step_seconds": round(middle, 6),
        "step_spread": round(1.4826 * off / middle, 4) if middle else None,
        "tokens_per_step": tokens or None,
        "tokens_per_second": round(tokens / middle, 2) if tokens and middle else None,
    }


def versions() -> dict[str, str]:
    """Return the releases of what ran: Python, packages, driver."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        if any(True for _ in metadata.distributions(name=name)):
            found[name] = metadata.version(name)
    if shutil.which("nvidia-smi"):
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        lines = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
        found |= {"driver": lines[0]} if lines else {}
    return found


def conclude(ended: str) -> int:
    """Write and print the result; 1 where the probe failed for another reason than memory."""
    found = summary(ended)
    (HERE / "probe.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found), flush=True)
    return int(found["status"] == "failed")


def main() -> int:
    """Run one of the three parts."""
    part, more = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    os.chdir(HERE)  # paths of the settings are those of this folder
    if part == "make":
        make()
        return 0
    if part == "train":
        return train(more)
    if part == "sum":
        return conclude(more[0] if more else "unknown")
    print("usage: python probe.py make | train | sum [EXIT CODE]; probe.sh runs them in turn", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
