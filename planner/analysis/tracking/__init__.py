"""A running job against its plan."""
