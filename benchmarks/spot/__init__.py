"""Policies for spot markets replayed on recorded and made markets."""
