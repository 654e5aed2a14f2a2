"""What prompts are made of: messages and blocks, how neighbours are joined, and records of what was left out."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import date
from operator import attrgetter
from typing import TypeAlias

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass, short_repr
from tavernkit._text.coerce import trim_blanks
from tavernkit._text.traced import added, join
from tavernkit._values import (
    EMPTY_OBJECT,
    FrozenJson,
    FrozenObject,
    JsonObject,
    freeze,
    freeze_object,
    is_mapping,
    is_sequence,
    thaw,
)
from tavernkit.errors import ConfigError

SendDate: TypeAlias = date | int | float | str
"""When a message was sent: a date or time, a number (seconds or milliseconds, as in the source) or text."""

_NOTHING = (None,) * 6


@dataclass(frozen=True, slots=True)
class Message:
    """One message: who speaks and what is said, plus what tools and media need.

    ``metadata`` keys that dialects read: ``tool_calls`` (in OpenAI's shape), ``tool_call_id``, ``signature``.
    Attachments and metadata are copied and frozen deeply.
    """

    role: str
    """Who says it: ``system``, ``user``, ``assistant``, ``tool`` or ``function``."""
    content: str
    """The text."""
    name: str | None = None
    """The speaker's name."""
    swipes: Sequence[str] | None = None
    """Alternatives of the text, as SillyTavern stores them."""
    swipe_id: int | None = None
    """Which of the swipes is shown, from 0."""
    send_date: SendDate | None = None
    """When it was sent."""
    attachments: Sequence[FrozenJson] | None = None
    """Pictures and files, as returned by ``Attachment.to_dict()``."""
    metadata: FrozenObject | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        rest = (self.name, self.swipes, self.swipe_id, self.send_date, self.attachments, self.metadata)
        if type(self.role) is str and type(self.content) is str and rest == _NOTHING:
            return  # most messages have nothing else, and they are made by the thousand
        _check_texts(self)
        if self.swipes is not None:
            object.__setattr__(self, "swipes", _texts("Message.swipes", self.swipes))
        if self.attachments is not None:
            object.__setattr__(self, "attachments", _frozen_list("Message.attachments", self.attachments))
        if self.metadata is not None:
            object.__setattr__(self, "metadata", _frozen_object("Message.metadata", self.metadata))

    def replace(self, **changes: object) -> Message:
        """Return a changed copy."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    def to_dict(self) -> dict[str, str]:
        """Return role and content, and the name if it is not empty."""
        plain = {"role": self.role, "content": self.content}
        if self.name:
            plain["name"] = self.name
        return plain

    def to_serializable_dict(self) -> JsonObject:
        """Everything that is set, ready for ``json``; dates in ISO 8601."""
        plain: JsonObject = {}
        for one in dataclasses.fields(self):
            value = getattr(self, one.name)
            if value is not None:
                plain[one.name] = value.isoformat() if isinstance(value, date) else thaw(value)
        return plain


def _check_texts(made: Message | Block) -> None:
    # Here and below, ``require()`` only writes the message: it would take longer than making the rest.
    if not (isinstance(made.role, str) and isinstance(made.content, str)):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        for name in ("role", "content"):
            require(f"{type(made).__name__}.{name}", getattr(made, name), str)


def _texts(name: str, value: Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        require(name, value, Sequence[str])
    return tuple(value)


def _frozen_list(name: str, value: Sequence[FrozenJson]) -> FrozenJson:
    if not is_sequence(value):
        require(name, value, Sequence[object])
    return freeze(value)


def _frozen_object(name: str, value: FrozenObject) -> FrozenObject:
    if not is_mapping(value):
        require(name, value, Mapping[str, object])
    return freeze_object(value)


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a prompt: where it goes, its priority, and where it came from.

    ``metadata["source"]`` is its provenance (stage, kind, id, name, title for people, reason); blocks that share
    ``metadata["eviction_bundle"]`` are kept or dropped together. ``message_metadata`` goes to the message's metadata.
    """

    role: str
    """Who says it: ``system``, ``user``, ``assistant`` or ``tool``."""
    content: str
    """The text."""
    id: str = field(default_factory=_new_id)
    """A unique id; generated by default."""
    name: str | None = None
    """The speaker's name, for messages that have one."""
    attachments: Sequence[FrozenJson] | None = None
    """Pictures and files of the message, as returned by ``Attachment.to_dict()``."""
    message_metadata: FrozenObject | None = None
    slot: str | None = None
    """The place in the platform's layout that it fills, such as ``main`` or ``chatHistory``."""
    enabled: bool = True
    """False removes it from the prompt. Trimming disables blocks that do not fit."""
    removable: bool = True
    """False if trimming must not remove it."""
    insertion_point: str = "relative"
    """Where it goes: ``relative`` (in order), ``in_chat`` (at ``depth``), or another name of the platform."""
    depth: int = 0
    """Messages between it and the end of the chat; 0 is after the last message. Used with ``in_chat``."""
    order: int = 100
    """Sorts blocks at the same place; smaller numbers come first."""
    priority: int = 100
    """For the trim strategy ``priority``: the lowest numbers are left out first."""
    token_budget_group: str = "default"
    """The group that trimming counts it in: ``system``, ``examples``, ``lore``, ``history``, ``custom`` or
    ``default``."""
    tags: Sequence[str] = ()
    """The application's own labels."""
    metadata: FrozenObject = field(default_factory=lambda: EMPTY_OBJECT)
    """What else is known of the block, such as its provenance."""

    def __post_init__(self) -> None:
        _check_texts(self)
        if not isinstance(self.depth, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            require("Block.depth", self.depth, int)
        if self.depth < 0:
            raise ConfigError(f"Block.depth must be 0 or more, not {self.depth}")
        if self.attachments is not None:
            object.__setattr__(self, "attachments", _frozen_list("Block.attachments", self.attachments))
        if self.message_metadata is not None:
            object.__setattr__(
                self, "message_metadata", _frozen_object("Block.message_metadata", self.message_metadata)
            )
        if self.tags:
            object.__setattr__(self, "tags", _texts("Block.tags", self.tags))
        if self.metadata is not EMPTY_OBJECT:
            object.__setattr__(self, "metadata", _frozen_object("Block.metadata", self.metadata))

    def replace(self, **changes: object) -> Block:
        """Return a changed copy with the same id (unless the id is changed)."""
        return dataclasses.replace(self, **changes)  # pyright: ignore[reportArgumentType]  # dataclass field types

    def enable(self) -> Block:
        """Return an enabled copy."""
        return with_field(self, "enabled", True)

    def disable(self) -> Block:
        """Return a disabled copy."""
        return with_field(self, "enabled", False)

    @property
    def disabled(self) -> bool:
        """True if the block is left out of the messages."""
        return not self.enabled

    @property
    def in_chat(self) -> bool:
        """True if the block goes into the chat at a depth."""
        return self.insertion_point == "in_chat"

    @property
    def relative(self) -> bool:
        """True if the block keeps its place in the order."""
        return self.insertion_point == "relative"

    @property
    def source(self) -> FrozenJson:
        """Its provenance, ``metadata["source"]``; None if it has none."""
        return self.metadata.get("source")

    def to_message(self) -> Message:
        """Return it as a message for a dialect."""
        return Message(
            role=self.role,
            content=self.content,
            name=self.name,
            attachments=self.attachments,
            metadata=self.message_metadata,
        )

    def to_dict(self) -> JsonObject:
        """All fields, ready for ``json``."""
        return {each.name: thaw(getattr(self, each.name)) for each in dataclasses.fields(self)}


def with_field(block: Block, changed: str, value: bool | str) -> Block:
    """Return a copy with one field changed, without checking the others again.

    Args:
        block: The block.
        changed: The name of the field.
        value: Its new value.
    """
    twin = object.__new__(Block)
    change = object.__setattr__
    for name, own in zip(Block.__slots__, _all_fields(block), strict=True):
        change(twin, name, own)
    change(twin, changed, value)
    return twin


_all_fields = attrgetter(*Block.__slots__)


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that could have been in the prompt but was left out.

    ``kind`` says what it is (``lore_entry``, ``history``, ``example``, ``prompt``, ``injection``), ``id`` and ``name``
    which one, and ``reason`` why it was left out.
    """

    kind: str
    id: str
    reason: str
    name: str | None = None
    tokens: int | None = None
    """Its tokens, if they were counted."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Something that a cache strategy moved away from the platform's own place."""

    kind: str
    """What it is, such as ``lore_entry`` or ``prompt``."""
    id: str
    """Which one it is."""
    name: str
    """What people call it."""
    reference: str
    """Where the platform puts it."""
    place: str
    """Where it is."""
    reason: str
    """Why it was moved."""
    tokens: int | None = None
    """Its tokens, if they were counted."""


UNSQUASHED_SLOTS = frozenset({"new_chat_prompt", "new_example_chat"})
"""Separators that stay separate messages."""


def merge_in_chat(blocks: Iterable[Block]) -> list[Block]:
    """Join in-chat blocks that are next to each other with equal role, depth and order."""
    merged: list[Block] = []
    for block in blocks:
        before = merged[-1] if merged else None
        if before is not None and block.in_chat and before.in_chat and _mergeable(before, block):
            parts = [text for text in map(trim_blanks, (before.content, block.content)) if text]
            merged[-1] = before.replace(content=join("\n", parts))  # everything else is the first block's
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


def dump_block(block: Block) -> str:
    """Return a block with its fields that are not the default, and its content."""
    notes = [block.id[:8]]
    if block.in_chat:
        notes.append(f"depth={block.depth}")
    notes += [
        f"{name}={value}"
        for name, value, default in (
            ("order", block.order, 100),
            ("priority", block.priority, 100),
            ("group", block.token_budget_group, "default"),
        )
        if value != default
    ]
    if block.tags:
        notes.append(f"tags={','.join(block.tags)}")
    slot = f" ({block.slot})" if block.slot else ""
    disabled = " [DISABLED]" if block.disabled else ""
    return f"[{block.role}]{slot}{disabled} {{{' '.join(notes)}}}\n{block.content}"
