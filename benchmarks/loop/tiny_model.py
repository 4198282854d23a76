"""A random network of 64 hidden units with its tokenizer and data, and a scenario that trains it.

Run by the Python of a trainer, `python tiny_model.py FOLDER`: it needs torch and transformers, and no network.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 128,
    "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "torch_dtype": "float32",
}  # fmt: skip
SAMPLES = 200


def make_model(folder: Path) -> None:
    """Save a random Llama with a tokenizer of single characters, and some text in three forms."""
    import torch
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model)).save_pretrained(model)
    words = {"<pad>": 0, "</s>": 1, "<unk>": 2, **{chr(code): code for code in range(32, 127)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", bos_token="</s>"
    )
    fast.chat_template = "{% for message in messages %}{{ message['content'] }}</s>{% endfor %}"
    fast.save_pretrained(model)
    write_data(folder)


def write_data(folder: Path) -> None:
    """Write the samples as plain text, as chats, and as pairs in the form of LLaMA-Factory."""
    texts = [f"sample {number} of the text that is trained on " for number in range(SAMPLES)]
    said = [({"role": "user", "content": "say"}, {"role": "assistant", "content": text}) for text in texts]
    files = {
        "data.jsonl": [{"text": text * 3} for text in texts],
        "chats.jsonl": [{"messages": messages} for messages in said],
        "data/pairs.jsonl": [{"instruction": "say", "input": "", "output": text} for text in texts],
    }
    (folder / "data").mkdir()
    for name, rows in files.items():
        (folder / name).write_text("\n".join(map(json.dumps, rows)) + "\n")
    (folder / "data" / "dataset_info.json").write_text(json.dumps({"pairs": {"file_name": "pairs.jsonl"}}))


if __name__ == "__main__":
    make_model(Path(sys.argv[1]))
