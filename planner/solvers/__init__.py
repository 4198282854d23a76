"""One adapter per solver package, and the registry that runs a program by the name of a solver."""
