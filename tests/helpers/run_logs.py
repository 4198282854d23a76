"""Logs of runs as the tools write them, for the tests of `planner track` and `planner calibrate`."""

from __future__ import annotations

import datetime
import json
from collections.abc import Container, Iterable, Mapping, Sequence
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


def llama_factory(
    steps: Sequence[int], pace: float, resumed_at: int = 0, evaluations: Mapping[int, float] | None = None,
    tokens: int = 0, vram: tuple[float, float] | None = None,
) -> str:  # fmt: skip
    """trainer_log.jsonl: whole seconds of the process, which made the steps after `resumed_at`."""
    rows, now = "", 0.0
    before = resumed_at
    for step in steps:
        now += pace * (step - before)
        before = step
        more = {"total_tokens": tokens * step} if tokens else {}
        more |= {"vram_allocated": vram[0], "vram_reserved": vram[1]} if vram else {}
        for kind in ("loss", "eval_loss")[: 1 + (step in (evaluations or {}))]:
            now += (evaluations or {})[step] if kind == "eval_loss" else 0.0
            clock = str(datetime.timedelta(seconds=int(now)))
            entry = {"current_steps": step, "total_steps": 10**5, kind: 1.71, "epoch": 0.25, "percentage": 8.33}
            rows += json.dumps({**entry, "elapsed_time": clock, "remaining_time": "0:18:20", **more}) + "\n"
    return rows


def torchtune(steps: Iterable[int], rate: float, alloc: float) -> str:
    """The log file of torchtune, its first step at half the rate."""
    return "".join(
        f"Step {step} | loss:1.62 lr:2.0e-05 tokens_per_second_per_gpu:{rate / (2 if number == 0 else 1)} "
        f"peak_memory_active:24.1 peak_memory_alloc:{alloc} peak_memory_reserved:26.5 \n"
        for number, step in enumerate(steps)
    )


def torchtune_bar(epochs: int, steps: int, pace: float) -> str:
    """The bar of torchtune, over itself."""
    return "".join(
        f"{epoch + 1}|{epoch * steps + step}|Loss: 1.6200:  2%|# | {step}/{steps} "
        f"[{int(pace * step) // 60:02}:{int(pace * step) % 60:02}<40:31,  {pace:.2f}s/it]\r"
        for epoch in range(epochs)
        for step in range(1, steps + 1)
    )


def nanogpt(steps: Iterable[int], pace: float, evaluations: Container[int]) -> str:
    """The console of nanoGPT, where an evaluation takes ten seconds more."""
    text = "number of parameters: 123.59M\n"
    for step in steps:
        if step in evaluations:
            text += f"step {step}: train loss 10.9885, val loss 10.9892\nsaving checkpoint to out\n"
        seconds = pace + 10.0 * (step in evaluations)
        text += f"iter {step}: loss 9.7421, time {1000 * seconds:.2f}ms, mfu 41.20%\n"
    return text


def composer(
    steps: Iterable[int], pace: float, gpus: int = 8, tokens: int = 10**6, peak_gb: float = 27.0, unit: float = 3600.0
) -> str:
    """The console of Composer: figures of a batch in lines of their own, a validation of 60 s after each ten."""
    text, validated = "", 0.0
    for step in steps:
        figures = {
            "time/batch": step - 1,
            "time/token": tokens * (step - 1),
            "memory/peak_allocated_mem": f"{peak_gb:.4f}",
            "loss/train/total": "8.4213",
            "throughput/batches_per_sec": f"{1 / pace:.4f}",
            "throughput/tokens_per_sec": f"{tokens / pace:.4f}",
            "throughput/device/tokens_per_sec": f"{tokens / pace / gpus:.4f}",
            "time/train": f"{pace * step / unit:.4f}",
            "time/val": f"{validated / unit:.4f}",
            "time/total": f"{(pace * step + validated) / unit:.4f}",
        }
        text += f"[batch={step}/100]:\n" + "".join(f"\t Train {key}: {value}\n" for key, value in figures.items())
        if step % 10 == 0:
            text += "[Eval batch=3/3] Eval on eval data:\n\t Eval metrics/eval/LanguageCrossEntropy: 3.2\n"
            validated += 60.0
    return text
