"""Every answer as typed data: the JSON that the command line prints."""
