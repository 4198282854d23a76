"""Runs that were observed, and what they change in the estimates."""
