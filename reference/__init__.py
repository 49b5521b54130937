"""A plain Python engine with vLLM's shapes and names: the thing a porter reads.

Mutable and O(1) per block. Module for module it answers to vLLM 0.22.1: ``vllm.v1.core.X`` is
``nullblock.reference.X``; ``vllm.v1.request``, ``outputs``, ``engine`` and ``kv_cache_interface``,
``vllm.sampling_params``, ``vllm.utils.hashing`` and ``vllm.distributed.kv_events`` keep their last
name. What lies outside the scope is refused by name
(:class:`nullblock.reference.errors.UnsupportedFeature`), never guessed.

Where 0.22.1 is wrong, a switch of :class:`nullblock.spec.profiles.Semantics` says which way to go;
objects follow ``vllm-0.22.1`` unless their keyword ``semantics`` says otherwise.
"""

__version__ = "0.22.1"
"""The vLLM release whose shapes and names these modules carry."""
