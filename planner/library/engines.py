"""Facts of inference engines, weight formats and load profiles: `models/techniques`."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from planner.documents.files import data_folder, read_text
from planner.documents.strict_yaml import parse_value
from planner.documents.validation import fold
from planner.library.technique_tables import Row


class WeightFormat(Row):
    """How weights lie in memory; the keys are explained in `engines.yaml`."""

    bits: int
    bytes: float
    moved: float | None = None
    compute: int
    native: float
    head: int
    capability: float
    trained: str
    maker: str
    like: str = ""
    names: tuple[str, ...]
    source: str


GROWING_SHARE = 0.5
"""`held_share` of an engine whose cache grows with the text, and of one without a profile."""


class Engine(Row):
    """What an inference engine takes; the keys are explained in `engines.yaml`."""

    label: str
    formats: tuple[str, ...]
    makes: tuple[str, ...] = ()
    kv_bits: tuple[int, ...]
    sequences: int
    pool: bool
    share: float
    tensor: bool
    vendors: tuple[str, ...]
    capability: float
    loops_experts: bool = False
    reserves: bool = False
    copies_cache: bool = False
    rounds_head: bool = False
    names: tuple[str, ...]
    source: str

    @property
    def held_share(self) -> float:
        """The share of an answer whose cache a request in flight holds in the mean.

        A cache that grows with the text is half full of the answer in the mean; an engine that reserves it holds all.
        Example: 1,000 + 1,000 tokens hold 2,000 in TensorRT-LLM and 1,500 in vLLM.
        """
        return 1.0 if self.reserves else GROWING_SHARE


class Mark(Row):
    """Words of the name of a repository that say its format."""

    words: tuple[str, ...]
    formats: tuple[str, ...]


class EngineTable(Row):
    """Engines and formats by name, and how the names and files of models say a format; `engines.yaml` explains it."""

    formats: dict[str, WeightFormat]
    engines: dict[str, Engine]
    release: str
    gguf: tuple[str, ...]
    marks: tuple[Mark, ...]
    unusable: dict[str, str]
    methods: dict[str, dict[str, str]]

    def engine_behind(self, written: str) -> str | None:
        """Return the engine of that name or other spelling; None where there is none."""
        return _behind(written, self.engines)

    def fitted_as(self, name: str) -> str:
        """Return the format whose coefficients of speed hold for a format: its own, or one that was fitted with it."""
        return (self.formats[name].like if name in self.formats else "") or name

    def is_16_bit(self, name: str) -> bool:
        """Return whether weights of a known format lie in 16 bits, as releases and merged models do."""
        return self.formats[name].bits == 16

    def format_behind(self, written: str) -> str | None:
        """Return the format of that name or other spelling, what stands in brackets left out; None where unknown."""
        return _behind(written.partition("(")[0], self.formats)


def _behind(written: str, rows: Mapping[str, Engine | WeightFormat]) -> str | None:
    wanted = written.strip().casefold()
    found = next((name for name, row in rows.items() if wanted == name or wanted in row.names), None)
    if found is None and (key := fold(written)):
        labels = ((name, (name, getattr(row, "label", name), *row.names)) for name, row in rows.items())
        found = next((name for name, words in labels if key in map(fold, words)), None)
    return found


def read_engines() -> EngineTable:
    """Return the table."""
    return _read(data_folder("models"))


@cache
def _read(models: Path) -> EngineTable:
    file = str(models / "techniques" / "engines.yaml")
    return EngineTable.model_validate(parse_value(read_text(file), file))


# Shipped profiles of load: `models/techniques/load_profiles.yaml`.


class LoadProfile(Row):
    """Load by the hour of a week, from Monday 0:00 on, as shares of the peak."""

    numbers: tuple[float, ...]
    source: str


def read_load_profiles() -> Mapping[str, LoadProfile]:
    """Return the profiles by name."""
    return _load_profiles_read(data_folder("models"))


@cache
def _load_profiles_read(models: Path) -> dict[str, LoadProfile]:
    file = str(models / "techniques" / "load_profiles.yaml")
    return {name: LoadProfile.model_validate(row) for name, row in parse_value(read_text(file), file).items()}
