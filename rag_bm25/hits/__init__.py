"""What is made of hits: groups, contexts, boosts, a choice that differs."""
