"""What a scenario may leave open: the model, its tokens, and the batch."""
