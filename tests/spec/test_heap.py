"""The skipped queue as a heap: WAIT-53 to WAIT-55, SESS-17."""

import heapq
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance.adapters.spec import create
from nullblock.conformance.driver import run
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.unruled import moves_past_others
from nullblock.spec import compiled
from nullblock.spec.compiled import build
from nullblock.spec.compiled.search import explore as explore_compiled
from nullblock.spec.departures import DEPARTURES
from nullblock.spec.explorer.actions import Add, Step, perform
from nullblock.spec.explorer.model import ModelEnv, Template, beginning
from nullblock.spec.explorer.search import explore
from nullblock.spec.facts import Chunk, Config, Request
from nullblock.spec.fields import REMOTE, WAITING
from nullblock.spec.indexed import IndexedEnv
from nullblock.spec.kernel import Engines
from nullblock.spec.profiles import VLLM_0_22_1, VLLM_0_32_0, Semantics
from nullblock.spec.remote import anybody_waiting_short
from nullblock.spec.sessions import order
from nullblock.spec.waiting import next_waiting

sys.path.insert(0, str(Path(__file__).parent))
from both_forms import differences, needs_compiler  # noqa: E402  (a module beside this one)

SESSIONS = Config(9, 2, 8, 2, 8, policy="priority", sessions=True)
DEFECT = next(d for d in DEPARTURES if d.name == "chunk-leaves-the-heap")
THREE = replace(
    DEFECT.scope,
    aborts=True,
    config=replace(DEFECT.scope.config, num_blocks=4),
    templates=(
        Template("a", (1001,), 1, chunks=((1003,),), arrivals=(9.0,)),
        Template("b", (1002,), 1, arrival=1.0, chunks=((1003,),), arrivals=(4.0,)),
        Template("c", (1003,), 1, arrival=2.0, chunks=((1003,),), arrivals=(5.0,)),
    ),
)
"""Three sessions, whose chunks come in another order than their prompts."""
VECTORS = Path(__file__).parents[2] / "conformance" / "vectors"


class Waiting:
    """A request as a heap sees it."""

    def __init__(self, id: str, arrival: float) -> None:
        self.id, self.arrival = id, arrival

    def __lt__(self, other: "Waiting") -> bool:
        return (self.arrival, self.id) < (other.arrival, other.id)


def ids_of(m: Any) -> list[str]:
    """Who stands in a heap of the rules, by place."""
    return [m[i] for i in range(len(m))]


@pytest.mark.parametrize("semantics", [VLLM_0_22_1, VLLM_0_32_0], ids=["0.22.1", "0.32.0"])
def test_each_heap_stands_as_vllms_does(semantics: Semantics) -> None:
    """Readable, and changed in place: by place, after random arrivals, turns, chunks and aborts,
    out of order for much of the time.
    """
    chance, untidy = random.Random(1), 0
    for _ in range(40):
        untidy += _as_vllms(chance, semantics)
    assert untidy > 100


def _as_vllms(chance: random.Random, semantics: Semantics) -> int:
    """How often the heap was out of order."""
    ids = "abcdefgh"
    chunks = {r: tuple(Chunk(1, 1, chance.random()) for _ in range(9)) for r in ids}
    facts = {
        r: Request(r, 1, 1, arrival=chance.random(), resumable=True, chunks=chunks[r]) for r in ids
    }
    env, readable = IndexedEnv(replace(SESSIONS, semantics=semantics)), ModelEnv(THREE, semantics)
    env.requests = readable.requests = facts
    s: Any = env.start()
    m = readable.blank("heap")
    known = {r: Waiting(r, facts[r].arrival) for r in ids}
    heap: list[Waiting] = []
    untidy = 0
    for _ in range(60):
        inside = {one.id for one in heap}
        outside = sorted(set(ids) - inside)
        match chance.randrange(5):
            case 0 if outside:
                r = chance.choice(outside)
                s.skip[r] = s.sback
                s.sback += 1
                heapq.heappush(heap, known[r])
                s.heap, m = env.pushed(s.heap, s, r), readable.pushed(m, s, r)
            case 1 if inside:
                r = chance.choice(sorted(inside))
                if s.turns[r] < 9:
                    s.turns[r] += 1
                    known[r].arrival = facts[r].chunks[s.turns[r] - 1].arrival
            case 2 if inside:
                r = chance.choice(sorted(inside))
                heap = [one for one in heap if one.id != r]
                s.heap, m = env.taken_out(s.heap, s, r), readable.taken_out(m, s, r)
                heapq.heapify(heap)
                s.heap, m = env.heapified(s.heap, s), readable.heapified(m, s)
                s.skip[r] = 0
            case 3 | 4 if inside:
                passed = []
                for _ in range(chance.randint(1, len(heap))):
                    passed.append(heapq.heappop(heap))
                    s.passed.add(passed[-1].id)
                    s.heap, m = env.popped(s.heap, s), readable.popped(m, s)
                    s.skip[passed[-1].id] = s.sback
                    s.sback += 1
                later = semantics.holders_wait_apart
                for one in passed[::-1] if later else sorted(passed):
                    heapq.heappush(heap, one)
                s.heap, m = env.joined(s.heap, s), readable.joined(m, s)
                s.passed.clear()
        assert ids_of(s.heap) == ids_of(m) == [one.id for one in heap]
        ours = [order(s, r) for r in ids_of(s.heap)]
        below = any(ours[i] < ours[(i - 1) // 2] for i in range(1, len(ours)))
        untidy += below
        copy = heap.copy()
        found = [heapq.heappop(copy).id for _ in range(len(copy))]
        assert env.given_out(s.heap, s) == found
        assert [env.found_at(s.heap, s, r) for r in found] == list(range(len(found)))
    return untidy


@needs_compiler
def test_the_compiled_heap_is_the_readable_one() -> None:
    """As many states, and the same way to a session that is overtaken; of three sessions the
    same number in as many as there is time for, under each line.
    """
    for semantics in (DEFECT.flipped, VLLM_0_22_1):
        for scope, limit in ((replace(DEFECT.scope, aborts=True), None), (THREE, 1_500)):
            found = [
                search(scope, semantics, claims=frozenset({"WAIT-50"}), limit=limit)
                for search in (explore, explore_compiled)
            ]
            assert differences(*found) == []
            assert found[0].states > 300 and "WAIT-54" in found[0].fired


PRELUDE = Path(compiled.__file__).with_name("prelude.c")
MANY = 12
"""Requests in the heaps below: some places have two below them, and those have some."""
MAIN = """
#define OF heap, NI, place, turn, more
int main(void) {
  int heap[NI], place[NR] = {0}, turn[NR] = {0}, more[NR] = {0}, r, n;
  for (int i = 0; i < NI; i++) heap[i] = NONE;
  for (char op; scanf(" %c %d %d", &op, &r, &n) == 3;) {
    if (op == 'a') place[r] = n;
    if (op == 'p') heap_pushed(OF, 0, 0, r);
    if (op == 'o') heap_popped(OF, 0, 0, NONE);
    if (op == 't') heap_taken_out(OF, 0, 0, r);
    if (op == 'h') heap_heapified(OF, 0, 0, NONE);
    if (op == 'b') turn[r] = n;
    if (op == 'j') heap_joined(OF, r, 0, NONE);
    if (op == 'w') heap_still_waiting(OF, 0, r, NONE);
    if (op == 'f') printf("%d ", heap_found_at(OF, 0, 0, r));
    for (int i = 0; i < NI && heap[i] != NONE; i++) printf("%d ", heap[i]);
    puts("");
  }
  return 0;
}
"""


@needs_compiler
def test_the_words_in_c_are_those_of_heapq() -> None:
    """Place by place, over random places that change while somebody stands there."""
    chance, said, wanted = random.Random(2), list[str](), list[list[int]]()
    place, heap = dict.fromkeys(range(MANY), 0), list[Any]()

    class Number:
        def __init__(self, r: int) -> None:
            self.r = r

        def __lt__(self, other: "Number") -> bool:
            return place[self.r] < place[other.r]

    def do(op: str, r: int = 0, n: int = 0, *told: int) -> None:
        said.append(f"{op} {r} {n}")
        wanted.append([*told, *(one.r for one in heap)])

    untidy = 0
    for n in chance.sample(range(9_000), 3_000):
        r = chance.randrange(MANY)
        inside = any(one.r == r for one in heap)
        match chance.randrange(6):
            case 0 | 1 if not inside:
                heapq.heappush(heap, Number(r))
                do("p", r)
            case 2:
                place[r] = n
                do("a", r, n)
            case 3 if heap:
                passed = []
                for _ in range(chance.randint(1, len(heap))):
                    passed.append(heapq.heappop(heap))
                    do("o")
                chance.shuffle(passed)
                for turn, one in enumerate(passed):
                    do("b", one.r, turn)
                for one in passed:
                    heapq.heappush(heap, one)
                do("j", sum(1 << one.r for one in passed))
            case 4:
                heap[:] = [one for one in heap if one.r != r]
                do("t", r)
                heapq.heapify(heap)
                do("h")
            case 5 if inside:
                copy = heap.copy()
                found = [heapq.heappop(copy).r for _ in heap]
                do("f", r, 0, found.index(r))
                waits = (1 << MANY) - 1 & ~(1 << chance.randrange(MANY))
                heap[:] = [one for one in heap if waits >> one.r & 1]
                do("w", waits)
        untidy += any(heap[i] < heap[(i - 1) // 2] for i in range(1, len(heap)))
    text = "".join(
        f"#define {name} {n}\n"
        for name, n in {"NR": MANY, "NG": 1, "NB": 1, "NI": 64, "NQ": 64, "SEQUENCE": 64}.items()
    )
    text += "#define NT NR\n#define NONE (-100)\n#define FAILS (-102)\n#define ROOM (-103)\n"
    with build.program(text + PRELUDE.read_text() + MAIN) as program:
        done = subprocess.run([program], input="\n".join(said), capture_output=True, text=True)
    ours = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    assert ours == wanted and untidy > 300


def test_only_where_a_chunk_may_leave_it_out_of_order_it_is_kept_as_a_heap() -> None:
    """Under FCFS, and where a chunk reorders it, the field stays empty."""
    for config, semantics in (
        (replace(THREE.config, policy="fcfs"), VLLM_0_22_1),
        (THREE.config, replace(VLLM_0_22_1, chunks_reorder=True)),
        (THREE.config, VLLM_0_22_1),
    ):
        s: Any = beginning(replace(THREE, config=config), semantics)
        for action in (Add("a"), Add("b"), Add("c"), Step(), Step(), Step(), Step()):
            perform(s, action)
        kept = config.policy == "priority" and not semantics.chunks_reorder
        assert bool(s.heap) is kept and sum(map(bool, s.skip.values())) == 3


@contextmanager
def fired() -> Iterator[set[str]]:
    """The rules that fire meanwhile."""
    found: set[str] = set()
    outer, Engines.after_rule = Engines.after_rule, lambda s, rule: found.add(rule)
    try:
        yield found
    finally:
        Engines.after_rule = outer


def test_who_stands_there_twice_is_passed_over_twice() -> None:
    """WAIT-55: a session that stopped twice while it waited for a chunk, under PRIORITY."""
    document = json.loads((VECTORS / "session-stands-there-three-times.json").read_text())
    document["config"]["policy"] = "priority"
    taken = from_dict(document)
    with fired() as found:
        list(run(taken, create(taken.config, VLLM_0_22_1)))
    assert "WAIT-55" in found


def test_who_lacks_blocks_is_found_in_the_order_of_the_heap() -> None:
    """REMOTE-7: the chunk of one that stands between them has put it behind all others, so that
    who comes later is found before who comes sooner.
    """
    env = IndexedEnv(replace(SESSIONS, semantics=VLLM_0_22_1, connector=True))
    chunks = {"b": (Chunk(1, 1, 9.0),)}
    env.requests = {
        r: Request(r, 1, 1, arrival=n, resumable=True, chunks=chunks.get(r, ()))
        for r, n in {"a": 1, "b": 2, "c": 4, "d": 3, "e": 5}.items()
    }
    s: Any = env.start()
    for place, r in enumerate(env.requests, start=1):
        s.stage[r], s.awaits[r], s.rank[r], s.skip[r] = WAITING, REMOTE, place, place
        s.tlen[r], s.tab[r, 0], s.comp[r] = 1, 1, 1
        s.heap = env.pushed(s.heap, s, r)
    s.invalid[1], s.turns["b"] = 1, 1
    found = []
    while anybody_waiting_short(s):
        found.append(next_waiting(s))
        s.seen.add(found[-1])
    assert found == env.given_out(s.heap, s) == ["a", "c", "d", "e", "b"]


@pytest.mark.parametrize("semantics", [VLLM_0_22_1, VLLM_0_32_0], ids=["0.22.1", "0.32.0"])
def test_what_no_rule_has_of_a_chunk_that_moves_its_session(semantics: Semantics) -> None:
    """In a queue that is kept as a heap nothing: in vllm-0.22.1 both are. In the other one of
    vllm-0.32.0, where a session may wait for a chunk without blocks, that it passes others.
    """
    env = IndexedEnv(replace(SESSIONS, semantics=semantics))
    env.requests = {r: Request(r, 1, 1, arrival=n, resumable=True) for n, r in enumerate("ab")}
    found = []
    for skipped in (True, False):
        s: Any = env.start()
        for place, r in enumerate("ab", start=1):
            s.rank[r], s.skip[r] = place, place if skipped else 0
        assert not moves_past_others(s, "a", (0, 0.5, "a"))
        found.append(moves_past_others(s, "a", (0, 2.0, "a")))
        assert moves_past_others(s, "a", (0, 2.0, "a"), heap_is_known=False)
    assert found == [False, semantics is VLLM_0_32_0]
