"""A ready CI job for people who write an engine."""
