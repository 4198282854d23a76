"""One drawing engine: charts as lists of shapes, their SVG, and image files of the same shapes."""
