"""How long the sequences of a job are, and the faults of lengths that its model cannot read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import Fault
from planner.estimates.work import default_sequence
from planner.library.schema import Architecture
from planner.scenario.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterator


def sequence_of(job: Job, architecture: Architecture) -> int:
    """Return the tokens of a sequence: as given, else so many that a sample fits in, at most what the model reads."""
    mean, context = job.tokens_per_sequence, architecture.max_sequence
    return job.sequence_length or default_sequence(job.packing, mean, job.length_cv, context, job.sequence_lengths)


def length_faults(job: Job, architecture: Architecture) -> Iterator[Fault]:
    """Yield the lengths of a training job that are longer than its model can read.

    They are those of its sequences, of its observed runs, and of samples for which no length was given: none holds
    them, and nobody said that they may be cut.
    """
    if architecture.image is not None:
        return
    context, place = architecture.max_sequence, f"jobs.{job.name}"
    beyond = f"is longer than the {context:,} tokens that {architecture.name} can read"
    given = {f"{place}.sequence_length": job.sequence_length}
    given |= {
        f"{place}.measured.{index}.sequence_length": run.sequence_length for index, run in enumerate(job.measured)
    }
    for where, length in given.items():
        if length is not None and length > context:
            yield Fault(job.name, 0, where, f"a sequence of {length:,} {beyond}", f"at most {context:,}")
    table = job.sequence_lengths
    mean, key = (max(table)[0], "lengths") if table else (job.tokens_per_sequence, "tokens_per_sample")
    if job.sequence_length is None and mean is not None and mean > context:
        fix = f"give sequence_length {context} to cut the samples, or choose a model that reads more"
        yield Fault(job.name, 0, f"{place}.work.{key}", f"a sample of {mean:,.0f} tokens {beyond}", fix)
