"""Numbers that turn one unit into another; memory held is GiB, what vendors print is GB."""

KIB = 2**10
MIB = 2**20
GIB = 2**30
"""Bytes in a GiB: the unit of memory held on a card."""

GB = 10**9
"""Bytes in a GB: the unit of bandwidths, transfers and what a vendor charges storage by."""

TERA = 10**12
GIGA = 10**9
MEGA = 10**6

MINUTE = 60.0
HOUR = 3600.0
"""Seconds in an hour."""

DAY_HOURS = 24.0
MONTH_HOURS = 730.0
"""Hours in a billing month, as clouds count it (365 * 24 / 12)."""
