"""A pytest plugin: any scheduler beside the specification, on scenarios that nobody chose.

It does nothing, and imports nothing of this project, unless it is asked for.
"""
