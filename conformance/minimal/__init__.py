"""A small scenario that leads to a wrong decision found in a trace.

The trace up to that decision becomes a scenario: prompts that realise its chain numbers, a model
that ends requests where they ended, the events in their order. Then whatever does not matter is
left out: a scenario counts as showing the same fault if the rules, run on it, meet the recorded
decision with the same first mismatch.

A fault of the block pool depends on the state that the pool has come to. There requests of their
own bring about a state in which the same kind of fault shows: a scenario is planted, and counts
if the rules, judging its trace with the fault in it, find a mismatch of the same name.
"""
