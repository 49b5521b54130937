"""The specification compiled: the very text of rules, machine and statements, as C for one scope.

The readable form stays the truth. Whatever is found here is performed again there, and a text
that cannot be translated is refused, with the place named.
"""
