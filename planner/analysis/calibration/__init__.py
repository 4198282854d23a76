"""From the logs of a run to an observed run of a scenario."""
