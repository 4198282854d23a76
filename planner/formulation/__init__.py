"""The mixed-integer program as data: variables, constraints, objectives and dominance, without a solver."""
