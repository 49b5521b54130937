"""What the environment answers from the facts of a scope alone, as tables."""

import ast
import itertools
from contextlib import suppress
from typing import Any

from nullblock.spec.compiled.context import Context
from nullblock.spec.compiled.values import NONE, Num, Scope, Untranslatable, Value, encode

FAILS, ROOM = -102, -103
"""In tables: Python raises; nobody was to ask for this much."""
TABLED = {
    "want": "TI",
    "truth": "TI",
    "par": "H",
    "depth": "H",
    "order": "RP",
    "behind": "RP",
    "negligible": "RPI",
    "loads_over_steps": "R",
    "delays_free": "R",
    "remote_tokens": "R",
    "looks_first": "R",
    "num_items": "R",
    "item": "RP",
    "has_item": "P",
    "item_start": "RP",
    "item_end": "RP",
    "embedded": "RPP",
    "item_size": "RP",
    "encoder_tokens": "R",
    "chunk_len": "RP",
    "chunk_limit": "RP",
    "extended": "RNPP",
    "chain_of": "TNI",
    "first_content": "TI",
    "later_content": "TNI",
}
"""What the environment answers from the facts of a scope alone: asked beforehand, for every
argument. I: a block of a request or table; P: a token, an item or a chunk of a prompt; N: what a
session has had.
"""


KINDS = {"R": "request", "T": "table", "H": "hash"}


class Tables(Context):
    """Questions that Python answers beforehand."""

    def tabled(self, name: str, node: ast.Call, scope: Scope) -> Value:
        """An answer from a table that Python filled in."""
        arguments = [self.num(self.expr(a, scope), node, scope) for a in node.args]
        sorts = TABLED[name]
        answers = self.answers(name)
        place = ""
        for sort, a in zip(sorts, arguments, strict=True):
            width = len(self.domain(sort))
            if sort in "IPN":
                a = self.known(a)
                at = f"index_at({a.c}, {width})"
            else:
                at = f"{KINDS[sort]}_at({a.c})"
            place = f"({place}) * {width} + {at}" if place else at
        text = f"answer({self.table(answers)}[{place}])"
        fails = FAILS in answers or any(a.fails for a in arguments)
        return Num(text, opt=NONE in answers, fails=self.mark(fails))

    def domain(self, sort: str) -> list[Any]:
        """The arguments for which a question is asked beforehand."""
        if sort == "R":
            return [None, *self.requests]
        if sort == "T":
            return [None, *self.env.domain("T")]
        if sort == "H":
            return [None, *range(len(self.env.parents))]
        if sort == "N":
            return list(range(-1, len(self.env.histories.all)))
        config, scale = self.env.config, self.sizes.scale
        longest = max([config.max_model_len, *(q.prompt_len for q in self.env.requests.values())])
        longest = longest // min(config.sizes) if sort == "I" else longest
        return list(range(-1, max(scale * (longest + 3), self.looked_at + 1)))

    @property
    def looked_at(self) -> int:
        """Indices that statements look at, whatever there is of them."""
        return 0

    def reach(self, t: Any) -> int:
        """How many blocks of a table may be asked for."""
        q, config = self.env.requests[self.env.owner(t)], self.env.config
        whole = min(q.prompt_len + q.max_tokens, config.max_model_len)
        whole = config.max_model_len if q.min_tokens or q.resumable else whole
        blocks = self.sizes.scale * (max(q.prompt_len, whole) // min(config.sizes) + 2)
        return max(blocks, self.looked_at)

    def lacks(self, sorts: str, x: Any, i: int) -> bool:
        """Whether that many blocks of a request or table are not asked for."""
        return i > self.reach(x if sorts[0] == "T" else self.env.table(x, 0))

    def answers(self, name: str) -> list[int]:
        """What the environment answers, for every argument."""
        found: list[Any] = []
        sorts = TABLED[name]
        for arguments in itertools.product(*map(self.domain, sorts)):
            if (
                sorts in ("TI", "RI")
                and arguments[0] is not None
                and self.lacks(sorts, *arguments)
            ):
                found.append(ROOM)
                continue
            try:
                found.append((getattr(self.env, name)(*arguments),))
            except (LookupError, TypeError, ValueError, AttributeError):
                found.append(FAILS)
        values = [a[0] for a in found if isinstance(a, tuple)]
        try:
            codes = [encode(v, ()) for v in values]
        except Untranslatable:
            ranks: list[Any] = []
            for v in values:
                if v not in ranks:
                    ranks.append(v)
            with suppress(TypeError):
                ranks.sort()
            codes = [ranks.index(v) for v in values]
        it = iter(codes)
        return [next(it) if isinstance(a, tuple) else a for a in found]
