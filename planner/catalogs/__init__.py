"""Offers from elsewhere, one module per source, and the price book's writer."""
