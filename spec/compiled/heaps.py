"""What the environment answers about a heap (`nullblock.spec.heaps`), as C: what changes a heap
changes it where it stands. The C words are in `prelude.c`.
"""

import ast
from collections.abc import Callable

from nullblock.spec.compiled.tables import Tables
from nullblock.spec.compiled.values import Map, Num, Over, Scope, StateRef, Value


class Heaps(Tables):
    """Words whose value is the next heap: a statement, which assigning it to the field makes. The
    value of one is a number.
    """

    def _e_found_at(self, node: ast.Call, scope: Scope) -> Value:
        return Num(f"({self._heap('heap_found_at', node, scope)})", fails=self.mark(True))

    def _heap(self, word: str, node: ast.Call, scope: Scope) -> str:
        """A call of a C word, with what all requests are compared by, of those that come back in
        which order they do, and how often they stand there besides once, and who stands in the
        waiting queue.
        """
        m, s, *given = (self.expr(a, scope) for a in node.args)
        if not isinstance(m, Map) or not isinstance(s, StateRef):
            raise self.refuse(node, scope, "a heap is a field of a state")
        r = self.known(self.num(given[0], node, scope)).c if given else "NONE"
        st, width = s.name, len(self.domain("P"))
        at = f"(i + 1) * {width} + index_at({st}.turns[i], {width})"
        place = f"place[i] = answer({self.table(self.answers('order'))}[{at}]);"
        later = self.env.sem.holders_wait_apart
        turn = f"turn[i] = {f'-{st}.skip[i]' if later else 'place[i]'};"
        back = f"more[i] = {st}.againto[i] - {st}.againfrom[i]; if ({st}.skip[i]) back |= one(i);"
        waits = f"if ({st}.rank[i] && (!{st}.skip[i] || {st}.also[i])) waits |= one(i);"
        self.mark(True)
        return (
            f"{{ int place[NR], turn[NR], more[NR]; bits back = 0, waits = 0; "
            f"for (int i = 0; i < NR; i++) {{ {place} {turn} {back} {waits} }} "
            f"back &= {st}.passed; "
            f"{word}({m.state}.{m.field}, NI, place, turn, more, back, waits, {r}); }}"
        )


def _word(name: str) -> Callable[[Heaps, ast.Call, Scope], Value]:
    def translated(self: Heaps, node: ast.Call, scope: Scope) -> Value:
        return Over("heap", (Num(self._heap(f"heap_{name}", node, scope)),))

    return translated


for _name in ("pushed", "popped", "joined", "taken_out", "heapified", "still_waiting"):
    setattr(Heaps, f"_e_{_name}", _word(_name))
