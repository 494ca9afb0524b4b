"""KV event classes as engines declare them, built from their field lists, and their encoding by the library the engines use.

Field order, names, defaults and struct options decide every byte, so that each class stands here once per layout that is in use.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Optional, Union

import msgspec

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())
RANK = 0


class ArrayBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """Batch of vLLM: an array, whatever its events are."""

    ts: float
    events: list[Any]
    data_parallel_rank: Optional[int] = None


class MapBatch(msgspec.Struct, omit_defaults=True, gc=False, tag="KVEventBatch"):
    """Batch of the vLLM releases that write maps throughout."""

    ts: float
    events: list[Any]
    data_parallel_rank: Optional[int] = None


class SglangBatch(msgspec.Struct, array_like=True, gc=False):
    """Batch of SGLang: the rank goes by another name, and nothing is left out."""

    ts: float
    events: list[Any]
    attn_dp_rank: Optional[int] = None


class VllmMap(msgspec.Struct, omit_defaults=True, gc=False, tag=True):
    """Events as maps, with their class name under `type`."""


class VllmMapStored(VllmMap, tag="BlockStored"):
    block_hashes: list[Any]
    parent_block_hash: Any
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str]
    lora_name: Optional[str]
    extra_keys: Optional[list[Any]] = None
    group_idx: Optional[int] = None
    kv_cache_spec_kind: Optional[str] = None
    kv_cache_spec_sliding_window: Optional[int] = None
    locality: Optional[str] = None


class VllmMapRemoved(VllmMap, tag="BlockRemoved"):
    block_hashes: list[Any]
    medium: Optional[str]
    group_idx: Optional[int] = None


class VllmMapCleared(VllmMap, tag="AllBlocksCleared"):
    pass


class VllmArray(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True):
    """Events as arrays, with their class name in front."""


class VllmArrayStored(VllmArray, tag="BlockStored"):
    block_hashes: list[Any]
    parent_block_hash: Any
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str]
    lora_name: Optional[str]
    extra_keys: Optional[list[Any]] = None
    group_idx: Optional[int] = None
    kv_cache_spec_kind: Optional[str] = None
    kv_cache_spec_sliding_window: Optional[int] = None


class VllmArrayRemoved(VllmArray, tag="BlockRemoved"):
    block_hashes: list[Any]
    medium: Optional[str]
    group_idx: Optional[int] = None


class VllmArrayCleared(VllmArray, tag="AllBlocksCleared"):
    pass


class VllmFirst(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True):
    """The first release: no medium, no adapter by name."""


class VllmFirstStored(VllmFirst, tag="BlockStored"):
    block_hashes: list[int]
    parent_block_hash: Optional[int]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]


class VllmFirstRemoved(VllmFirst, tag="BlockRemoved"):
    block_hashes: list[int]


class VllmFirstCleared(VllmFirst, tag="AllBlocksCleared"):
    pass


class FirstBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """Batch of the first release: no rank."""

    ts: float
    events: list[Any]


class Sglang(msgspec.Struct, array_like=True, gc=False, tag=True):
    """Events of SGLang."""


class SglangStored(Sglang, tag="BlockStored"):
    block_hashes: list[int]
    parent_block_hash: Optional[int]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str] = None


class SglangRemoved(Sglang, tag="BlockRemoved"):
    block_hashes: list[int]
    medium: Optional[str] = None


class SglangCleared(Sglang, tag="AllBlocksCleared"):
    pass


class SglangMetadata(msgspec.Struct, omit_defaults=True):
    """What newer releases put behind the fields of a stored block."""

    cache_salt: Optional[str] = None


class SglangStoredWithMetadata(SglangStored, tag="BlockStored", kw_only=True):
    metadata: SglangMetadata


def unsigned(written: str) -> int:
    return int(written)


def signed(written: str) -> int:
    """SGLang reads the leading bytes of its digest as a signed number."""
    value = int(written)
    return value - 2**64 if value >= 2**63 else value


def digest(written: str) -> bytes:
    """vLLM without int block hashes: 32 bytes, of which the last eight are the number."""
    head = hashlib.sha256(written.encode()).digest()[:24]
    return head + int(written).to_bytes(8, "big")


def vllm_map_events(event: dict, of_hash) -> list:
    parent = event.get("parent")
    if "stored" in event:
        return [
            VllmMapStored(
                [of_hash(value) for value in event["stored"]],
                None if parent is None else of_hash(parent),
                event["tokens"],
                CASES["block_size"],
                None,
                "GPU",
                None,
                group_idx=0,
                kv_cache_spec_kind="full_attention",
            )
        ]
    if "removed" in event:
        # One event for each evicted block.
        return [VllmMapRemoved([of_hash(value)], "GPU", group_idx=0) for value in event["removed"]]
    return [VllmMapCleared()]


def vllm_array_events(event: dict, of_hash) -> list:
    parent = event.get("parent")
    if "stored" in event:
        return [
            VllmArrayStored(
                [of_hash(value) for value in event["stored"]],
                None if parent is None else of_hash(parent),
                event["tokens"],
                CASES["block_size"],
                None,
                "GPU",
                None,
            )
        ]
    if "removed" in event:
        return [VllmArrayRemoved([of_hash(value)], "GPU") for value in event["removed"]]
    return [VllmArrayCleared()]


def vllm_first_events(event: dict, of_hash) -> list:
    parent = event.get("parent")
    if "stored" in event:
        return [
            VllmFirstStored(
                [of_hash(value) for value in event["stored"]],
                None if parent is None else of_hash(parent),
                event["tokens"],
                CASES["block_size"],
                None,
            )
        ]
    if "removed" in event:
        return [VllmFirstRemoved([of_hash(value)]) for value in event["removed"]]
    return [VllmFirstCleared()]


def sglang_events(event: dict, of_hash, metadata: bool = False) -> list:
    """One event for each page, chained by the page before."""
    if "removed" in event:
        return [SglangRemoved([of_hash(value) for value in event["removed"]], "GPU")]
    if "cleared" in event:
        return [SglangCleared()]
    size = CASES["block_size"]
    parent = event["parent"]
    stored = []
    for page, value in enumerate(event["stored"]):
        fields = (
            [of_hash(value)],
            None if parent is None else of_hash(parent),
            event["tokens"][page * size : (page + 1) * size],
            size,
            None,
            "GPU",
        )
        stored.append(
            SglangStoredWithMetadata(*fields, metadata=SglangMetadata()) if metadata else SglangStored(*fields)
        )
        parent = value
    return stored


def sglang_with_metadata(event: dict, of_hash) -> list:
    return sglang_events(event, of_hash, metadata=True)


# How each release writes a batch: its class, its events, and its hashes.
LAYOUTS = {
    "vllm": (lambda ts, events: ArrayBatch(ts, events, RANK), vllm_map_events, unsigned),
    "vllm-bytes": (lambda ts, events: ArrayBatch(ts, events, RANK), vllm_map_events, digest),
    "vllm-maps": (lambda ts, events: MapBatch(ts, events, RANK), vllm_map_events, unsigned),
    "vllm-arrays": (lambda ts, events: ArrayBatch(ts, events, RANK), vllm_array_events, unsigned),
    "vllm-first": (FirstBatch, vllm_first_events, unsigned),
    "sglang": (lambda ts, events: SglangBatch(ts, events, RANK), sglang_events, signed),
    "sglang-metadata": (lambda ts, events: SglangBatch(ts, events, RANK), sglang_with_metadata, signed),
}


def payloads(layout: str) -> list[bytes]:
    """The batches of cases.json, as the engine of a layout writes them."""
    batch_of, events_of, of_hash = LAYOUTS[layout]
    encode = msgspec.msgpack.Encoder().encode
    written = []
    for number, batch in enumerate(CASES["batches"]):
        events = [written_event for event in batch for written_event in events_of(event, of_hash)]
        written.append(encode(batch_of(CASES["timestamp"] + number, events)))
    return written
