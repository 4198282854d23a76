"""Before and after a change, sweeps and tornado diagrams."""
