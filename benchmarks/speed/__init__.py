"""Ratios of times within one run."""
