"""Verify, repair and copy an index."""
