"""Rows of a screened table on a spot market, and what a search among them is for."""
