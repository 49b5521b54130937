"""What is known, by whom, and how strongly: recorded evidence, judged and shown.

Engines are run by `refresh`; what they found stands in `evidence.json`, as they found it. Nothing
is called proved there: `judge` finds the word for each cell from the record, and from whether the
text is still the one that was looked at.
"""
