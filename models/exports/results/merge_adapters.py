"""Merge adapters into the 16-bit weights of their base: merge_adapters.py ADAPTERS MERGED TYPE [BASE]."""

import json
import sys
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

adapters, merged, kind = Path(sys.argv[1]), Path(sys.argv[2]), getattr(torch, sys.argv[3])
# Not as it was trained, which may be in 4 bits: those are rounded once more when adapters are added to them.
base = (
    sys.argv[4]
    if len(sys.argv) > 4
    else json.loads((adapters / "adapter_config.json").read_text())["base_model_name_or_path"]
)
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=kind), adapters).merge_and_unload()
part = merged.with_name(merged.name + ".part")
model.save_pretrained(part)
AutoTokenizer.from_pretrained(adapters).save_pretrained(part)
part.rename(merged)  # a folder of this name is whole
