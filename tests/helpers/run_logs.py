"""Logs of runs as the tools write them, for the tests of `planner track` and `planner calibrate`."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Sequence
from typing import Any

START = datetime.datetime(2026, 11, 22, 8, 0, tzinfo=datetime.UTC)
"""When the first step of a log begins."""


def moment(seconds: float) -> str:
    """A time so many seconds after the start, as `docker logs -t` writes it."""
    at = START + datetime.timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def torchtitan(steps: Iterable[int], pace: float, start: float = 0.0, first: int = 0, peak: float = 18.5) -> str:
    """A log of torchtitan with the stamps of docker: `pace` seconds per step after step `first` at `start` seconds."""
    return "".join(
        f"{moment(start + pace * (step - first))} [rank0]:[titan] - root - INFO - step: {step:2}  loss:  3.2440  "
        f"grad_norm:  0.8319  memory: {peak:5.2f}GiB(64.99%)  tps: 7,282  tflops: 0.52  mfu: 0.17%\n"
        for step in steps
    )


def megatron(steps: Iterable[int], pace: float, total: int = 708) -> str:
    """A log of Megatron with its clock, and the memory that it reports once."""
    lines = [
        f" [{(START + datetime.timedelta(seconds=pace * step)):%Y-%m-%d %H:%M:%S}] iteration {step:8d}/{total:8d} | "
        f"consumed samples: {64 * step:12d} | elapsed time per iteration (ms): {1000 * pace:.1f} | "
        f"learning rate: 1.000000E-05 | global batch size:    64 | lm loss: 2.104533E+00 | loss scale: 1.0 |\n"
        for step in steps
    ]
    memory = "[Rank 0] (after 10 iterations) memory (MB) | allocated: 9000.0 | max allocated: 16384.0 | reserved: 1.0\n"
    return "".join((*lines[:1], memory, *lines[1:]))


def console(steps: Iterable[int], pace: float, total: int = 708) -> str:
    """The console of Transformers 5: a progress bar over itself, and mappings whose figures are texts."""
    parts = ["Map: 100%|##########| 50/50 [00:00<00:00, 301.11 examples/s]\n"]
    for step in steps:
        seconds = round(pace * step)
        clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts.append(f"\r{100 * step // total:3}%|#   | {step}/{total} [{clock}<9:59:59, {pace:.2f}s/it]")
        parts.append(f"\n{{'loss': '1.2{step % 10}', 'grad_norm': '0.4', 'epoch': '{step / total:.3f}'}}\n")
        parts.append("  0%|          | 0/13 [00:00<?, ?it/s]\r100%|####| 13/13 [00:04<00:00, 3.1it/s]")
    return "".join(parts)


def json_lines(steps: Iterable[int], pace: float) -> str:
    """One JSON object per logging step, with the step and the time so far."""
    return "".join(
        json.dumps({"loss": 1.5, "step": step, "epoch": 0.1, "train_runtime": pace * step}) + "\n" for step in steps
    )


def trainer_state(steps: Sequence[int], pace: float | None, total: int = 708, **more: Any) -> str:
    """A state; `pace` None: as it is without counting tokens, without any time."""
    timed = [
        {
            "step": step,
            "loss": 1.25,
            "learning_rate": 1e-5,
            **({"train_runtime": pace * step, "num_input_tokens_seen": 120_000 * step} if pace else {}),
        }
        for step in steps
    ]
    head = {"global_step": steps[-1], "max_steps": total, "train_batch_size": 2, "num_train_epochs": 3}
    return json.dumps({**head, **more, "log_history": timed}, indent=2)


def step_times(seconds: Iterable[float]) -> str:
    """A CSV of steps from the first on."""
    return "step,seconds\n" + "".join(f"{number},{one}\n" for number, one in enumerate(seconds, 1))


def nvidia_smi(utilisation: Iterable[int], mib: int = 18_000) -> str:
    """A log of nvidia-smi with memory and utilisation."""
    rows = [f"2026/11/22 08:00:0{n % 10}.000, 0, {mib} MiB, {busy} %" for n, busy in enumerate(utilisation)]
    return "\n".join(["timestamp, index, memory.used [MiB], utilization.gpu [%]", *rows]) + "\n"
