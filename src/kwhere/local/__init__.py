"""What runs on this one machine for one person: run, top, doctor."""
