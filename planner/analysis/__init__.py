"""Questions about a scenario beyond its optimal plan."""
