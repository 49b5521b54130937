"""How much a trace can tell: which known defects of the rules it would have brought to light."""
