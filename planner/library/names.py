"""Names as people write them: repositories of fine-tunes that say their base, short names of GPUs, counts of GPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from planner.library.inference.engines import read_engines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SIZE = re.compile(r"\d+(\.\d+)?[bm]\d*")
"""A word that says how large a model is: 7b, 1.5b, 135m, 7b1."""
_SAME_SHAPE = re.compile(
    r"instruct|chat|base|it|pt|hf|coder|code|math|thinking|deduped|meta|preview|sft|dpo|orpo|unsloth|bnb|dynamic|"
    r"gptq|awq|gguf|fp8|bf16|fp16|int[48]|[48]bit|mxfp4|nvfp4|fp4|nf4|exl2|w[48]a(8|16)|quantized|v\d[\d.]*|\d+[km]|\d{4}"
)
"""A word of a repository's name that leaves the dimensions as they are."""
_OTHER_SHAPE = frozenset(
    [
        "vl",
        "vision",
        "omni",
        "audio",
        "embedding",
        "reranker",
        "reward",
        "moe",
        "draft",
        "pruned",
        "eagle",
        "mini",
        "nano",
        "lite",
        "air",
        "next",
        "medusa",
        "minitron",
        "speculator",
        "adapter",
    ]
)
"""Words of networks that are built on another: encoders, heads and drafts beside it, or a smaller copy."""
_MAKERS = re.compile(r"nvidia|geforce|tesla|quadro|amd|instinct|generation|^ *rtx")
_MEMORY = re.compile(r"(?<=[-_ ])(\d+) ?(gib|gb|g)\b")
_COUNT = re.compile(r"(\d{1,6}) *[x×*] *(.+)|(.+?) *: *(\d{1,6})")


def split_count(gpu: str) -> tuple[int | None, str]:
    """Return the count and the name of `2xA100`, `8 x H100` or `A100:8`; None where the text has no count."""
    found = _COUNT.fullmatch(gpu.strip())
    if found is None:
        return None, gpu
    return int(found[1] or found[4]), found[2] or found[3]


def find_gpu(wanted: str, by_label: Mapping[str, str]) -> str | None:
    """Return the GPU that a text means whatever its separators, maker and unit (`4090`, `a100-80g`), None if unclear.

    `by_label`: name or alias -> name.
    """
    key = _gpu_key(wanted)
    found = {name for label, name in by_label.items() if _gpu_key(label) == key}
    return found.pop() if len(found) == 1 else None


def gpu_group(wanted: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the GPUs of a chip that is sold in several forms: `H100` -> `H100-80GB`, `H100-NVL-94GB`, ...; else none.

    A name that is a GPU's own, such as `H200`, is no group.
    """
    key, listed = _gpu_key(wanted), tuple(names)
    found = tuple(name for name in listed if _gpu_key(name.partition("-")[0]) == key)
    return () if any(_gpu_key(name) == key for name in listed) else found


def _gpu_key(text: str) -> str:
    text = _MEMORY.sub(r"\1", text.casefold())
    for _ in range(2):  # a maker's name may stand before `RTX`
        text = _MAKERS.sub("", text)
    return re.sub(r"[^a-z0-9]", "", text)


def find_architecture(wanted: str, by_label: Mapping[str, str]) -> str | None:
    """Return the base that a repository's name says (`someone/Hermes-3-Llama-3.1-8B`), None if unclear.

    A label counts where its words follow one another in the name. One without a size (`gpt2`) counts only where the
    other words leave the dimensions as they are. The longest label wins.
    """
    words = _words(wanted)
    plain = [word for word in words if not _SAME_SHAPE.fullmatch(word)]
    found: dict[int, set[str]] = {}
    for label, name in by_label.items():
        parts = _words(label)
        if any(_is_base(parts, one) for one in (words, plain)):
            found.setdefault(len(parts), set()).add(name)
    best = found[max(found)] if found else set()
    return best.pop() if len(best) == 1 else None


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[-_ :]+", text.casefold().rpartition("/")[2]) if word]


def _is_base(parts: list[str], words: list[str]) -> bool:
    """Whether the words of a label follow one another in a name whose other words do not say another shape."""
    for start in range(len(words) - len(parts) + 1):
        if parts and words[start : start + len(parts)] == parts:
            rest = words[:start] + words[start + len(parts) :]
            return _keeps_shape(rest, any(_SIZE.fullmatch(part) for part in parts))
    return False


def _keeps_shape(rest: Iterable[str], sized: bool) -> bool:
    if sized:
        return not any(word in _OTHER_SHAPE or _SIZE.fullmatch(word) for word in rest)
    return all(_SAME_SHAPE.fullmatch(word) for word in rest)


GGUF = ("gguf-q4_k_m", "gguf-q8_0")
"""Formats of a repository of GGUF files."""
_MARKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gguf q8|q8_0", GGUF[1:]),
    ("gguf", GGUF),
    ("exl2", ("exl2",)),
    ("nvfp4|fp4", ("nvfp4",)),
    ("mxfp4", ("mxfp4",)),
    ("(bnb|bitsandbytes) (8bit|int8)", ("bnb-int8",)),
    ("bnb|bitsandbytes|nf4", ("nf4",)),
    ("gptq (int8|8bit|w8a16)", ("int8-weights",)),
    ("int8 weights|w8a16", ("int8-weights",)),
    ("gptq", ("gptq",)),
    ("awq|w4a16|int4|autoround", ("awq",)),
    ("w4a8", ("w4a8",)),
    ("w8a8|int8", ("int8",)),
    ("fp8|float8", ("fp8",)),
    ("4bit", ("nf4",)),
    ("8bit", ("bnb-int8",)),
    ("bf16|fp16", ("bf16",)),
)
"""Patterns of words, all of which must stand in the name of a repository, and the formats that they mean; the first
row counts that is found."""
_LIES_AS = {"gptq": "awq"}
"""Formats of a name by the format of the library that lies in memory alike."""
_NO_FORMAT = {
    "mlx": "MLX", "exl3": "EXL3", "hqq": "HQQ", "aqlm": "AQLM", "eetq": "EETQ", "quip": "QuIP", "quip#": "QuIP#",
    "onnx": "ONNX", "coreml": "Core ML", "openvino": "OpenVINO", "2bit": "2-bit", "3bit": "3-bit", "int2": "2-bit",
    "int3": "3-bit", "1bit": "1-bit",
}  # fmt: skip
"""Words of formats that neither an engine nor a framework of the library loads."""


def _format_words(name: str) -> set[str]:
    return set(re.split(r"[-_ :.]+", name.casefold().rpartition("/")[2]))


def formats_in_name(name: str) -> tuple[str, ...]:
    """Return the formats of weights that the name of a repository says; none where it says nothing."""
    words = _format_words(name)

    def said(pattern: str) -> bool:
        return any(re.fullmatch(pattern, word) for word in words)

    return next((formats for marks, formats in _MARKS if all(said(one) for one in marks.split(" "))), ())


def unusable_format(name: str) -> str | None:
    """Return the format of weights that a name says and nothing here loads: MLX of `mlx-community/...`; else None."""
    owner = name.casefold().rpartition("/")[0]
    found = [label for word, label in _NO_FORMAT.items() if word in _format_words(name)]
    return "MLX" if "mlx" in owner.split("-") else found[0] if found else None


def release_name(base: str, published: tuple[str, ...], formats: tuple[str, ...]) -> str:
    """Return the name of a model that is read from weights in some formats.

    The base itself where it is released so, and for GGUF files of a 4-bit release, which keep its blocks.
    """
    bits = read_engines().formats
    if not formats or published[0] == format_of_release(formats[0]):
        return base
    if formats == GGUF and bits[published[0]].bits < 8:
        return base
    return f"{base}-{formats[0]}"


def split_release(name: str, bases: frozenset[str]) -> tuple[str, str] | None:
    """Return base and format of a name that `release_name` made; None for any other."""
    for form in (*read_engines().formats, *_LIES_AS):
        base = name.removesuffix(f"-{form}")
        if base != name and base in bases:
            return base, form
    return None


def format_of_release(form: str) -> str:
    """Return the format of the library in which weights lie whose name says another word: awq for gptq."""
    return _LIES_AS.get(form, form)


def hosted_name(architecture: str) -> str:
    """Return the name under which services that answer by the token offer a model, whatever format it is read from."""
    ends = [f"-{one}" for one in (*read_engines().formats, *_LIES_AS)]
    return next((architecture.removesuffix(end) for end in ends if architecture.endswith(end)), architecture)
