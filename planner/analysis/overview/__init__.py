"""The analyses of one scenario together."""
