"""What is known: cards of networks and GPUs, techniques and calibrated coefficients."""
