"""Machines that are owned or bought: what an hour of them costs."""
