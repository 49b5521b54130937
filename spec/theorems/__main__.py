"""`python -m nullblock.spec.theorems`: the audit as a page."""

from nullblock.spec.theorems.audit import markdown

if __name__ == "__main__":
    print(markdown(), end="")
