"""How spot machines come and go, from statistics and recorded traces."""
