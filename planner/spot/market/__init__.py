"""The interruption process of spot machines, from statistics and recorded traces."""
