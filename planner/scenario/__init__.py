"""What a user asks: jobs, offers, limits and options, as validated data."""
