"""Results of what-if as text."""
