"""Commands that make and show scenarios, and the options that ask a question without a file."""
