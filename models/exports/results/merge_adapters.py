"""Merge adapters into the 16-bit weights of their base: merge_adapters.py ADAPTERS MERGED TYPE [BASE].

All weights in place of adapters, which full training saves in fp32, are written in 16 bits.
"""

import json
import sys
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

adapters, merged, kind = Path(sys.argv[1]), Path(sys.argv[2]), getattr(torch, sys.argv[3])
if (settings := adapters / "adapter_config.json").exists():
    # Not as it was trained, which may be in 4 bits: those are rounded once more when adapters are added to them.
    base = sys.argv[4] if len(sys.argv) > 4 else json.loads(settings.read_text())["base_model_name_or_path"]
    model = AutoModelForCausalLM.from_pretrained(base, dtype=kind)
    model = PeftModel.from_pretrained(model, adapters).merge_and_unload()
else:
    model = AutoModelForCausalLM.from_pretrained(adapters, dtype=kind)
part = merged.with_name(merged.name + ".part")
model.save_pretrained(part)
AutoTokenizer.from_pretrained(adapters).save_pretrained(part)
part.rename(merged)  # a folder of this name is whole
