"""Block hashes, byte for byte."""

import hashlib
import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from nullblock.reference import kv_cache_utils as utils
from nullblock.reference.hashing import get_hash_fn_by_name, sha256, sha256_cbor, xxhash
from nullblock.reference.request import Request
from nullblock.reference.sampling_params import SamplingParams
from nullblock.spec.profiles import VLLM_0_22_1


@pytest.fixture(autouse=True)
def seed_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every chain starts from the same hash."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    utils.init_none_hash(sha256)


def request_of(
    tokens: list[int], hasher: Any, lora: str | None = None, salt: str | None = None
) -> Request:
    """A request with those tokens."""
    adapter = SimpleNamespace(lora_name=lora) if lora else None
    return Request(
        "r",
        tokens,
        SamplingParams(),
        None,
        lora_request=adapter,
        cache_salt=salt,
        block_hasher=hasher,
    )


def test_known_hashes_of_the_real_engine() -> None:
    """Tokens 0..3 in one block of four, seed "0": as vLLM 0.22.1 prints them."""
    hasher = utils.get_request_block_hasher(4, sha256)
    first, second = request_of(list(range(10)), hasher).block_hashes
    assert (first.hex()[:12], second.hex()[:12]) == ("46117ba77ad8", "138b5b26bb0e")


def test_a_hash_covers_the_parent_the_tokens_and_the_extra_keys() -> None:
    """The definition, spelled out with nothing but pickle and hashlib."""
    hasher = utils.get_request_block_hasher(2, sha256)
    first, second = request_of([1, 2, 3, 4, 5], hasher, lora="ad", salt="na").block_hashes
    none_hash = hashlib.sha256(pickle.dumps("0", protocol=5)).digest()
    wanted = hashlib.sha256(pickle.dumps((none_hash, (1, 2), ("ad", "na")), protocol=5)).digest()
    assert first == wanted
    wanted = hashlib.sha256(pickle.dumps((wanted, (3, 4), ("ad",)), protocol=5)).digest()
    assert second == wanted


def test_the_cbor_hash_is_over_canonical_cbor() -> None:
    """The same definition in the other encoding, written out byte by byte."""
    encoded = b"\x83\x46parent\x83\x01\x02\x19\x01\x2c\xf6"
    assert sha256_cbor((b"parent", (1, 2, 300), None)) == hashlib.sha256(encoded).digest()


def test_a_string_used_twice_is_pickled_as_a_back_reference() -> None:
    """So a request whose adapter and salt are one object hashes unlike one with equal strings."""
    name, equal = "".join(["a", "d"]), "".join(["a", "d"])
    assert sha256((name, name)) != sha256((name, equal))
    assert sha256_cbor((name, name)) == sha256_cbor((name, equal))


@pytest.mark.parametrize("name", ["sha256", "sha256_cbor"])
def test_hashing_one_by_one_equals_hashing_at_once(name: str) -> None:
    """A request that grew has the hashes of one that was born with those tokens."""
    hasher = utils.get_request_block_hasher(3, get_hash_fn_by_name(name))
    for lora, salt in ((None, None), ("ad", None), (None, "na"), ("ad", "na")):
        grown = request_of([1, 2], hasher, lora, salt)
        for token in range(3, 15):
            grown.append_output_token_ids(token)
        assert grown.block_hashes == request_of([*range(1, 15)], hasher, lora, salt).block_hashes
        assert len(grown.block_hashes) == 4
        several = request_of([1], hasher, lora, salt)
        several.append_output_token_ids(list(range(2, 15)))
        assert several.block_hashes == grown.block_hashes
        assert list(several.output_token_ids) == list(range(2, 15))


def test_hash_block_tokens_is_one_link_of_the_chain() -> None:
    """The public single-step function and the hasher agree."""
    hasher = utils.get_request_block_hasher(2, sha256)
    first, second = request_of([1, 2, 3, 4], hasher).block_hashes
    assert utils.hash_block_tokens(sha256, None, [1, 2]) == first
    assert utils.hash_block_tokens(sha256, first, [3, 4], None) == second
    assert utils.hash_block_tokens(sha256, first, [3, 4], ("x",)) != second


def test_the_salt_is_in_the_first_block_and_the_adapter_in_every_one() -> None:
    """Extra keys by block, and None where there is none."""
    plain, both = request_of([1], None), request_of([1], None, lora="ad", salt="na")
    keys = utils.generate_block_hash_extra_keys
    assert keys(plain, 0, 2, 0) == (None, 0)
    assert keys(both, 0, 2, 0) == (("ad", "na"), 0)
    assert keys(both, 2, 4, -1) == (("ad",), -1)
    assert utils.need_extra_keys(both) and not utils.need_extra_keys(plain)


def test_an_adapter_and_a_salt_of_one_name_collide_only_without_tags() -> None:
    """vLLM 0.22.1 gives them one hash; the tagged profile keeps them apart."""
    for tagged in (False, True):
        semantics = replace(VLLM_0_22_1, extra_keys_tagged=tagged)
        hasher = utils.get_request_block_hasher(2, sha256, semantics=semantics)
        lora = request_of([1, 2, 3, 4], hasher, lora="X")
        salt = request_of([1, 2, 3, 4], hasher, salt="X")
        assert (lora.block_hashes[0] == salt.block_hashes[0]) is not tagged
        assert lora.block_hashes[1] != salt.block_hashes[1]


def test_the_chain_starts_from_the_seed_or_from_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a seed NONE_HASH is its hash; without one it is 32 random bytes."""
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    utils.init_none_hash(sha256_cbor)
    assert utils.NONE_HASH == sha256_cbor("7")
    monkeypatch.delenv("PYTHONHASHSEED")
    utils.init_none_hash(sha256)
    first = utils.NONE_HASH
    utils.init_none_hash(sha256)
    assert len(first) == 32 and utils.NONE_HASH != first


def test_the_group_is_four_bytes_behind_the_hash() -> None:
    """A key can be taken apart again."""
    key = utils.make_block_hash_with_group_id(utils.BlockHash(b"hash"), 258)
    assert key == b"hash\x00\x00\x01\x02"
    assert utils.get_block_hash(key) == b"hash" and utils.get_group_id(key) == 258


def test_other_processes_may_see_the_low_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an environment flag; else the bytes themselves."""
    digest = utils.BlockHash(bytes(range(32)))
    low = int.from_bytes(bytes(range(24, 32)), "big")
    monkeypatch.delenv("VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES", raising=False)
    assert utils.maybe_convert_block_hash(digest) == low
    monkeypatch.setenv("VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES", "0")
    assert utils.maybe_convert_block_hash(digest) == digest
    monkeypatch.setenv("VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES", "1")
    assert utils.maybe_convert_block_hash(digest) == low


def test_an_unknown_hash_function_is_refused_by_name() -> None:
    """The answer lists the known ones."""
    with pytest.raises(ValueError, match="'md5'; known: sha256, sha256_cbor"):
        get_hash_fn_by_name("md5")


def test_xxhash_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing optional package is one clear sentence."""
    monkeypatch.setitem(__import__("sys").modules, "xxhash", None)
    with pytest.raises(ModuleNotFoundError, match="pip install xxhash"):
        xxhash((b"", (1,), None))
