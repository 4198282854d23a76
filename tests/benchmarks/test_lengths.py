"""The longest and the typical sample of a row whose stated length may be a cap."""

from __future__ import annotations

import pytest

from benchmarks.accuracy.lengths import longest_sample, typical_share
from benchmarks.accuracy.measurements import Row


def row(packed: str, framework: str = "hf") -> Row:
    return Row(2, {"packed": packed, "framework": framework})


@pytest.mark.parametrize(
    ("packed", "framework", "longest", "share"),
    [
        ("yes", "torchtune", 4096, 0.0),
        ("", "torchtune", 4096, 0.0),
        ("no", "hf", 4096, 1.0),  # nothing known: the cap may be reached at any time
        ("no", "torchtune", 1304, 1 / 14),  # its recipes train on Alpaca
        ("no (Alpaca 52K)", "hf", 1304, 1 / 14),  # the row names the same set
        ("no (Alpaca; mean 210 tokens)", "hf", 14 * 210, 1 / 14),  # what a row states comes first
        ("no; dataset mean 3234 tokens (std 2548)", "hf", 4096, 3234 / 4096),
        ("no; dataset mean 3234 tokens (std 2548)", "torchtune", 4096, 3234 / 4096),
        ("no; bucketed; mean real length 210 tokens", "hf", 14 * 210, 0.0),
    ],
)
def test_longest_and_typical_sample(packed: str, framework: str, longest: float, share: float) -> None:
    """Samples are as long as stated where they are packed, else by what is known of their lengths."""
    assert longest_sample(row(packed, framework), 4096.0) == pytest.approx(longest)
    assert typical_share(row(packed, framework), 4096.0) == pytest.approx(share)
