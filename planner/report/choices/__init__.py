"""Text of a chosen model and batch."""
