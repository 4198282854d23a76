"""Names as people write them: repositories of fine-tunes that say their base, short names of GPUs, counts of GPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from planner.library.engines import read_engines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
"""Words of networks that are built on another: encoders, heads and drafts next to it, or a smaller copy."""
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


def gpu_with_memory(wanted: str, named: Callable[[str], str | None], memory_gib: Callable[[str], float]) -> str | None:
    """Return the GPU that a name with its memory at the end means, as sellers write it: `RTX 4090 24GB` -> `RTX4090`.

    `named` finds the GPU of the rest of the name, `memory_gib` what a GPU has. None where there is none, or it has
    another memory.
    """
    said = _MEMORY.search(wanted.casefold())
    if said is None or said.end() != len(wanted.rstrip()):
        return None
    found = named(wanted[: said.start()].rstrip(" -_"))
    return found if found is not None and memory_gib(found) == int(said[1]) else None


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
        if any(_is_base(parts, reading) for reading in (words, plain)):
            found.setdefault(len(parts), set()).add(name)
    best = found[max(found)] if found else set()
    return best.pop() if len(best) == 1 else None


_NUMBERED = re.compile(r"([a-z]{3,})(\d+(?:\.\d+)?)")
"""A family with its number joined on: llama2, qwen2.5."""


def _words(text: str) -> list[str]:
    """Return the words of a name in small letters; a family and its number are two, however they are joined."""
    found: list[str] = []
    for word in re.split(r"[-_ :]+", text.casefold().rpartition("/")[2]):
        joined = None if _SAME_SHAPE.fullmatch(word) else _NUMBERED.fullmatch(word)
        found += joined.groups() if joined else [word] if word else []
    return found


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


def _format_words(name: str) -> set[str]:
    return set(re.split(r"[-_ :.]+", name.casefold().rpartition("/")[2]))


def formats_in_name(name: str) -> tuple[str, ...]:
    """Return the formats of weights that the name of a repository says; none where it says nothing."""
    words = _format_words(name)

    def said(pattern: str) -> bool:
        return any(re.fullmatch(pattern, word) for word in words)

    return next((mark.formats for mark in read_engines().marks if all(map(said, mark.words))), ())


def unusable_format(name: str) -> str | None:
    """Return the format of weights that a name says and nothing here loads: MLX of `mlx-community/...`; else None."""
    owner = name.casefold().rpartition("/")[0]
    found = [label for word, label in read_engines().unusable.items() if word in _format_words(name)]
    return "MLX" if "mlx" in owner.split("-") else found[0] if found else None


def release_name(base: str, published: tuple[str, ...], formats: tuple[str, ...]) -> str:
    """Return the name of a model that is read from weights in some formats.

    The base itself where it is released so, and for GGUF files of a 4-bit release, which keep its blocks.
    """
    table = read_engines()
    if not formats or published[0] == formats[0]:
        return base
    if formats == table.gguf and table.formats[published[0]].bits < 8:
        return base
    return f"{base}-{formats[0]}"


def split_release(name: str, bases: frozenset[str]) -> tuple[str, str] | None:
    """Return base and format of a name that `release_name` made; None for any other."""
    table = read_engines()
    for form in table.formats:
        base = name.removesuffix(f"-{form}")
        if base != name and base in bases:
            return base, form
    return None


def hosted_name(architecture: str) -> str:
    """Return the name under which services that answer by the token offer a model, whatever format it is read from."""
    table = read_engines()
    ends = [f"-{form}" for form in table.formats]
    return next((architecture.removesuffix(end) for end in ends if architecture.endswith(end)), architecture)
