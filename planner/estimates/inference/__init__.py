"""Formulas of generation: the KV cache, prefill, decode steps, continuous batching, latency."""
