"""What surrounds an engine, played by a scenario: a remote KV store, grammars, an encoder.

Only the standard library is imported here: the driver of the real engine, which runs in an
environment without this project, loads the same files.
"""
