"""Seconds of a training step and of the stages around it."""
