"""From weighted queries to the top k hits."""
