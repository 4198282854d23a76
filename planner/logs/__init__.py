"""What training runs write down: one file per foreign format, each to a `RunLog`."""
