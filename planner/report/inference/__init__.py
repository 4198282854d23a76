"""An estimate of generation as text."""

from planner.report.inference.estimate import render_inference

__all__ = ["render_inference"]
