"""Text files and their values: strict YAML, settings, units, and faults that name a line."""
