"""Grammars that outputs have to follow, as far as the scheduler looks at them."""
