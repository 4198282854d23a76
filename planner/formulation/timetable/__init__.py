"""Jobs over time as data: modes, resources, precedence, reservations; knows no solver."""
