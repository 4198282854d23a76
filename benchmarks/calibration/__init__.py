"""Fit the coefficients of the estimates and judge them on rows held out."""
