"""The looking side: raw samples of one selector from any store, with rates, joins and sums done once above it."""
