"""Results as figures: a picture and the table behind it, for the page, for notebooks and for files."""
