"""Verify, repair, re-encode and copy an index."""
