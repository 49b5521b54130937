"""What the tokens have to be: the decoder without a cache, without a batch, all of it every time.

Shares nothing with the paged path but the weights, and is written in another way on purpose:
rotary as a multiplication of complex numbers, attention one head after another over whole
sequences. One sequence at a time; for each token everything before it is computed again.
"""

import torch

from nullblock.impl.decoder.weights import Layer, Weights


def all_logits(weights: Weights, tokens: list[int]) -> torch.Tensor:
    """Of each position of a sequence, the logits of the token that follows it.

    In the type of the weights; [len(tokens), vocab_size].
    """
    x = weights.embedding[torch.tensor(tokens, device=weights.embedding.device)]
    for layer in weights.layers:
        x = x + _attention(weights, layer, _rms(weights, x) * layer.input_norm)
        h = _rms(weights, x) * layer.post_attention_norm
        gate = h @ layer.gate.T
        x = x + (gate * torch.sigmoid(gate) * (h @ layer.up.T)) @ layer.down.T
    return (_rms(weights, x) * weights.norm) @ weights.head.T


def generate(
    weights: Weights, prompt: list[int], max_tokens: int, ends: frozenset[int] = frozenset()
) -> tuple[list[int], list[float]]:
    """Greedy tokens, and how far each one's logit was above the second.

    They end with a token of `ends`, or are `max_tokens`. Everything is computed again for each.
    """
    tokens, margins = list(prompt), list[float]()
    for _ in range(max_tokens):
        best = all_logits(weights, tokens)[-1].topk(2)
        tokens.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
        if tokens[-1] in ends:
            break
    return tokens[len(prompt) :], margins


def _rms(weights: Weights, x: torch.Tensor) -> torch.Tensor:
    return x / (x.pow(2).mean(dim=1, keepdim=True) + weights.shape.rms_norm_eps).sqrt()


def _attention(weights: Weights, layer: Layer, h: torch.Tensor) -> torch.Tensor:
    """What causal attention adds, [tokens, hidden_size]."""
    shape, n = weights.shape, len(h)
    size, group = shape.head_size, shape.num_heads // shape.num_kv_heads
    future = torch.ones(n, n, dtype=torch.bool, device=h.device).triu(1)
    heads = list[torch.Tensor]()
    for head in range(shape.num_heads):
        mine = slice(head * size, (head + 1) * size)
        shared = slice(head // group * size, (head // group + 1) * size)
        q = _turned(weights, h @ layer.q[mine].T)
        k = _turned(weights, h @ layer.k[shared].T)
        scores = (q @ k.T) * size**-0.5
        weight = scores.masked_fill(future, float("-inf")).softmax(dim=1)
        heads.append(weight @ (h @ layer.v[shared].T))
    return torch.cat(heads, dim=1) @ layer.o.T


def _turned(weights: Weights, x: torch.Tensor) -> torch.Tensor:
    """Rotary: the number i of a head and the one half a head later are one complex number."""
    half = weights.shape.head_size // 2
    exponent = torch.arange(half, dtype=torch.float64, device=x.device) / half
    speed = weights.shape.rope_theta**-exponent
    angle = torch.arange(len(x), dtype=torch.float64, device=x.device)[:, None] * speed
    turn = torch.polar(torch.ones_like(angle), angle)
    turned = torch.complex(x[:, :half].double(), x[:, half:].double()) * turn
    return torch.cat([turned.real, turned.imag], dim=1).to(x.dtype)
