"""Plug-ins of the server: each module knows one manager's units and accounts."""
