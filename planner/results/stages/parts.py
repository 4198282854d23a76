"""The data path and the exported result as a plan states them."""

from planner.results.plan_parts import Part


class DataPath(Part, defer_build=True):
    """What training reads, against what storage and cores can do; hours are those of one run."""

    read_bytes_per_second: float
    storage_bytes_per_second: float
    cores_used: float | None
    """Cores that would tokenise the text while it is trained on; None of images."""
    cores: float
    """Of all machines of the run."""
    cores_known: bool
    """False: a usual number per GPU, because the offer does not state it."""
    saved_hours: float
    """What reading without any delay would save: the most that caching or prefetching data can bring."""
    latents_saved_hours: float = 0.0
    """What computing the latents of images once would save, where it is done in every epoch."""


class ExportedResult(Part, defer_build=True):
    """What leaves as the result, and where it is made."""

    format: str
    bits: int | None
    """Of quantised weights; None of adapters and 16-bit weights."""
    gb: float
    ram_gb: float
    """GB of host memory that merging takes; 0 where nothing is merged."""
    offer: str | None
    """Of the machine that merges or quantises; None: the one that trains."""
    ram_known: bool
    """Whether the memory of that machine is known."""
