"""Scenes as PNG and PDF files."""

from __future__ import annotations

import pytest

from planner.drawing.charts import Stack, stacked
from planner.drawing.scene import Caption, draw_scene, framed


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_scene_is_drawn_the_same_each_time(kind: str, start: bytes) -> None:
    """The file is of its kind, and equal figures give equal bytes."""
    scene = framed(stacked([Stack("$x_1$", (("a", 3.0), ("b", 1.0)), "4", 5.0)], Caption("t", "d"), str, "limit", 320))
    first = draw_scene(scene, kind)
    assert first.startswith(start)
    assert draw_scene(scene, kind) == first
