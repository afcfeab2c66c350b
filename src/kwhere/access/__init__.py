"""Who may see what: principals, ownership, query scope."""
