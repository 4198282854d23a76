"""A plan as files that other tools run; which field means what is data in `models/exports`."""
