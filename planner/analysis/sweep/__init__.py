"""Thousands of variants of a scenario: their order, workers that solve them, a journal to resume from."""
