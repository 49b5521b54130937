"""Why a request can never be served, in words: the reason that goes with LIFE-2.

`nullblock.spec.state.servable` is the rule; a test shows that a reason is given exactly where the
rule says no.
"""

from nullblock.spec.facts import Config, Item


def why_unservable(
    config: Config,
    prompt_len: int,
    max_tokens: int,
    items: tuple[Item, ...] = (),
) -> str | None:
    """The reason why a request of `prompt_len` tokens, with those encoder inputs, that may grow by
    `max_tokens` is refused; None if it is not.
    """
    attended = sum(item.embedded(item.end) for item in items)
    why = _why_too_long(config, prompt_len, max_tokens, attended)
    return why or (_why_unencodable(config, items) if items else None)


def why_refused(
    config: Config, kept: int, chunk_len: int, max_tokens: int, attended: int
) -> str | None:
    """The reason why a session that keeps so many tokens cannot take a chunk of `chunk_len`.
    `attended`: embeddings that its cross-attention layers see.
    """
    if chunk_len == 0:
        return "the chunk is empty"
    return _why_too_long(config, kept + chunk_len, max_tokens, attended)


def _why_too_long(config: Config, prompt_len: int, max_tokens: int, attended: int) -> str | None:
    if prompt_len == 0:
        return "the prompt is empty"
    if prompt_len >= config.max_model_len:
        return (
            f"a prompt of {prompt_len} tokens leaves no room for output: "
            f"max_model_len is {config.max_model_len}"
        )
    # The last token that is sampled ends the request and is never computed.
    slots = min(prompt_len + max_tokens, config.max_model_len) - 1
    reach = _with_drafts(config, slots)
    usable = config.num_blocks - 1
    needed = (
        (g, config.blocks_in(g, attended if g.cross else reach) + g.num_speculative_blocks)
        for g in config.groups
    )
    blocks = sum(min(n, config.most_held(g)) if g.is_windowed else n for g, n in needed)
    if blocks > usable:
        return f"{reach} tokens may need {blocks} blocks, the pool has {usable}"
    budget, threshold = config.max_num_scheduled_tokens, config.long_prefill_token_threshold
    in_chunks = config.enable_chunked_prefill or 0 < threshold <= budget
    if slots > budget and not in_chunks:
        # After a preemption prompt and output are computed again, in one step.
        return f"{slots} tokens may have to be computed in one step of at most {budget}"
    return None


def _why_unencodable(config: Config, items: tuple[Item, ...]) -> str | None:
    """Why one of the items can never be computed; None if each can, by itself (ENC-16)."""
    encoder = config.encoder
    assert encoder is not None, "items are for models with an encoder"
    sizes = [item.embedded(item.end) for item in items]
    largest = max(sizes)
    budget, room = encoder.max_num_encoder_input_tokens, encoder.encoder_cache_size
    if encoder.is_encoder_decoder:
        if sum(sizes) <= min(budget, room):
            return None
        return (
            f"items of {sum(sizes)} embeddings, all for one step: it computes {budget}, "
            f"and {room} are kept"
        )
    if largest > min(budget, room):
        return f"an item of {largest} embeddings: a step computes {budget}, and {room} are kept"
    longest = max(item.length for item in items)
    most, threshold = config.max_num_scheduled_tokens, config.long_prefill_token_threshold
    if 0 < threshold < most:
        most = threshold
    if encoder.disable_chunked_mm_input and longest > most:
        return f"an item of {longest} tokens, which must not be cut, in steps of at most {most}"
    return None


def _with_drafts(config: Config, slots: int) -> int:
    """Slots that so many tokens and their drafts may take (DRAFT-5)."""
    if config.num_spec_tokens and config.async_scheduling:
        return config.max_model_len
    drafts = config.num_spec_tokens + config.num_lookahead_tokens
    return min(slots + drafts, config.max_model_len)
