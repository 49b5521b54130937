"""Where evidence comes from: one module a source.

A source says which files its evidence rests on, how to gather a record of it, and which cells the
record makes. To add one, write a module with a `SOURCE` and name it in `registry.py`.
"""
