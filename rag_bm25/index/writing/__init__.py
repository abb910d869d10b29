"""The write protocol and its pipeline."""
