"""Text of the data path and of the export."""
