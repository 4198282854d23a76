"""Candidates of a service: machines with replicas, on demand, on spot or committed, with capacity and price."""
