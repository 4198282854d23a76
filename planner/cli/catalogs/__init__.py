"""Commands that read prices from elsewhere."""
