"""What-if answers as text."""
