"""The agent: the sampler thread, its journal writer, and its HTTP face."""
