"""The scheduler: which request computes how many tokens in this step, and in which slots."""
