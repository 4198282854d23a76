"""Inference engines, formats of weights, and load by the hour."""
