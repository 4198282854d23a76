"""Count the processes that train together, and end with 1 where the plan has another number."""

import os
import sys

import torch
from torch import distributed

planned, count, rank = int(sys.argv[1]), 1, int(os.environ.get("RANK", "0"))
if "RANK" in os.environ:
    on_gpus, local = torch.cuda.is_available(), int(os.environ["LOCAL_RANK"])
    if on_gpus and local >= torch.cuda.device_count():
        sys.exit(f"this machine has {torch.cuda.device_count()} GPUs: too few for the plan")
    if on_gpus:
        torch.cuda.set_device(local)
    distributed.init_process_group("nccl" if on_gpus else "gloo")
    one = torch.ones(1, device="cuda" if on_gpus else "cpu")
    distributed.all_reduce(one)
    count = int(one.item())
    distributed.destroy_process_group()
if count != planned:
    sys.exit(f"world size {count}, and the plan has {planned}: the machines do not train together")
if rank == 0:
    print(f"world size {count}, as planned", flush=True)
