"""Other ways than the plan: buying its machine, and what to do if it cannot be had."""
