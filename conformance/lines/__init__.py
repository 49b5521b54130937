"""The lines of rules, one for each release that is followed, and what tells them apart.

A line is a set of values of the switches in `nullblock.spec.profiles`. Here each switch has a
scenario that shows what it decides, and a reason for the value that ought to be.
"""
