"""Text of runs: what logs say of the estimates, and of a plan."""
