"""Results of choosing a model, its tokens and the batch."""
