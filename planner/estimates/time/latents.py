"""Encoding the images of a diffusion network once, before training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from planner.estimates.inputs import Numbers


def encode_seconds(
    batches: Numbers,
    cached_step_seconds: Numbers,
    token_share: Numbers,
    moved_bytes: Numbers,
    storage_bytes_per_second: Numbers,
) -> Any:
    """Return the seconds of one pass of the encoders over all images, in so many `batches` of a training step.

    The pass takes no less than the encoders would have taken in one epoch (their part of whole steps, optimizer and
    gradients included, which is the upper end), and no less than storage takes to send the images and to store what is
    made of them (`moved_bytes`). So one epoch with caching is never faster than one without.
    250 batches whose cached step takes 0.2 s, of which an uncached one has 1 / 0.683: 250 * 0.2 * 0.464 = 23 s.
    """
    computed = np.asarray(batches) * cached_step_seconds * (1.0 / np.asarray(token_share) - 1.0)
    return np.maximum(computed, np.asarray(moved_bytes) / storage_bytes_per_second)
