"""End with 1 where another number of processes than planned trains together, or from different checkpoints.

world_size.py PLANNED [CHECKPOINT]: the one from which this machine goes on, empty for the beginning.
"""

import os
import sys

import torch
from torch import distributed

planned, count, rank = int(sys.argv[1]), 1, int(os.environ.get("RANK", "0"))
step = int("0" + "".join(filter(str.isdigit, os.path.basename("".join(sys.argv[2:])))))
lowest = highest = step
if "RANK" in os.environ:
    on_gpus, local = torch.cuda.is_available(), int(os.environ["LOCAL_RANK"])
    if on_gpus and local >= torch.cuda.device_count():
        sys.exit(f"this machine has {torch.cuda.device_count()} GPUs: too few for the plan")
    if on_gpus:
        torch.cuda.set_device(local)
    distributed.init_process_group("nccl" if on_gpus else "gloo")
    found = torch.tensor([1, step], device="cuda" if on_gpus else "cpu")
    every = [torch.zeros_like(found) for _ in range(distributed.get_world_size())]
    distributed.all_gather(every, found)
    count = sum(int(each[0]) for each in every)
    lowest, highest = (choose(int(each[1]) for each in every) for choose in (min, max))
    distributed.destroy_process_group()
if count != planned:
    sys.exit(f"world size {count}, and the plan has {planned}: the machines do not train together")
if lowest != highest:
    sys.exit(f"machines go on from steps {lowest} and {highest}: share the folder of checkpoints, or copy the newest")
if rank == 0:
    print(f"world size {count}, as planned", flush=True)
