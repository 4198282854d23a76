"""Spot markets: how machines come and go, the best way to use them, and replays that prove it."""
