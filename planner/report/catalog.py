"""Tables of architectures, GPUs and offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.report import format as words

if TYPE_CHECKING:
    from planner.library.schema import Architecture, GpuSpec
    from planner.scenario.offer import Offer


def architectures_table(cards: Iterable[Architecture]) -> str:
    """Return one line per architecture: size in billions of weights, shape, context in tokens."""
    rows = [
        (
            card.name,
            _billions(card.parameters),
            _billions(card.active_parameters),
            str(card.layers),
            f"{card.hidden:,}",
            f"{card.vocab:,}" if card.vocab else "-",
            f"{card.max_sequence:,}",
        )
        for card in cards
    ]
    head = ("name", "weights", "active", "layers", "width", "vocabulary", "context")
    return table(head, rows, "<>>>>>>")


def gpus_table(cards: Iterable[GpuSpec]) -> str:
    """Return one line per GPU: usable GiB, GB/s, dense 16-bit TFLOPS."""
    rows = [
        (
            card.name,
            f"{card.vram_gib:g}",
            f"{card.usable_gib:.1f}",
            f"{card.memory_bandwidth_gb_s:,.0f}",
            f"{card.matmul16_tflops:,.0f}",
            "yes" if card.bf16 else "no",
            card.form,
            card.generation,
        )
        for card in cards
    ]
    head = ("name", "GiB", "usable", "GB/s", "16-bit TFLOPS", "bf16", "form", "generation")
    return table(head, rows, "<>>>><<<")


def offers_table(labels: Sequence[str], offers: Sequence[Offer]) -> str:
    """Return one line per offer, prices in dollars per GPU and hour; another unit follows its price."""
    rows = [
        (
            label,
            _machine(offer),
            _price(offer),
            _per_gpu(offer.spot_usd_per_hour, offer.gpus or 1),
            _tier(offer),
            str(offer.date or "-"),
        )
        for label, offer in zip(labels, offers, strict=True)
    ]
    return table(("offer", "GPUs", "$/GPU-h", "spot", "tier", "date"), rows, "<<>><<")


def card_text(facts: Mapping[str, Any]) -> str:
    """Return one card in full: a line per field, long texts wrapped."""
    width = max(len(key) for key in facts) + 2
    lines = []
    for key, value in facts.items():
        texts = words.wrap_lines(_text(value), max(20, words.WIDTH - width - 2), 100)
        lines += [f"  {key if i == 0 else '':<{width}}{line}".rstrip() for i, line in enumerate(texts)]
    return "\n".join(lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """Return columns as wide as their widest cell, two blanks between; `align` has `<` or `>` per column."""
    cleaned = [[words.sanitise(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in cleaned) for i in range(len(head))]
    cells = [zip(row, align, widths, strict=True) for row in cleaned]
    return "\n".join("  ".join(f"{c:{side}{width}}" for c, side, width in row).rstrip() for row in cells)


def _billions(count: int) -> str:
    return f"{words.significant(count / 1e9)} B"


def _machine(offer: Offer) -> str:
    if offer.is_cpu:
        return f"{offer.cpu_cores or 0:g} cores"
    return words.gpus(offer.gpus, offer.card) if offer.rents_gpus else "-"


def _price(offer: Offer) -> str:
    if offer.managed is not None:
        by = {"/M tokens": offer.managed.usd_per_million_tokens, "/run": offer.managed.usd_per_run}
        return " + ".join(f"{_per_gpu(price, 1)}{unit}" for unit, price in by.items() if price is not None)
    return _per_gpu(offer.full_usd_per_hour, offer.gpus or 1) + ("/h" if offer.is_cpu else "")


def _tier(offer: Offer) -> str:
    """Return the tier with its term, the hours left or the method."""
    if offer.commitment is not None:
        months = offer.commitment.months
        return f"{offer.tier}, {months} month{'s' if months > 1 else ''}"
    if offer.committed_hours is not None:
        return f"{offer.tier}, {words.hours(offer.committed_hours)} left"
    return f"{offer.tier}, {offer.managed.method}" if offer.managed else offer.tier


def _per_gpu(usd_per_hour: float | None, gpus: int) -> str:
    return "-" if usd_per_hour is None else words.rate(usd_per_hour / gpus).removeprefix("$")


def _text(value: Any) -> str:
    if value is None or value == "" or value == [] or value == {}:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))
    return str(value)
