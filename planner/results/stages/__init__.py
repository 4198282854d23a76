"""What a plan says of the stages around training."""
