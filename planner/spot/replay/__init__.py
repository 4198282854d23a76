"""Replays of policies on known paths of a market, and the offline optimum."""
