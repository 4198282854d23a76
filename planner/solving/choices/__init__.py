"""Solving a scenario that leaves its model, its tokens or its batch open."""
