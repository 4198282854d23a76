"""From files and arguments to a validated scenario, every fault at once."""
