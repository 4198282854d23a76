"""Where the result of a job is merged or quantised, and what that takes."""
