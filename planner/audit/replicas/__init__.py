"""Generation, services and evaluation by generation, computed again."""
