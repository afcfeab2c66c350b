"""REST routes under /api/v1."""
