"""The scopes of requests of other kinds than one of tokens for tokens."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config

A = 1001
"""A prompt token. The tokens that are sampled in a replay are below 1000."""


def _config(blocks: int, **more: object) -> Config:
    """`blocks` usable blocks of two tokens: the null block comes on top."""
    settings = {"max_num_scheduled_tokens": 4, "max_num_seqs": 3, "max_model_len": 8}
    return Config(num_blocks=blocks + 1, block_size=2, **{**settings, **more})  # type: ignore[arg-type]


EMBEDDINGS = Scope(
    "embeddings",
    "prompts of embeddings, all of whose tokens are alike, beside one of such tokens",
    _config(4),
    (
        Template("a", (0, 0, 0), 2, embeds=1),
        Template("b", (0, 0, 0), 1, embeds=2),
        Template("c", (0, 0, 0), 1),
    ),
    frozenset({"free-hit", "hash-evicted", "duplicate-hash"}),
)
CONTRACT_SCOPES = (EMBEDDINGS,)
