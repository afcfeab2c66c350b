"""The only doors out of the process: HTTP clients and child processes."""
