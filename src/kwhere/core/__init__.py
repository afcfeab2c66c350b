"""The words of the field: quantities, terms, clocks, spans, compute units, metrics, errors. Standard library only."""
