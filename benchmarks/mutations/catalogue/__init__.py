"""All mutations, by the part of the program that they put a bug into."""

from benchmarks.mutations.catalogue import (
    candidates,
    estimates,
    exports,
    plans,
    program,
    reinforcement,
    screening,
    services,
    shipping,
    spot,
    surfaces,
    ways,
)

MUTATIONS = tuple(
    mutation
    for part in (
        *(candidates, screening, shipping, program, plans, spot, estimates, services, ways, surfaces, exports),
        reinforcement,
    )
    for mutation in part.AREA.mutations
)
"""Every mutation; names are unique within a file."""
