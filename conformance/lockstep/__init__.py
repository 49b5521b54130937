"""Two engines side by side on scenarios that nobody chose: made, run, shrunk, explained."""
