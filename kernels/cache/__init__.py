"""The paged cache: written, zeroed, copied."""
