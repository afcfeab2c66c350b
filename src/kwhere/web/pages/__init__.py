"""One module per page: what it reads, and the figures its template shows."""
