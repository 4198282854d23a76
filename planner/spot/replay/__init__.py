"""Policies replayed on known paths of a market, and the offline optimum."""
