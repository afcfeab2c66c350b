"""Settings, logging, and the only place where concrete parts are put together."""
