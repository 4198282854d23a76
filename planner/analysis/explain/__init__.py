"""What binds, what relaxing it is worth, and why an alternative was not chosen."""
