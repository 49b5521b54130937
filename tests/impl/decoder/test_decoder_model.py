"""The decoder, its weights, its judge and its server, each by itself."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from served import expected, prompts, weights
from where import TENSORS_ON

import nullblock.impl.decoder
from nullblock.impl import Request, Scheduler
from nullblock.impl.decoder import (
    Outcome,
    Server,
    Shape,
    UnwrittenRead,
    Weights,
    Worker,
    judge,
    place,
    random_weights,
)
from nullblock.impl.decoder.batch import FIRST_TOKENS
from nullblock.impl.decoder.criterion import ALLOWANCE, MARGIN
from nullblock.impl.decoder.unpaged import all_logits
from nullblock.spec.facts import Config

DIGEST = "a63385eb8929f448db3006e24e7867677b03919d8fe6cd2ff8ea264e7ae677eb"
SHAPES = [
    Shape(num_layers=2),
    Shape(num_layers=1, num_heads=6, num_kv_heads=3, head_size=8, hidden_size=24),
    Shape(num_layers=2, num_heads=2, num_kv_heads=1, vocab_size=40, tie_word_embeddings=True),
    Shape(num_layers=3, num_heads=4, num_kv_heads=4, rope_theta=100.0, intermediate_size=20),
]


def scheduler(**constants: Any) -> Scheduler:
    """Enough of everything, but for the budget."""
    usual: dict[str, Any] = {
        "num_blocks": 40,
        "block_size": 4,
        "max_num_scheduled_tokens": 7,
        "max_num_seqs": 4,
        "max_model_len": 100,
    }
    return Scheduler(Config(**{**usual, **constants}))


def paged_logits(model: Weights, prompt: list[int], n: int) -> tuple[list[int], torch.Tensor]:
    """Served alone, in chunks: the tokens, and the logits that they come from."""
    made, worker, logits = scheduler(), Worker(model, 40, 4), list[torch.Tensor]()
    compute = worker._logits
    worker._logits = lambda prepared: logits.append(found := compute(prepared)) or found  # type: ignore[method-assign, func-returns-value, assignment]
    server = Server(made, worker)
    server.add(Request("a", prompt, n))
    tokens = [token.token for token in server.run()]
    return tokens, torch.cat(logits[-n:])


def test_weights_are_the_same_everywhere() -> None:
    """Of one seed, to the last bit; another seed gives others."""
    assert weights().digest() == DIGEST
    assert random_weights(Shape(num_layers=2), 1).digest() != DIGEST


@pytest.mark.parametrize("shape", SHAPES)
def test_paged_and_unpaged_logits_agree(shape: Shape) -> None:
    """Within a tenth of the margin that is asked for, whatever the heads, the layers, the head."""
    model = random_weights(shape, 3)
    prompt = [token % shape.vocab_size for token in prompts()[0]]
    tokens, logits = paged_logits(model, prompt, 8)
    right = all_logits(model, prompt + tokens[:-1])[len(prompt) - 1 :]
    assert float((logits - right).abs().max()) < MARGIN / 10
    assert float(right.std()) > 1


def test_the_judge_tells_right_from_wrong() -> None:
    """The first wrong token is named; what float32 does not decide is not called right."""
    prompt = list(prompts()[0])
    served = expected(prompts()[0], 6)
    verdict = judge(weights(), prompt, served)
    assert verdict.outcome == Outcome.RIGHT and verdict.margin >= MARGIN
    wrong = [*served[:3], (served[3] + 1) % 256, *served[4:]]
    verdict = judge(weights(), prompt, wrong)
    assert (verdict.outcome, verdict.at, verdict.expected) == (Outcome.WRONG, 3, served[3])
    faint = replace(weights(), head=weights().head * (MARGIN / 100))
    verdict = judge(faint, prompt, served)
    assert verdict.outcome == Outcome.UNDECIDED and verdict.margin < MARGIN
    nothing = replace(weights(), head=weights().head * float("nan"))
    assert judge(nothing, prompt, served).outcome == Outcome.UNDECIDED
    assert judge(weights(), prompt, []).outcome == Outcome.RIGHT


def test_bfloat16_is_judged_by_its_own_criterion() -> None:
    """Served in bfloat16, by twins on a CPU or, compiled, by the kernels on a GPU, the tokens are
    right by it, and a wrong one is found.
    """
    model = place(random_weights(Shape(), 0), TENSORS_ON, "bfloat16")
    prompt = list(prompts()[1])
    tokens, logits = paged_logits(model, prompt, 12)
    right = all_logits(model.to("cpu", torch.float32), prompt + tokens[:-1])[len(prompt) - 1 :]
    assert float((logits.cpu() - right).abs().max()) < ALLOWANCE
    assert judge(model, prompt, tokens).outcome == Outcome.RIGHT
    tokens[4] = int(right[4].argsort()[-20])
    verdict = judge(model, prompt, tokens)
    assert (verdict.outcome, verdict.at) == (Outcome.WRONG, 4)


def test_tokens_stream_while_requests_arrive() -> None:
    """Each token is told as it comes, with the end; whoever cannot be served is named."""
    server = Server(scheduler(), Worker(weights(), 40, 4))
    a, b = prompts()[0], prompts()[1]
    server.add(Request("a", a, 5))
    told = server.step() or server.step() or server.step() or server.step() or server.step()
    assert [(t.id, t.token, t.finish) for t in told] == [("a", expected(a, 1)[0], None)]
    server.add(Request("b", b, 3, stop=frozenset({expected(b, 3)[1]})))
    told += list(server.run())
    assert [t.token for t in told if t.id == "a"] == expected(a, 5)
    assert [t.token for t in told if t.id == "b"] == expected(b, 2)
    assert {t.id: t.finish for t in told} == {"a": "length", "b": "stop"}


def test_requests_outgrow_their_rows() -> None:
    """Tokens and tables of rows that had to be made longer, and there were too few of them, stay
    what they were: 63, 64 and 70 tokens, and more than a row held at first.
    """
    server = Server(
        scheduler(max_num_scheduled_tokens=200, num_blocks=90), Worker(weights(), 90, 4)
    )
    asked = {f"r{n}": [(n * place + 5 * place) % 256 for place in range(n)] for n in (63, 64, 70)}
    for id, prompt in asked.items():
        server.add(Request(id, prompt, 4))
    served = dict[str, list[int]]()
    for token in server.run():
        served.setdefault(token.id, []).append(token.token)
    for id, prompt in asked.items():
        assert judge(weights(), prompt, served[id]).outcome == Outcome.RIGHT
    assert server.worker.batch.requests.token_ids.shape[1] > FIRST_TOKENS


def test_reading_what_nobody_wrote_is_noticed() -> None:
    """Blocks that are poisoned behind a request's back: its next token is none."""
    made, worker = scheduler(), Worker(weights(), 40, 4)
    server = Server(made, worker)
    server.add(Request("a", [1, 2, 3], 9))
    server.step()
    worker.cache.poison(torch.tensor(made.running.blocks(0)))
    with pytest.raises(UnwrittenRead, match="request 'a' read a slot"):
        server.step()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Worker(weights(), 9, 3), "block_size is 3"),
        (lambda: Shape(num_heads=4, num_kv_heads=3), "4 query heads cannot share 3"),
        (lambda: Shape(head_size=3), "head_size is even"),
        (lambda: Shape(num_layers=0), "num_layers is at least 1"),
        (lambda: random_weights(Shape(), -1), "the seed -1"),
    ],
)
def test_what_cannot_be_is_refused(wrong: Any, said: str) -> None:
    """In one line that names it."""
    with pytest.raises(ValueError, match=said):
        wrong()


def test_without_torch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of a public name has the remedy; the package itself needs no torch."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'nullblock\[gpu\]'"):
        _ = nullblock.impl.decoder.Worker
    with pytest.raises(AttributeError, match="no attribute 'Engine'"):
        _ = nullblock.impl.decoder.Engine
    program = (
        "import sys, nullblock.impl.decoder, nullblock.conformance.commands.serve_trace; "
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_the_example_in_the_readme_runs() -> None:
    """As it stands, and its last line is true."""
    text = Path(nullblock.impl.decoder.__file__).with_name("README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(example, {})
