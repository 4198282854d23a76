"""Benchmarks of the planner: accuracy, calibration, spot policies, speed and cost."""
