"""The read side: one module per question; `kwhere.database.reader` is the door."""
