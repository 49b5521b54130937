"""One self-contained page with plots of one replay, or of several side by side."""
