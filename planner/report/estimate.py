"""The text of an estimate: the verdict, then memory and step time as bars, in 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.report import format as words
from planner.report import plan_sections as parts
from planner.report.plan import colorize
from planner.report.plan_sections import ROOM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.results.estimate import Estimate

NAME, FIGURE = 22, 7
"""Columns of a bar's name and of its figure."""

BAR_WIDTH = ROOM - NAME - FIGURE - 2

MIN_SHARE = 0.005
"""A part below this share of the whole is left to --json."""

MEMORY_WORDS = {
    "step_temporary": "optimizer temporary",
    "cast_weights": "16-bit weight copies",
    "gathered_weights": "gathered weights",
    "gathered_gradients": "gathered gradients",
    "dequantised": "dequantised matrix",
    "working_set": "one layer recomputed",
    "margin": "margin of the estimate",
    "context": "CUDA context, NCCL",
}

STEP_WORDS = {
    "matmul": "matrix products",
    "head": "head and loss",
    "elementwise": "elementwise traffic",
    "dequantisation": "dequantising weights",
    "launch": "kernel launches",
    "sharding": "sharding traffic",
    "data_parallel": "gradient reduction",
    "bubble": "pipeline bubble",
    "fixed": "loader and logging",
    "node_loss": "loss over machines",
}


def render_estimate(told: Estimate, color: bool = False) -> str:
    """The text, without a final newline; `color` marks the verdict and the labels."""
    lines = [
        _summary(told),
        "",
        *words.section("Train", _train(told)),
        *words.section("Memory", _memory(told)),
        *words.section("Remedies", _remedies(told)),
        *words.section("Limits", _limits(told)),
        *words.section("Step", _step(told)),
        *words.section("Basis", _basis(told)),
        *words.section("Assumed", words.wrap_lines(", ".join(told.assumed), ROOM, 3) if told.assumed else []),
        *words.section("Notes", [line for note in told.notes for line in words.wrap_lines(note, ROOM, 2)]),
    ]
    return "\n".join(colorize(lines) if color else lines)


def _summary(told: Estimate) -> str:
    """Fits or not, by how much, and how fast; the interval gives way where there is no room for it."""
    vram = told.vram_gib
    what = f"{words.sanitise(told.architecture)} on {words.gpus(told.gpus, told.gpu)}"
    if vram.fits:
        room = f"fits, {words.gib(vram.peak)} of {words.gib(vram.usable)} GiB"
        wordings = [f"{room}, {parts.rate(told)}", f"{room}, {words.significant(told.tokens_per_second)} {told.unit}/s"]
    else:
        wordings = [f"does not fit: {words.gib(told.short_gib)} GiB short of {words.gib(vram.usable)} GiB"]
    said = next((one for one in wordings if len(what) + len(one) + 2 <= words.WIDTH), wordings[-1])
    return f"{words.shorten(what, words.WIDTH - len(said) - 2)}: {said}"


def _train(told: Estimate) -> list[str]:
    """Technique, batch, machines, and how much is trained."""
    share = f"{_count(told.trainable_parameters)} trained weights"
    if told.techniques.method == "lora":
        share += f", {words.percent(told.trainable_parameters / told.parameters)} of the network"
    said = [parts.techniques(told), parts.batch(told), *([parts.machines(told)] if told.gpus > 1 else []), share]
    return [line for text in said for line in words.wrap_lines(text, ROOM, 2)]


def _count(weights: int) -> str:
    """Such as `41.9 million` or `8.03 billion`."""
    unit, name = (1e9, "billion") if weights >= 1e9 else (1e6, "million")
    return f"{words.significant(weights / unit)} {name}"


def _memory(told: Estimate) -> list[str]:
    """A bar for each part of the peak, on the scale of what the card has or of the peak, whichever is more."""
    vram = told.vram_gib
    scale = max(vram.usable, vram.peak)
    sizes = [(MEMORY_WORDS.get(name, name), size) for name, size in (*vram.parts.items(), *vram.set_aside.items())]
    lines = [
        f"{words.gib(vram.peak)} of {words.gib(vram.usable)} GiB per GPU, "
        f"fits in {words.probability_text(vram.fit_probability)}",
        *_bars(sizes, scale, words.gib),
    ]
    free = vram.usable - vram.peak
    if free >= 0.05:
        lines.append(_bar("free", free, scale, words.gib, "."))
    shown = f"; nvidia-smi shows about {words.gib(vram.device_used)} GiB" if vram.fits else ""
    return [*lines, f"limit: {vram.phase}{shown}"]


def _step(told: Estimate) -> list[str]:
    """A bar for each part of the step, on the scale of the step."""
    step = told.step_seconds
    each = f"{words.significant(step.total)} s per step"
    if not told.vram_gib.fits:
        each += f", {parts.rate(told)}, if it did fit"
    elif told.unit == "tokens":
        counted = words.significant(told.processed_tokens_per_second)
        each += f", {counted} tokens/s where {'padding counts' if told.packing == 'padded' else 'every place counts'}"
    seconds = [(STEP_WORDS.get(name, name), value) for name, value in step.parts.items()]
    lines = [words.shorten(each, ROOM)]
    if told.gpus > 1:  # traffic and computing overlap: without a word the bars would read as faster than they are
        lines += words.wrap_lines("what each part adds; work hidden behind another part is left out", ROOM, 2)
    return [*lines, *_bars(seconds, step.total, words.significant)]


def _limits(told: Estimate) -> list[str]:
    """What was asked for besides."""
    lines = []
    if told.largest_micro_batch is not None:
        most = told.largest_micro_batch
        lines.append(f"largest micro-batch {most:,}" if most else "not even a micro-batch of 1 fits")
    if told.longest_sequence is not None:
        longest, batch = told.longest_sequence, f"at micro-batch {told.techniques.micro_batch}"
        lines.append(f"longest sequence {longest:,} tokens {batch}" if longest else f"no sequence fits {batch}")
    return lines


def _remedies(told: Estimate) -> list[str]:
    if told.vram_gib.fits:
        return []
    if not told.remedies:
        return ["nothing tried makes it fit on such cards"]
    lines = [f"{remedy.change}: {words.gib(remedy.peak)} GiB" for remedy in told.remedies]
    return [line for text in lines for line in words.wrap_lines(text, ROOM, 2)]


def _basis(told: Estimate) -> list[str]:
    """The profile, and how far off the speed may be."""
    memory = "profiled, measured peaks stand behind its memory" if told.profiled else "not profiled, memory is a guess"
    return [f"framework {told.profile}: {memory}", f"speed: spread (sigma of its logarithm) {told.sigma:.2f}"]


def _bars(sizes: Sequence[tuple[str, float]], scale: float, figure: Callable[[float], str]) -> list[str]:
    """The parts worth a line, the largest first."""
    worth = [(name, size) for name, size in sizes if size >= MIN_SHARE * scale]
    return [_bar(name, size, scale, figure, "#") for name, size in sorted(worth, key=lambda part: -part[1])]


def _bar(name: str, size: float, scale: float, figure: Callable[[float], str], mark: str) -> str:
    length = max(1, round(size / scale * BAR_WIDTH))
    return f"{name.replace('_', ' '):<{NAME}}{figure(size):>{FIGURE}}  {mark * length}"
