"""Observed runs of a scenario from the logs of training runs."""
