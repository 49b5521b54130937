"""Systematic mutants: the specification's own text with one small defect each, generated from its
syntax trees, and what every engine says of them.

    generate.py   the defects there are: guards dropped, writes skipped, comparisons weakened, …
    operators.py  how one is made of a piece of text
    schema.py     the text that holds all of them at once, one being chosen when it runs
    transplant.py the defect in the functions of a running process
    compiled.py   every mutant in every scope of the explorer, compiled once a scope; in C beside
                  it: `chosen.c`, which mutants a program has, and `forms.c`, all forms of the
                  statements judged in one search
    proving.py    every mutant before the prover

A mutant that no engine notices is a gap in an invariant or a scope, or does not change what the
machine does: `survivors.py` says which, one by one.
"""
