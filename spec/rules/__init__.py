"""The atomic guarded rules: the only code that writes the state, a family a file."""
