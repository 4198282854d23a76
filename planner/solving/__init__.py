"""From a scenario to an audited plan."""
