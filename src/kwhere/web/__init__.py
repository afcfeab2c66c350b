"""Pages: server-rendered, one question each."""
