"""Disks by the names of their classes."""
