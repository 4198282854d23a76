"""Services as a user writes them: a load that changes by the hour, and how fast answers must come."""
