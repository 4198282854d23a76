"""What a report shows: the analyses of one scenario together, and charts as plain data."""
