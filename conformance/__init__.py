"""Traces, the recorder, the checker, vectors, and the command line."""
