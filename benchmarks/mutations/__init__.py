"""Single bugs put into the search on purpose, and whether the tests notice them."""
