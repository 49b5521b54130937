"""The calls of an environment that write into a map: whoever looks for what a text writes has to
know them.
"""

FILLS = frozenset({"fill", "fill_row"})
