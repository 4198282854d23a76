"""Fleets next to known ones: one machine more, one less, or one of another kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from planner.arrays import Flags, Floats


def neighbours(fleets: Floats, may_change: Flags) -> Floats:
    """Return fleets (n, kinds) that differ from some of the given ones (f, kinds) by a machine or an exchange.

    Only kinds of `may_change` (kinds,) come and go; what is given is not among them.
    """
    kinds = fleets.shape[1]
    one = np.eye(kinds)[may_change]
    f, kind = np.nonzero(fleets * may_change)
    less = fleets[f] - np.eye(kinds)[kind]
    swapped = (less[:, None, :] + one[None, :, :]).reshape(-1, kinds)
    more = (fleets[:, None, :] + one[None, :, :]).reshape(-1, kinds)
    return np.asarray(np.concatenate([less, swapped, more]))
