"""From chosen rows of the candidate table to a plan."""
