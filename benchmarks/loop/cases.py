"""The cases of the loop: trainer, method, packing, processes and machines, and how each is killed."""

from __future__ import annotations

import signal
from typing import NamedTuple

import planner
from benchmarks.loop.machine import Kill
from planner.loading.scenario_file import parse_scenario
from planner.results.plan import Plan
from planner.scenario.scenario import Scenario, SolveOptions

SAVES = 4
CUT = Kill(signal.SIGKILL, "while a checkpoint is written")
KILLED = Kill(signal.SIGKILL, "after a checkpoint")
ENDED = Kill(signal.SIGTERM, "after a checkpoint")
LONG = 6000
"""Samples of a run that still trains some seconds after it was asked to end."""


OF_SCRIPTS = {"accelerate": "accelerate launch ", "deepspeed": "deepspeed --"}
"""Tools whose files are for a script of one's own -> how the command begins that their heads say."""


class Case(NamedTuple):
    """One run: what is planned, and when it is killed the first time."""

    trainer: str
    method: str
    packing: str
    gpus: int = 1
    machines: int = 1
    sharding: str = "none"
    kill: Kill | None = None
    samples: int = 200
    result: str = "adapters"
    """What leaves: adapters, or these merged; of full training all weights in any case."""

    @property
    def name(self) -> str:
        """Return the case as a row of the table names it."""
        processes = f"{self.machines} x {self.gpus}" if self.machines > 1 else str(self.gpus)
        how = f"{self.kill.signal.name} {self.kill.moment}" if self.kill else "not killed"
        made = "" if self.result == "adapters" else f", {self.result}"
        return f"{self.trainer} {self.method} {self.packing} {processes} {self.sharding}, {how}{made}"


CASES = (
    Case("trl", "lora", "packed", kill=KILLED),
    Case("trl", "lora", "padded", kill=KILLED, result="merged"),
    Case("trl", "full", "padded", kill=CUT),
    Case("trl", "full", "packed", gpus=2, sharding="ddp", kill=ENDED, samples=LONG),
    Case("trl", "full", "packed", gpus=2, sharding="zero3", kill=CUT),
    Case("trl", "lora", "padded", gpus=2, sharding="zero3", kill=KILLED),
    Case("trl", "lora", "packed", machines=2, sharding="ddp", kill=KILLED),
    Case("trl", "full", "packed", machines=2, sharding="zero3", kill=KILLED),
    Case("trl", "full", "packed", gpus=2, machines=2, sharding="hsdp", kill=KILLED),
    Case("llamafactory", "lora", "padded", kill=CUT),
    Case("llamafactory", "lora", "packed", kill=KILLED, result="merged"),
    Case("llamafactory", "full", "packed", gpus=2, sharding="ddp", kill=KILLED),
    Case("llamafactory", "full", "padded", machines=2, sharding="ddp", kill=ENDED, samples=LONG),
    Case("axolotl", "lora", "packed", kill=KILLED),
    Case("accelerate", "lora", "packed", kill=KILLED),
    Case("accelerate", "full", "padded", gpus=2, sharding="ddp", kill=CUT),
    Case("accelerate", "full", "packed", gpus=2, sharding="zero3", kill=KILLED),
    Case("accelerate", "lora", "padded", machines=2, sharding="ddp", kill=KILLED),
    Case("accelerate", "full", "packed", gpus=2, machines=2, sharding="hsdp", kill=KILLED),
    Case("accelerate", "full", "padded", gpus=2, sharding="zero2", kill=KILLED),
    Case("deepspeed", "lora", "padded", kill=KILLED),
    Case("deepspeed", "full", "packed", gpus=2, sharding="zero1", kill=CUT),
    Case("deepspeed", "full", "padded", gpus=2, sharding="zero2", kill=KILLED),
    Case("deepspeed", "full", "packed", machines=2, sharding="zero2", kill=KILLED),
    Case("trl", "full", "padded", gpus=2, sharding="zero2", kill=KILLED),
    Case("trl", "lora", "packed", gpus=2, sharding="zero2", kill=CUT),
)

SCENARIO = """
schema: 2
name: tiny
offers: [{{provider: b, gpu: RTX3060, gpus: {gpus}, ram_gb: 64, usd_per_hour: 0.1}}]
jobs:
  - name: tiny
    architecture: {model}/config.json
    work: {{samples: {samples}, tokens_per_sample: 100, epochs: 1}}
    sequence_length: 64
    global_batch: 8
    packing: {packing}
    deadline: 2h
    framework: hf
    stages: {{checkpoints: {{count: {saves}, keep: 2}}, export: {{format: {result}, on: machine}}}}
    techniques:
      method: [{method}]
      weight_bits: [16]
      precision: [{precision}]
      sharding: [{sharding}]
      optimizer: [adamw]
      activation_checkpointing: [none]
"""


def plan_case(case: Case, model: str) -> tuple[Scenario, Plan]:
    """Return the scenario of a case and its plan; the GPUs of several machines are planned in one and moved apart."""
    text = SCENARIO.format(
        model=model, gpus=case.gpus * case.machines, packing=case.packing, saves=SAVES, method=case.method,
        samples=case.samples, result=case.result,
        sharding="zero3" if case.sharding == "hsdp" else case.sharding, precision="fp32",
    )  # fmt: skip
    scenario = parse_scenario(text)
    plan: Plan = planner.solve(scenario, SolveOptions())
    if not plan.jobs:
        raise SystemExit(f"{case.name}: {plan.status}")
    techniques = plan.jobs[0].techniques.model_copy(update={"sharding": case.sharding})  # hsdp is of several machines
    moved = {"instances": case.machines, "gpus_per_instance": case.gpus, "techniques": techniques}
    job = plan.jobs[0].model_copy(update=moved)
    assert job.gpus == case.gpus * case.machines, job.gpus
    return scenario, plan.model_copy(update={"jobs": (job,)})
