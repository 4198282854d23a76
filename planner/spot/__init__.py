"""Spot markets: their interruption process, the best switching policy, and replays of policies."""
