"""Small scenarios that leave their model, tokens or batch open: made-up offers on demand, quick to solve."""

from __future__ import annotations

OPEN = """\
schema: 2
name: open
jobs:
  - name: scratch
    architecture: [smollm2-360m, llama-14x1792, llama-3.2-1b]
    kind: pretrain
    work: {tokens: best}
    global_batch: 256
    framework: torchtitan
offers:
  - {provider: one, gpu: H100-80GB, gpus: 8, usd_per_hour: 16.0, source: "illustration, not a price"}
limits: {budget_usd: 100}
objective: loss
"""

BATCH = """\
schema: 2
name: batch
jobs:
  - name: scratch
    architecture: llama-3.2-1b
    kind: pretrain
    work: {tokens: 20e9}
    global_batch: {from: 128, to: 1024}
    framework: torchtitan
offers:
  - {provider: one, gpu: H100-80GB, gpus: 8, max_nodes: 16, usd_per_hour: 16.0, interconnect: nvswitch,
     network_gbps: 3200, source: "illustration, not a price"}
"""

TOGETHER = """\
schema: 2
name: together
jobs:
  - name: many
    architecture: [smollm2-360m, llama-14x1792]
    kind: pretrain
    work: {tokens: best}
    global_batch: 256
    framework: torchtitan
  - name: few
    architecture: [smollm2-360m, llama-14x1792]
    kind: pretrain
    work: {tokens: best}
    unique_tokens: 1e9
    global_batch: 256
    framework: torchtitan
  - {name: tune, architecture: mistral-7b, work: {tokens: 20e6}}
offers:
  - {provider: one, gpu: H100-80GB, gpus: 8, usd_per_hour: 16.0, source: "illustration, not a price"}
limits: {budget_usd: 60}
objective: loss
"""
