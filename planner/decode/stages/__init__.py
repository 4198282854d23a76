"""Parts of an assignment that concern data and the result."""
