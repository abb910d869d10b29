"""The chunk's side: chunks, their checks, and their vectors. Never imports the statistics."""
