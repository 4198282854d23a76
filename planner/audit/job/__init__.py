"""Checks of one job of a plan."""
