"""Figures as text."""

from __future__ import annotations

import pytest

from planner.units import figure_text


@pytest.mark.parametrize(
    ("value", "text"),
    [(812.44, "812.4"), (0.5, "0.5"), (1024, "1,024"), (1024.6, "1,025"), (127_000.0, "127,000"), (37_312.5, "37,312")],
)
def test_a_figure_has_no_exponent(value: float, text: str) -> None:
    """Lengths of long prompts and speeds of many GPUs have five digits and more."""
    assert figure_text(value) == text
