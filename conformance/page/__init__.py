"""What the pages of this project are made of: elements, a style, the block pool, request rows.

Each page is one file: nothing is loaded from anywhere, and nothing runs.
"""
