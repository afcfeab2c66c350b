"""One step: read, split, sum into slots; totals that collectors show."""
