"""The export of a job's result, computed again."""
