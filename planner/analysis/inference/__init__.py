"""Estimates of generation: one model on one replica."""
