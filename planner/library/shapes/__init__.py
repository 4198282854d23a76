"""Architectures that are made from a rule instead of being read from a file."""
