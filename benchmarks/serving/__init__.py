"""Fleets of services: seconds, gap, and dollars next to simpler fleets and to routing by size."""
