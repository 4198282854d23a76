"""The cheapest policy for switching between spot and on demand by a deadline."""
