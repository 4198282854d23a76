"""Replicas of a job of generation: engines and formats on machines, their memory and their speed."""
