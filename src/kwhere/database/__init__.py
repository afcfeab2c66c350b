"""Units, usage and accounts in SQLite or PostgreSQL."""
