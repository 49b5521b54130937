"""The text of the rules, erased: what it does to states of one environment, without what needs no
doing.

The specification is written to be read and proved. To judge a long recording it has to be fast
too, and a second copy of the rules, written by hand to be fast, would be a second definition. So
the fast form is made from the text, when it is wanted, by a partial evaluator:

* `text` finds the syntax trees of functions where they were loaded from;
* `evaluator`, `members`, `columns`, `calls` and `walker` follow the text from a function of the
  machine on. The constants of the configuration are known, so what they rule out is gone. Rules,
  readings and the environment's own methods are inlined. Fields that are numbers become local
  variables. What was computed and has not changed since is not computed again. What is done to
  the tables of a request, one of each KV-cache group, is written once for each;
* `paths` is what is known on the way: a guard that follows from it is dropped, any other stays as
  a test with the rule's own words. Nothing is dropped on trust, so the erased form rejects what
  the text rejects;
* `invariants` moves out of loops what no turn changes; `code` and `coalesce` write the rest down
  as one Python function; `program` compiles it; `kept` keeps it for later runs, as long as nothing
  has changed that it was made of;
* `records` keeps what is known of a request in one object, with its tables and their blocks,
  `rows` a step's output by column.

A construct that is not known here raises `Unsupported`, and the text is run as it is. The tests
show both forms in lockstep, for the text and for every mutant of it.
"""
