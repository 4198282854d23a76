"""What a configuration costs at each offer: hours and dollars, one row per candidate."""
