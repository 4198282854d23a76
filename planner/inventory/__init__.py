"""Offers and architectures from elsewhere: one file per foreign format."""
