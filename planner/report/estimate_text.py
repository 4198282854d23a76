"""An estimate as text: the summary, then memory and step time as bars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.report import plan_sections, words
from planner.report.words import LABEL, WIDTH, line_room
from planner.results.differences import device_noun
from planner.results.estimate import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PART_COLUMNS, FIGURE_COLUMNS = 22, 7
"""Columns of the name and of the figure before a bar."""

BAR_WIDTH = WIDTH - LABEL - PART_COLUMNS - FIGURE_COLUMNS - 2

MIN_SHARE = 0.005
"""Parts below this share of the whole are only in --json."""

PART_NAMES = {
    "step_temporary": "optimizer temporary",
    "cast_weights": "16-bit weight copies",
    "gathered_weights": "gathered weights",
    "gathered_gradients": "gathered gradients",
    "bucket": "gradients to reduce",
    "input_gradients": "gradients of inputs",
    "head_gradient": "gradient of the head",
    "dequantised": "dequantised matrix",
    "working_set": "one layer recomputed",
    "margin": "margin of the estimate",
    "context": "CUDA context, NCCL",
    "matmul": "matrix products",
    "head": "head and loss",
    "elementwise": "elementwise traffic",
    "dequantisation": "dequantising weights",
    "gradients": "adding gradients",
    "launch": "kernel launches",
    "hooks": "waiting for Python",
    "sharding": "sharding traffic",
    "data_parallel": "gradient reduction",
    "bubble": "pipeline bubble",
    "fixed": "loader and logging",
    "node_loss": "loss across machines",
    "further_forwards": "passes without gradients",
}


def render_estimate(estimate: Estimate) -> str:
    """Return the text without a final newline."""
    lines = [
        _summary(estimate),
        *plan_sections.cut_lines([estimate.cut] if estimate.cut else []),
        *words.second_lines(estimate.conversion),
        "",
        *words.section("Train", _train(estimate)),
        *words.section("Memory", _memory(estimate)),
        *words.section("Remedies", _remedies(estimate)),
        *words.section("Limits", _limits(estimate)),
        *words.section("Step", _step(estimate)),
        *words.section("Basis", _basis(estimate)),
        *words.section(
            "Assumed", words.wrap_lines(", ".join(estimate.assumed), line_room(), 3) if estimate.assumed else []
        ),
        *words.section("Notes", words.wrap_all(estimate.notes, line_room(), 2)),
    ]
    return "\n".join(lines)


def _summary(estimate: Estimate) -> str:
    """Return whether it fits, the memory and the speed with its interval; without room, less of the memory."""
    vram = estimate.vram_gib
    what = f"{words.sanitise(estimate.architecture)} on {words.gpus(estimate.gpus, estimate.gpu)}"
    if vram.fits:
        taken, speed = words.gib(vram.peak), plan_sections.rate(estimate)
        rooms = (f"fits, {taken} of {words.gib(vram.usable)} GiB", f"fits, {taken} GiB", "fits")
        wordings = [f"{room}, {speed}" for room in rooms]
    else:
        wordings = [f"does not fit: {words.gib(estimate.short_gib)} GiB short of {words.gib(vram.usable)} GiB"]
    form = next((form for form in wordings if len(what) + len(form) + 2 <= words.width()), wordings[-1])
    return f"{words.shorten(what, words.width() - len(form) - 2)}: {form}"


def _train(estimate: Estimate) -> list[str]:
    """Return technique, batch, machines, and the number of trained weights."""
    share = f"{_count(estimate.trainable_parameters)} trained weights"
    if estimate.techniques.method == "lora":
        share += f", {words.percent(estimate.trainable_parameters / estimate.parameters)} of the model"
    machines = [plan_sections.machines(estimate)] if estimate.gpus > 1 else []
    return words.wrap_all(
        [plan_sections.techniques(estimate), plan_sections.batch(estimate), *machines, share], line_room(), 2
    )


def _count(weights: int) -> str:
    """Return a number of weights, such as `41.9 million` or `8.03 billion`."""
    unit, name = (1e9, "billion") if weights >= 1e9 else (1e6, "million")
    return f"{words.significant(weights / unit)} {name}"


def _memory(estimate: Estimate) -> list[str]:
    """Return a bar for each part of the peak, on the scale of the usable memory or of the peak if that is larger."""
    vram = estimate.vram_gib
    scale = max(vram.usable, vram.peak)
    chance = words.probability_text(vram.fit_probability)
    device = device_noun(estimate.gpu)
    lines = [f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB per {device}, fits with {chance} probability"]
    is_gpu = device == "GPU"
    shown = {**vram.parts, **vram.set_aside}
    if not is_gpu:
        shown = {"runtime" if name == "context" else name: size for name, size in shown.items()}
    lines += _bars(shown, scale, words.gib)
    free = vram.usable - vram.peak
    if free >= 0.05:
        lines.append(draw_bar("free", free, scale, words.gib, "."))
    shown_there = f"; nvidia-smi shows about {words.gib(vram.device_used)} GiB" if vram.fits and is_gpu else ""
    return [*lines, f"peak in: {vram.phase}{shown_there}", *plan_sections.host_memory(estimate.host_memory)]


def _step(estimate: Estimate) -> list[str]:
    """Return a bar for each part of the step, on the scale of the step."""
    step = estimate.step_seconds
    each = f"{words.significant(step.total)} s per step"
    if not estimate.vram_gib.fits:
        each += f", {plan_sections.rate(estimate)} if it did fit"
    elif estimate.unit == "tokens":
        counted = words.significant(estimate.processed_tokens_per_second)
        each += f", {counted} tokens/s with {'padding' if estimate.packing == 'padded' else 'unfilled positions'}"
    lines = [words.shorten(each, line_room())]
    if estimate.gpus > 1:  # traffic and computation overlap, so that a part may take longer than its bar
        lines += words.wrap_lines("time that each part adds, without what overlaps with another part", line_room(), 2)
    return [*lines, *_bars(step.parts, step.total, words.significant)]


def _limits(estimate: Estimate) -> list[str]:
    """Return the largest micro-batch and the longest sequence, if requested."""
    lines = []
    if estimate.largest_micro_batch is not None:
        most = estimate.largest_micro_batch
        lines.append(f"largest micro-batch {most:,}" if most else "not even a micro-batch of 1 fits")
    if estimate.longest_sequence is not None:
        longest, batch = estimate.longest_sequence, f"at micro-batch {estimate.techniques.micro_batch}"
        lines.append(f"longest sequence {longest:,} tokens {batch}" if longest else f"no sequence fits {batch}")
    return lines


def _remedies(estimate: Estimate) -> list[str]:
    if estimate.vram_gib.fits:
        return []
    if not estimate.remedies:
        return ["no single change makes it fit on this GPU"]
    return words.wrap_all(
        (f"{remedy.change}: {words.gib(remedy.peak)} GiB" for remedy in estimate.remedies), line_room(), 2
    )


def _basis(estimate: Estimate) -> list[str]:
    """Return the framework profile and the uncertainty of the speed."""
    memory = "memory calibrated on measured peaks" if estimate.profiled else "memory not calibrated, a rough guess"
    return [
        f"framework {estimate.profile}: {memory}",
        f"speed ± {100 * (math.exp(estimate.sigma) - 1):.0f} % (one standard deviation)",
    ]


def _bars(sizes: Mapping[str, float], scale: float, figure: Callable[[float], str]) -> list[str]:
    """Return the parts above `MIN_SHARE`, largest first."""
    worth = [(PART_NAMES.get(name, name), size) for name, size in sizes.items() if size >= MIN_SHARE * scale]
    return [draw_bar(name, size, scale, figure, "#") for name, size in sorted(worth, key=lambda part: -part[1])]


def draw_bar(name: str, size: float, scale: float, figure: Callable[[float], str], mark: str) -> str:
    """Return one part of a whole as name, figure and bar."""
    length = max(1, round(size / scale * BAR_WIDTH))
    return f"{name.replace('_', ' '):<{PART_COLUMNS}}{figure(size):>{FIGURE_COLUMNS}}  {mark * length}"
