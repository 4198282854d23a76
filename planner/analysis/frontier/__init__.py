"""Cost against time: the exact Pareto frontier."""
