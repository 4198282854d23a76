"""Commands that carry out a plan: they read the file that `solve` wrote."""
