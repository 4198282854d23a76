"""Groups of zones in which a run on spot may move about."""
