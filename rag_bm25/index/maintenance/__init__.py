"""Verify, repair, re-encode, copy and bulk-fill an index."""
