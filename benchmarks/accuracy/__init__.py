"""How far the estimates are off on published runs."""
