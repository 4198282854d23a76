"""Candidates of generation: machines that work side by side, and their hours."""
