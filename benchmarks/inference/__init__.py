"""Estimates of generation against published measurements."""
