"""A training script of one's own, for `accelerate.yaml` and `ds_config.json`; the loop copies it.

It sets what the heads of these files ask of a script, from `train.json` next to it, and goes on from its own newest
checkpoint. Its log has a time stamp and a mapping on each line.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.utils.data import DataLoader

if TYPE_CHECKING:
    from collections.abc import Iterator

GIVEN: dict[str, Any] = json.loads(Path("train.json").read_text())
OUT = Path(GIVEN["out"])
LOGGING_STEPS = 5
Batch = dict[str, Any]


class Engine(Protocol):
    """What steps the model over the processes of a run."""

    is_first: bool
    micro_batch: int
    micro_steps: int

    def step(self, batches: Iterator[Batch]) -> float:
        """Take one optimizer step over the micro-batches of a process; return the last loss."""

    def save(self, folder: Path) -> None:
        """Save weights and states; every process calls it."""

    def load(self, folder: Path) -> None:
        """Load what `save` wrote."""

    def save_model(self, folder: Path) -> None:
        """Save the model as Transformers and PEFT load it."""


class WithAccelerate:
    """Accelerate's own API; `accelerate.yaml` has the processes, the sharding and the precision."""

    def __init__(self, model: Any, rows: list[Batch]) -> None:
        from accelerate import Accelerator

        self.accelerator = Accelerator(gradient_accumulation_steps=GIVEN["accumulation_steps"])
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        loader = DataLoader(rows, batch_size=GIVEN["micro_batch"])
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, optimizer, loader)
        self.is_first, self.micro_steps = self.accelerator.is_main_process, GIVEN["accumulation_steps"]
        self.micro_batch = GIVEN["micro_batch"]

    def batches(self, begun: int) -> Iterator[Batch]:
        """Yield the micro-batches of this process without end, without those that are done."""
        begun %= len(self.loader)
        yield from self.accelerator.skip_first_batches(self.loader, begun) if begun else self.loader
        while True:
            yield from self.loader

    def step(self, batches: Iterator[Batch]) -> float:
        """Step as `Engine` says."""
        for batch in itertools.islice(batches, self.micro_steps):
            with self.accelerator.accumulate(self.model):
                loss = self.model(**batch).loss
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad()
        assert self.accelerator.sync_gradients, "the last micro-batch of a step does not step"
        return float(loss)

    def save(self, folder: Path) -> None:
        """Save as `Engine` says."""
        self.accelerator.save_state(str(folder))

    def load(self, folder: Path) -> None:
        """Load as `Engine` says."""
        self.accelerator.load_state(str(folder))

    def save_model(self, folder: Path) -> None:
        """Save the model as `Engine` says."""
        states = self.accelerator.get_state_dict(self.model)
        if self.is_first:
            self.accelerator.unwrap_model(self.model).save_pretrained(folder, state_dict=states)
        self.accelerator.wait_for_everyone()


class WithDeepSpeed:
    """`deepspeed.initialize` with `ds_config.json`, which has batch, sharding and precision."""

    def __init__(self, model: Any, rows: list[Batch]) -> None:
        import deepspeed

        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        deepspeed.init_distributed()
        self.engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config="ds_config.json")
        rank, count = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()
        self.is_first, self.micro_steps = rank == 0, self.engine.gradient_accumulation_steps()
        self.micro_batch = self.engine.train_micro_batch_size_per_gpu()
        self.loader = DataLoader(rows[rank::count], batch_size=self.micro_batch)

    def batches(self, begun: int) -> Iterator[Batch]:
        """Yield the micro-batches of this process without end, without those that are done."""
        return itertools.islice(itertools.chain.from_iterable(itertools.repeat(self.loader)), begun, None)

    def step(self, batches: Iterator[Batch]) -> float:
        """Step as `Engine` says."""
        for batch in itertools.islice(batches, self.micro_steps):
            loss = self.engine(**batch).loss
            self.engine.backward(loss)
            self.engine.step()
        return float(loss)

    def save(self, folder: Path) -> None:
        """Save as `Engine` says."""
        self.engine.save_checkpoint(str(folder))

    def load(self, folder: Path) -> None:
        """Load as `Engine` says."""
        self.engine.load_checkpoint(str(folder))

    def save_model(self, folder: Path) -> None:
        """Save it as `Engine` says; stage 3 gathers by `stage3_gather_16bit_weights_on_model_save` of the file."""
        states = (
            self.engine._zero3_consolidated_16bit_state_dict() if self.engine.zero_optimization_stage() == 3 else None
        )
        if self.is_first:
            self.engine.module.save_pretrained(folder, state_dict=states or self.engine.module.state_dict())
        torch.distributed.barrier()


def main() -> None:
    """Train to the last step of the plan, or go on from the newest checkpoint that is complete."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(GIVEN["model"])
    rows = rows_of(tokenizer)
    engine: Any = {"accelerate": WithAccelerate, "deepspeed": WithDeepSpeed}[GIVEN["engine"]](make_model(), rows)
    step = newest_step()
    if step:
        engine.load(OUT / f"checkpoint-{step}")
    if engine.is_first:
        print(f"starts from checkpoint-{step}" if step else "starts from the beginning", flush=True)
    batches, began = engine.batches(step * engine.micro_steps), time.monotonic()
    while step < GIVEN["steps"]:
        loss, step = engine.step(batches), step + 1
        if engine.is_first and (step % LOGGING_STEPS == 0 or step == GIVEN["steps"]):
            now = datetime.datetime.now(datetime.UTC)
            print(f"{now:%Y-%m-%dT%H:%M:%S.%fZ} {json.dumps({'step': step, 'loss': loss})}", flush=True)
        if step % GIVEN["save_steps"] == 0 or step == GIVEN["steps"]:
            save(engine, step)
    engine.save_model(OUT)
    if engine.is_first:
        print(json.dumps({"train_runtime": time.monotonic() - began}), flush=True)
        tokenizer.save_pretrained(OUT)


def make_model() -> Any:
    """Return the model, with adapters where the plan has them."""
    from transformers import AutoModelForCausalLM

    kernel = {"flash": "flash_attention_2", "mem_efficient": "sdpa"}.get(GIVEN["attention"], GIVEN["attention"])
    model = AutoModelForCausalLM.from_pretrained(GIVEN["model"], dtype=torch.float32, attn_implementation=kernel)
    if GIVEN["method"] != "lora":
        return model
    from peft import LoraConfig, get_peft_model

    ranks = {"r": GIVEN["lora_rank"], "lora_alpha": GIVEN["lora_alpha"]}
    return get_peft_model(model, LoraConfig(**ranks, target_modules=GIVEN["lora_targets"]))


def rows_of(tokenizer: Any) -> list[Batch]:
    """Return rows of the planned length: samples joined and cut where they are packed, else one in each."""
    length = GIVEN["sequence_length"]
    lines = Path(GIVEN["data"]).read_text().splitlines()
    samples = [tokenizer(json.loads(line)["text"])["input_ids"] for line in lines]
    if GIVEN["packing"] == "packed":
        every = list(itertools.chain.from_iterable(samples))
        cut = [every[place : place + length] for place in range(0, len(every) - length, length)]
        return [row_of(row, length) for row in cut]
    return [row_of(sample[:length], length) for sample in samples]


def row_of(tokens: list[int], length: int) -> Batch:
    """Return tokens with padding up to a length, of which no loss is computed."""
    free = length - len(tokens)
    return {
        "input_ids": torch.tensor(tokens + [0] * free),
        "attention_mask": torch.tensor([1] * len(tokens) + [0] * free),
        "labels": torch.tensor(tokens + [-100] * free),
    }


def newest_step() -> int:
    """Return the step of the newest checkpoint whose last file is there; 0: there is none."""
    steps = [0]
    for folder in OUT.glob("checkpoint-*"):
        if (folder / "trainer_state.json").exists():
            steps.append(int(folder.name.rpartition("-")[2]))
        elif int(os.environ.get("RANK", "0")) == 0:
            print(f"{folder.name} is incomplete: passed over", flush=True)
    return max(steps)


def save(engine: Any, step: int) -> None:
    """Save a checkpoint, its state last of all, and remove those that are too many."""
    folder = OUT / f"checkpoint-{step}"
    engine.save(folder)
    if not engine.is_first:
        return
    state = {"global_step": step, "max_steps": GIVEN["steps"], "train_batch_size": engine.micro_batch}
    (folder / "trainer_state.json").write_text(json.dumps(state))
    kept = sorted(OUT.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    for old in kept[: -GIVEN["save_limit"]]:
        shutil.rmtree(old)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", help="what DeepSpeed's launcher gives each process")
    parser.parse_args()
    main()
