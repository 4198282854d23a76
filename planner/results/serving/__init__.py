"""What a plan says of services."""
