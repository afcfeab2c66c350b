"""One module per noun of the API; each has a `router`."""
