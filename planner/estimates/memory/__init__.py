"""Bytes that one GPU holds while training."""
