"""Monte Carlo replays of a plan on spot markets."""
