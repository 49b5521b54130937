"""Recordings of what an engine was asked and what it decided: the format, reading, writing."""
