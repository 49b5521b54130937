"""A model of a finite instance as a concrete state, of which the ordinary text can be run."""

from typing import Any

from nullblock.spec.carriers import CARRIERS, Zero
from nullblock.spec.concrete import Env, State
from nullblock.spec.facts import Config, Request
from nullblock.spec.fields import FIELDS
from nullblock.spec.prover.finite.cells import Cells, absent, number, word
from nullblock.spec.prover.finite.search import Found

NAMES = "abcdef"


class World(Env):
    """The environment of an instance: a chain hash is the list of those whose blocks it covers,
    `shared` for a block that every request begins with.
    """

    def __init__(self, config: Config, share: int, kinds: dict[str, int]) -> None:
        super().__init__(config, checks=True)
        self.share, self.kinds = share, kinds
        self.indices = range(8)

    def want(self, r: str | None, i: int) -> Any:
        """The chain hash of r's i-th block."""
        return r and tuple("shared" if j < self.share else r for j in range(i + 1))

    def par(self, h: Any) -> Any:
        """The chain hash before h."""
        return h and h[:-1]

    def depth(self, h: Any) -> int:
        """How many blocks the chain of h covers."""
        return len(h or ())

    def last_token(self, s: Any, r: Any) -> int:
        """What r's last token is to it."""
        return self.kinds.get(r, 0)

    def observe(self, reading: Any, s: Any) -> Any:
        """Nothing: what the worker is told is no part of a state."""
        return None


class Decoder:
    """Reads values out of one model."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.env = self._world()

    def value(self, term: Any) -> int:
        """The integer that a term is in the model."""
        n = number(self.found.model.eval(word(term), model_completion=True))
        assert n is not None
        return n

    def flag(self, term: Any) -> bool:
        """The truth value that a term has in the model."""
        return bool(str(self.found.model.eval(term, model_completion=True)) == "True")

    def _world(self) -> World:
        k, value = self.found.env, self.value
        config = Config(
            num_blocks=k.instance.blocks + 1,
            block_size=k.instance.block_size,
            max_num_scheduled_tokens=value(k.budget),
            max_num_seqs=value(k.max_seqs),
            max_model_len=value(k.max_len),
            long_prefill_token_threshold=value(k.threshold),
            enable_chunked_prefill=self.flag(k.chunked),
            enable_prefix_caching=self.flag(k.caching),
            scheduler_reserve_full_isl=self.flag(k.reserve),
            policy="priority" if k.priority else "fcfs",
            async_scheduling=self.flag(k.asynchronous),
            num_spec_tokens=value(k.num_spec),
            spec_method=self._method(),
            grammars=not self.flag(k.in_order),
            semantics=k.sem,
        )
        numbers = k.instance.members["R"]
        facts = {r: {f: value(cells[r]) for f, cells in k.facts.items()} for r in numbers}
        world = World(config, value(k.share), {NAMES[r - 1]: facts[r]["kind"] for r in numbers})
        world.requests = {
            NAMES[r - 1]: Request(
                NAMES[r - 1],
                facts[r]["prompt_len"],
                facts[r]["max_tokens"],
                facts[r]["min_tokens"],
                facts[r]["priority"],
                skip_reading_prefix_cache=facts[r]["skip"] == 1,
                grammar=not self.flag(k.in_order) and facts[r]["grammar"] == 1,
            )
            for r in numbers
        }
        return world

    def _method(self) -> str:
        if self.flag(self.found.env.eagle):
            return "eagle"
        return "draft_model" if self.flag(self.found.env.slots) else "ngram"

    def decoded(self, n: int, sort: str) -> Any:
        """A value of a sort, from its word."""
        match sort:
            case "R" | "T":
                return request(n)
            case "B":
                return n or None
            case "H":
                return self.chain(n)
            case "{B}" | "{R}" | "{T}":
                of = self.found.instance.members[sort[1]]
                return frozenset(self.decoded(x, sort[1]) for x in of if n >> x & 1)
            case _:
                return n

    def chain(self, n: int) -> Any:
        """A hash, from its word."""
        if n <= 0:
            return None if n < 0 else self.env.ROOT
        owner, depth = n >> 3, n & 7
        return self.env.want(request(owner) if owner else request(1), depth - 1)

    def state(self, s: Any) -> State:
        """A state of the model."""
        new = State()
        new.k = self.env
        for f, sort in FIELDS.items():
            x, to = getattr(s, f), sort.rpartition(">")[2]
            setattr(new, f, self._map(f, x) if ">" in sort else self.decoded(self.value(x), to))
        return new

    def _map(self, field: str, m: Cells) -> Any:
        domain, _, to = FIELDS[field].rpartition(">")
        new = CARRIERS.get(field, Zero)()
        for at, cell in m.cells.items():
            n = self.value(cell)
            if n == absent(field):
                continue
            keys = tuple(self.decoded(x, sort) for x, sort in zip(at, domain, strict=True))
            new[keys if len(keys) > 1 else keys[0]] = self.decoded(n, to)
        return new

    def arguments(self, sorts: str) -> tuple[Any, ...]:
        """The arguments of the text."""
        terms = self.found.arguments
        return tuple(
            self.decoded(self.value(x), sort) for x, sort in zip(terms, sorts, strict=True)
        )


def request(n: int) -> str | None:
    """The name of a request, from its number."""
    return NAMES[n - 1] if n > 0 else None
