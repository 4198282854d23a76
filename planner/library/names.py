"""Names as people write them: repositories of fine-tunes that say their base, short names of GPUs, counts of GPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SIZE = re.compile(r"\d+(\.\d+)?[bm]\d*")
"""A word that says how large a model is: 7b, 1.5b, 135m, 7b1."""
_SAME_SHAPE = re.compile(
    r"instruct|chat|base|it|pt|hf|coder|code|math|thinking|deduped|meta|preview|sft|dpo|orpo|unsloth|bnb|dynamic|"
    r"gptq|awq|gguf|fp8|bf16|fp16|int[48]|[48]bit|v\d[\d.]*|\d+[km]|\d{4}"
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


def fold(text: str) -> str:
    """Return the letters and digits of a name in lower case: spellings that differ in nothing else are one name."""
    return re.sub(r"[^a-z0-9]", "", text.casefold())


def find_name(word: object, known: Iterable[str]) -> str | None:
    """Return the known name that a word is, whatever its case and separators; None where none or several are meant."""
    names = list(known)
    if word in names or not isinstance(word, str):
        return word if isinstance(word, str) else None
    found = {name for name in names if fold(name) == fold(word)}
    return found.pop() if len(found) == 1 and fold(word) else None


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
