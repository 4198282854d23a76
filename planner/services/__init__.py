"""Services: fleets of replicas, hour by hour."""
