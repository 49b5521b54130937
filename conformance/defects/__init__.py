"""What is known to go wrong in vLLM 0.22.1: a table of defects, and a page for each unreported."""
