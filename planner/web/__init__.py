"""The what-if page: a local server, its page, and the processes that solve."""
