"""Where a site keeps what it knows of nodes, racks and people: one source per module, found by walking this package."""
