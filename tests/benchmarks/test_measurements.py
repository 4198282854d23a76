"""Reading tables of measurements, and the halves that a calibration is judged on."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.accuracy.measurements import NEEDED_COLUMNS, Row, read_measurements
from benchmarks.accuracy.splits import CONFIGURATION_COLUMNS, HALVES, family, organisation, side
from planner.errors import InputError

HEADER = ",".join((*NEEDED_COLUMNS, "peak_mem_gb_per_gpu", "mem_unit", "mem_kind"))


def table(folder: Path, *lines: str) -> Path:
    """A file with a header and these lines."""
    path = folder / "table.csv"
    path.write_text("\n".join((HEADER, *lines)) + "\n", encoding="utf-8")
    return path


def test_blank_cells_are_unknown(tmp_path: Path) -> None:
    """A blank cell, a missing column and a short line all read as unknown."""
    (row,) = read_measurements(table(tmp_path, "s,m,lora,, 8 ,ok"))
    assert row.line == 2
    assert row.text("gpu") == row.text("no such column") == row.text("mem_unit") == ""
    assert row.count("num_gpus") == 8
    assert row.number("seq_len") is None
    assert row.peak_bytes is None


@pytest.mark.parametrize(("unit", "factor"), [("GiB", 2**30), ("GB", 1e9), ("", 1e9)])
def test_units_of_memory_differ_by_seven_percent(unit: str, factor: float) -> None:
    """GiB is said so, everything else is 10^9."""
    assert Row(2, {"peak_mem_gb_per_gpu": "10", "mem_unit": unit}).peak_bytes == 10 * factor


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("max_memory_allocated, rank 0", "allocated"),
        ("peak active", "allocated"),
        ("max reserved", "reserved"),
        ("nvidia-smi used, mean over GPUs", "device"),
        ("kind not stated", "device"),
        ("", "device"),
    ],
)
def test_like_is_compared_with_like(said: str, kind: str) -> None:
    """What is not said counts as what the driver shows."""
    assert Row(2, {"mem_kind": said}).peak_kind == kind


def test_lengths_are_read_from_the_words_of_the_column() -> None:
    """Full, of differing length, in buckets, or unknown; a mean counts where one is given."""
    full = Row(2, {"packed": "yes (synthetic full length)"}).lengths
    assert full is not None and full.full and not full.varying
    cut = Row(2, {"packed": "no; truncated; dataset mean 3234 tokens (std 2548)"}).lengths
    assert cut is not None and cut.varying and (cut.mean, cut.deviation) == (3234.0, 2548.0)
    buckets = Row(2, {"packed": "no; bucketed; mean real length 210 tokens"}).lengths
    assert buckets is not None and not buckets.varying and buckets.mean == 210.0
    assert Row(2, {}).lengths is None


@pytest.mark.parametrize(("cell", "value"), [("8.0", 8), ("8.5", None), ("0", None), ("-1", None), ("nan", None)])
def test_counts_are_positive_whole_numbers(cell: str, value: int | None) -> None:
    """Anything else is unknown rather than rounded."""
    assert Row(2, {"num_gpus": cell}).count("num_gpus") == value


def test_a_file_that_is_no_table_is_told_apart(tmp_path: Path) -> None:
    """Missing file, missing columns and an empty table each give one clear fault."""
    with pytest.raises(InputError, match="cannot be read"):
        read_measurements(tmp_path / "nowhere.csv")
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match="has no column source, model"):
        read_measurements(other)
    with pytest.raises(InputError, match="holds no rows"):
        read_measurements(table(tmp_path))


def test_sides_are_fixed_for_good() -> None:
    """The halves are part of what was published: these may only change together with a new calibration."""
    row = Row(2, {"source": "owner/repository:path/a.csv", "model": "Llama-3-8B", "num_gpus": "8"})
    assert [side(row, split) for split in HALVES] == [1, 1, 1]
    other = Row(2, {"source": "arXiv 2304.01373 Table 5", "model": "Llama-3-8B", "num_gpus": "64.0"})
    assert [side(other, split) for split in HALVES] == [0, 0, 0]


@settings(derandomize=True, max_examples=40)
@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from(CONFIGURATION_COLUMNS))
def test_who_published_a_configuration_does_not_decide_its_side(source: str, note: str, column: str) -> None:
    """By configuration, equal runs stay together; notes and spelling of numbers do not count."""
    one = Row(2, {"source": source, "notes": note, column: "8"})
    other = Row(9, {"source": source + "x", column: "8.0"})
    assert side(one, "configuration") == side(other, "configuration")


def test_files_of_one_repository_and_tables_of_one_paper_are_one_source() -> None:
    """Split apart they would judge themselves."""
    assert family(Row(2, {"source": "a/b:x.csv"})) == family(Row(2, {"source": "a/b:docs/y.md @2024"})) == "a/b"
    assert family(Row(2, {"source": "arXiv 2304.01373 Table 5"})) == "arXiv 2304.01373"


def test_all_that_one_owner_published_is_one_organisation() -> None:
    """Repositories of an owner, its second accounts and its papers; what another one quotes stays with its author."""

    def of(source: str) -> str:
        return organisation(Row(2, {"source": source}))

    assert of("pytorch/ao:docs/training.md") == of("pytorch/torchtitan PR 996") == "pytorch"
    assert of("NVIDIA-NeMo/Automodel:a.md") == of("arXiv 2205.05198 Table 5 (via calculon-ai/calculon:x)") == "nvidia"
    assert of("arXiv 2211.05100 section 3.4") == of("bigscience-workshop/bigscience:train/x.md")
    assert of("hiyouga/LLaMA-Factory wiki (quoted in unslothai/unsloth:README.md)") == "hiyouga"
    assert of("PyPI fitcheck-llm 0.3.1 sdist:data/a.json[0]") == of("PyPI fitcheck-llm 0.4 sdist:b.json")
    assert of("") == ""


def test_an_unknown_split_is_refused() -> None:
    """A misspelt split must not silently become a hash of something else."""
    with pytest.raises(ValueError, match="no split 'sources'"):
        side(Row(2, {}), "sources")
