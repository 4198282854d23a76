"""Load the result of a run as its user would, generate one token, and say how it was trained, as JSON.

Run by the Python of a trainer: `python read_result.py RESULT BASE`. RESULT is a folder that a trainer saved; BASE the
model that an adapter belongs to.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ARGUMENTS = (
    "per_device_train_batch_size", "gradient_accumulation_steps", "optim", "max_length", "packing", "max_steps",
    "save_steps", "save_total_limit", "bf16", "fp16", "gradient_checkpointing", "activation_checkpointing",
)  # fmt: skip


def main(result: Path, base: Path) -> dict[str, Any]:
    """Return the token, the settings of the adapter and of the trainer, and the parameters that were saved."""
    import torch
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM, AutoTokenizer

    adapter = result / "adapter_config.json"
    if adapter.exists():
        from peft import PeftModel

        model: Any = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), result)
    else:
        model = AutoModelForCausalLM.from_pretrained(result)
    tokenizer = AutoTokenizer.from_pretrained(result)
    asked = tokenizer("sample 1", return_tensors="pt")
    answer = model.generate(**asked, max_new_tokens=1, do_sample=False)
    found: dict[str, Any] = {"new_tokens": int(answer.shape[1] - asked["input_ids"].shape[1])}
    found["finite"] = all(bool(torch.isfinite(weight).all()) for weight in model.parameters())
    if adapter.exists():
        settings = json.loads(adapter.read_text())
        found["adapter"] = {name: settings[name] for name in ("r", "lora_alpha", "target_modules")}
    weights = sorted(result.glob("*.safetensors"))
    with safe_open(weights[0], "pt") as file:
        tensors = [file.get_slice(name) for name in file.keys()]  # noqa: SIM118 # not a mapping
        found["saved_type"] = tensors[0].get_dtype()
    found["saved_parameters"] = sum(
        int(torch.Size(safe.get_slice(name).get_shape()).numel())
        for path in weights
        for safe in [safe_open(path, "pt")]
        for name in safe.keys()  # noqa: SIM118
    )
    arguments = result / "training_args.bin"
    if arguments.exists():
        given = torch.load(arguments, weights_only=False)
        found["arguments"] = {name: getattr(given, name) for name in ARGUMENTS if hasattr(given, name)}
        found["arguments"]["optim"] = str(getattr(given.optim, "value", given.optim))
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
