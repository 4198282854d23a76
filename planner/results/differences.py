"""Differences between two configurations of a job, most important first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.results.plan import Assignment
from planner.results.plan_parts import Part, Techniques
from planner.units import count_text

CHIPS = ("TPU", "Gaudi", "Trainium")
"""Beginnings of the names of accelerators that are no GPUs."""


def device_noun(gpu: str, count: int = 1) -> str:
    """Return `GPU` or `GPUs`, and `chip` or `chips` of TPUs and other accelerators."""
    noun = "chip" if gpu.startswith(CHIPS) else "GPU"
    return noun if count == 1 else f"{noun}s"


MAX_DIFFERENCES = 2
"""Differences that `describe_differences` names."""

SERVICE = "managed"
"""The GPU name of a service, which states none."""

SHOWN_SHARE = 0.005
"""Spot shares closer than this read as the same percentage."""

FEATURES: tuple[tuple[str, Callable[[Assignment], str]], ...] = (
    ("model", lambda job: job.model.architecture if job.model else ""),
    ("tokens", lambda job: count_text(job.model.tokens) if job.model else ""),
    ("sequences", lambda job: f"{job.model.batch.sequences:,}" if job.model and job.model.batch else ""),
    ("method", lambda job: method_name(job.techniques)),
    ("card", lambda job: job.gpu),
    ("GPUs", lambda job: f"{job.gpus:,}"),
    ("provider", lambda job: job.provider),
    ("spot share", lambda job: spot_percent(job.spot_share)),
    ("region", lambda job: job.region),
    ("instance", lambda job: job.instance),
    ("precision", lambda job: job.techniques.precision),
    ("checkpointing", lambda job: job.techniques.activation_checkpointing),
    ("sharding", lambda job: job.techniques.sharding),
    ("optimizer", lambda job: job.techniques.optimizer),
    ("offload", lambda job: job.techniques.offload),
    ("tensor parallel", lambda job: str(job.techniques.tensor_parallel)),
    ("pipeline parallel", lambda job: str(job.techniques.pipeline_parallel)),
    ("context parallel", lambda job: str(job.techniques.context_parallel)),
    ("expert parallel", lambda job: str(job.techniques.expert_parallel)),
    ("batch", lambda job: f"{job.techniques.micro_batch} x {job.techniques.accumulation_steps}"),
    ("attention", lambda job: job.techniques.attention),
    ("quantisation", lambda job: job.techniques.quant),
    ("machines", lambda job: f"{job.instances:,} of {_devices(job)} ({job.interconnect})"),
)
"""What may differ, most important first, and how each side of it reads."""


def _devices(job: Assignment) -> str:
    return f"{job.gpus_per_instance:,} {device_noun(job.gpu, 2)}"


_HARDWARE_FEATURES = ("card", "GPUs", "provider")
IMPLIED_BY = {
    "region": _HARDWARE_FEATURES,
    "instance": _HARDWARE_FEATURES,
    "machines": _HARDWARE_FEATURES,
    "sharding": ("GPUs",),
    "batch": ("method", "card", "GPUs", "checkpointing", "sharding"),
    "attention": ("method", "card"),
    "quantisation": ("method",),
}
"""Differences that follow from others: they are left out if one of these is named."""


class Difference(Part):
    """One difference: its name in `FEATURES`, and how it reads on either side."""

    what: str
    before: str
    after: str


def compare(before: Assignment, after: Assignment) -> tuple[Difference, ...]:
    """Return every difference in machines and techniques, most important first; empty for equal configurations."""
    return tuple(
        Difference(what=name, before=old, after=new)
        for name, describe in FEATURES
        if (old := describe(before)) != (new := describe(after))
    )


def describe_differences(found: tuple[Difference, ...], most: int = MAX_DIFFERENCES) -> str:
    """Return the most important differences in a few words, such as `4-bit, other GPU`; empty without any."""
    differs = {difference.what for difference in found}
    if any(difference.what == "card" and SERVICE in (difference.before, difference.after) for difference in found):
        # A service states neither its GPUs nor its techniques.
        found = tuple(difference for difference in found if difference.what in ("card", "method", "provider"))
    important = [difference for difference in found if not differs & set(IMPLIED_BY.get(difference.what, ()))]
    has_chips = any(
        difference.what == "machines" and f" {device_noun(CHIPS[0], 2)} " in difference.after for difference in found
    )
    return ", ".join(_format_difference(difference, "chip" if has_chips else "GPU") for difference in important[:most])


def describe_job_differences(before: Sequence[Assignment], after: Sequence[Assignment]) -> str:
    """Return the differences in words; of several jobs the most important of each: `chat, code: other GPU`."""
    if len(after) == 1:
        if not before:
            return ""
        parts = _describe_chosen(before[0], after[0]), describe_differences(compare(before[0], after[0]))
        return ", ".join(filter(None, parts))
    jobs_by_words: dict[str, list[str]] = {}
    for old, job in zip(before, after, strict=False):
        if words := describe_differences(compare(old, job), 1):
            jobs_by_words.setdefault(words, []).append(job.name)
    return "; ".join(f"{', '.join(names)}: {words}" for words, names in jobs_by_words.items())


def _describe_chosen(before: Assignment, after: Assignment) -> str:
    """Return what of an open job is another model or batch: `512 sequences per step instead of 128`."""
    found = []
    if before.architecture != after.architecture:
        found.append(f"{after.architecture} instead of {before.architecture}")
    if before.global_batch != after.global_batch:
        found.append(f"{after.global_batch:,} sequences per step instead of {before.global_batch:,}")
    return ", ".join(found)


def method_name(how: Techniques) -> str:
    """Return `full`, `LoRA` (on 16-bit weights), `LoRA 8-bit` or `QLoRA` (4-bit); of generation engine and bits."""
    if how.method == "generate":
        return f"{how.framework} {how.weight_bits}-bit"
    if how.method != "lora":
        return how.method
    return {16: "LoRA", 4: "QLoRA"}.get(how.weight_bits, f"LoRA {how.weight_bits}-bit")


def spot_percent(share: float) -> str:
    """Return a share as whole percent; a positive one is never 0 %, a part never 100 %."""
    if share <= 0 or share >= 1:
        return f"{share:.0%}".replace("%", " %")
    if share < SHOWN_SHARE:
        return "under 1 %"
    return "over 99 %" if share >= 1 - SHOWN_SHARE else f"{share * 100:.0f} %"


def _format_difference(change: Difference, device: str) -> str:
    """Return a difference in words; `device` is what the later configuration runs on, GPU or chip."""
    before, after = change.before, change.after
    if change.what == "method":
        return _method_words(before, after)
    if change.what in ("model", "tokens", "sequences"):
        return _open_words(change)
    if change.what == "spot share":
        if before == "0 %":
            return "spot begins"
        return "all on demand" if after == "0 %" else f"spot {before} to {after}"
    if change.what == "GPUs":
        return f"{after} {device}{'' if after == '1' else 's'} instead of {before}"
    if change.what == "card" and SERVICE in (before, after):
        return "by a service" if after == SERVICE else "on machines"
    if change.what in ("card", "provider", "region", "instance", "batch", "attention", "machines"):
        return f"other {device if change.what == 'card' else change.what}"
    if change.what == "checkpointing":
        return "no checkpointing" if after == "none" else f"{after} checkpointing"
    if change.what == "sharding":
        return "no sharding" if after == "none" else after
    return f"{change.what} {after}" if change.what.endswith("parallel") else after


def _open_words(change: Difference) -> str:
    """Return what is trained in place of what; a side that leaves nothing open has no words."""
    unit = {"model": "", "tokens": " tokens", "sequences": " sequences a step"}[change.what]
    if not change.before or not change.after:
        return f"{change.what} left open" if change.after else f"{change.what} given"
    return f"{change.after}{unit} instead of {change.before}"


def _method_words(before: str, after: str) -> str:
    """Return the bits if both methods are variants of LoRA, else the new method."""
    bits = {"QLoRA": "4-bit", "LoRA": "16-bit", "LoRA 8-bit": "8-bit"}
    if after == "full":
        return "full training"
    return bits.get(after, after) if before in bits else after
