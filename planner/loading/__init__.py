"""Files and arguments to validated data, with every fault at once."""
