"""Quantise 16-bit weights with samples of the training data: quantise_weights.py WEIGHTS RESULT gptq|awq BITS DATA."""

import sys
from collections.abc import Mapping
from pathlib import Path

from datasets import load_dataset
from llmcompressor import oneshot
from llmcompressor.modifiers.gptq import GPTQModifier
from llmcompressor.modifiers.quantization import QuantizationModifier
from llmcompressor.modifiers.transform.awq import AWQModifier
from transformers import AutoModelForCausalLM, AutoTokenizer

SAMPLES, TOKENS = 128, 2048  # that the plan counts: gpu_quantise_samples

weights, result, form, bits, data = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(weights)
kind = {"jsonl": "json"}.get(end := Path(data).suffix.lower().lstrip("."), end)
is_file = kind in ("json", "csv", "parquet")
rows = load_dataset(kind, data_files=data, split="train") if is_file else load_dataset(data, split="train")


def texts(value: object) -> list[str]:
    """Return every text of a sample, whatever its fields are called."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [text for part in parts for text in texts(part)]


def tokens(row: Mapping) -> dict:
    """Return the tokens of a sample, of a chat as its template writes it."""
    is_chat = bool(row.get("messages")) and tokenizer.chat_template is not None
    text = tokenizer.apply_chat_template(row["messages"], tokenize=False) if is_chat else "\n".join(texts(row))
    return dict(tokenizer(text, max_length=TOKENS, truncation=True, add_special_tokens=not is_chat))


rows = rows.shuffle(seed=0).select(range(min(len(rows), SAMPLES)))
rows = rows.map(tokens, remove_columns=rows.column_names).filter(lambda row: len(row["input_ids"]) > 0)
kept = ["lm_head", "re:.*gate$", "re:.*router$"]  # in 16 bits: the head, and what chooses experts
if form == "awq":
    scaled = QuantizationModifier(targets=["Linear"], scheme="W4A16_ASYM", ignore=kept)
    recipe = [AWQModifier(duo_scaling="both"), scaled]
else:
    recipe = [GPTQModifier(targets=["Linear"], scheme=f"W{bits}A16", ignore=kept)]
model = AutoModelForCausalLM.from_pretrained(weights, dtype="auto")
oneshot(model=model, dataset=rows, recipe=recipe, max_seq_length=TOKENS, num_calibration_samples=len(rows))
part = Path(f"{result}.part")
model.save_pretrained(part, save_compressed=True)
tokenizer.save_pretrained(part)
part.rename(result)  # a folder of this name is whole
