"""Text of what-if, frontier and explain of a service."""
