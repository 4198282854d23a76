"""The figures of one named run, in plain floats: what a plan states, and what a check compares it with."""
