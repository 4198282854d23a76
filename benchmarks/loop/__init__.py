"""The whole loop run end to end on a CPU: plan, export, train, kill, resume, load the result, track (`__main__.py`)."""
