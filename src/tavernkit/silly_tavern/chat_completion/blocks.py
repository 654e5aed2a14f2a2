"""Placed messages as blocks of a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tavernkit.prompt.block import Block
from tavernkit.silly_tavern.chat_completion.slots import MessageCollection, PlacedMessage
from tavernkit.silly_tavern.limits import LONG_TEXT_CHARACTERS
from tavernkit.values import EMPTY_OBJECT, FrozenJson, FrozenObject, LRUCache

BlockCache = LRUCache[object, Block]


def make_blocks(
    placed: Sequence[tuple[MessageCollection, PlacedMessage]], cache: BlockCache | None = None
) -> list[Block]:
    """Make the blocks of messages, in order. Plain chat messages that were made before are taken from ``cache``."""
    seen: Counter[str] = Counter()
    blocks: list[Block] = []
    for collection, message in placed:
        identifier = message.identifier or collection.identifier
        seen[identifier] += 1
        block_id = identifier if seen[identifier] == 1 else f"{identifier}#{seen[identifier]}"
        blocks.append(_block(collection.identifier, message, block_id, cache))
    return blocks


def _block(slot: str, message: PlacedMessage, block_id: str, cache: BlockCache | None) -> Block:
    if cache is None or type(message.content) is not str or not _cacheable(message):
        return _new_block(slot, message, block_id)
    speaker = message.source.get("name")
    key = (slot, block_id, message.role, message.content, message.name, message.history_index, message.tokens, speaker)
    return cache.get_or_make(key, lambda: _new_block(slot, message, block_id))


def _cacheable(message: PlacedMessage) -> bool:
    plain = message.depth is None and not message.parts and not message.tool_calls and message.tool_call_id is None
    plain = plain and not message.apart
    return plain and message.group == "history" and len(message.content) <= LONG_TEXT_CHARACTERS


def _new_block(slot: str, message: PlacedMessage, block_id: str) -> Block:
    metadata: dict[str, FrozenJson] = {
        "source": message.source,
        "tokens": message.tokens,
        "identifier": message.identifier,
    }
    if message.bundle is not None:
        metadata["eviction_bundle"] = message.bundle
    if message.apart:
        metadata["apart"] = True
    in_chat = message.depth is not None
    return Block(
        role=message.role,
        content=message.content,
        id=block_id,
        name=message.name,
        attachments=message.parts[1:] if message.parts else None,
        message_metadata=_message_metadata(message) or None,
        slot=slot,
        removable=message.group != "system",
        insertion_point="in_chat" if in_chat else "relative",
        depth=message.depth or 0,
        order=message.order,
        token_budget_group=message.group,
        metadata=metadata,
    )


def _message_metadata(message: PlacedMessage) -> FrozenObject:
    if not message.tool_calls and message.tool_call_id is None:
        return EMPTY_OBJECT
    found: dict[str, FrozenJson] = {}
    if message.tool_calls:
        found["tool_calls"] = list(message.tool_calls)
    if message.tool_call_id is not None:
        found["tool_call_id"] = message.tool_call_id
    if message.reasoning:
        found["reasoning"] = message.reasoning
    return found
