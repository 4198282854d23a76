"""Discrete-event simulation of the fleet of a service."""
