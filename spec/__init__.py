"""What must happen: kernel, rules, machine, invariants and profiles, and the engines that check
them. See README.md here.
"""
