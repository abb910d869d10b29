"""The query's side: parse, expand, weigh, learn, explain."""
