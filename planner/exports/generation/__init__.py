"""A job of generation as a script that runs it, with the settings of its engine, and as tasks of launchers."""
