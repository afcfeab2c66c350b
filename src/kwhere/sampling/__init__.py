"""One step of the agent: read, split, sum into slots; totals that collectors show."""
