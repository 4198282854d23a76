"""Memory and speed of one configuration."""
