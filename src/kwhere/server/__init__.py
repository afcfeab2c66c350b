"""The server: intake of ledgers, scheduled passes, the series scraper."""
