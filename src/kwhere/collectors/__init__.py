"""Plug-ins of the agent: each module turns readings into metrics."""
