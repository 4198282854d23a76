"""Arithmetic from a configuration to bytes, seconds and dollars: pure functions on numpy arrays."""
