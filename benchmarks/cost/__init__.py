"""What hours times price leaves out of a bill."""
