"""Results as typed data: the JSON that the command line prints."""
