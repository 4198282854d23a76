"""Text files and their values: strict YAML, settings, quantities with units, faults with file and line."""
