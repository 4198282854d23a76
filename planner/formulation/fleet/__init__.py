"""Replicas by the hour as data: kinds of machines, loads, limits, and the rows of their program."""
