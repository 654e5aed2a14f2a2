"""Joining neighbouring blocks before they become messages."""

from __future__ import annotations

from collections.abc import Iterable

from tavernkit._text.coerce import trim_blanks
from tavernkit._text.traced import added, join
from tavernkit.prompt._block import Block

UNSQUASHED_SLOTS = frozenset({"new_chat_prompt", "new_example_chat"})
"""Separators that stay separate messages."""


def merge_in_chat(blocks: Iterable[Block]) -> list[Block]:
    """Join in-chat blocks that are next to each other with equal role, depth and order."""
    merged: list[Block] = []
    for block in blocks:
        before = merged[-1] if merged else None
        if before is not None and block.in_chat and before.in_chat and _mergeable(before, block):
            parts = [text for text in map(trim_blanks, (before.content, block.content)) if text]
            merged[-1] = before.replace(content=join("\n", parts))
        else:
            merged.append(block)
    return merged


def squash_system(blocks: Iterable[Block]) -> list[Block]:
    """Drop empty system blocks and join plain ones that are next to each other."""
    squashed: list[Block] = []
    for block in blocks:
        if block.role == "system" and not block.content:
            continue
        before = squashed[-1] if squashed else None
        if before is not None and _squashable(before) and _squashable(block):
            squashed[-1] = before.replace(
                content=before.content + added("\n", "squash_system_messages") + block.content
            )
        else:
            squashed.append(block)
    return squashed


def _mergeable(before: Block, block: Block) -> bool:
    same_place = (before.role, before.depth, before.order) == (block.role, block.depth, block.order)
    return same_place and not _carries_more(before) and not _carries_more(block)


def _squashable(block: Block) -> bool:
    return block.role == "system" and not block.name and not _carries_more(block) and block.slot not in UNSQUASHED_SLOTS


def _carries_more(block: Block) -> bool:
    return bool(block.attachments) or bool(block.message_metadata)
