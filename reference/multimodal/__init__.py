"""Inputs that an encoder turns into embeddings: where they stand in a prompt, what they cost."""
