"""A service as files: one command, one SkyPilot service and one Kubernetes Deployment for each kind of machines."""
