"""The engine's operations, as loops over rules. Nothing here writes the state: only a rule
does.
"""
